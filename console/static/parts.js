// Elements that several pages use.
import { extend, h, textOf } from './dom.js';
import { healthOf, healthOfStep } from './health.js';

// signs are the sign of each state. The color that it has only repeats the sign and the word.
const signs = {
  Created: '◇', Starting: '◐', Running: '●', Stopping: '◐', Stopped: '■', Scaling: '◐', Alert: '▲', Recovering: '◐', Expunging: '◐', Expunge: '✖', Destroyed: '○',
  Queued: '◇', Waiting: '◔', Paused: '‖', Cancelling: '◐', Cancelled: '⊘', Succeeded: '✔', Retrying: '↻', Failed: '✖', Done: '✔', Skipped: '↷', Pending: '◇', Undone: '↶',
  locatingTargetApp: '◇', verifyingSpec: '◐', initializing: '◐', rollingInBatches: '◐', finalising: '◐', rollingBack: '↶', rolloutFailing: '✖', rolloutAbandoning: '◐', rolloutDeleting: '◐', rolloutSucceed: '✔', rolloutFailed: '✖',
  Reconciled: '✔', Progressing: '◐', Creating: '◐', Deleting: '◐', New: '◇', Refused: '✖', Unavailable: '✖', Serves: '✔', Wrong: '✖', Draining: '↷', Drained: '○',
  completed: '✔', aborted: '✖', queued: '◇', starting: '◐', running: '◐', true: '✔', false: '✖', unknown: '?',
  present: '●', intent: '◇', accepted: '◐', closing: '◐', gone: '○', never_created: '○', leaked: '▲', forgotten: '▲', orphan: '▲', unseen: '?',
};

const moods = { Healthy: 'good', Progressing: 'busy', Degraded: 'bad', Inactive: 'calm' };
const moodOf = (health) => moods[health] ?? 'calm';

// signOf returns the sign and the color of a state, and of a run by its health; signOfStep those of a step.
export const signOf = (state, health = healthOf(state)) => [signs[state] ?? '·', moodOf(health)];
export const signOfStep = (phase) => [phase === 'Running' ? '▶' : signs[phase] ?? '·', moodOf(healthOfStep(phase) ?? healthOf(phase))];

const marked = ([sign, mood], text) => h('span', { class: `badge ${mood}` }, h('span', { 'aria-hidden': 'true' }, `${sign} `), text || '–');

export const badge = (state, text) => marked(signOf(state), text || state);
export const stepBadge = (phase) => marked(signOfStep(phase), phase);
export const runBadge = (run) => marked(signOf(run.phase, run.health), run.phase);

const units = [[86400, 'd'], [3600, 'h'], [60, 'min'], [1, 's']];

// span returns a duration in its largest unit.
export function span(seconds) {
  const [size, unit] = units.find(([u]) => seconds >= u) ?? [1, 's'];
  return `${Math.floor(seconds / size)} ${unit}`;
}

// took returns a duration of milliseconds, exact below a minute.
export function took(ms) {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 60000) return `${(ms / 1000).toFixed(1)} s`;
  const [minutes, seconds] = [Math.floor(ms / 60000), Math.floor((ms % 60000) / 1000)];
  return minutes < 60 ? `${minutes} min ${seconds} s` : span(ms / 1000);
}

function words(at) {
  const seconds = (Date.now() - new Date(at).getTime()) / 1000;
  return seconds >= 0 ? span(seconds) : `in ${span(-seconds)}`;
}

// age shows the time since an instant, or until it. A timer keeps it up to date.
export function age(at) {
  if (!at) return '–';
  return h('time', { datetime: at, title: new Date(at).toLocaleString(), class: 'age' }, words(at));
}

setInterval(() => {
  for (const e of document.querySelectorAll('time.age')) {
    const text = words(e.dateTime);
    if (e.textContent !== text) e.firstChild.data = text; // the text node is Preact's
  }
}, 1000);

// at shows a future instant and the time until it.
export const at = (when) => [new Date(when).toLocaleTimeString(), ' (', age(when), ')'];

export const ago = (at) => (at ? h('span', {}, age(at), ' ago') : undefined);

// table returns a table with a caption for screen readers. A column whose name begins with
// # holds numbers. On a narrow screen each row is a card with labeled cells; the roles keep
// it a table for screen readers.
export function table(caption, columns, rows, empty = 'none') {
  if (!rows.length) return h('p', { class: 'empty', 'data-key': caption }, `${caption}: ${empty}.`);
  const labeled = (cell, i) => extend(cell, { 'data-label': columns[i].replace('#', ''), role: cell.type === 'th' ? 'rowheader' : 'cell',
    class: [cell.props.class, ['', '–'].includes(textOf(cell)) ? 'void' : ''].filter(Boolean).join(' ') || undefined });
  return h('div', { class: 'scroll', role: 'group', 'aria-label': caption, tabindex: '0', 'data-key': caption },
    h('table', { role: 'table' }, h('caption', { class: 'heard' }, caption),
      h('thead', { role: 'rowgroup' }, h('tr', { role: 'row' }, columns.map((c) => h('th', { scope: 'col', role: 'columnheader', class: c.startsWith('#') ? 'number' : undefined }, c.replace('#', ''))))),
      h('tbody', { role: 'rowgroup' }, rows.map((r) => extend(r, { children: [r.props.children].flat(Infinity).map(labeled) })))));
}

export const row = (key, ...cells) => h('tr', { 'data-key': key, role: 'row' }, cells.map((c) => (['td', 'th'].includes(c?.type) ? c : h('td', {}, c ?? '–'))));

