// Agreed groups: the rule for partitions, the views that members have, which side lives, and who agrees on them.
// In a partition there is one part of the table for each side, as its own hosts say it. Where messages have one
// order: who orders, how far it has come, and which hosts and members are behind.

import { byId, el, set, spell, sync, write } from "./dom.js";
import { model, on } from "./model.js";
import { glyph } from "./shapes.js";
import { ageing } from "./time.js";

const MEMBERS_MAX = 60;
const panel = byId("agreed");
const section = byId("views");

const RULES = {
  yes: "in a partition one side lives at most",
  no: "in a partition every side lives",
  depends: "in a partition it depends on who is where how many sides live",
};

export function start() {
  on(["agreed", "place"], draw);
}

function draw() {
  const groups = model.agreed.filter((each) => each.sides.length > 0);
  section.hidden = groups.length === 0;
  byId("views-link").hidden = section.hidden;
  sync(panel, groups, (each) => each.group, frame, fill);
  const latest = Math.max(...Object.values(model.places).map((place) => place.at ?? 0));
  if (groups.length > 0 && latest > 0) ageing(byId("views-age"), latest, "as of");
}

function frame() {
  return el(
    "article",
    { class: "agreed-group" },
    el("h3", {}, el("span", { class: "group-title" }), el("code", { class: "rule" }), el("span", { class: "kind" })),
    el("p", { class: "verdict-line", role: "status" }),
    el("div", { class: "agreed-sides" }),
    el("div", { class: "order", hidden: true }, el("p", { class: "order-line" }), orderTable()),
    el("ul", { class: "core-sets", "aria-label": "Servers that agree on its views" }),
  );
}

function fill(article, shown) {
  const find = (selector) => article.querySelector(selector);
  const living = shown.sides.filter((side) => !side.blocked);
  const blocked = shown.sides.filter((side) => side.blocked);
  write(find(".group-title"), shown.group);
  write(find(".rule"), `survive="${shown.survive}"`);
  write(find(".kind"), RULES[shown.exclusive] ?? RULES.depends);
  const verdict = find(".verdict-line");
  write(verdict, words(shown, living, blocked));
  set(verdict, "data-late", String(blocked.length > 0 || apart(living)));
  // By view and not by place in the list: a side that is blocked stays where the reader looked.
  sync(find(".agreed-sides"), shown.sides, (side) => `${side.view}|${side.blocked}`, sideFrame, fillSide);
  fillOrder(find(".order"), shown.order);
  sync(find(".core-sets"), shown.parts, (part) => part.servers.join(), () => el("li", {}), (item, part) => spell(item, agreeing(part)));
}

/** Hosts take a moment to be given a view: two that follow each other are no two sides. */
const apart = (living) => living.some((one) => living.some((other) => !other.hosts.some((host) => one.members.some((member) => member.startsWith(`${host}/`)))));

function words({ exclusive }, living, blocked) {
  const split = apart(living);
  if (blocked.length === 0 && !split) return living.length > 1 ? "A new view is on its way." : `All members have view ${living[0].number}.`;
  if (living.length === 0) return "No side lives: members wait for each other.";
  if (split) return exclusive === "no" ? "In a partition: every side goes on by itself." : "In a partition: more than one side lives.";
  return "In a partition: one side lives, and the other must not go on.";
}

function sideFrame() {
  return el(
    "section",
    { class: "agreed-side" },
    el("h4", {}, el("span", { class: "sign" }), el("span", { class: "view-number" }), el("span", { class: "fence" })),
    el("p", { class: "why" }),
    el("ol", { class: "ranks", start: 0, "aria-label": "Members in order of rank" }),
    el("p", { class: "more hint" }),
  );
}

