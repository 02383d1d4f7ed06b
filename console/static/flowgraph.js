// The drawing of a flow, as pawl graph draws it: sequences from left to right in rows like lines of text, structures as frames, steps that
// run side by side one below the other. On a run each step has its state.
import { draw, line, short, widest } from './graph.js';
import { signOf, signOfStep } from './parts.js';

const box = [164, 40]; // the least size of a step
const gap = [34, 26]; // between steps, between rows
const pad = 14; // in a frame
const letters = 26; // of a line of text in a step
const many = 48; // steps of one sequence that are drawn: of more, those that matter
const around = 5; // steps that are drawn before and behind one that matters

// withoutKeys returns the path of a step in its flow: that of Replace[ro-2]/Create is Replace/Create.
export const withoutKeys = (name) => name.split('/').map((part) => part.split('[')[0]).join('/');

// order of the states of which the first is told when a step has several.
const worst = ['Failed', 'Paused', 'Retrying', 'Running', 'Waiting', 'Undone', 'Pending', 'Done', 'Skipped'];
const active = new Set(worst.slice(0, 5));

// statesOf returns the states of the steps of a run by their paths in the flow, with the number of each state and the instance that is told first.
// counted are those of all steps, where the run has the newest only.
export function statesOf(run, counted) {
  const found = new Map();
  const add = (path, name, phase, count) => {
    const at = found.get(path) ?? { counts: new Map(), phase, name };
    at.counts.set(phase, (at.counts.get(phase) ?? 0) + count);
    if (worst.indexOf(phase) < worst.indexOf(at.phase)) Object.assign(at, { phase, name });
    found.set(path, at);
  };
  const held = run.phase === 'Paused' && (run.steps ?? []).find((s) => s.name === run.step && s.phase !== 'Failed');
  for (const s of counted ?? run.steps ?? []) {
    const path = s.path ?? withoutKeys(s.name);
    const own = held && s.phase === held.phase && (counted ? path === withoutKeys(held.name) : s === held) ? 1 : 0;
    if (own) add(path, held.name, 'Paused', 1);
    if ((s.count ?? 1) > own) add(path, s.name ?? path, s.phase, (s.count ?? 1) - own);
  }
  return found;
}

// words of the state of a step: 2 of 5 Done.
function stateText({ counts, phase }) {
  const all = [...counts.values()].reduce((a, b) => a + b, 0);
  return all === 1 || counts.size === 1 && phase === 'Done' && all === counts.get('Done') ? `${phase}${all > 1 ? ` ${all} times` : ''}` : `${counts.get(phase)} of ${all} ${phase}`;
}

function notesOf(s) {
  const notes = [];
  if (s.kind === 'flow') notes.push(`flow ${s.uses}`);
  else if (s.kind === 'wait') notes.push(s.wait);
  else if (s.uses && s.uses !== s.name) notes.push(s.uses);
  if (s.when) notes.push(`when ${s.when}`);
  if (s.forEach !== undefined || s.kind === 'forEach') notes.push(`⟳ each of ${s.forEach || 'a list'}, ${s.atOnce ?? 1} at once`);
  else if (s.atOnce) notes.push(`side by side, ${s.atOnce} at once`);
  if (s.undo) notes.push('↶ undo');
  if (s.noReturn) notes.push('⊘ no return');
  if (s.bracket) notes.push(s.bracket === 'open' ? '⟦ opens' : 'closes ⟧');
  return notes;
}

// Drawer collects the parts of a drawing. states is of statesOf; nothing: the flow alone.
class Drawer {
  constructor({ states, run, children = [], healers = [], reveal, open, whole, expand }) {
    Object.assign(this, { states, run, children, healers, reveal, open, whole, expand, nodes: [], edges: [], frames: [], words: [] });
  }

  // sequence measures steps one after the other: {width, height, put(x, y), first, last}, where first and last are the parts that lines join.
  sequence(steps, scope, room) {
    const parts = this.choose(steps, scope).map((s) => (s.hidden ? this.rest(s) : this.step(s, scope, room)));
    return this.rows(parts, room);
  }

