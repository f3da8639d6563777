// Events, the latest first: live, by topic, by name, each with its reason and its witnesses. The latest cuts and
// merges stay in sight above the list when joins and leaves have pushed them down.

import { byId, command, el, set, spell, sync, write } from "./dom.js";
import { choice, choose, model, on } from "./model.js";
import { timeOfDay } from "./time.js";

const SHOWN_MAX = 200;

const PINNED_MAX = 3;
const PINNED_BELOW = 4; // an entry this far down the list may be out of sight
const PINNED_KINDS = new Set(["lost", "alone", "merged", "lab"]);

const TOPICS = { members: "Members", suspicions: "Suspicions", cuts: "Cuts", merges: "Merges", servers: "Servers", lab: "Lab" };

const list = byId("entries");
const pinned = byId("pinned");

export function start() {
  on(["entry", "choice"], draw);
  const filter = byId("timeline-filter");
  filter.value = choice.filter;
  filter.addEventListener("input", () => choose({ filter: filter.value.trim() }));
}

function draw() {
  if (model.at === null) return;
  const all = [...model.entries.values()];
  drawTopics(all);
  const word = choice.filter.toLowerCase();
  const found = all.filter((entry) => !choice.topics.has(entry.topic) && (!word || matches(entry, word)));
  const shown = found.sort((one, other) => other.at - one.at || other.number - one.number).slice(0, SHOWN_MAX);
  sync(list, shown, (entry) => entry.number, build, fill);
  const notable = found.filter((entry) => PINNED_KINDS.has(entry.kind)).slice(0, PINNED_MAX);
  sync(pinned, notable.filter((entry) => found.indexOf(entry) >= PINNED_BELOW), (entry) => entry.number, build, fill);
  pinned.hidden = pinned.childElementCount === 0;
  list.classList.toggle("nothing", shown.length === 0);
  list.dataset.nothing = all.length === 0 ? "No events yet. They appear here, live." : "No event matches the filter.";
  write(byId("timeline-count"), found.length === all.length ? counted(all.length) : `${found.length} of ${counted(all.length)}`);
}

const counted = (number) => `${number} ${number === 1 ? "entry" : "entries"}`;

function drawTopics(all) {
  const counts = new Map();
  for (const { topic } of all) counts.set(topic, (counts.get(topic) ?? 0) + 1);
  const topics = Object.keys(TOPICS).filter((topic) => topic !== "lab" || model.lab !== null);
  sync(
    byId("topics"),
    topics,
    (topic) => topic,
    (topic) => el("button", { type: "button", "data-topic": topic, onclick: () => toggle(topic) }, el("span", { class: "dot", "aria-hidden": "true" }), TOPICS[topic], el("span", { class: "count" })),
    (button, topic) => {
      set(button, "aria-pressed", String(!choice.topics.has(topic)));
      write(button.lastElementChild, String(counts.get(topic) ?? 0));
    },
  );
}

function toggle(topic) {
  const topics = new Set(choice.topics);
  if (!topics.delete(topic)) topics.add(topic);
  choose({ topics });
}

function matches(entry, word) {
  return [entry.text, entry.because, ...entry.about, ...Object.keys(entry.groups), ...entry.members].some((text) => text.toLowerCase().includes(word));
}

function build(entry) {
  return el(
    "li",
    { "data-topic": entry.topic, "data-kind": entry.kind },
    el("time", { datetime: new Date(entry.at * 1000).toISOString() }, timeOfDay(entry.at)),
    el("span", { class: "dot", "aria-hidden": "true" }),
    el("div", {}, el("p", { class: "what" }), el("p", { class: "because" }), el("details", {}, el("summary", {}), el("dl", {}), el("div", { class: "commands" }))),
  );
}

function fill(item, entry) {
  const version = `${entry.last} ${entry.text} ${entry.because} ${Object.keys(entry.seen_by).length}`;
  if (item.dataset.version === version) return;
  item.dataset.version = version;
  spell(item.querySelector(".what"), entry.text);
  const because = item.querySelector(".because");
  write(because, entry.because);
  because.hidden = !entry.because;
  const details = item.querySelector("details");
  const facts = factsOf(entry);
  details.hidden = facts.length === 0;
  write(details.querySelector("summary"), summaryOf(entry));
  sync(
    details.querySelector("dl"),
    facts,
    ([name]) => name,
    ([name]) => el("div", {}, el("dt", {}, name), el("dd", {})),
    (row, [, text]) => write(row.lastElementChild, text),
  );
  sync(details.querySelector(".commands"), entry.command ? [entry.command] : [], (text) => text, (text) => command(text));
}

function summaryOf(entry) {
  const witnesses = Object.keys(entry.seen_by).length;
  const groups = Object.entries(entry.groups).map(([group, count]) => (entry.kind === "joined" || entry.kind === "left" ? "" : `${count} in ${group}`)).filter(Boolean);
  const seen = witnesses === 0 ? "" : witnesses === 1 ? `seen by ${Object.keys(entry.seen_by)[0]}` : `seen by ${witnesses} places`;
  return [...groups, seen].filter(Boolean).join(", ");
}

/** Who knew when, and who is concerned. */
function factsOf(entry) {
  const witnesses = Object.entries(entry.seen_by).sort(([, one], [, other]) => one - other);
  const facts = [];
  if (entry.members.length && entry.kind !== "joined" && entry.kind !== "left") facts.push(["members", entry.members.join(", ")]);
  if (witnesses.length > 1) facts.push(...witnesses.map(([path, at], i) => [path, i === 0 ? "first" : `+${Math.round((at - entry.at) * 1000)} ms`]));
  else if (witnesses.length === 1 && (facts.length || entry.command)) facts.push([witnesses[0][0], "the only witness so far"]);
  return facts;
}
