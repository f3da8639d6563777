// Where everything is drawn. Two ways: **spread**, from the root downwards, each domain a territory around what
// is inside it, if there is room; otherwise an **outline**, one domain a line, indented, as narrow as a telephone.

import { inside, labelOf, parentOf } from "./model.js";

const HOST = { w: 56, h: 58 };
const LOOSE = { host: HOST.w, hostMax: 92, pad: 14, gap: 16 };
const DENSE = { host: 38, hostMax: 64, pad: 8, gap: 9 };
const HEAD = 58; // a territory's server and its name
const TRUNK = 18; // from a server to the territories inside it
const LETTER = 7.2; // a wide guess of a letter's width, for names longer than their territory

const ROW = 46;
const INDENT = 30;

/** The servers as a tree: `{ path, kind, children }`. */
export function treeOf(servers) {
  const nodes = new Map(servers.map(({ path, kind }) => [path, { path, kind, children: [] }]));
  for (const node of nodes.values()) {
    if (node.path !== "world") nodes.get(parentOf(node.path))?.children.push(node);
  }
  return nodes.get("world");
}

/** Places for servers, territories and links, in a width: `{ width, height, spots, territories, routes }`. */
export function layOut(servers, links, width) {
  const root = treeOf(servers);
  if (root === undefined) return { width, height: 0, spots: new Map(), territories: [], routes: [] };
  const plan = spread(root, width) ?? outlined(root, width);
  plan.routes = links.map((link) => ({ link, ...plan.route(link) }));
  return plan;
}

// Spread

function spread(root, width) {
  if (width < 560) return null;
  const most = Math.max(1, ...everyNode(root).map((node) => (node.kind === "cluster" ? node.children.length : 0)));
  for (const style of [LOOSE, DENSE]) {
    for (let columns = most; columns >= 1; columns -= 1) {
      const hostWidth = fittingHostWidth(root, columns, style, width);
      if (hostWidth >= style.host) return place(measure(root, columns, hostWidth, style), style, width);
    }
  }
  return null;
}

/** How wide hosts may be so that all fits; less than the least if it does not. */
function fittingHostWidth(root, columns, style, width) {
  const { host, hostMax } = style;
  const least = measure(root, columns, host, style).w;
  if (least > width) return 0;
  const most = measure(root, columns, hostMax, style).w;
  if (most <= width) return hostMax;
  return host + ((hostMax - host) * (width - least)) / (most - least);
}

function measure(node, columns, hostWidth, style) {
  const { pad, gap } = style;
  const name = labelOf(node.path).length * LETTER + 2 * pad;
  if (node.kind === "host") return { node, w: hostWidth, h: HOST.h, inner: [] };
  const inner = node.children.map((child) => measure(child, columns, hostWidth, style));
  if (node.kind === "cluster" || inner.every((each) => each.node.kind === "host")) {
    const across = Math.min(columns, Math.max(1, inner.length));
    const down = Math.ceil(inner.length / across);
    return { node, inner, across, w: Math.max(name, across * hostWidth + 2 * pad), h: HEAD + 8 + down * HOST.h + 4 };
  }
  const w = inner.reduce((sum, each) => sum + each.w, 0) + gap * (inner.length - 1) + 2 * pad;
  const h = HEAD + TRUNK + Math.max(...inner.map((each) => each.h)) + pad;
  return { node, inner, w: Math.max(name, w), h };
}

function place(measured, { pad, gap }, width) {
  const spots = new Map();
  const territories = [];

  const put = (box, x, y, w, h, depth) => {
    const { node, inner } = box;
    const centre = x + w / 2;
    const r = node.path === "world" ? 11 : node.kind === "domain" ? 10 : 8.5;
    spots.set(node.path, { x: centre, y: y + 22, r, label: "below", kind: node.kind });
    if (depth > 0) territories.push({ path: node.path, x, y, w, h, depth });
    if (box.across) {
      const step = (w - 2 * pad) / box.across;
      inner.forEach((each, i) => {
        const [column, row] = [i % box.across, Math.floor(i / box.across)];
        spots.set(each.node.path, {
          x: x + pad + step * (column + 0.5),
          y: y + HEAD + 8 + HOST.h * row + 16,
          r: 8,
          label: "below",
          kind: "host",
          // Hosts in several rows are met from the side, so that no line runs through a name.
          rail: inner.length > box.across ? x + pad + step * column + Math.max(3, step / 2 - 24) : null,
        });
      });
      return;
    }
    const spare = w - 2 * pad - inner.reduce((sum, each) => sum + each.w, 0) - gap * (inner.length - 1);
    let left = x + pad + (depth === 0 ? spare / 2 : 0);
    const more = depth === 0 ? 0 : spare / inner.length;
    for (const each of inner) {
      put(each, left, y + HEAD + TRUNK, each.w + more, depth === 0 ? each.h : h - HEAD - TRUNK - pad, depth + 1);
      left += each.w + more + gap;
    }
  };
  put(measured, 0, 0, width, measured.h, 0);

  return { width, height: measured.h - pad + 2, spots, territories, route: (link) => spreadRoute(spots, link) };
}