  rows(parts, room) {
    const rows = [];
    for (const part of parts) {
      const row = rows.at(-1);
      if (row && row.width + gap[0] + part.width <= room) {
        row.width += gap[0] + part.width;
        row.parts.push(part);
      } else {
        rows.push({ width: part.width, parts: [part] });
      }
    }
    for (const r of rows) {
      r.above = Math.max(...r.parts.map((p) => p.middle));
      r.height = r.above + Math.max(...r.parts.map((p) => p.height - p.middle));
    }
    const width = Math.max(0, ...rows.map((r) => r.width));
    const height = rows.reduce((sum, r) => sum + r.height, 0) + gap[1] * Math.max(0, rows.length - 1);
    const put = (x, y) => {
      let before, top = y;
      for (const r of rows) {
        let left = x;
        r.parts.forEach((part, i) => {
          const at = { left, right: left + part.width, y: top + r.above };
          part.put(left, at.y - part.middle);
          if (before) {
            const turn = top - gap[1] / 2;
            this.edges.push({ key: `${before.id}>${part.id}`, dashed: part.dashed, points: i > 0 ? [[before.right, before.y], [at.left, at.y]]
              : [[before.right, before.y], [before.right + 12, before.y], [before.right + 12, turn], [at.left - 12, turn], [at.left - 12, at.y], [at.left, at.y]] });
          }
          before = { ...at, id: part.id };
          left += part.width + gap[0];
        });
        top += r.height + gap[1];
      }
    };
    return { width, height, middle: rows[0]?.above ?? 0, put };
  }

  // choose returns the steps that are drawn: of a long sequence the first and the last ones, and those around what is under way.
  choose(steps, scope) {
    if (steps.length <= many || this.whole) return steps;
    const kept = new Set([0, 1, 2, steps.length - 2, steps.length - 1]);
    const matter = steps.map((s, i) => (this.matters(s, scope) ? i : -1)).filter((i) => i >= 0);
    for (const i of matter.slice(-4)) for (let n = i - around; n <= i + around; n++) if (steps[n]) kept.add(n);
    const chosen = [];
    steps.forEach((s, i) => {
      if (kept.has(i)) chosen.push(s);
      else if (chosen.at(-1)?.hidden) chosen.at(-1).hidden.push(s);
      else chosen.push({ hidden: [s], scope });
    });
    return chosen;
  }

  matters(s, scope) {
    if (!this.states) return false;
    const path = scope + s.name;
    return active.has(this.states.get(path)?.phase) || (s.steps ?? []).some((inner) => this.matters(inner, `${path}/`));
  }

  // rest is the button for steps that are not drawn.
  rest({ hidden, scope }) {
    const counts = new Map();
    for (const s of hidden) {
      const phase = this.states?.get(scope + s.name)?.phase;
      if (phase) counts.set(phase, (counts.get(phase) ?? 0) + 1);
    }
    const states = [...counts].map(([phase, n]) => `${n} ${phase}`).join(', ');
    const id = `… ${hidden[0].name}`;
    const lines = [`… ${hidden.length} steps`, states].filter(Boolean);
    return this.leaf({ id, lines, shape: 'pill', class: 'rest', more: 'show them', act: this.expand });
  }

  leaf(n) {
    const size = [Math.max(n.least ?? box[0], widest(n.lines) + 26), Math.max(box[1], n.lines.length * line + 14)];
    return { id: n.id, width: size[0], height: size[1], middle: size[1] / 2, put: (x, y) => this.nodes.push({ ...n, x: x + size[0] / 2, y: y + size[1] / 2, width: size[0], height: size[1] }) };
  }

  step(s, scope, room) {
    const path = scope + s.name;
    const notes = notesOf(s);
    if (s.steps?.length) return this.frame(s, path, notes, room);
    const state = this.states?.get(path);
    const [sign, mood] = state ? signOfStep(state.phase) : ['', ''];
    const child = this.children.find((c) => withoutKeys(c.parentStep ?? '') === path);
    const told = this.states ? (state ? stateText(state) : 'not begun') : '';
    this.words.push(told ? `${path}: ${told}` : path);
    const lines = [short(sign ? `${sign} ${s.name}` : s.name, letters), ...(told && state ? [told] : []), ...notes.slice(0, 2).map((n) => short(n, letters + 4))];
    const leaf = this.leaf({
      id: path, lines, mood, class: `step ${s.kind}${this.states && !state ? ' later' : ''}`, here: this.run && !this.run.endedAt && this.run.step !== undefined && withoutKeys(this.run.step) === path,
      shape: { wait: 'hexagon', flow: 'double' }[s.kind], title: [s.name, ...notes, s.description].filter(Boolean).join('\n'),
      more: [path === s.name && !lines[0].endsWith('…') ? '' : path, state ? '' : told, ...notes.filter((n) => !lines.includes(n))].filter(Boolean).join(', '), act: this.reveal && (() => this.reveal(state?.name ?? path)),
    });
    const below = this.healers.filter((h) => withoutKeys(h.step ?? '') === path).map((h) => this.healer(h));
    if (child) below.unshift(this.childOf(child));
    return below.length ? this.stack(leaf, below) : leaf;
  }