function fillSide(box, side) {
  const find = (selector) => box.querySelector(selector);
  const state = side.blocked ? "cut off" : "up";
  set(box, "data-living", String(!side.blocked));
  if (box.dataset.state !== state) {
    box.dataset.state = state;
    find(".sign").replaceChildren(glyph(state, 14));
  }
  write(find(".view-number"), `View ${side.number}`);
  write(find(".fence"), side.blocked ? "blocked" : side.fence === null ? "lives" : `lives, fence ${side.fence}`);
  const hosts = `${side.hosts.length} ${side.hosts.length === 1 ? "host" : "hosts"}: ${side.hosts.join(", ")}`;
  write(find(".why"), side.blocked ? `${side.blocked} (${hosts})` : hosts);
  const members = side.members.slice(0, MEMBERS_MAX).map((member, rank) => ({ member, rank }));
  sync(
    find(".ranks"),
    members,
    ({ member }) => member,
    () => el("li", {}),
    (item, { member, rank }) => {
      spell(item, member);
      set(item, "value", rank);
      set(item, "data-here", side.hosts.some((host) => member.startsWith(`${host}/`)) || null);
    },
  );
  const hidden = side.total - members.length;
  write(find(".more"), hidden > 0 ? `${hidden} more are not shown here.` : "");
}

// The order of messages

const STABLE = {
  sent: "delivered as soon as it is ordered",
  majority: "delivered when hosts of most members have it",
  all: "delivered when every host of the view has it",
  disk: "delivered when it is on the disks of the view's hosts",
};
const BEHIND_MANY = 10000;

function orderTable() {
  return el(
    "table",
    { class: "order-hosts" },
    el("caption", { class: "hidden" }, "How far each host has the order"),
    el("thead", {}, el("tr", {}, ...["Host", "Up to", "Behind", "State"].map((name, i) => el("th", { scope: "col", class: i === 1 || i === 2 ? "n" : null }, name)))),
    el("tbody", {}),
  );
}

function fillOrder(box, order) {
  box.hidden = order === null || order === undefined;
  if (box.hidden) return;
  const leads = order.stations.filter((station) => station.orders).map((station) => station.host);
  const who = leads.length === 0 ? "No host that answers orders now" : leads.length === 1 ? `${leads[0]} orders` : `${leads.join(" and ")} order, each its own side`;
  const line = box.querySelector(".order-line");
  const until = order.delivered < order.position ? `, delivered up to ${order.delivered}` : ", all delivered";
  write(line, `${who}. Position ${order.position}${until}. A message is ${STABLE[order.stable] ?? order.stable} (stable="${order.stable}").`);
  set(line, "data-late", String(leads.length === 0));
  sync(box.querySelector("tbody"), order.stations, (station) => station.host, orderRow, fillStation);
}

function orderRow() {
  return el("tr", {}, el("th", { scope: "row" }), el("td", { class: "n" }), el("td", { class: "n" }), el("td", { class: "state" }));
}

function fillStation(row, station) {
  const [host, has, behind, state] = row.children;
  write(host, station.host);
  write(has, String(station.has));
  write(behind, station.orders ? "" : station.behind === null ? "?" : String(station.behind));
  const words = [
    station.orders ? "orders" : "",
    station.blocked ? `blocked: ${station.blocked}` : "",
    station.slow.length ? `${station.slow.join(", ")} ${station.slow.length === 1 ? "does" : "do"} not read` : "",
    station.waits ? "the order waits for it" : "",
    !station.slow.length && station.behind >= BEHIND_MANY ? "lags" : "",
  ].filter(Boolean);
  spell(state, words.join("; ") || "keeps up");
  set(row, "data-late", station.waits || station.slow.length > 0 || Boolean(station.blocked) || station.behind >= BEHIND_MANY || null);
}

function agreeing({ set: domain, servers, coordinator, isolated, number, blocked }) {
  const names = servers.map((server) => (server === coordinator ? `${server} (coordinator)` : server)).join(", ");
  const without = isolated.length ? `; isolated: ${isolated.join(", ")}` : "";
  return `set(${domain}) at view ${number}${blocked ? ", blocked" : ""}: ${names}${without}`;
}
