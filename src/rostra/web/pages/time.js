// How old things are. Times come from the server's clock; the difference to ours is learnt from what it sends.

let ahead = 0; // seconds that the server's clock is ahead of ours

export function serverSaid(now) {
  ahead = now - Date.now() / 1000;
}

export const now = () => Date.now() / 1000 + ahead;

/** "3 s", "2 m 10 s", "4 h 5 m". */
export function duration(seconds) {
  const s = Math.max(0, seconds);
  if (s < 1) return "now";
  if (s < 60) return `${Math.floor(s)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} m ${Math.floor(s % 60)} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} m`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

export function ago(at) {
  const words = duration(now() - at);
  return words === "now" ? "now" : `${words} ago`;
}

/** A measured time, which wants its digits: "0.31 s". */
export function measured(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  return seconds < 10 ? `${seconds.toFixed(2)} s` : duration(seconds);
}

const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });

export const timeOfDay = (at) => clock.format(new Date(at * 1000));

/** Show how old something is, and keep it true: `ageing(element, at, "as of")`. */
export function ageing(element, at, before = "", after = "ago") {
  element.dataset.at = at ?? "";
  element.dataset.before = before;
  element.dataset.after = after;
  show(element);
  return element;
}

function show(element) {
  const { at, before, after } = element.dataset;
  if (at === "") return;
  const words = duration(now() - Number(at));
  const text = [before, words, words === "now" ? "" : after].filter(Boolean).join(" ");
  if (element.textContent !== text) element.textContent = text;
}

setInterval(() => document.querySelectorAll("[data-at]").forEach(show), 1000);
