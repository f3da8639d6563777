// The stream of events: a snapshot, then every change once. If it breaks, we come back with the number of the
// last one we have and are given the rest, or a new snapshot.

const SILENCE_MS = 12_000; // the server says something every five seconds
const BACK_AFTER_MS = [500, 1000, 2000, 4000, 8000];

const KINDS = ["snapshot", "world", "place", "groups", "view", "unview", "sightings", "streams", "agreed", "led", "entry", "lab", "beat"];

export class Stream {
  #hear;
  #show;
  #source = null;
  #last = "";
  #group = "";
  #attempt = 0;
  #timers = {};

  /** `hear(kind, content)` gets what arrives; `show(state, detail)` how the connection is. */
  constructor(hear, show) {
    this.#hear = hear;
    this.#show = show;
    addEventListener("online", () => this.retry());
    addEventListener("pagehide", () => this.#close());
    addEventListener("pageshow", (event) => event.persisted && this.retry());
  }

  /** Connect; `group` is one that we want to see whatever else is followed. */
  open(group = this.#group) {
    this.#close();
    this.#group = group;
    const query = new URLSearchParams();
    if (this.#last) query.set("after", this.#last);
    if (group) query.set("group", group);
    const source = (this.#source = new EventSource(`/api/events?${query}`));
    for (const kind of KINDS) {
      source.addEventListener(kind, (event) => {
        if (event.lastEventId) this.#last = event.lastEventId;
        this.#attempt = 0;
        this.#expectMore();
        this.#hear(kind, JSON.parse(event.data));
        this.#show("live");
      });
    }
    source.onerror = () => this.#lost();
    this.#expectMore();
  }

  retry() {
    this.#attempt = 0;
    this.open();
  }

  #expectMore() {
    clearTimeout(this.#timers.silence);
    this.#timers.silence = setTimeout(() => this.#lost(), SILENCE_MS);
  }

  #lost() {
    this.#close();
    const wait = BACK_AFTER_MS[Math.min(this.#attempt, BACK_AFTER_MS.length - 1)];
    this.#attempt += 1;
    this.#show("lost", { retryAt: Date.now() + wait });
    this.#timers.retry = setTimeout(() => this.open(), wait);
  }

  #close() {
    clearTimeout(this.#timers.silence);
    clearTimeout(this.#timers.retry);
    this.#source?.close();
    this.#source = null;
  }
}
