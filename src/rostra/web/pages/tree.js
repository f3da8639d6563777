// The domain tree as a picture: territories, servers and links. It is laid out anew when its shape or its width
// changes; otherwise only states change, in place.

import { byId, el, set, svg, sync, write } from "./dom.js";
import { layOut } from "./layout.js";
import { choice, choose, labelOf, model, on, parentOf } from "./model.js";
import { STATES, glyph, restate, shape } from "./shapes.js";
import { ageing } from "./time.js";

const WIDTH_MIN = 240;

const picture = byId("picture");
let room = 0; // how wide the picture may be
let drawn = { shape: "", width: 0, plan: null, svg: null };

export function start() {
  on(["world", "lab", "choice"], draw);
  on(["world", "place"], summarise);
  new ResizeObserver(([entry]) => {
    room = Math.floor(entry.contentRect.width);
    draw();
  }).observe(picture);
}

function draw() {
  const { servers, links } = model.world;
  if (servers.length === 0) {
    if (model.at !== null) nothing();
    return;
  }
  if (room < WIDTH_MIN) return; // not laid out yet, or folded away
  const width = room;
  const shapeNow = JSON.stringify([servers.map((each) => [each.path, each.kind]), links.map((each) => [each.a, each.b])]);
  if (shapeNow !== drawn.shape || width !== drawn.width) {
    const focused = drawn.svg?.contains(document.activeElement) ? document.activeElement.dataset.path : null;
    const plan = layOut(servers, links, width);
    drawn = { shape: shapeNow, width, plan, svg: build(plan) };
    picture.replaceChildren(drawn.svg);
    if (focused) drawn.svg.querySelector(`[data-path="${CSS.escape(focused)}"]`)?.focus();
  }
  update();
}

function nothing() {
  drawn = { shape: "", width: 0, plan: null, svg: null };
  picture.replaceChildren(
    el(
      "div",
      { class: "empty" },
      glyph("unseen", 40),
      el("p", { class: "lead" }, "No server has answered yet."),
      el("p", {}, "The servers of this world appear here as soon as one of them can be asked."),
    ),
  );
}

// Building

function build(plan) {
  const { width, height, spots, territories, routes } = plan;
  const root = svg("svg", {
    class: "tree",
    viewBox: `0 0 ${width} ${height}`,
    width,
    height,
    role: "tree",
    "aria-label": "Domains, clusters and hosts of the world",
    onkeydown: byKey,
  });
  root.append(
    svg("g", { class: "territories", role: "presentation" }, ...territories.map(buildTerritory)),
    svg("g", { class: "links", role: "presentation" }, ...routes.map(buildLink)),
    svg("g", { class: "servers", role: "presentation" }, ...[...spots].map(([path, spot]) => buildServer(path, spot))),
    svg("g", { class: "marks", role: "presentation", "aria-hidden": "true" }, ...routes.map(buildMark)),
  );
  return root;
}

function buildTerritory({ path, x, y, w, h, depth }) {
  return svg("rect", { class: `territory depth-${Math.min(depth, 3)}`, "data-territory": path, x, y, width: w, height: h, rx: 16 - 3 * Math.min(depth, 3) });
}

function buildLink({ link, d }) {
  const key = `${link.a}|${link.b}`;
  return svg(
    "g",
    { class: "link", "data-link": key, role: "presentation", onclick: () => choose({ link: key, server: "" }) },
    svg("title"),
    svg("path", { class: "reach", d }),
    svg("path", { class: "line", d }),
  );
}

function buildMark({ link, middle }) {
  return svg("g", { class: "mark", "data-mark": `${link.a}|${link.b}`, transform: `translate(${middle[0]} ${middle[1]})` }, svg("circle", { r: 9 }), svg("path"));
}

function buildServer(path, { x, y, r, label, kind }) {
  const beside = label === "right";
  const name = svg("tspan", { class: "name" });
  name.textContent = shortened(path, beside ? 28 : kind === "host" ? 9 : 16);
  // The state in words: under a host's name; after a domain's, below which its links begin.
  const state = svg("tspan", kind === "host" ? { class: "state", x: 0, dy: 13 } : { class: "state", dx: 6 });
  const words = svg("text", { x: beside ? r + 9 : 0, y: beside ? 4 : r + 16, "text-anchor": beside ? "start" : "middle" }, name, state);
  return svg(
    "g",
    {
      class: `server ${kind}`,
      "data-path": path,
      transform: `translate(${x} ${y})`,
      role: "treeitem",
      tabindex: "-1",
      "aria-level": path === "world" ? 1 : path.split(".").length + 1,
      onclick: () => choose({ server: path, link: "" }),
      onfocus: () => set(drawn.svg.querySelector('[tabindex="0"]') ?? drawn.svg, "tabindex", "-1"),
    },
    svg("title"),
    svg("circle", { class: "halo", r: r + 7 }),
    shape("unseen", r),
    words,
  );
}

function shortened(path, most) {
  const label = labelOf(path);
  return label.length > most ? `${label.slice(0, most - 1)}…` : label;
}

