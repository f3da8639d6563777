// Reachability matrices. Links: every server that answers, and its neighbours; members: every host, and whose members it
// has in its groups. Rows look, columns are looked at.

import { byId, el, set, svg, write } from "./dom.js";
import { choice, choose, linkBetween, model, on } from "./model.js";
import { glyph } from "./shapes.js";
import { ageing, measured } from "./time.js";

const box = byId("matrix");

const WORDS = {
  links: "A row hears its neighbours, or does not. An arrow marks a link that works one way only.",
  members: "A row sees the members that run on a column’s host, in the groups that both can see: all, some, or none.",
};

export function start() {
  on(["world", "place", "sightings", "choice"], draw);
  for (const button of document.querySelectorAll("[data-matrix]")) {
    button.addEventListener("click", () => choose({ matrix: button.dataset.matrix }));
  }
}

function draw() {
  if (model.at === null) return;
  for (const button of document.querySelectorAll("[data-matrix]")) {
    set(button, "aria-pressed", String(button.dataset.matrix === choice.matrix));
  }
  write(byId("sightings-words"), WORDS[choice.matrix]);
  const [paths, cell] = choice.matrix === "links" ? [servers(), heard] : [model.sightings.hosts, seen];
  if (paths.length === 0) {
    box.dataset.shape = "";
    box.replaceChildren(el("div", { class: "empty" }, glyph("unseen", 40), el("p", { class: "lead" }, "Nothing to compare yet."), el("p", {}, "It takes a host that can be asked.")));
    return;
  }
  const shape = `${choice.matrix} ${paths.join()}`;
  if (box.dataset.shape !== shape) {
    box.dataset.shape = shape;
    box.replaceChildren(build(paths));
  }
  paths.forEach((row, i) => paths.forEach((column, j) => fill(box.querySelector("tbody").rows[i].cells[j + 1], cell(row, column))));
  const latest = Math.max(0, ...Object.values(model.places).map((place) => place.at ?? 0));
  if (latest) ageing(byId("sightings-age"), latest, "as of");
}

const servers = () => model.world.servers.filter((each) => each.state !== "none").map((each) => each.path);

function build(paths) {
  const head = (path, scope) => {
    const depth = path === "world" ? 0 : path.split(".").length;
    return el("th", { scope, "data-depth": Math.min(depth, 3), title: path }, el("span", {}, path));
  };
  return el(
    "table",
    {},
    el("caption", { class: "hidden" }, "Rows see columns"),
    el("thead", {}, el("tr", {}, el("td", {}), ...paths.map((path) => head(path, "col")))),
    el("tbody", {}, ...paths.map((path) => el("tr", {}, head(path, "row"), ...paths.map((other) => el("td", { "data-self": path === other }))))),
  );
}

function fill(cell, { state, words, link }) {
  const key = `${state} ${words}`;
  if (cell.dataset.key === key) return;
  cell.dataset.key = key;
  cell.dataset.state = state;
  set(cell, "title", words || null);
  if (!state) {
    cell.replaceChildren();
    return;
  }
  const sign = state === "one way" ? arrow() : state === "part" ? half() : glyph(state === "unknown" ? "unseen" : state);
  const label = el("span", { class: "hidden" }, words);
  cell.replaceChildren(link ? el("button", { type: "button", class: "plain", tabindex: "-1", onclick: () => choose({ link, server: "" }) }, sign, label) : el("span", {}, sign, label));
}

function heard(row, column) {
  const link = row === column ? undefined : linkBetween(row, column);
  if (!link) return { state: "", words: "" };
  const sees = link.a === row ? link.a_sees : link.b_sees;
  const end = model.places[row]?.links?.[column];
  const key = `${link.a}|${link.b}`;
  if (link.state === "one way" && link.deaf === column) {
    return { state: "one way", words: `${row} hears ${column}, and is not heard there`, link: key };
  }
  const words = {
    up: `${row} hears ${column}`,
    suspected: `${row} suspects ${column}: silent for ${measured(end?.silence_s)}`,
    down: `${row} has given up ${column}${end?.because ? `: ${end.because}` : ""}`,
    unseen: `${row} was never connected to ${column}`,
    unknown: `${row} cannot be asked about ${column}`,
  }[sees];
  return { state: sees, words, link: key };
}

function seen(row, column) {
  if (row === column) return { state: "", words: "" };
  const sighting = model.sightings.sees[row]?.[column];
  if (!sighting) return { state: "unknown", words: `${row} cannot be asked about ${column}` };
  const [sees, there] = sighting; // `there`: null if the host itself cannot be asked
  if (sees === 0 && there === null) return { state: "unknown", words: `${row} sees no members on ${column}, which cannot be asked` };
  if (sees === 0 && there === 0) return { state: "", words: `${column} has no members in common groups` };
  const back = model.sightings.sees[column]?.[row] ?? [0, 0];
  const words = `${row} sees ${sees} of ${there ?? "unknown"} members on ${column}`;
  if (sees > 0 && back[0] === 0 && back[1] > 0) return { state: "one way", words: `${words}, and is not seen there` };
  if (sees === 0) return { state: "down", words };
  return { state: sees < (there ?? sees) ? "part" : "up", words };
}

const sign = (...children) => svg("svg", { class: "glyph", viewBox: "-10 -10 20 20", width: 14, height: 14, "aria-hidden": "true" }, ...children);
const arrow = () => sign(svg("path", { class: "arrow", d: "M-8 0H7M2 -5L7.5 0L2 5" }));
const half = () => sign(svg("g", { class: "shape", "data-state": "part" }, svg("circle", { class: "outline", r: 7 }), svg("path", { class: "sign", d: "M0 -7A7 7 0 0 1 0 7Z" })));
