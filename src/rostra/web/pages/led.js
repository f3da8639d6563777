// Led sets: who leads, which registrar knows it, and the control tree, as each agent says where it stands.

import { byId, el, set, sync, write } from "./dom.js";
import { model, on } from "./model.js";
import { ageing } from "./time.js";

const AGENTS_MAX = 200;
const panel = byId("led");
const section = byId("sets");

const STANDINGS = { leader: "leads", owner: "owns it", child: "follows", contend: "asks who leads", attach: "is on its way to a parent" };

export function start() {
  on(["led", "place"], draw);
}

function draw() {
  section.hidden = model.led.length === 0;
  byId("sets-link").hidden = section.hidden;
  sync(panel, model.led, (each) => each.group, frame, fill);
  const latest = Math.max(...Object.values(model.places).map((place) => place.at ?? 0));
  if (model.led.length > 0 && latest > 0) ageing(byId("sets-age"), latest, "as of");
}

function frame() {
  return el(
    "article",
    { class: "led-set" },
    el("h3", {}, el("span", { class: "group-title" }), el("span", { class: "kind" })),
    el("p", { class: "verdict-line", role: "status" }),
    el("ul", { class: "led-tree", "aria-label": "Control tree: each agent below its parent" }),
    el("p", { class: "more hint" }),
  );
}

function fill(article, shown) {
  const find = (selector) => article.querySelector(selector);
  const leaders = shown.agents.filter((agent) => shown.leaders.includes(agent.host));
  const members = leaders.reduce((sum, agent) => sum + agent.total, 0);
  write(find(".group-title"), shown.group);
  write(find(".kind"), `${members} ${members === 1 ? "member" : "members"} listed, ${shown.agents.length} ${shown.agents.length === 1 ? "agent" : "agents"}`);
  const line = find(".verdict-line");
  write(line, `${leading(shown)} ${registered(shown)}`);
  set(line, "data-late", String(shown.leaders.length !== 1));
  const agents = shown.agents.slice(0, AGENTS_MAX);
  sync(find(".led-tree"), agents, (agent) => agent.host, () => el("li", {}, el("span", { class: "agent" }), el("span", { class: "standing" })), fillAgent);
  const hidden = shown.agents.length - agents.length;
  write(find(".more"), hidden > 0 ? `${hidden} more are not shown here.` : "");
}

function leading({ leaders }) {
  if (leaders.length === 0) return "No agent that answers leads it.";
  if (leaders.length === 1) return `${leaders[0]} leads it.`;
  return `${leaders.join(" and ")} lead it: in a partition, each its own side.`;
}

function registered({ registrars, agents }) {
  if (registrars.length > 0) return registrars.map(([registrar, leader]) => `The registrar ${registrar} knows ${leader}.`).join(" ");
  const believed = [...new Set(agents.map((agent) => agent.registrar).filter(Boolean))];
  if (believed.length === 0) return "It needs no registrar.";
  return `The registrar ${believed.join(", ")} does not answer.`;
}

function fillAgent(item, agent) {
  item.style.setProperty("--depth", agent.depth);
  set(item, "data-leads", agent.standing === "leader" || agent.standing === "owner" || null);
  set(item, "data-adrift", agent.is_adrift || null);
  write(item.querySelector(".agent"), agent.host);
  const own = `${agent.local} of its own`;
  const below = agent.total > agent.local ? `, ${agent.total} with those below it` : "";
  const parent = agent.is_adrift ? ` ${agent.parent}, which does not answer` : "";
  write(item.querySelector(".standing"), `${STANDINGS[agent.standing] ?? agent.standing}${parent}; ${own}${below}`);
}
