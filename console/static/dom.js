// The one place that touches Preact: elements, templates, and how a page is shown.
// Text becomes text nodes, never markup.
import { Component, cloneElement, h as create, render } from './vendor/preact.js';
import htm from './vendor/htm.js';

// Names of attributes whose later values must not overwrite what a person has typed.
const initial = { input: { value: 'defaultValue', checked: 'defaultChecked' } };

// Mounted shows an element that `make` has made, inside a tree of Preact.
class Mounted extends Component {
  constructor() {
    super();
    this.keep = (place) => { if (place && this.props.node.parentNode !== place) place.replaceChildren(this.props.node); };
  }
  render() { return create('span', { class: 'mounted', ref: this.keep }); }
}

const keys = new WeakMap();
let number = 0;

function mounted(node) {
  if (!keys.has(node)) keys.set(node, `mounted-${++number}`);
  return create(Mounted, { key: keys.get(node), node });
}

// childrenOf leaves arrays and gaps as they are, so that a part that comes or goes does not move its neighbours.
const childrenOf = (children) => children.map((c) => (Array.isArray(c) ? childrenOf(c) : c instanceof Node ? mounted(c) : c));

// h returns an element of Preact. A data-key is its key among its siblings.
export function h(tag, attributes, ...children) {
  const given = {};
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false && !['spellcheck'].includes(name)) continue;
    given[initial[tag]?.[name] ?? name] = value;
  }
  if (given['data-key'] !== undefined) given.key = given['data-key'];
  return create(tag, given, ...childrenOf(children));
}

// html is h as a template: html`<p class="help">${text}</p>`.
export const html = htm.bind(h);

// extend returns an element with more attributes.
export const extend = (element, attributes) => cloneElement(element, attributes);

// make returns an element of the document, for what a page keeps a reference to: a field that it reads, a part that it shows by itself.
export function make(tag, attributes, ...children) {
  const place = document.createElement('div');
  render(h(tag, attributes, ...children), place);
  return place.firstChild;
}

// show changes the content of an element. Existing nodes stay where they can, with their focus.
export function show(place, ...content) {
  render(childrenOf(content), place);
}

const idle = globalThis.requestIdleCallback ?? setTimeout;

// painted calls act when what was shown is on the screen, and the browser has nothing more urgent to do: for what is below the screen.
export function painted(act) {
  if (document.hidden) act(); else requestAnimationFrame(() => idle(() => act(), { timeout: 300 }));
}

// textOf returns the text of an element.
export function textOf(element) {
  if (Array.isArray(element)) return element.map(textOf).join('');
  if (element === undefined || element === null || typeof element === 'boolean') return '';
  if (typeof element !== 'object') return String(element);
  return element.props.node ? element.props.node.textContent : textOf(element.props.children);
}

// say announces a change to screen readers.
export function say(text) {
  document.getElementById('said').textContent = text;
}
