// What is said in groups with delivery: who speaks and how fast, who listens, and who does not keep up. Every
// number is its host's own, and says how old it is.

import { byId, command, el, set, shell, spell, sync, write } from "./dom.js";
import { choice, choose, model, on } from "./model.js";
import { glyph } from "./shapes.js";
import { ageing } from "./time.js";

const ROWS_MAX = 60;
const panel = byId("stream-panel");

export function start() {
  on(["streams", "agreed", "choice", "place"], draw);
}

function draw() {
  if (model.at === null) return;
  const places = Object.values(model.streams);
  const senders = places.flatMap((place) => place.senders.map((each) => ({ ...each, place })));
  const receivers = places.flatMap((place) => place.receivers.map((each) => ({ ...each, place })));
  const groups = [...new Set([...senders, ...receivers].map((each) => each.group))].sort();
  if (groups.length === 0) {
    const ordered = model.agreed.filter((each) => each.order).map((each) => each.group);
    const shown = `empty ${ordered.join(" ")}`;
    if (panel.dataset.shown !== shown) panel.replaceChildren(nothing(ordered));
    panel.dataset.shown = shown;
    write(byId("streams-age"), "");
    return;
  }
  if (panel.dataset.shown !== "tables") {
    panel.dataset.shown = "tables";
    panel.replaceChildren(...frame());
  }
  const group = groups.includes(choice.streams) ? choice.streams : groups[0];
  drawTabs(groups, group);
  const here = (each) => each.group === group;
  fill(group, senders.filter(here).sort(byName), receivers.filter(here));
  ageing(byId("streams-age"), Math.max(...places.map((place) => place.at)), "as of");
}

function nothing(ordered) {
  return el(
    "div",
    { class: "empty" },
    glyph("unseen", 40),
    el("p", { class: "lead" }, ordered.length === 0 ? "No messages yet." : "No streams yet."),
    ...(ordered.length === 0
      ? []
      : [el("p", {}, `${ordered.join(", ")}: one order for all messages, shown under Agreed views.`)]),
    el("p", {}, "Say something, and listen in another terminal:"),
    command("echo hello | rostra send chat"),
    command("rostra tail chat"),
  );
}

function frame() {
  const table = (id, caption, ...columns) =>
    el(
      "table",
      { class: "streams", id },
      el("caption", {}, caption),
      el("thead", {}, el("tr", {}, ...columns.map(([name, kind]) => el("th", { scope: "col", class: kind }, name)))),
      el("tbody", {}),
    );
  return [
    el("div", { class: "tabs", role: "group", "aria-label": "Groups with messages" }),
    el("p", { class: "verdict-line", role: "status" }),
    table("senders", "Senders", ["Sender", ""], ["Rate", "n"], ["Sent", "n wide"], ["Unconfirmed", "n"], ["", ""], ["Age", "n wide"]),
    table("receivers", "Receivers", ["Receiver", ""], ["Rate", "n"], ["Behind", "n"], ["Repaired", "n"], ["", ""], ["Age", "n wide"]),
    el("p", { class: "more hint" }),
    el("div", { class: "commands" }),
  ];
}

function drawTabs(groups, chosen) {
  sync(
    panel.querySelector(".tabs"),
    groups,
    (name) => name,
    (name) => el("button", { type: "button", onclick: () => choose({ streams: name }) }, name),
    (button, name) => set(button, "aria-pressed", String(name === chosen)),
  );
}

const byName = (one, other) => (one.member < other.member ? -1 : 1);
const byNeed = (one, other) => Number(other.late) - Number(one.late) || (one.late && other.behind - one.behind) || byName(one, other);

