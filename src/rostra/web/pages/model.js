// What the page knows: a mirror of the server's snapshot, kept current by the stream; and what the reader chose
// to look at, which is kept in the address so that a page can be reloaded or sent to a colleague.

const ENTRIES_MAX = 1000;

export const model = {
  world: { name: "", profile: "", servers: [], links: [] },
  places: {},
  groups: [],
  views: new Map(), // by place, then by group
  sightings: { hosts: [], sees: {} },
  streams: {}, // by place: what its members say and hear
  entries: new Map(), // by number, the oldest first
  agreed: [], // groups whose views servers agree on
  led: [], // sets that an agent leads
  lab: null,
  at: null, // when the server last said something
};

const listeners = new Map();
const changed = new Set();

/** Call `draw` soon after any of these kinds of news, once for all that came in between. */
export function on(kinds, draw) {
  for (const kind of kinds) {
    if (!listeners.has(kind)) listeners.set(kind, new Set());
    listeners.get(kind).add(draw);
  }
}

export function touch(kind) {
  if (changed.size === 0) requestAnimationFrame(redraw);
  changed.add(kind);
}

function redraw() {
  const draws = new Set([...changed].flatMap((kind) => [...(listeners.get(kind) ?? [])]));
  changed.clear();
  for (const draw of draws) draw();
}

export function apply(kind, content) {
  switch (kind) {
    case "snapshot":
      Object.assign(model, {
        world: content.world,
        places: content.places,
        groups: content.groups,
        sightings: content.sightings,
        streams: Object.fromEntries(content.streams.map((each) => [each.place, each])),
        agreed: content.agreed,
        led: content.led,
        lab: content.lab,
        views: new Map(),
        entries: new Map(content.timeline.map((entry) => [entry.number, entry])),
      });
      content.views.forEach(addView);
      for (const each of listeners.keys()) touch(each);
      return;
    case "world":
    case "groups":
    case "sightings":
    case "agreed":
    case "led":
    case "lab":
      model[kind] = content;
      break;
    case "place":
      model.places[content.path] = content;
      break;
    case "streams":
      model.streams[content.place] = content;
      break;
    case "view":
      addView(content);
      break;
    case "unview":
      model.views.get(content.place)?.delete(content.group);
      touch("view");
      return;
    case "entry":
      model.entries.set(content.number, content);
      if (model.entries.size > ENTRIES_MAX) model.entries.delete(model.entries.keys().next().value);
      break;
  }
  touch(kind);
}

function addView(view) {
  if (!model.views.has(view.place)) model.views.set(view.place, new Map());
  model.views.get(view.place).set(view.group, view);
}

export const viewFrom = (place, group) => model.views.get(place)?.get(group);

export const server = (path) => model.world.servers.find((each) => each.path === path);

export const linkBetween = (a, b) =>
  model.world.links.find((link) => (link.a === a && link.b === b) || (link.a === b && link.b === a));

/** Is this path that domain, or inside it? */
export const inside = (domain, path) =>
  domain === "world" || path === domain || path.startsWith(`${domain}.`) || path.startsWith(`${domain}/`);

export const parentOf = (path) => (path.includes(".") ? path.slice(0, path.lastIndexOf(".")) : "world");

export const labelOf = (path) => path.slice(path.lastIndexOf(".") + 1);

/** Agents that groups can be seen from. */
export const hosts = () => Object.values(model.places).filter((place) => place.is_agent).map((place) => place.path);

// What the reader looks at

const address = new URLSearchParams(location.search);

export const choice = {
  server: address.get("server") ?? "",
  link: address.get("link") ?? "", // "a|b"
  group: address.get("group") ?? "",
  here: address.get("here") ?? "",
  there: address.get("there") ?? "",
  streams: address.get("streams") ?? "", // which group's streams
  matrix: address.get("matrix") ?? "links",
  topics: new Set((address.get("hide") ?? "").split(",").filter(Boolean)), // those that are hidden
  filter: address.get("filter") ?? "",
};

export function choose(what) {
  Object.assign(choice, what);
  const query = new URLSearchParams();
  for (const name of ["server", "link", "group", "here", "there", "streams", "filter"]) {
    if (choice[name]) query.set(name, choice[name]);
  }
  if (choice.matrix !== "links") query.set("matrix", choice.matrix);
  if (choice.topics.size) query.set("hide", [...choice.topics].join(","));
  history.replaceState(null, "", `${location.pathname}${query.size ? `?${query}` : ""}${location.hash}`);
  touch("choice");
}