  childOf(child) {
    const [sign, mood] = signOf(child.phase, child.health);
    return this.leaf({ id: `run ${child.id}`, lines: [`${sign} run ${child.id.slice(-8)}`, child.phase], mood, class: 'child', shape: 'double', more: `of ${child.flow}`, act: () => this.open(child.id) });
  }

  healer({ code, open: busy, child, attempts }) {
    const phase = busy ? 'Running' : 'Done';
    const [sign, mood] = signOfStep(phase);
    return this.leaf({ id: `heal:${code}`, lines: [`${sign} healer`, short(code, letters), `${attempts} attempt${attempts === 1 ? '' : 's'}`], mood, class: 'healer', shape: 'double',
      more: phase === 'Running' ? 'works' : 'has ended', act: child && (() => this.open(child)) });
  }

  // stack puts what a step has started below it, with dashed lines.
  stack(top, below) {
    const width = Math.max(top.width, ...below.map((b) => b.width));
    const height = top.height + below.reduce((sum, b) => sum + 20 + b.height, 0);
    return { id: top.id, width, height, middle: top.middle, put: (x, y) => {
      top.put(x + (width - top.width) / 2, y);
      let at = y + top.height;
      for (const b of below) {
        this.edges.push({ key: `${top.id}>${b.id}`, dashed: true, points: [[x + width / 2, at], [x + width / 2, at + 20]] });
        b.put(x + (width - b.width) / 2, at + 20);
        at += 20 + b.height;
      }
    } };
  }

  // frame is a structure: its own steps inside, side by side if they run at once.
  frame(s, path, notes, room, scope = `${path}/`) {
    const state = this.states?.get(path);
    const lines = [`${state ? `${signOfStep(state.phase)[0]} ` : ''}${s.name}`, ...notes.map((n) => short(n, 60))];
    const inner = this.inside(s, scope, room - 2 * pad);
    const head = lines.length * line + 12;
    const width = Math.max(inner.width + 2 * pad, widest(lines) + 2 * pad);
    const height = head + inner.height + pad;
    return { id: path, width, height, middle: head + inner.middle, put: (x, y) => {
      this.frames.push({ id: path, x, y, width, height, lines, mood: state ? signOfStep(state.phase)[1] : '', title: s.description });
      inner.put(x + pad, y + head);
    } };
  }

  inside(s, scope, room) {
    if (!s.atOnce || s.forEach !== undefined || s.kind === 'forEach') return this.sequence(s.steps, scope, room);
    const ends = s.steps.filter((i) => i.bracket);
    const beside = this.column(s.steps.filter((i) => !i.bracket).map((i) => this.step(i, scope, room)));
    if (!ends.length) return beside;
    const end = (which) => ends.filter((e) => e.bracket === which).map((e) => this.step(e, scope, room));
    return this.rows([...end('open'), { ...beside, id: `${scope}beside` }, ...end('close')], room);
  }

  column(parts) {
    const height = parts.reduce((sum, p) => sum + p.height, 0) + 14 * (parts.length - 1);
    return { width: Math.max(...parts.map((p) => p.width)), height, middle: height / 2, put: (x, y) => {
      for (const p of parts) {
        p.put(x, y);
        y += p.height + 14;
      }
    } };
  }
}

// flowGraph draws a flow. run adds the states of its steps, which counted has of a long run; children are its child runs, healers {step, code, open, child, attempts}. reveal is
// called with the name of a step that is chosen, open with the id of a run, expand to draw a long sequence whole.
export function flowGraph(flow, { run, counted, children, healers, reveal, open, whole, expand, room }) {
  const drawer = new Drawer({ states: run && statesOf(run, counted), run, children, healers, reveal, open, whole, expand });
  const end = (text) => drawer.leaf({ id: text, lines: [text], shape: 'pill', class: 'end', least: 60 });
  const inner = room - 24;
  const parts = [end('start'), ...drawer.choose(flow.steps ?? [], '').map((s) => (s.hidden ? drawer.rest(s) : drawer.step(s, '', inner)))];
  if (flow.finally?.length) parts.push({ ...drawer.frame({ name: 'finally', steps: flow.finally }, 'finally', [], inner, ''), dashed: true });
  parts.push(end('done'));
  const all = drawer.rows(parts, inner);
  all.put(14, 12);
  const text = `Flow ${flow.name}${run ? `, run ${run.id.slice(-8)} ${run.phase}` : ''}: ${drawer.words.slice(0, 40).join('; ')}${drawer.words.length > 40 ? ` and ${drawer.words.length - 40} more` : ''}.`;
  return draw({ width: all.width + 28, height: all.height + 24, nodes: drawer.nodes, edges: drawer.edges, frames: drawer.frames }, { text, room, kind: 'flow', key: 'flow' });
}
