// What is known about the server or the link that the reader chose, and what can be done to it.

import { byId, command, el, shell, svg, sync, write } from "./dom.js";
import { actionsForLink, actionsForServer } from "./lab.js";
import { choice, choose, linkBetween, model, on, server } from "./model.js";
import { glyph } from "./shapes.js";
import { ageing, measured } from "./time.js";

const panel = byId("detail");

export function start() {
  on(["world", "place", "lab", "choice"], draw);
}

function draw() {
  if (model.world.servers.length === 0) {
    panel.replaceChildren();
    return;
  }
  const [a, b] = choice.link.split("|");
  const link = choice.link ? linkBetween(a, b) : undefined;
  const chosen = server(choice.server);
  const key = link ? choice.link : (chosen?.path ?? "");
  if (panel.dataset.shown !== key || panel.childElementCount === 0) {
    panel.dataset.shown = key;
    panel.replaceChildren(...(link ? linkFrame() : chosen ? serverFrame(chosen) : legend()));
  }
  if (link) fillLink(link);
  else if (chosen) fillServer(chosen);
}

/** What the shapes mean, while nothing is chosen. */
function legend() {
  const servers = [
    ["up", "it answers, or is heard"],
    ["suspected", "overdue; nothing is lost yet"],
    ["cut off", "runs; hears no server above or beside"],
    ["down", "declared dead by all its neighbours"],
    ["unseen", "never connected"],
  ];
  const links = [
    ["up", "both ends hear each other"],
    ["suspected", "an end is overdue to hear the other"],
    ["one way", "an arrow points to the end that hears"],
    ["down", "each end has declared the other dead"],
  ];
  const line = (state) => svg("svg", { class: "sample", viewBox: "0 0 34 14", width: 34, height: 14, "aria-hidden": "true" }, svg("g", { class: "link", "data-state": state }, svg("path", { class: "line", d: "M1 7H33" })));
  const words = (title, rows, sign) =>
    el("div", {}, el("h3", {}, title), el("dl", { class: "legend" }, ...rows.map(([state, text]) => el("div", {}, el("dt", {}, sign(state), ` ${state}`), el("dd", {}, text)))));
  return [
    words("Servers", servers, (state) => glyph(state)),
    el(
      "div",
      {},
      words("Links", links, line),
      el("p", { class: "hint" }, "Choose a server or a link to see what this rests on. By keyboard: Tab to the picture, arrows, Enter."),
    ),
  ];
}

// A server

function serverFrame(chosen) {
  return [
    el(
      "div",
      { class: "about" },
      el("h3", {}, el("span", { class: "sign" }), el("span", { class: "path" }, chosen.path), el("span", { class: "kind" }, chosen.kind)),
      el("p", { class: "why" }),
      el("p", { class: "age" }),
      el("div", { class: "actions", role: "group", "aria-label": `What can be done to ${chosen.path}` }),
      el("div", { class: "commands" }),
    ),
    el("div", { class: "neighbours" }),
  ];
}

function fillServer(chosen) {
  const place = model.places[chosen.path];
  const find = (selector) => panel.querySelector(selector);
  find(".sign").replaceChildren(glyph(chosen.state === "none" ? "unseen" : chosen.state, 16));
  write(find(".why"), sentence(chosen) + refusedNames(place));
  if (place?.at) ageing(find(".about > .age"), place.at, `${lives(place)}as of`);
  else write(find(".about > .age"), chosen.speaks ? "it has not answered yet" : "seen through its neighbours only");
  actionsForServer(find(".actions"), chosen);
  const asked = place?.is_agent ? ["groups", "domains"].map((what) => `rostra ${what} --agent ${shell(place.address)}`) : ["rostra domains"];
  sync(find(".commands"), asked, (text) => text, (text) => command(text));
  fillNeighbours(find(".neighbours"), chosen, place);
}

function sentence({ state, why }) {
  const words = state === "none" ? "no server" : state;
  return `${words[0].toUpperCase()}${words.slice(1)}: ${why}.`;
}

function refusedNames(place) {
  return place?.refused?.length ? ` It knows groups whose names are refused here: ${place.refused.map((name) => JSON.stringify(name)).join(", ")}.` : "";
}

function lives(place) {
  return place.incarnation === null ? "" : `incarnation ${place.incarnation}, `;
}

