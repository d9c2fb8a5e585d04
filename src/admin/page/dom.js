// Makes elements from data. Text is inserted as text, never as markup, whatever the name of a route or a caller.

export const byId = (id) => document.getElementById(id);

// el("td", {class: "n"}, "text", node): `on…` are listeners, everything else is an attribute.
export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  set(node, attributes);
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

const svgNamespace = "http://www.w3.org/2000/svg";
export function svg(tag, attributes = {}, ...children) {
  const node = document.createElementNS(svgNamespace, tag);
  set(node, attributes);
  node.append(...children);
  return node;
}

function set(node, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
}

// Writes only what changed, so that screen readers and selections are not disturbed.
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function announce(text) {
  say(byId("announce"), text);
}

const none = "–";
export function number(value, digits = 1) {
  if (value === null || value === undefined) return none;
  if (value === 0) return "0";
  if (Math.abs(value) >= 100_000) return new Intl.NumberFormat("en", {notation: "compact", maximumFractionDigits: 1}).format(value);
  if (Math.abs(value) >= 100) return Math.round(value).toLocaleString("en");
  return value.toLocaleString("en", {maximumFractionDigits: Math.abs(value) < 1 ? 2 : digits});
}
export const percent = (value) => (value === null || value === undefined ? none : `${number(value * 100)} %`);
export function milliseconds(value) {
  if (value === null || value === undefined) return none;
  if (value === 0) return "0";
  if (value >= 1000) return `${number(value / 1000)} s`;
  return value < 1 ? `${number(value * 1000, 0)} µs` : `${number(value)} ms`;
}
export function bytes(value) {
  if (value === null || value === undefined) return none;
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  for (; value >= 1024 && unit < units.length - 1; ++unit) value /= 1024;
  return `${number(value)} ${units[unit]}`;
}
export function span(seconds) {
  const size = Math.abs(seconds);
  if (size < 60) return `${Math.round(size)} s`;
  if (size < 3600) return `${Math.floor(size / 60)} min`;
  if (size < 86_400) return `${Math.floor(size / 3600)} h ${Math.floor((size % 3600) / 60)} min`;
  return `${Math.floor(size / 86_400)} d ${Math.floor((size % 86_400) / 3600)} h`;
}
// "3 min ago", "in 23 h 10 min"; the exact time is its title.
export function when(text) {
  if (!text) return none;
  const seconds = (Date.parse(text) - Date.now()) / 1000;
  return el("time", {datetime: text, title: text}, seconds < 0 ? `${span(seconds)} ago` : `in ${span(seconds)}`);
}
