// The dashboard: a stream feeds the model, and each part of the page draws what it needs of it.

import { byId, set, write } from "./dom.js";
import * as agreed from "./agreed.js";
import * as led from "./led.js";
import * as detail from "./detail.js";
import * as groups from "./groups.js";
import * as lab from "./lab.js";
import { apply, choice, model, on } from "./model.js";
import * as sightings from "./sightings.js";
import { Stream } from "./stream.js";
import * as streams from "./streams.js";
import { duration, now, serverSaid } from "./time.js";
import * as timeline from "./timeline.js";
import * as tree from "./tree.js";

const connection = { state: "loading", retryAt: 0 };
let pinned = choice.group;

const stream = new Stream(
  (kind, content) => {
    if (kind === "snapshot" || kind === "beat") serverSaid(content.now);
    model.at = now();
    apply(kind, content);
  },
  (state, detail) => {
    Object.assign(connection, detail, { state });
    showConnection();
  },
);

/** A group that is not followed yet is followed while this page shows it. */
function follow(group) {
  if (group === pinned || model.groups.some((each) => each.group === group && each.followed)) return;
  pinned = group;
  stream.open(group);
}

function showConnection() {
  const { state } = connection;
  set(document.body, "data-stream", state);
  write(byId("status-text"), state === "live" ? "Live" : state === "lost" ? "Reconnecting" : "Connecting");
  const lost = byId("lost");
  lost.hidden = state !== "lost";
  if (state !== "lost") return;
  const wait = Math.max(0, Math.ceil((connection.retryAt - Date.now()) / 1000));
  const known = model.at === null ? "Nothing is known yet." : `You see what was known ${duration(now() - model.at)} ago.`.replace("now ago", "just now");
  write(byId("lost-text"), `${known} ${wait > 0 ? `Trying again in ${wait} s.` : "Trying again…"}`);
}

on(["world"], () => {
  const { name, profile } = model.world;
  write(byId("world-name"), name ? `${name}, ${profile}` : "");
  document.title = name ? `${name} – Rostra` : "Rostra";
});

byId("lost-retry").addEventListener("click", () => stream.retry());
setInterval(showConnection, 500);

/* What a link leads to is not to be under the top of the page, however many rows that has. */
const bar = document.querySelector(".top");
const below = () => document.documentElement.style.setProperty("--top-height", `${Math.ceil(bar.getBoundingClientRect().height)}px`);
new ResizeObserver(below).observe(bar);
below();

for (const part of [tree, detail, lab, sightings, streams, timeline, agreed, led]) part.start();
groups.start(follow);
stream.open(pinned);
