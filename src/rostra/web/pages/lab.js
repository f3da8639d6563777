// Fault injection, where a lab is served: cut, crash, pause, and their undoing.

import { byId, el, set, sync, toast } from "./dom.js";
import { inside, labelOf, model, on, parentOf } from "./model.js";

const bar = byId("lab");

export function start() {
  on(["lab"], draw);
}

/** Give an order. What it did arrives as news, like everything else. */
async function order(what, content = {}) {
  try {
    const answer = await fetch(`/api/lab/${what}`, {
      method: "POST",
      headers: { "content-type": "application/json", "x-rostra-lab": "yes" },
      body: JSON.stringify(content),
    });
    if (!answer.ok) {
      const { error } = await answer.json();
      toast(`${error.what}${error.fix ? `; ${error.fix}` : ""}`);
    }
  } catch {
    toast("The order did not arrive: the connection is lost.");
  }
}

function draw() {
  const lab = model.lab;
  bar.hidden = lab === null;
  if (lab === null) return;
  if (bar.childElementCount === 0) {
    bar.append(
      el("h3", {}, "Lab"),
      el("ul", { class: "broken", "aria-label": "Injected faults" }),
      el("p", { class: "hint" }, "No faults. Choose a server or a link to inject one."),
      el("button", { type: "button", class: "mend", onclick: () => order("heal") }, "Heal all cuts"),
    );
  }
  const broken = [
    ...lab.cuts.map((cut) => ({ key: `cut ${cut.number}`, text: `cut ${cut.text}`, undo: "Heal", act: () => order("heal", { number: cut.number }) })),
    ...lab.crashed.map((path) => ({ key: `crashed ${path}`, text: `${path} crashed`, undo: "Restart", act: () => order("restart", { server: path }) })),
    ...lab.paused.map((path) => ({ key: `paused ${path}`, text: `${path} paused`, undo: "Resume", act: () => order("resume", { server: path }) })),
  ];
  sync(
    bar.querySelector(".broken"),
    broken,
    (each) => each.key,
    (each) => el("li", {}, el("span", {}, each.text), el("button", { type: "button", "aria-label": `${each.undo}: ${each.text}`, onclick: each.act }, each.undo)),
  );
  bar.querySelector(".hint").hidden = broken.length > 0;
  bar.querySelector(".mend").hidden = lab.cuts.length === 0;
}

/** Buttons in a box, kept in place while their meaning stays. */
function buttons(box, wanted) {
  if (model.lab === null) {
    box.replaceChildren();
    return;
  }
  sync(
    box,
    wanted,
    (each) => each.label,
    (each) => el("button", { type: "button", class: each.mends ? "mend" : "break", "data-act": each.name }, each.label),
    (button, each) => {
      button.onclick = each.act;
      set(button, "title", each.says);
    },
  );
}

export function actionsForServer(box, { path, kind, state }) {
  const lab = model.lab;
  if (lab === null) return buttons(box, []);
  const wanted = [];
  const cut = lab.cuts.find((each) => each.here === path && each.there === null);
  if (path !== "world") {
    wanted.push(
      cut
        ? { name: "heal", label: "Heal the cut", mends: true, says: `Connect ${path} again`, act: () => order("heal", { number: cut.number }) }
        : { name: "cut", label: kind === "host" ? "Cut its cable" : "Cut it off", says: `Cut ${path} from everything outside it`, act: () => order("cut", { here: path }) },
    );
  }
  if (state !== "none" && (path in model.places || kind === "host")) {
    if (lab.crashed.includes(path)) {
      wanted.push({ name: "restart", label: "Restart", mends: true, says: `Start ${path} again, with a new incarnation`, act: () => order("restart", { server: path }) });
    } else {
      wanted.push({ name: "crash", label: kind === "host" ? "Crash the host" : "Crash the server", says: `Kill the process of ${path}${kind === "host" ? " and its programs" : ""}`, act: () => order("crash", { server: path }) });
      wanted.push(
        lab.paused.includes(path)
          ? { name: "resume", label: "Resume", mends: true, says: `Continue ${path}`, act: () => order("resume", { server: path }) }
          : { name: "pause", label: "Pause", says: `Stop the process of ${path}, as if its machine hung`, act: () => order("pause", { server: path }) },
      );
    }
  }
  return buttons(box, wanted);
}

/** Buttons for a link, and a sentence that says how the cuts differ. */
export function actionsForLink(box, link) {
  const lab = model.lab;
  if (lab === null) return buttons(box, []) ?? "";
  const { a, b } = link;
  const cuts = lab.cuts.filter((each) => each.there !== null && [each.here, each.there].sort().join() === [a, b].sort().join());
  if (cuts.length) {
    buttons(box, cuts.map((cut) => ({ name: "heal", label: `Heal ${cut.text}`, mends: true, says: "Connect the two again", act: () => order("heal", { number: cut.number }) })));
    return "";
  }
  const only = (here, there, name) => ({
    name,
    label: `Only ${labelOf(here)} → ${labelOf(there)}`,
    says: `Packets from the server ${here} to the server ${there} are lost; the other direction works`,
    act: () => order("cut", { here, there, link_only: true, one_way: true }),
  });
  const wanted = [
    { name: "cut-link", label: "Cut this link", says: `Nothing passes between the two servers ${a} and ${b}`, act: () => order("cut", { here: a, there: b, link_only: true }) },
    only(a, b, "cut-ab"),
    only(b, a, "cut-ba"),
  ];
  if (parentOf(a) !== parentOf(b) || inside(a, b) || inside(b, a)) {
    buttons(box, wanted);
    return "Cuts the connection of these two servers: in both directions, or in one.";
  }
  wanted.unshift({ name: "cut-between", label: "Cut everything between", says: `Nothing passes between any node inside ${a} and any node inside ${b}`, act: () => order("cut", { here: a, there: b }) });
  buttons(box, wanted);
  return `“Everything”: no node inside ${a} reaches a node inside ${b}. The others cut this one link only: in both directions, or in one.`;
}
