// The drawing of a state machine: its state lit, with the ways out.
import { draw, line, straight, wide } from './graph.js';
import { layered } from './layout.js';

const any = 'any state';
const signs = { chosen: '✔', refused: '✖', ignored: '↷', delayed: '◔', impossible: '✖', failed: '▲', 'not reached': '·' };
const causes = { then: 'done', else: 'paused', abort: 'cancelled' };

const nameOf = (t) => t.event ?? causes[t.cause];
const minor = (t) => ['else', 'abort'].includes(t.cause); // what happens when the work does not get done: drawn for the state that is lit only

// shapeOf joins transitions between the same two states to one line, and gives all parts places. Those depend on the machine only, so that
// nothing moves when a state changes.
const shapes = new WeakMap();
function shapeOf(machine, room) {
  if (shapes.has(machine)) return placed(shapes.get(machine), room);
  const { states, transitions } = machine;
  const lines = new Map();
  for (const t of transitions) {
    const from = t.from ?? any;
    if (from === t.to) continue; // it stays
    const key = `${from}>${t.to}${minor(t) ? '!' : ''}`;
    if (!lines.has(key)) lines.set(key, { key, from, to: t.to, minor: minor(t), ways: [] });
    lines.get(key).ways.push(t);
  }
  for (const l of lines.values()) {
    l.words = l.ways.filter((t) => t.event).map(nameOf);
    if (l.words.length) Object.assign(l, { width: Math.max(...l.words.map((w) => wide(`✔ ${w}`))) * 0.9 + 8, height: l.words.length * line });
  }
  const nodes = states.map((s) => ({ ...s, id: s.name, width: wide(`▶ ${s.name}`) + 24, height: 42 }));
  if (transitions.some((t) => !t.from)) nodes.unshift({ id: any, name: any, type: 'any', width: wide(any) + 24, height: 30 });
  const [edges, others] = [false, true].map((which) => [...lines.values()].filter((l) => l.minor === which));
  const shape = { nodes, edges, others, across: layered(nodes, edges, 'LR'), down: layered(nodes, edges, 'TB') };
  shapes.set(machine, shape);
  return placed(shape, room);
}

// placed chooses the direction in which the machine is drawn larger; of two that fit, the lower one.
function placed({ nodes, edges, others, across, down }, room) {
  const scale = (places) => Math.min(1, room / places.width);
  const better = scale(across) - scale(down) || down.height - across.height;
  return { nodes, edges, others, places: better >= 0 ? across : down };
}

// waysOf returns the transitions that are tried in a state, with what the plan tells of each.
function waysOf({ transitions }, here, considered) {
  if (!here) return [];
  const leaving = transitions.filter((t) => t.to !== here && (t.from === here || !t.from));
  return leaving.map((t) => ({ ...t, ...(t.event ? considered.find((c) => c.event === t.event && c.to === t.to) : undefined) }));
}

const say = (t) => [`${nameOf(t)}${t.verdict ? ` (${t.verdict})` : ''}`, t.when && `when ${t.when}`, t.why].filter(Boolean).join(', ');

// machineGraph draws a machine ({states: [{name, type}], transitions: [{from, to, event, cause}]}). here is the state that is lit. considered and
// to are of a plan: the conditions that hold now, and where it goes. choose makes states buttons. subject begins the text.
export function machineGraph(machine, { here, considered = [], to, subject = 'It', room, choose, counts = new Map(), caption = [] }) {
  const { nodes, edges, others, places } = shapeOf(machine, room);
  const ways = waysOf(machine, here, considered);
  const out = ways.length ? `From here it goes ${ways.filter((t) => !minor(t)).map((t) => `to ${t.to} on ${nameOf(t)}${t.verdict ? ` (${t.verdict})` : ''}`).join(', ')}.` : 'No event leaves this state.';
  const text = here ? `${subject} is ${here}. ${out}` : `${subject} has ${machine.states.length} states.`;
  const drawn = [...edges, ...others.filter((e) => e.from === here)].map((e, i) => {
    const mine = ways.filter((t) => t.to === e.to && (t.from ?? any) === e.from && minor(t) === e.minor);
    return {
      ...(places.edges[i] ?? { points: straight(places.nodes.get(e.from), places.nodes.get(e.to)) }), key: e.key, dashed: e.minor, lit: mine.length > 0, title: e.ways.map((t) => `${e.from} → ${e.to} on ${say(mine.find((m) => m.event === t.event) ?? t)}`).join('\n'),
      words: mine.length && e.words.length ? mine.filter((t) => t.event).map((t) => (t.verdict ? `${signs[t.verdict] ?? '·'} ${nameOf(t)}` : nameOf(t))) : e.words,
    };
  });
  const boxes = nodes.map((n) => {
    const objects = counts.get(n.id);
    const lit = n.id === here;
    return {
      ...places.nodes.get(n.id), id: n.id, here: lit, class: n.type === 'any' ? 'any' : `state ${n.type}${n.id === to ? ' next' : ''}`, lines: [lit ? `▶ ${n.name}` : n.name, objects && `${objects.toLocaleString('en')} object${objects === 1 ? '' : 's'}`].filter(Boolean),
      title: [n.description, n.flows && `flow ${n.flows.join(', ')}`].filter(Boolean).join('\n') || undefined,
      ...(choose && n.type !== 'any' ? { act: () => choose(n.id), more: n.type, pressed: lit } : {}),
    };
  });
  const dashes = [machine.states.some((s) => s.type === 'transient') && 'Dashed box: it works in the state.', drawn.some((e) => e.dashed) && 'Dashed line: its work has paused or was cancelled.'].filter(Boolean);
  return draw({ ...places, nodes: boxes, edges: drawn }, { text, room, kind: 'machine', key: 'machine', caption: [here && text, ...dashes, ...caption].filter(Boolean).join(' ') });
}

// ofLifecycle returns the lifecycle of clusters in the form of a machine.
export const ofLifecycle = ({ states, edges }) => ({
  states: states.map((s) => ({ name: s.name, type: s.transient ? 'transient' : 'stable' })), transitions: edges.map(({ from, to, event, by }) => ({ from, to, event, why: by, cause: 'event' })),
});

// ofPlan returns the part of a machine that a plan tells: the state and where it may go.
export function ofPlan({ state, to, considered = [] }) {
  const transitions = considered.map((c) => ({ from: state, to: c.to, event: c.event, when: c.when, why: c.why, cause: 'event' }));
  if (to && !transitions.some((t) => t.to === to)) transitions.push({ from: state, to, cause: 'then' });
  return { states: [...new Set([state, ...transitions.map((t) => t.to)])].map((name) => ({ name, type: 'stable' })), transitions };
}
