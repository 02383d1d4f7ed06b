// All elements are created here. Text becomes text nodes, never markup.

const SVG = 'http://www.w3.org/2000/svg';
const handlers = ['onclick', 'onsubmit', 'oninput', 'onchange', 'ontoggle'];

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (handlers.includes(name)) element[name] = value;
    else element.setAttribute(name, value === true ? '' : String(value));
  }
  element.append(...children.flat(Infinity).filter((c) => c !== undefined && c !== null && c !== false && c !== '').map((c) => (c instanceof Node ? c : String(c))));
  return element;
}

export const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
export const svg = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

// patch changes an element so that it equals a fresh one. It keeps existing nodes where it
// can, so that the focus stays. Elements with a data-key are matched by it.
export function patch(old, fresh) {
  if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName || keyOf(old) !== keyOf(fresh)) {
    old.replaceWith(fresh);
    return fresh;
  }
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return old;
  }
  for (const name of handlers) if (old[name] !== fresh[name]) old[name] = fresh[name];
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name) && !(name === 'open' && old.nodeName === 'DETAILS')) old.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) {
    if (old.getAttribute(name) !== value && !(name === 'open' && old.nodeName === 'DETAILS')) old.setAttribute(name, value);
  }
  patchChildren(old, [...fresh.childNodes]);
  return old;
}

const keyOf = (node) => node.dataset?.key;

function patchChildren(parent, wanted) {
  const keyed = new Map();
  for (const child of parent.childNodes) if (keyOf(child)) keyed.set(keyOf(child), child);
  let at = parent.firstChild;
  for (const fresh of wanted) {
    const key = keyOf(fresh);
    let old = key ? keyed.get(key) : at;
    if (old && !key && keyOf(old)) old = null;
    if (!old) {
      parent.insertBefore(fresh, at);
      continue;
    }
    if (old === at) at = at.nextSibling;
    else parent.insertBefore(old, at);
    patch(old, fresh);
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

// show patches the content of an element.
export function show(place, ...content) {
  const fresh = place.cloneNode(false);
  fill(fresh, {}, content);
  for (const name of handlers) fresh[name] = place[name];
  patch(place, fresh);
}

// say announces a change to screen readers.
export function say(text) {
  document.getElementById('said').textContent = text;
}
