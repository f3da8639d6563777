// Groups, and who is in them as seen from the place that the reader chooses: two places side by side, with what
// only one of them sees marked.

import { byId, command, el, incarnation, set, shell, sync, write } from "./dom.js";
import { choice, choose, hosts, inside, model, on, server, viewFrom } from "./model.js";
import { glyph } from "./shapes.js";
import { ageing } from "./time.js";

const list = byId("group-list");
const panel = byId("members");
let follow = () => {};

/** `ask(group)`: follow this group although no other reader does. */
export function start(ask) {
  follow = ask;
  on(["groups", "view", "choice", "place"], draw);
  byId("look-up").addEventListener("submit", (event) => {
    event.preventDefault();
    const name = byId("look-up-name").value.trim();
    if (!name) return;
    choose({ group: name.includes("@") ? name : `${name}@world` });
    byId("look-up-name").value = "";
  });
}

function draw() {
  if (model.at === null) return;
  const names = model.groups.map((each) => each.group);
  if (choice.group && !names.includes(choice.group)) names.push(choice.group);
  const group = choice.group || widest();
  drawList(names, group);
  drawMembers(group);
  if (choice.group) follow(choice.group);
}

/** What to show first: the group that reaches farthest, because that is where places come to differ. */
function widest() {
  const depth = ({ scope }) => (scope === "world" ? 0 : scope.split(".").length);
  return model.groups.reduce((best, each) => (best && depth(best) <= depth(each) ? best : each), undefined)?.group ?? "";
}

// The list

function drawList(names, chosen) {
  sync(
    list,
    names,
    (name) => name,
    (name) =>
      el(
        "li",
        {},
        el("button", { type: "button", onclick: () => choose({ group: name }) }, el("span", { class: "group-name" }), el("span", { class: "group-scope" }), el("span", { class: "group-count" })),
      ),
    (item, name) => {
      const button = item.firstElementChild;
      const [short, scope] = split(name);
      const views = placesOf(name).map((path) => viewFrom(path, name)).filter(Boolean);
      const counts = views.map((view) => view.total);
      const most = Math.max(0, ...counts);
      const least = Math.min(...counts, most);
      const apart = disagree(views);
      write(button.children[0], short);
      write(button.children[1], `@${scope}`);
      write(button.children[2], views.length ? (least < most ? `${least}–${most}` : String(most)) : "…");
      set(button, "aria-current", name === chosen ? "true" : null);
      set(button, "data-apart", apart);
      set(button, "title", apart ? "Not all places see the same members" : null);
    },
  );
  const empty = list.parentElement.querySelector(".empty-list");
  if (names.length === 0 && !empty) list.before(el("p", { class: "empty-list hint" }, "No groups yet."));
  if (names.length > 0) empty?.remove();
}

const split = (name) => {
  const at = name.lastIndexOf("@");
  return [name.slice(0, at), name.slice(at + 1)];
};

/** Hosts that are inside the group's scope: the others cannot see it. */
const placesOf = (name) => hosts().filter((path) => inside(split(name)[1], path));

const disagree = (views) => new Set(views.map((view) => view.members.map((member) => member.endpoint).join())).size > 1;

// Its members, from two places

function drawMembers(group) {
  const places = placesOf(group);
  if (!group || places.length === 0) {
    panel.dataset.shown = "";
    panel.replaceChildren(nothing(group));
    return;
  }
  const here = places.includes(choice.here) ? choice.here : places[0];
  const there = places.includes(choice.there) ? choice.there : farthest(places, here);
  if (panel.dataset.shown !== "table") {
    panel.dataset.shown = "table";
    panel.replaceChildren(...frame());
  }
  fill(group, places, here, there);
}

function nothing(group) {
  const words = hosts().length === 0
    ? ["No agent can be asked from here.", "Members are seen from hosts; this node knows domains only."]
    : group
      ? [`No place that can be asked is inside the scope of ${group}.`, "A group is seen from the hosts inside its scope."]
      : ["No groups yet.", "Be the first to join one:"];
  return el(
    "div",
    { class: "empty" },
    glyph("unseen", 40),
    el("p", { class: "lead" }, words[0]),
    el("p", {}, words[1]),
    !group && hosts().length > 0 ? command("rostra join chess") : null,
  );
}

/** A host of another part of the world, if there is one: that is where views differ. */
const farthest = (places, here) =>
  places.find((path) => path.split(".")[0] !== here.split(".")[0]) ?? places.find((path) => path !== here) ?? here;

function frame() {
  const chooser = (id, label, side) =>
    el("label", { class: "from" }, el("span", {}, label), el("select", { id, onchange: (event) => choose({ [side]: event.target.value }) }));
  return [
    el("h3", {}, el("span", { class: "group-title" }), el("span", { class: "verdict" })),
    el("div", { class: "sides" }, chooser("here", "Seen from", "here"), chooser("there", "and from", "there")),
    el(
      "table",
      { class: "roster" },
      el("caption", { class: "hidden" }, "Members, as two places see them"),
      el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Member"), el("th", { scope: "col", class: "side" }), el("th", { scope: "col", class: "side" }))),
      el("tbody", {}),
    ),
    el("p", { class: "more hint" }),
    el("div", { class: "commands" }),
  ];
}

