// A run with its steps: attempts, next try, fault with remedy, and the actions.
import { h } from './dom.js';
import { age, ago, button, count, facts, fault, link, path, row, runBadge, stepBadge, table, took, waiting } from './parts.js';

// stepsTable shows the steps of a run. output adds what each has given, logs a button that shows what it has printed. Of more
// than most steps it shows the newest, and a button that calls all.
export function stepsTable(run, { output, logs, most, all, total } = {}) {
  const columns = ['Step', 'Phase', '#Attempts', 'Began', 'Ended', '#Took', 'Next try', 'Message', output && 'Output', logs && 'Logs'].filter(Boolean);
  const steps = run.steps ?? [];
  const hidden = most && steps.length > most ? steps.length - most : 0;
  const shown = table(`Steps of run ${run.id.slice(-6)}`, columns, steps.slice(hidden).map((s) => row(`step-${s.name}`,
    h('th', { scope: 'row' }, s.name), stepBadge(s.phase), h('td', { class: 'number' }, s.attempts, s.failures ? ` (${s.failures} of ${s.budget} failures)` : ''),
    age(s.startedAt), age(s.endedAt), h('td', { class: 'number' }, s.endedAt && s.startedAt ? took(Date.parse(s.endedAt) - Date.parse(s.startedAt)) : '–'), age(s.nextAt), h('td', { class: 'reason' }, saying(s)),
    ...(output ? [outputOf(s)] : []), ...(logs ? [h('button', { type: 'button', class: 'plain', 'aria-label': `Logs of ${s.name}`, onclick: () => logs(s.name) }, 'Logs')] : []))), 'none yet');
  return hidden ? [h('button', { type: 'button', 'data-key': 'all-steps', onclick: all }, total ? `Show the newest ${count(steps.length)} of ${count(total)} steps` : `Show all ${count(steps.length)} steps`), shown] : shown;
}

// outputOf shows what a step has given: a short one at once, a long one when somebody asks.
function outputOf(s) {
  if (s.output === undefined || s.output === null) return '–';
  const text = typeof s.output === 'string' ? s.output : JSON.stringify(s.output, null, 2);
  return text.length <= 40 && !text.includes('\n') ? h('code', {}, text) : h('details', {}, h('summary', {}, `${text.length} characters`), h('pre', { tabindex: '0' }, text));
}

// limitOf returns the limit for which a run, or its current step, waits: {keys, limit, since}; nothing if it waits for none. It says what
// pawl describe says.
export function limitOf(run) {
  const limits = run.limits ?? [];
  if (run.phase === 'Queued' && !run.queue && limits.length) {
    const limit = limits.find((l) => l.waiting && (l.before || (l.running ?? 0) >= l.atOnce));
    return { keys: limit ? [limit.key] : limits.map((l) => l.key), limit, since: run.createdAt };
  }
  if (!['Waiting', 'Running'].includes(run.phase)) return undefined;
  const step = (run.steps ?? []).find((s) => s.name === run.step);
  const limit = limits.find((l) => l.of === 'starts' || l.of === 'steps' && l.step === run.step);
  if (!limit || step && step.wait?.reason !== 'Limit') return undefined;
  return { keys: [limit.key], limit, since: step?.wait.since ?? run.createdAt };
}

function numbersOf(l) {
  const [number, window] = l.rate?.split('/') ?? [];
  return [l.atOnce || !l.rate ? `${l.running ?? 0} of ${l.atOnce} running` : '', l.rate ? `${l.started ?? 0} of ${number} started within ${window}` : '', l.before ? `${l.before} before it` : ''].filter(Boolean).join(', ');
}

// limited says in one line for which limit a run waits, and which runs hold the limit.
function limited(run) {
  const found = limitOf(run);
  if (!found) return null;
  const { keys, limit, since } = found;
  return h('div', { class: 'waiting', role: 'group', 'aria-label': 'Limit', 'data-key': 'limit' },
    h('p', {}, h('strong', {}, '◔ Waits for limit '), keys.map((k, i) => [i ? ', ' : '', h('code', {}, k)]), limit ? [': ', numbersOf(limit)] : null, ', ', age(since),
      limit?.holders?.length ? ['; held by: ', limit.holders.map((id, i) => [i ? ', ' : '', link(path('runs', id), id.slice(-8))])] : null));
}

function saying(s) {
  if (s.fault && s.phase !== 'Done') return [h('code', {}, s.fault.code), ' ', s.fault.message];
  if (s.progress) return `${s.progress.done}${s.progress.total ? ` of ${s.progress.total}` : ''} ${s.progress.text ?? ''}`;
  if (s.wait) return [s.wait.reason, s.wait.message, s.wait.signal && `waits for the signal ${s.wait.signal}`].filter(Boolean).join(': ');
  return s.note ?? '';
}

export function runFacts(run) {
  return facts([['Run', link(path('runs', run.id), run.id)], ['Flow', run.version ? `${run.flow} v${run.version}` : run.flow], ['Phase', runBadge(run)], ['Step', run.step], ['Attempt', run.attempt],
    ['Next try', run.nextAt && age(run.nextAt)], ['Created', ago(run.createdAt)], ['Ended', ago(run.endedAt)], ['Waits behind', run.behind && link(path('runs', run.behind), run.behind)],
    ['Requested by', run.actor], ['Reason', run.reason], ['Stop', run.stop && `${run.stop.verb} ${run.stop.mode ?? ''} by ${run.stop.actor ?? 'somebody'}`]]);
}

export const runFault = (run) => [fault(run.fault), limitOf(run) ? limited(run) : waiting(run.waiting)];

// runActions shows the verbs of a run. Disabled ones show why.
export function runActions(run, act) {
  const over = ['Succeeded', 'Cancelled'].includes(run.phase) ? `The run has ended: it is ${run.phase}.` : '';
  const stopping = run.stop && run.phase !== 'Paused' ? `A ${run.stop.verb} is in progress.` : '';
  return h('div', { class: 'actions', role: 'group', 'aria-label': 'Actions of the run', 'data-key': `actions-${run.id}` },
    button('Pause run', over || stopping || (run.phase === 'Paused' ? 'The run is paused already.' : ''), () => act('pause')),
    button('Resume run', over || (run.phase !== 'Paused' ? `The run is ${run.phase}, not paused.` : ''), () => act('resume')),
    button('Cancel run', over || (run.phase === 'Cancelling' ? 'The run is being cancelled.' : ''), () => act('cancel'), 'danger'));
}
