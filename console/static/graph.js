// A directed graph as SVG: boxes, lines and labels that have places.
import { h } from './dom.js';

export const line = 16; // height of a line of text
const letter = 7.6; // width of a letter, about

export const short = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
export const wide = (text) => text.length * letter;
// widest returns the width of the lines of a box; those after the first are smaller.
export const widest = (lines) => Math.max(...lines.map((l, i) => wide(l) * (i ? 0.86 : 1)));

// straight returns the line between two boxes, from rim to rim.
export function straight(a, b) {
  const [dx, dy] = [b.x - a.x, b.y - a.y];
  const rim = ({ x, y, width, height }, way) => {
    const part = Math.min((width / 2 + 2) / Math.abs(dx || 1e-9), (height / 2 + 2) / Math.abs(dy || 1e-9), 0.5) * way;
    return [x + dx * part, y + dy * part];
  };
  return [rim(a, 1), rim(b, -1)];
}

// curve returns the path through points, with round corners.
function curve(points) {
  const text = ([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`;
  const towards = (from, to) => {
    const length = Math.hypot(to[0] - from[0], to[1] - from[1]) || 1;
    const part = Math.min(12, length / 2) / length;
    return [from[0] + (to[0] - from[0]) * part, from[1] + (to[1] - from[1]) * part];
  };
  const corners = points.slice(1, -1).map((p, i) => `L${text(towards(p, points[i]))}Q${text(p)} ${text(towards(p, points[i + 2]))}`);
  return `M${text(points[0])}${corners.join('')}L${text(points.at(-1))}`;
}

// tip returns the arrow at the end of a line.
function tip(points) {
  const [[ax, ay], [x, y]] = [points.at(-2), points.at(-1)];
  const length = Math.hypot(x - ax, y - ay) || 1;
  const [dx, dy] = [((x - ax) / length) * 8, ((y - ay) / length) * 8];
  return `M${x} ${y}L${x - dx - dy / 2} ${y - dy + dx / 2}L${x - dx + dy / 2} ${y - dy - dx / 2}z`;
}

const edge = (e, i) => h('g', { class: `connection ${e.lit ? 'lit' : ''} ${e.dashed ? 'dashed' : ''}`, 'data-key': e.key ?? `e${i}` },
  h('path', { class: 'line', d: curve(e.points) }), h('path', { class: 'tip', d: tip(e.points) }), e.title ? h('title', {}, e.title) : null);

// label shows the words of a line, one below the other.
const label = (e, i) => h('text', { class: `label ${e.lit ? 'lit' : ''}`, 'data-key': e.key ?? `l${i}` },
  e.words.map((w, n) => h('tspan', { x: e.x, y: e.y + 4 + (n - (e.words.length - 1) / 2) * line }, w)));

function outline({ shape, x, y, width, height }) {
  const [left, right, top, bottom] = [x - width / 2, x + width / 2, y - height / 2, y + height / 2];
  if (shape === 'hexagon') return h('path', { class: 'box', d: `M${left + 10} ${top}L${right - 10} ${top}L${right} ${y}L${right - 10} ${bottom}L${left + 10} ${bottom}L${left} ${y}z` });
  return [h('rect', { class: 'box', x: left, y: top, width, height, rx: shape === 'pill' ? height / 2 : 7 }),
    shape === 'double' ? h('path', { class: 'box', d: `M${left + 7} ${top}V${bottom}M${right - 7} ${top}V${bottom}` }) : null];
}

// node draws a box with its lines of text: the first is its name. One with act is a button; its name for a screen reader begins with
// the lines, as people who speak to their browser expect, and goes on with more.
function node(n) {
  const { x, y, width, height, lines } = n;
  const first = y + 5 - ((lines.length - 1) * line) / 2;
  const act = n.act && ((e) => { if (e.type === 'click' || ['Enter', ' '].includes(e.key)) { e.preventDefault(); n.act(); } });
  const box = h('g', { class: `node ${n.class ?? ''} ${n.mood ?? ''} ${n.here ? 'here' : ''}`, 'data-key': `n-${n.id}`, 'data-name': n.id, 'aria-current': n.here ? 'true' : undefined,
    ...(act ? { role: 'button', tabindex: '0', 'aria-label': [lines.join(' '), n.more].filter(Boolean).join(', '), 'aria-pressed': n.pressed === undefined ? undefined : String(n.pressed), onclick: act, onkeydown: act } : {}) },
  n.here ? h('rect', { class: 'outline', x: x - width / 2 - 5, y: y - height / 2 - 5, width: width + 10, height: height + 10, rx: 12 }) : null,
  outline(n), h('text', {}, lines.map((text, i) => [i ? ' ' : null, h('tspan', { x, y: first + i * line, class: i ? 'note' : undefined }, text)])));
  return n.title ? h('g', { 'data-key': `t-${n.id}` }, h('title', {}, n.title), box) : box;
}

const frame = (f) => h('g', { class: `frame ${f.mood ?? ''}`, 'data-key': `f-${f.id}`, 'data-name': f.id }, f.title ? h('title', {}, f.title) : null,
  h('rect', { class: 'box', x: f.x, y: f.y, width: f.width, height: f.height, rx: 9 }), f.lines.map((text, i) => h('text', { class: i ? 'note' : 'name', x: f.x + 12, y: f.y + 18 + i * line }, text)));

// draw shows a graph whose parts have places. text tells what it shows; room is the width that it may take: a wider one is made
// smaller, and scrolls when its words would be too small. It is one picture for a screen reader unless some of its nodes are buttons.
export function draw({ width, height, nodes, edges, frames = [] }, { text, room, kind = '', key = 'graph', caption }) {
  const scale = Math.min(1, Math.max(0.6, room / width));
  return h('figure', { class: `graph ${kind}`, 'data-key': key },
    h('div', { class: 'scroll', tabindex: width * scale > room ? '0' : undefined, role: 'group', 'aria-label': text.split(/[.:]/)[0] },
      h('svg', { viewBox: `0 0 ${Math.ceil(width)} ${Math.ceil(height)}`, width: Math.ceil(width * scale), height: Math.ceil(height * scale), role: nodes.some((n) => n.act) ? 'group' : 'img', 'aria-label': text },
        frames.map(frame), edges.filter((e) => !e.lit).map(edge), nodes.map(node), edges.filter((e) => e.lit).map(edge), edges.filter((e) => e.words?.length).map(label))),
    caption ? h('figcaption', {}, caption) : null);
}

// roomOf returns the width for a drawing on a page.
export function roomOf(place) {
  const { paddingLeft, paddingRight } = getComputedStyle(place);
  return Math.max(280, (place.clientWidth || innerWidth) - parseFloat(paddingLeft) - parseFloat(paddingRight));
}