function fill(group, senders, receivers) {
  const find = (selector) => panel.querySelector(selector);
  const late = receivers.filter((each) => lag(each));
  const rate = senders.reduce((sum, each) => sum + (each.rate ?? 0), 0);
  const repaired = receivers.reduce((sum, each) => sum + each.repaired, 0);
  const line = find(".verdict-line");
  set(line, "data-late", String(late.length > 0));
  write(
    line,
    `${perSecond(rate)} from ${count(senders.length, "sender")}; ` +
      (late.length === 0 ? "all receivers keep up" : `${count(new Set(late.map((each) => each.member)).size, "receiver")} behind`) +
      `; ${repaired === 0 ? "nothing was lost" : `${count(repaired, "message")} lost on the way and repaired`}.`,
  );
  sync(find("#senders tbody"), senders, (each) => each.member, row, (element, each) => {
    const held = each.blocked || each.waiting > 0;
    cells(element, each, [
      perSecond(each.rate),
      String(each.sent),
      String(each.unconfirmed),
      held ? ["suspected", `held up, ${each.waiting} wait`] : each.rate ? ["up", "flowing"] : ["unseen", "silent"],
    ]);
    write(element.querySelector(".of"), each.submits ? `${host(each.member)}, submits through ${cluster(each.member)}` : host(each.member));
  });
  const pairs = new Map();
  for (const each of receivers) pairs.set(each.member, [...(pairs.get(each.member) ?? []), each]);
  const gathered = [...pairs.values()].map(gather).sort(byNeed);
  sync(find("#receivers tbody"), gathered.slice(0, ROWS_MAX), (each) => each.member, row, (element, each) => {
    cells(element, each, [
      perSecond(each.rate),
      String(each.behind),
      String(each.repaired),
      each.paused && each.behind ? ["suspected", "does not read"] : each.late ? ["suspected", each.missing ? `misses ${each.missing}` : "behind"] : ["up", "keeps up"],
    ]);
    write(element.querySelector(".of"), `${host(each.member)}, ${each.late ? `most behind ${short(each.sender)}` : `of ${count(each.of, "sender")}`}`);
  });
  const hidden = Math.max(0, gathered.length - ROWS_MAX);
  write(find(".more"), hidden ? `${count(hidden, "more receiver")} not shown here: those furthest behind come first.` : "");
  const worst = late[0]?.place ?? senders[0]?.place ?? receivers[0]?.place;
  const [name, scope] = [group.slice(0, group.lastIndexOf("@")), group.slice(group.lastIndexOf("@") + 1)];
  const address = model.places[worst.place]?.address ?? "";
  const asked = `tail ${shell(name)} --scope ${scope} --agent ${shell(address)}`;
  sync(find(".commands"), [asked], (each) => each, (each) => command(`rostra ${each}`));
}

/** Further behind than what is on its way at this rate for half a second. */
const lag = (each) => (each.paused && each.behind > 0) || each.behind > Math.max(3, (each.rate ?? 0) / 2);

const count = (number, word) => `${number} ${word}${number === 1 ? "" : "s"}`;

const perSecond = (rate) => (rate === null ? "…" : `${rate < 10 ? rate.toFixed(1) : Math.round(rate)}/s`);

/** Without its incarnation. */
const short = (endpoint) => endpoint.slice(0, endpoint.lastIndexOf("#"));

const host = (endpoint) => endpoint.split("/")[0];

const cluster = (endpoint) => host(endpoint).split(".").slice(0, -1).join(".");

/** One receiver, of all its senders: how far it is behind the one it is furthest behind. */
function gather(pairs) {
  const sum = (name) => pairs.reduce((all, each) => all + (each[name] ?? 0), 0);
  const worst = pairs.reduce((one, other) => (other.behind > one.behind ? other : one));
  return {
    ...worst,
    of: pairs.length,
    late: pairs.some(lag),
    rate: pairs.every((each) => each.rate === null) ? null : sum("rate"),
    repaired: sum("repaired"),
    missing: sum("missing"),
  };
}

function row(each) {
  const tr = el("tr", {}, el("th", { scope: "row" }, el("span", { class: "who" }), el("span", { class: "of host" })));
  for (const kind of each.sender ? ["n", "n", "n", "state", "n wide"] : ["n", "n wide", "n", "state", "n wide"]) tr.append(el("td", { class: kind }));
  return tr;
}

function cells(element, each, [first, second, third, [state, words]]) {
  spell(element.querySelector(".who"), each.member.slice(each.member.indexOf("/") + 1));
  [first, second, third].forEach((text, i) => write(element.cells[i + 1], text));
  const cell = element.cells[4];
  if (cell.dataset.key !== `${state} ${words}`) {
    cell.dataset.key = `${state} ${words}`;
    cell.replaceChildren(glyph(state), el("span", {}, words));
  }
  ageing(element.cells[5], each.place.at, "", "");
}