// States

function update() {
  const root = drawn.svg;
  const cutNow = new Set((model.lab?.severed ?? []).map(([from, to]) => `${from}>${to}`));
  for (const each of model.world.servers) {
    const group = root.querySelector(`[data-path="${CSS.escape(each.path)}"]`);
    const spot = drawn.plan.spots.get(each.path);
    restate(group.querySelector(".shape"), each.state, spot.r);
    group.dataset.state = each.state;
    const chosen = choice.server === each.path;
    set(group, "aria-selected", String(chosen));
    set(group, "tabindex", chosen || (!choice.server && each.path === "world") ? "0" : "-1");
    const words = each.state === "none" ? "no server of its own" : each.state;
    set(group, "aria-label", `${each.path}, ${each.kind}, ${words}`);
    write(group.querySelector("title"), `${each.path}: ${words}. ${each.why}`);
    write(group.querySelector(".state"), each.state === "up" || each.state === "none" ? "" : each.state);
    root.querySelector(`[data-territory="${CSS.escape(each.path)}"]`)?.setAttribute("data-state", each.state);
  }
  if (!root.querySelector('[role="treeitem"][tabindex="0"]')) root.querySelector('[role="treeitem"]')?.setAttribute("tabindex", "0");
  for (const link of model.world.links) {
    const key = `${link.a}|${link.b}`;
    const group = root.querySelector(`[data-link="${CSS.escape(key)}"]`);
    const severed = [cutNow.has(`${link.a}>${link.b}`), cutNow.has(`${link.b}>${link.a}`)];
    if (link.state !== "up" && group.dataset.state !== link.state) group.parentNode.append(group); // above what is well
    group.dataset.state = link.state;
    group.dataset.chosen = String(choice.link === key);
    group.dataset.severed = String(severed.some(Boolean));
    write(group.querySelector("title"), `${link.a} – ${link.b}: ${link.state}${severed.some(Boolean) ? ", cut in the lab" : ""}`);
    mark(root.querySelector(`[data-mark="${CSS.escape(key)}"]`), link, severed.some(Boolean));
  }
}

/** A sign in the middle of a link that is not simply up. */
function mark(group, link, severed) {
  const { angle } = drawn.plan.routes.find((route) => route.link.a === link.a && route.link.b === link.b);
  group.dataset.state = severed && link.state === "up" ? "severed" : link.state;
  const sign = group.lastElementChild;
  if (link.state === "one way") {
    // The arrow points to the end that hears.
    const towards = link.deaf === link.b ? angle + Math.PI : angle;
    set(sign, "d", "M-5 0H4M1 -3.5L4.5 0L1 3.5");
    set(sign, "transform", `rotate(${(towards * 180) / Math.PI})`);
  } else {
    set(sign, "transform", null);
    set(sign, "d", { down: "M-3.5 -3.5L3.5 3.5M3.5 -3.5L-3.5 3.5", suspected: "M0 -4V1M0 4V4.1", up: severed ? "M-4.5 0H4.5" : "", unseen: "" }[link.state]);
  }
}

// Keys: the arrows go where they point in the tree, Enter chooses.

function byKey(event) {
  const from = event.target.closest("[data-path]")?.dataset.path;
  if (!from) return;
  const paths = model.world.servers.map((each) => each.path);
  const children = (path) => paths.filter((each) => each !== "world" && parentOf(each) === path);
  const siblings = from === "world" ? ["world"] : children(parentOf(from));
  const at = siblings.indexOf(from);
  const to = {
    ArrowUp: from === "world" ? from : parentOf(from),
    ArrowDown: children(from)[0],
    ArrowLeft: siblings[at - 1],
    ArrowRight: siblings[at + 1],
    Home: "world",
    End: paths.at(-1),
    Enter: from,
    " ": from,
  }[event.key];
  if (to === undefined) return;
  event.preventDefault();
  if (event.key === "Enter" || event.key === " ") choose({ server: from, link: "" });
  const target = drawn.svg.querySelector(`[data-path="${CSS.escape(to)}"]`);
  drawn.svg.querySelectorAll('[role="treeitem"][tabindex="0"]').forEach((each) => set(each, "tabindex", "-1"));
  set(target, "tabindex", "0");
  target?.focus();
}

// How many are how

function summarise() {
  const counts = new Map();
  for (const { state } of model.world.servers) counts.set(state, (counts.get(state) ?? 0) + 1);
  const shown = STATES.filter((state) => counts.get(state) || state === "up");
  sync(
    byId("summary"),
    model.world.servers.length ? shown : [],
    (state) => state,
    (state) => el("li", { "data-state": state }, glyph(state), el("b", {}), el("span", {}, state)),
    (item, state) => write(item.querySelector("b"), String(counts.get(state) ?? 0)),
  );
  const latest = Object.values(model.places).map((place) => place.at ?? 0);
  if (latest.some(Boolean)) ageing(byId("domains-age"), Math.max(...latest), "as of");
}