// reveal shows the row of a step in a table, and moves the focus there.
export function reveal(place, step) {
  const found = [...place.querySelectorAll('tr')].find((r) => r.dataset.key === `step-${step}`);
  if (!found) return;
  found.tabIndex = -1;
  found.scrollIntoView({ block: 'center' });
  found.focus({ preventScroll: true });
}

// facts shows pairs of name and value; it omits pairs without value.
export function facts(pairs) {
  return h('dl', { class: 'facts' }, pairs.filter(([, v]) => v !== undefined && v !== null && v !== '').map(([name, value]) => h('div', {}, h('dt', {}, name), h('dd', {}, value))));
}

// prose shows a text; parts between backticks become code.
export const prose = (text) => text.split('`').map((part, i) => (i % 2 ? h('code', {}, part) : part));

// fault shows a fault with its remedy.
export function fault(f, title) {
  if (!f || !(f.code || f.reason || f.message)) return null;
  return h('div', { class: 'fault', role: 'group', 'aria-label': 'Fault' },
    h('p', {}, h('strong', {}, '▲ ', title ?? f.title ?? 'Held up'), f.code ? [' ', h('code', {}, f.code)] : null, f.step ? ` at step ${f.step}` : null),
    h('p', {}, f.reason ?? f.message),
    f.remedy ? h('p', { class: 'remedy' }, h('strong', {}, 'Remedy: '), prose(f.remedy)) : null);
}

// waits returns what a run waits for: the step, the condition, the newest failure and the
// number of attempts.
export const waits = (w) => [`at ${w.step}: ${w.for}`, w.code ? ['; ', h('code', {}, w.code), `: ${w.error}`] : null, w.tries > 1 ? `, attempt ${w.tries}` : null];

// unseenText returns why a provider cannot be read.
export const unseenText = (u, provider) => [h('code', {}, u.code), ` provider ${provider ?? ''} cannot be read: ${u.text}`];

// waiting shows what a run waits for, since when, until when, and when it checks again.
export function waiting(w) {
  if (!w) return null;
  return h('div', { class: 'waiting', role: 'group', 'aria-label': 'Waiting', 'data-key': 'waiting' },
    h('p', {}, h('strong', {}, '◔ Waits '), waits(w)),
    facts([['Since', [age(w.since), ' ago']], ['Gives up', w.until && at(w.until)], ['Checks again', w.next && at(w.next)]]));
}

// unseen shows that the data of a cluster may be old.
export function unseen(u, provider) {
  if (!u) return null;
  return h('div', { class: 'fault', role: 'group', 'aria-label': 'Provider', 'data-key': 'unseen' },
    h('p', {}, h('strong', {}, '▲ The data may be old '), unseenText(u, provider)), h('p', {}, 'Since ', ago(u.since), '.'));
}

export function problem(error) {
  return h('div', { class: 'fault', role: 'alert' },
    h('p', {}, h('strong', {}, '▲ ', error.title || 'That did not work'), error.code ? [' ', h('code', {}, error.code)] : null),
    h('p', {}, error.message),
    (error.errors ?? []).map((e) => h('p', {}, [e.location, e.message].filter(Boolean).join(': '))),
    error.remedy ? h('p', { class: 'remedy' }, h('strong', {}, 'Remedy: '), prose(error.remedy)) : null);
}

export const count = (n) => n.toLocaleString('en');

// Pager pages through a list with cursors.
export class Pager {
  constructor(size, turn) {
    Object.assign(this, { size, turn, cursors: [''], at: 0 });
  }
  get cursor() { return this.cursors[this.at]; }
  first() { this.cursors = ['']; this.at = 0; }
  took(page) { this.cursors = [...this.cursors.slice(0, this.at + 1), ...(page.next ? [page.next] : [])]; }
  go(step) { this.at += step; this.turn(); }
  view(shown, total) {
    const from = this.at * this.size;
    const text = shown ? `${count(from + 1)}–${count(from + shown)}${total ? ` of ${count(total)}` : ''}` : 'nothing';
    return h('div', { class: 'pager', role: 'group', 'aria-label': 'Pages of the list' },
      h('button', { type: 'button', 'aria-disabled': this.at === 0 ? 'true' : undefined, onclick: () => this.at > 0 && this.go(-1) }, '← Previous'),
      h('span', { class: 'range' }, text),
      h('button', { type: 'button', 'aria-disabled': this.at + 1 < this.cursors.length ? undefined : 'true', onclick: () => this.at + 1 < this.cursors.length && this.go(1) }, 'Next →'));
  }
}

// button returns a button. If it is disabled, it keeps its place in the tab order and shows why.
export function button(text, why, act, kind = '') {
  const id = `why-${text.replaceAll(/\W+/g, '-')}`;
  return h('span', { class: 'act', 'data-key': `act-${text}` },
    h('button', { type: 'button', class: kind, 'aria-disabled': why ? 'true' : undefined, 'aria-describedby': why ? id : undefined, onclick: () => (why ? null : act()) }, text),
    why ? h('span', { id, class: 'why', role: 'tooltip' }, why) : null);
}

export const link = (to, ...text) => h('a', { href: `#/${to}` }, ...text);
export const json = (value) => h('pre', { tabindex: '0' }, JSON.stringify(value, null, 2));
export const path = (...parts) => parts.map(encodeURIComponent).join('/');

export function subjectLink(text) {
  const [kind, namespace, name] = text.split('/');
  return kind === 'cluster' ? link(path('clusters', name), text) : link(path('objects', kind, namespace, name), text);
}
