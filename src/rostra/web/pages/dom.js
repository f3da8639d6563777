// The few things we need of the document. Whatever a stranger may have named (programs, groups, reasons) is put
// into the page as text and as attribute values only, never as markup.

const SVG = "http://www.w3.org/2000/svg";

/** `el("p", { class: "age" }, "3 s")`: an element with attributes, listeners (`onclick`) and children. */
export function el(tag, attributes = {}, ...children) {
  return furnish(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return furnish(document.createElementNS(SVG, tag), attributes, children);
}

function furnish(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else set(element, name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Set an attribute if it is another one now; null and false remove it. */
export function set(element, name, value) {
  if (value === null || value === undefined || value === false) {
    if (element.hasAttribute(name)) element.removeAttribute(name);
    return;
  }
  const text = value === true ? "" : String(value);
  if (element.getAttribute(name) !== text) element.setAttribute(name, text);
}

export function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Make the children of `parent` be these items, in this order: known ones are kept, with focus and all. */
export function sync(parent, items, key, make, update) {
  const kept = new Map([...parent.children].map((child) => [child.dataset.key, child]));
  let place = parent.firstElementChild;
  for (const item of items) {
    const name = String(key(item));
    let child = kept.get(name);
    if (child === undefined) {
      child = make(item);
      child.dataset.key = name;
    }
    kept.delete(name);
    update?.(child, item);
    if (child === place) place = place.nextElementSibling;
    else parent.insertBefore(child, place);
  }
  for (const child of kept.values()) child.remove();
}

export const byId = (id) => document.getElementById(id);

const DIGITS_SHOWN = 4;

/** A text with its incarnations in small print. */
export function spell(element, text) {
  if (element.dataset.text === text) return;
  element.dataset.text = text;
  const parts = text.split(/(#\d+)/);
  element.replaceChildren(...parts.map((part, i) => (i % 2 ? incarnation(part) : part)));
}

/** A `#1794917701931` in small print: of a long one the last digits, all of it in the tooltip. */
export function incarnation(whole) {
  const number = whole.slice(1);
  if (number.length <= DIGITS_SHOWN + 2) return el("span", { class: "number" }, whole);
  return el("span", { class: "number", title: whole }, `#…${number.slice(-DIGITS_SHOWN)}`);
}

/** A command that a click copies. Its text is what a person would type. */
export function command(text) {
  const button = el(
    "button",
    { type: "button", class: "command", title: `Copy: ${text}`, "aria-label": `Copy: ${text}` },
    el("code", {}, text),
    svg("svg", { viewBox: "0 0 16 16", "aria-hidden": "true" }, svg("path", { d: "M5.5 5.5v-3h8v8h-3M2.5 5.5h8v8h-8z" })),
  );
  button.addEventListener("click", async () => {
    toast((await copied(text)) ? `Copied: ${text}` : "This browser does not let us copy. Select the text instead.");
  });
  return button;
}

async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

let toasting = 0;

/** A remark at the edge of the page, for a moment. */
export function toast(text) {
  const remark = byId("toast");
  write(remark, text);
  remark.hidden = false;
  clearTimeout(toasting);
  toasting = setTimeout(() => (remark.hidden = true), 4000);
}

/** A word as a shell takes it. */
export function shell(word) {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
