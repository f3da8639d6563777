// States as shapes: what a server is must be plain without its colour.

import { svg } from "./dom.js";

export const STATES = ["up", "suspected", "cut off", "down", "unseen"];

/** The outline of a state, around (0, 0), with a radius. */
function outline(state, r) {
  switch (state) {
    case "suspected": {
      // A triangle, which looks as large as the disc if it is a little larger.
      const [h, w] = [r * 1.2, r * 1.16];
      return `M0 ${-h}L${w} ${h * 0.72}H${-w}Z`;
    }
    case "cut off":
      return `M0 ${-r * 1.22}L${r * 1.22} 0L0 ${r * 1.22}L${-r * 1.22} 0Z`;
    case "down": {
      const d = r * 0.8;
      return `M${-d} ${-d}H${d}V${d}H${-d}Z`;
    }
    default:
      return `M${-r} 0A${r} ${r} 0 1 1 ${r} 0A${r} ${r} 0 1 1 ${-r} 0Z`;
  }
}

/** What stands inside it. */
function sign(state, r) {
  switch (state) {
    case "suspected":
      return `M0 ${-r * 0.45}V${r * 0.2}M0 ${r * 0.52}V${r * 0.54}`;
    case "down": {
      const d = r * 0.36;
      return `M${-d} ${-d}L${d} ${d}M${d} ${-d}L${-d} ${d}`;
    }
    case "cut off":
      return `M${-r * 0.45} 0H${r * 0.45}`;
    default:
      return "";
  }
}

/** A group with the shape of a state; `restate` makes it another one in place. */
export function shape(state, r) {
  const glyph = svg("g", { class: "shape" }, svg("path", { class: "outline" }), svg("path", { class: "sign" }));
  restate(glyph, state, r);
  return glyph;
}

export function restate(glyph, state, r) {
  if (glyph.dataset.state === state) return;
  glyph.dataset.state = state;
  glyph.children[0].setAttribute("d", outline(state, r));
  glyph.children[1].setAttribute("d", sign(state, r));
}

/** The same as a small picture of its own, for text. */
export function glyph(state, size = 14) {
  return svg("svg", { class: "glyph", viewBox: "-10 -10 20 20", width: size, height: size, "aria-hidden": "true" }, shape(state, 7));
}