function spreadRoute(spots, { a, b }) {
  const [from, to] = [spots.get(a), spots.get(b)];
  if (from.y !== to.y && (inside(a, b) || inside(b, a))) {
    const [up, low] = from.y < to.y ? [from, to] : [to, from];
    const [y0, y1] = [up.y + up.r + (up.kind === "cluster" || up.kind === "domain" ? 24 : 0), low.y - low.r - 3];
    const bend = y0 + Math.min(12, (y1 - y0) / 2);
    if (low.rail) {
      const d = `M${up.x} ${y0}V${y0 + 8}H${low.rail}V${low.y - 5}Q${low.rail} ${low.y} ${low.rail + 5} ${low.y}H${low.x - low.r - 2}`;
      return { d, middle: [low.rail, low.y - 14], angle: Math.atan2(to.y - from.y, 0) };
    }
    return {
      d: elbow(up.x, y0, low.x, y1, bend),
      middle: [Math.abs(low.x - up.x) < 40 ? low.x : (up.x + low.x) / 2, Math.abs(low.x - up.x) < 40 ? (y0 + y1) / 2 : bend],
      angle: Math.abs(low.x - up.x) < 40 ? Math.atan2(to.y - from.y, 0) : Math.atan2(0, to.x - from.x),
    };
  }
  // Siblings: straight to the next one, in an arc over those between.
  const [left, right] = from.x < to.x ? [from, to] : [to, from];
  const between = [...spots.values()].some((s) => s.y === left.y && s.x > left.x + 1 && s.x < right.x - 1);
  const [x0, x1] = [left.x + left.r + 4, right.x - right.r - 4];
  const rise = between ? Math.min(34, (x1 - x0) / 8) : 0;
  const middle = (x0 + x1) / 2;
  return {
    d: rise ? `M${x0} ${left.y - 4}Q${middle} ${left.y - 2 * rise} ${x1} ${right.y - 4}` : `M${x0} ${left.y}H${x1}`,
    middle: [middle, left.y - (rise ? rise + 2 : 0)],
    angle: Math.atan2(to.y - from.y, to.x - from.x),
  };
}

/** Down, across and down again, with round corners. */
function elbow(x0, y0, x1, y1, bend) {
  const across = Math.abs(x1 - x0);
  if (across < 2) return `M${x0} ${y0}V${y1}`;
  const r = Math.min(9, across / 2, bend - y0, y1 - bend);
  const side = Math.sign(x1 - x0);
  return `M${x0} ${y0}V${bend - r}Q${x0} ${bend} ${x0 + side * r} ${bend}H${x1 - side * r}Q${x1} ${bend} ${x1} ${bend + r}V${y1}`;
}

// Outline

function outlined(root, width) {
  const spots = new Map();
  const territories = [];
  let y = 22;

  const put = (node, depth) => {
    const x = 18 + depth * INDENT;
    const top = y - 22;
    spots.set(node.path, { x, y, r: depth === 0 ? 10 : 8.5, label: "right", kind: node.kind });
    y += ROW;
    if (node.children.length && node.children.every((child) => child.kind === "host")) {
      const [first, across] = [x + INDENT + 6, Math.max(1, Math.floor((width - x - INDENT - 8) / HOST.w))];
      node.children.forEach((host, i) => {
        const [column, row] = [i % across, Math.floor(i / across)];
        spots.set(host.path, { x: first + column * HOST.w + 10, y: y + row * HOST.h - 4, r: 8, label: "below", kind: "host" });
      });
      y += Math.ceil(node.children.length / across) * HOST.h;
    } else {
      node.children.forEach((child) => put(child, depth + 1));
    }
    if (depth > 0) {
      territories.push({ path: node.path, x: x - 18, y: top, w: width - x + 18 - 5 * (depth - 1), h: y - 22 - top, depth });
      y += 6;
    }
  };
  put(root, 0);
  territories.sort((one, other) => one.depth - other.depth);
  return { width, height: y - 8, spots, territories, route: (link) => outlineRoute(spots, link) };
}

function outlineRoute(spots, { a, b }) {
  const [from, to] = [spots.get(a), spots.get(b)];
  const angle = Math.atan2(to.y - from.y, to.x - from.x);
  const [up, low] = from.y <= to.y ? [from, to] : [to, from];
  if (inside(a, b) || inside(b, a)) {
    // Down from the enclosing domain's server, then across: hosts are met from above, domains from the left.
    if (low.kind === "host") {
      const y = low.y - low.r - 10;
      return { d: `M${up.x} ${up.y + up.r + 3}V${y}H${low.x}V${low.y - low.r - 3}`, middle: [low.x, y], angle };
    }
    return { d: `M${up.x} ${up.y + up.r + 3}V${low.y}H${low.x - low.r - 4}`, middle: [up.x, low.y - 14], angle };
  }
  const bow = Math.min(22, 8 + (low.y - up.y) / 24);
  return {
    d: `M${up.x + 4} ${up.y + up.r + 2}Q${up.x + bow} ${(up.y + low.y) / 2} ${low.x + 4} ${low.y - low.r - 2}`,
    middle: [up.x + bow / 2 + 2, (up.y + low.y) / 2],
    angle,
  };
}

function everyNode(node) {
  return [node, ...node.children.flatMap(everyNode)];
}
