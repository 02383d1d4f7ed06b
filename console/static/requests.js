// Requests to a run: each is a dialog with its fields and the plan, which says of each step what it will become.
import { html, make, say, show } from './dom.js';
import { get, newKey, request } from './api.js';
import { dialog } from './dialog.js';
import { button, problem, row, stepBadge, table } from './parts.js';

const ended = ['Succeeded', 'Cancelled'];

// countedOf returns the states of all steps of a run that has more than its answer tells.
export const countedOf = (run) => (run.earlierSteps ? get(`/v1/runs/${encodeURIComponent(run.id)}/step-states`).then(({ items }) => items) : undefined);

// topsOf returns the steps of the flow's first level with their state in the run.
function topsOf(run, flow, counted) {
  const steps = counted?.map((s) => ({ name: s.name ?? s.path, phase: s.phase })) ?? run.steps ?? [];
  const top = (name) => name.split(/[/[]/)[0];
  const names = flow?.steps?.map((s) => s.name) ?? [...new Set(steps.map((s) => top(s.name)))];
  return names.map((name) => {
    const own = steps.filter((s) => top(s.name) === name);
    return { name, phase: (own.find((s) => s.name === name) ?? own.at(-1))?.phase ?? '', undo: flow?.steps?.find((s) => s.name === name)?.undo };
  });
}

const over = (phase) => ['Done', 'Skipped'].includes(phase);

// then returns what a request makes of each step.
const then = {
  pause: (t) => (over(t.phase) ? 'stays as it is' : t.phase === 'Running' ? 'its attempt finishes' : 'begins after a resume only'),
  resume: (t, i, tops, { from, flow, at }) => {
    const first = from === 'first' || (!from && flow?.recoverFromFirstStep) ? 0 : tops.findIndex((x) => x.name === (from && from !== 'failed' ? from : at));
    if (first < 0) return over(t.phase) ? 'stays as it is' : 'runs';
    if (i < first) return over(t.phase) ? 'stays as it is' : 'is not executed';
    return t.phase ? 'runs again' : 'runs';
  },
  cancel: (t, i, tops, { mode }) => {
    if (!t.phase || t.phase === 'Pending') return mode === 'hold' ? 'begins after a resume only' : 'does not run';
    if (over(t.phase)) return mode === 'undo' && t.phase === 'Done' && t.undo !== false ? (t.undo ? 'is undone, the newest first' : 'stays: it has no undo') : 'stays as it is';
    return 'stops at its next safe point';
  },
  skip: (t, i, tops, { step }) => (t.name === step || step?.startsWith(`${t.name}/`) || step?.startsWith(`${t.name}[`) ? 'is skipped' : over(t.phase) ? 'stays as it is' : 'runs'),
  signal: (t, i, tops, { waiter }) => (t.name === waiter ? 'goes on with the signal' : over(t.phase) ? 'stays as it is' : 'as before'),
};

const planTable = (verb, run, flow, counted, chosen) => {
  const tops = topsOf(run, flow, counted);
  const at = run.step?.split(/[/[]/)[0];
  return table('Plan', ['Step', 'Now', 'Then'], tops.map((t, i) => row(t.name, html`<th scope="row">${t.name}</th>`, t.phase ? stepBadge(t.phase) : 'not begun', then[verb](t, i, tops, { ...chosen, flow, at }))), 'the flow is not loaded and no step has begun');
};

const jsonOf = (field) => {
  const text = field.value.trim();
  if (!text) return undefined;
  try { return JSON.parse(text); } catch { return text; }
};

// fieldsOf returns the fields of a verb: rows of label and element, what the plan needs, and the body of the request.
function fieldsOf(verb, run, given, counted = []) {
  const field = (id, more) => make('input', { id, ...more });
  if (verb === 'resume') {
    const names = [...new Set([...counted.filter((s) => !s.name).map((s) => s.path), ...(run.steps ?? []).map((s) => s.name)])];
    const from = make('select', { id: 'from' }, html`<option value="">as the flow says</option><option value="failed">the failed step</option><option value="first">the first step</option>`, names.map((n) => html`<option value=${n}>${n}</option>`));
    const definition = run.fault?.code === 'FLOW_CHANGED' ? make('select', { id: 'definition' }, html`<option value="new">the new one</option><option value="old">the old one</option>`) : null;
    return { rows: [['from', 'Resume from', from], definition && ['definition', 'Definition of the flow', definition]], chosen: () => ({ from: from.value }), body: () => ({ from: from.value || undefined, definition: definition?.value }) };
  }
  if (verb === 'cancel') {
    if (run.subject.startsWith('cluster/')) return { rows: [], chosen: () => ({ mode: 'undo' }), body: () => ({}) };
    const mode = make('select', { id: 'mode' }, ['hold', 'undo', 'drop'].map((m) => html`<option>${m}</option>`));
    return { rows: [['mode', 'Mode: hold keeps the done steps and pauses, undo undoes them, drop keeps them and ends', mode]], chosen: () => ({ mode: mode.value }), body: () => ({ mode: mode.value }) };
  }
  if (verb === 'skip') {
    const open = skippable(run);
    const step = make('select', { id: 'step' }, open.map((s) => html`<option>${s.name}</option>`));
    const output = field('output', { placeholder: 'JSON; empty: none' });
    const force = make('select', { id: 'force' }, html`<option value="">only if the flow allows it</option><option value="yes">also if the flow does not allow it</option>`);
    return { rows: [['step', 'Step', step], ['output', 'Output instead of its own', output], ['force', 'Skip', force]], chosen: () => ({ step: step.value }), body: () => ({ step: step.value, output: jsonOf(output), force: Boolean(force.value) || undefined }) };
  }
  if (verb === 'signal' && !given) {
    const name = field('signal-name', { required: true, value: waiters(run)[0]?.wait.signal });
    const data = field('data', { placeholder: 'JSON or text, at most 64 KiB' });
    return { rows: [['signal-name', 'Name of the signal', name], ['data', 'Data', data]], chosen: () => ({ waiter: waiters(run).find((s) => s.wait.signal === name.value)?.name.split(/[/[]/)[0] }), note: () => (waiters(run).some((s) => s.wait.signal === name.value) ? '' : 'No step waits for this signal now. The run keeps it for a later step.'),
      why: () => (name.value.trim() ? '' : 'Name the signal first.'), body: () => ({ name: name.value.trim(), data: jsonOf(data) }) };
  }
  return { rows: [], chosen: () => ({ waiter: given?.step?.split(/[/[]/)[0] }), body: () => ({}) };
}

const waiters = (run) => (run.steps ?? []).filter((s) => s.phase === 'Waiting' && s.wait?.signal);
const skippable = (run) => (run.steps ?? []).filter((s) => ['Failed', 'Waiting', 'Retrying'].includes(s.phase));

// votesOf returns the choices of the approvals that a run waits for. The wait names its signal and its choices.
export function votesOf(run) {
  return (run.steps ?? []).filter((s) => s.phase === 'Waiting' && s.wait?.reason === 'AwaitingApproval').flatMap((s) => {
    const [, signal, choices] = s.wait.message?.match(/signal (\S+) with one of ([^;]+)/) ?? [null, 'approval', 'approve, reject'];
    return choices.split(', ').map((choice) => ({ step: s.name, signal, choice: choice.trim(), question: s.wait.message }));
  });
}

const texts = {
  pause: ['Pause', 'Running attempts finish. No further step begins until somebody resumes the run.'],
  resume: ['Resume', 'The run continues. Steps before the chosen one keep their outputs.'],
  cancel: ['Cancel', 'The run stops at its next safe point. A cluster then becomes Alert; one that was being created is deleted.'],
  skip: ['Skip', 'The step counts as done without having done its work.'],
  signal: ['Send', 'The signal is stored before the answer, and delivered once.'],
};

const titleOf = (choice) => choice[0].toUpperCase() + choice.slice(1);

// ask shows the dialog of a verb. vote is a choice of an approval.
export async function ask(verb, run, done, vote) {
  const [title, text] = vote ? [titleOf(vote.choice), vote.question] : texts[verb];
  const [flow, counted] = await Promise.all([get(`/v1/flows/${encodeURIComponent(run.flow)}`).catch(() => null), countedOf(run)]); // flows of clusters are not in files
  const reason = make('input', { id: 'reason', maxlength: '1000' });
  const fields = fieldsOf(verb, run, vote, counted);
  const plan = make('div', { 'aria-live': 'polite' });
  const draw = () => show(plan, fields.note?.() ? html`<p class="help">${fields.note()}</p>` : null, planTable(verb, run, flow, counted, fields.chosen()));
  const key = newKey();
  draw();
  dialog({
    title: verb === 'signal' && !vote ? `Send a signal to run ${run.id.slice(-6)}` : `${title} run ${run.id.slice(-6)}`, verb: title, kind: verb === 'cancel' || vote?.choice === 'reject' ? 'danger' : 'main',
    content: html`<p>${text}</p><div class="form" onchange=${draw} oninput=${draw}>${fields.rows.filter(Boolean).map(([id, label, element]) => html`<label for=${id}>${label}</label>${element}`)}
      ${verb === 'signal' && !vote ? null : html`<label for="reason">${vote ? 'Reason, for those who read the outcome' : 'Why, for history'}</label>${reason}`}</div><h3>What it will do</h3>${plan}`,
    ready: () => fields.why?.() ?? '',
    act: async () => {
      const body = vote ? { name: vote.signal, data: { choice: vote.choice, comment: reason.value } } : { ...fields.body(), reason: verb === 'signal' ? undefined : reason.value || undefined };
      await request('POST', `/v1/runs/${encodeURIComponent(run.id)}/${verb}`, { key, body, etag: verb === 'resume' ? `"${run.revision}"` : undefined });
      say(`${title} of run ${run.id.slice(-6)} was accepted.`);
      done();
    },
  });
}

// moreActions shows the verbs that only the page of a run has.
export function moreActions(run, done, failed) {
  const why = ended.includes(run.phase) ? `The run has ended: it is ${run.phase}.` : '';
  const go = (verb, vote) => ask(verb, run, done, vote).catch((error) => failed(problem(error)));
  const votes = votesOf(run);
  return html`<div class="actions" role="group" aria-label="Steps and signals" data-key="more-actions">
    ${votes.map((v) => html`<span data-key=${`${v.step} ${v.choice}`}>${button(votes.length > 2 ? `${titleOf(v.choice)} ${v.step}` : titleOf(v.choice), why, () => go('signal', v), v.choice === 'reject' ? 'danger' : 'main')}</span>`)}
    ${button('Skip step', why || (skippable(run).length ? '' : 'No step has failed or waits.'), () => go('skip'))}
    ${button('Send signal', why, () => go('signal'))}
  </div>`;
}