function fill(group, places, here, there) {
  const find = (selector) => panel.querySelector(selector);
  const [name, scope] = split(group);
  const [left, right] = [viewFrom(here, group), viewFrom(there, group)];
  write(find(".group-title"), group);
  for (const [id, value] of [["here", here], ["there", there]]) {
    const select = byId(id);
    sync(select, places, (path) => path, (path) => el("option", { value: path }, path));
    if (select.value !== value) select.value = value;
  }
  const rows = union(left, right);
  const apart = rows.filter((row) => !row.left !== !row.right).length;
  const verdict = find(".verdict");
  verdict.dataset.apart = String(apart > 0);
  write(verdict, words(left, right, here, there, apart));
  [...panel.querySelectorAll("th.side")].forEach((head, i) => {
    const [path, view] = i === 0 ? [here, left] : [there, right];
    head.replaceChildren(el("span", { class: "side-path" }, path), el("span", { class: "side-count" }, view ? `${view.total} ${view.total === 1 ? "member" : "members"}` : ""), ageing(el("span", { class: "age" }), view?.at ?? null, "changed"));
    if (!view) head.lastChild.textContent = model.places[path]?.state === "silent" ? "does not answer" : "asking…";
  });
  sync(find("tbody"), rows, (row) => row.endpoint, rosterRow, (element, row) => fillRow(element, row, left, right, here, there));
  const hidden = Math.max((left?.total ?? 0) - (left?.members.length ?? 0), (right?.total ?? 0) - (right?.members.length ?? 0));
  write(find(".more"), hidden > 0 ? `${hidden} more are not shown here.` : rows.length === 0 && left && right ? "Both see it without members." : "");
  const asked = `members ${shell(name)} --scope ${scope}`;
  sync(find(".commands"), [...new Set([here, there])], (path) => `${path} ${asked}`, (path) => command(`rostra ${asked} --agent ${shell(model.places[path].address)}`));
  const latest = Math.max(left?.at ?? 0, right?.at ?? 0);
  if (latest) ageing(byId("groups-age"), latest, "changed");
}

function union(left, right) {
  const rows = new Map();
  for (const [side, view] of [["left", left], ["right", right]]) {
    for (const member of view?.members ?? []) {
      const row = rows.get(member.endpoint) ?? { endpoint: member.endpoint, host: member.host, name: member.name, meta: member.meta };
      row[side] = member;
      rows.set(member.endpoint, row);
    }
  }
  return [...rows.values()].sort((one, other) => (one.endpoint < other.endpoint ? -1 : 1));
}

function words(left, right, here, there, apart) {
  if (!left || !right) return "";
  if (left.isolated || right.isolated) return `${left.isolated ? here : there} sees its own host only`;
  if (here === there) return "";
  return apart === 0 ? "both see the same" : `${apart} ${apart === 1 ? "difference" : "differences"}`;
}

function rosterRow(row) {
  const number = row.endpoint.slice(row.endpoint.lastIndexOf("#"));
  return el(
    "tr",
    {},
    el(
      "th",
      { scope: "row" },
      el("span", { class: "who" }, el("b", {}, row.name), incarnation(number), el("span", { class: "meta" })),
      el("span", { class: "host" }, row.host),
    ),
    el("td", {}),
    el("td", {}),
  );
}

function fillRow(element, row, left, right, here, there) {
  const one = left && right && here !== there && !row.left !== !row.right;
  set(element, "data-only", one ? (row.left ? "left" : "right") : null);
  write(element.querySelector(".meta"), row.meta ? `“${row.meta}”` : "");
  [[left, row.left, here], [right, row.right, there]].forEach(([view, member, path], i) => {
    const cell = element.children[i + 1];
    const state = member ? health(member) : "gone";
    const text = member ? (state === "up" ? "in" : `in, ${state}`) : view ? "not seen" : "";
    const key = `${text}|${path}`;
    if (cell.dataset.key === key) return;
    cell.dataset.key = key;
    cell.replaceChildren(
      ...(member
        ? [glyph(state), el("span", {}, text), ageing(el("span", { class: "age" }), member.since, "", "")]
        : view
          ? [glyph("unseen"), el("span", { class: "missing" }, text)]
          : []),
    );
  });
}

/** Is anything known against it: its program stalls, or its host is not well? */
function health(member) {
  const programs = model.places[member.host]?.programs ?? [];
  if (programs.some((each) => each.suspected && each.endpoints.includes(member.endpoint))) return "suspected";
  const state = server(member.host)?.state ?? "up";
  return state === "up" || state === "none" || state === "cut off" ? "up" : state;
}

