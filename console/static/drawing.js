// A drawing of the state machine of a cluster, from the server's table.
import { h } from './dom.js';

// Positions of the states. Unknown states go into a row below.
const at = {
  Created: [90, 50], Starting: [330, 50], Running: [560, 50], Scaling: [820, 50], Stopped: [265, 190], Stopping: [445, 190],
  Recovering: [820, 190], Alert: [650, 270], Expunge: [110, 370], Expunging: [350, 370], Destroyed: [600, 370],
};
const bends = { 'Created>Expunging': [100, 300], 'Expunge>Destroyed': [350, 460], 'Starting>Expunging': [360, 210], 'Alert>Expunging': [560, 360] };
const half = [58, 19];

export function drawing({ states, edges }, present) {
  const positions = { ...at };
  states.filter(({ name }) => !positions[name]).forEach(({ name }, i) => { positions[name] = [90 + i * 130, 440]; });
  const connections = new Map(); // edges between the same two states share one line
  for (const e of edges) {
    const key = `${e.from}>${e.to}`;
    if (!connections.has(key)) connections.set(key, { from: e.from, to: e.to, events: [] });
    connections.get(key).events.push(e);
  }
  const leaving = edges.filter((e) => e.from === present);
  const text = `The cluster is ${present}. ` + (leaving.length ? `From here it goes ${leaving.map((e) => `to ${e.to} on ${e.event}`).join(', ')}.` : 'Nothing leaves this state.');
  return h('figure', { class: 'machine', tabindex: '0' }, // it scrolls on a narrow screen
    h('svg', { viewBox: '0 0 900 440', role: 'img', 'aria-label': text },
      h('defs', {}, marker('arrow'), marker('arrow-lit')),
      [...connections.values()].sort((a, b) => (a.from === present) - (b.from === present)).map((w) => connection(w, positions, connections, present)),
      states.map((s) => box(s, positions[s.name], present)),
      [...connections.values()].filter((w) => w.from === present).map((w) => label(w, positions, connections))),
    h('figcaption', {}, `${text} Dashed: a run works in the state.`));
}

const marker = (id) => h('marker', { id, class: id, viewBox: '0 0 10 10', refX: '9', refY: '5', markerWidth: '7', markerHeight: '7', orient: 'auto-start-reverse' }, h('path', { d: 'M0 0L10 5L0 10z' }));

function box({ name, transient }, [x, y], present) {
  const here = name === present;
  return h('g', { class: `state${transient ? ' transient' : ''}${here ? ' here' : ''}`, 'data-state': name, 'aria-current': here ? 'true' : undefined },
    here ? h('rect', { class: 'outline', x: x - half[0] - 6, y: y - half[1] - 6, width: 2 * half[0] + 12, height: 2 * half[1] + 12, rx: 14 }) : null,
    h('rect', { class: 'box', x: x - half[0], y: y - half[1], width: 2 * half[0], height: 2 * half[1], rx: 9 }),
    h('text', { x, y: y + 5 }, here ? `▶ ${name}` : name));
}

// rim returns the point on the border of a state's box in the direction of another point.
function rim([x, y], [tx, ty]) {
  const [dx, dy] = [tx - x, ty - y];
  const scale = Math.min((half[0] + 4) / Math.abs(dx || 1e-9), (half[1] + 4) / Math.abs(dy || 1e-9));
  return [x + dx * scale, y + dy * scale];
}

// route returns the start, the bend and the end of a line.
function route({ from, to }, positions, connections) {
  let [a, b] = [positions[from], positions[to]];
  const bend = bends[`${from}>${to}`];
  if (!bend && connections.has(`${to}>${from}`)) { // lines in both directions run side by side
    const length = Math.hypot(b[0] - a[0], b[1] - a[1]);
    const [ox, oy] = [(-(b[1] - a[1]) / length) * 8, ((b[0] - a[0]) / length) * 8];
    a = [a[0] + ox, a[1] + oy];
    b = [b[0] + ox, b[1] + oy];
  }
  return { start: rim(a, bend ?? b), bend, end: rim(b, bend ?? a) };
}

function connection(w, positions, connections, present) {
  const lit = w.from === present;
  const { start, bend, end } = route(w, positions, connections);
  return h('g', { class: lit ? 'connection lit' : 'connection' },
    h('path', { d: `M${start} ${bend ? `Q${bend} ` : 'L'}${end}`, 'marker-end': lit ? 'url(#arrow-lit)' : 'url(#arrow)' },
      h('title', {}, w.events.map((e) => `${w.from} → ${w.to} on ${e.event}: ${e.by}`).join('\n'))));
}

// label shows the events of a line, one below the other. On a horizontal line it stands
// above the line if it would cover the boxes at the ends.
function label(w, positions, connections) {
  const { start, bend, end } = route(w, positions, connections);
  const [x, middle] = [0, 1].map((i) => (bend ? (start[i] + 2 * bend[i] + end[i]) / 4 : (start[i] + end[i]) / 2));
  const width = Math.max(...w.events.map((e) => e.event.length)) * 7.5;
  const level = Math.abs(start[1] - end[1]) < 10 && Math.abs(start[0] - end[0]) < width;
  const y = level ? middle - half[1] - 10 - (w.events.length - 1) * 8 : middle;
  return h('text', { class: 'label' }, w.events.map((e, i) => h('tspan', { x, y: y + 4 + (i - (w.events.length - 1) / 2) * 16 }, e.event)));
}