function fillNeighbours(box, chosen, place) {
  const peers = model.world.links.filter((link) => link.a === chosen.path || link.b === chosen.path);
  if (box.childElementCount === 0) {
    box.append(
      el(
        "table",
        {},
        el("caption", { class: "hidden" }, `Links of ${chosen.path}`),
        el("thead", {}, el("tr", {}, ...["Link to", "It sees", "Last heard", "Suspicion"].map((word) => el("th", { scope: "col" }, word)))),
        el("tbody", {}),
      ),
    );
  }
  sync(
    box.querySelector("tbody"),
    peers,
    (link) => `${link.a}|${link.b}`,
    (link) => neighbourRow(link, link.a === chosen.path ? link.b : link.a),
    (row, link) => {
      const peer = link.a === chosen.path ? link.b : link.a;
      const sees = link.a === chosen.path ? link.a_sees : link.b_sees;
      const end = place?.links?.[peer];
      row.dataset.state = link.state === "one way" ? "one way" : sees;
      row.children[1].replaceChildren(glyph(sees === "unknown" ? "unseen" : sees), ` ${link.state === "one way" ? oneWay(link, chosen.path) : sees}`);
      write(row.children[2], end && sees !== "unknown" ? measured(sees === "down" ? (end.heard_s ?? end.silence_s) : end.silence_s) : "–");
      write(row.children[3], end?.phi === null || end?.phi === undefined || sees === "down" ? "–" : `φ ${end.phi.toFixed(1)}`);
    },
  );
}

const oneWay = (link, path) => (link.deaf === path ? "does not hear it" : "is not heard by it");

function neighbourRow(link, peer) {
  const open = el("button", { type: "button", class: "plain", onclick: () => choose({ link: `${link.a}|${link.b}`, server: "" }) }, peer);
  return el("tr", {}, el("th", { scope: "row" }, open), el("td", {}), el("td", {}), el("td", {}));
}

// A link

function linkFrame() {
  return [
    el(
      "div",
      { class: "about" },
      el("h3", {}, el("span", { class: "sign" }), el("span", { class: "path" }), el("span", { class: "kind" }, "link")),
      el("p", { class: "why" }),
      el("p", { class: "age" }),
      el("div", { class: "actions", role: "group", "aria-label": "What can be done to this link" }),
    ),
    el(
      "div",
      { class: "neighbours" },
      el(
        "table",
        {},
        el("caption", { class: "hidden" }, "Both ends of the link"),
        el("thead", {}, el("tr", {}, ...["End", "It sees", "Last heard", "Usually every", "Suspicion"].map((word) => el("th", { scope: "col" }, word)))),
        el("tbody", {}),
      ),
      el("p", { class: "hint choices" }),
    ),
  ];
}

const LINK_WORDS = {
  up: "Up: each end hears the other.",
  suspected: "Suspected: an end is overdue to hear of the other.",
  down: "Down: each end has declared the other dead.",
  unseen: "Unseen: it has never been up, as far as we can ask.",
};

function fillLink(link) {
  const find = (selector) => panel.querySelector(selector);
  find(".sign").replaceChildren(glyph(link.state === "one way" ? "suspected" : link.state, 16));
  write(find(".path"), `${link.a} – ${link.b}`);
  const hears = link.deaf === link.a ? link.b : link.a;
  write(find(".why"), link.state === "one way" ? `One way: ${hears} hears ${link.deaf}, and is not heard there.` : LINK_WORDS[link.state]);
  const ends = [link.a, link.b];
  const latest = ends.map((end) => model.places[end]?.at ?? 0);
  if (latest.some(Boolean)) ageing(find(".about > .age"), Math.max(...latest), "as of");
  write(find(".choices"), actionsForLink(find(".actions"), link));
  sync(
    find("tbody"),
    ends,
    (end) => end,
    (end) => el("tr", {}, el("th", { scope: "row" }, el("button", { type: "button", class: "plain", onclick: () => choose({ server: end, link: "" }) }, end)), ...Array.from({ length: 4 }, () => el("td", {}))),
    (row, end) => {
      const peer = end === link.a ? link.b : link.a;
      const sees = end === link.a ? link.a_sees : link.b_sees;
      const seen = model.places[end]?.links?.[peer];
      row.dataset.state = sees;
      row.children[1].replaceChildren(glyph(sees === "unknown" ? "unseen" : sees), ` ${sees}${seen?.because ? `: ${seen.because}` : ""}`);
      write(row.children[2], seen ? measured(sees === "down" ? (seen.heard_s ?? seen.silence_s) : seen.silence_s) : "–");
      write(row.children[3], seen ? measured(seen.expected_s) : "–");
      write(row.children[4], seen?.phi === null || seen?.phi === undefined || sees === "down" ? "–" : `φ ${seen.phi.toFixed(1)}`);
    },
  );
}
