// One request to many runs: a bar with the verbs, and a dialog that shows the plan before the bulk is ordered.
import { html, make, say, show } from './dom.js';
import { newKey, request } from './api.js';
import { dialog } from './dialog.js';
import { badge, button, count, link, path, problem, row, table } from './parts.js';

const texts = {
  resume: ['Resume', 'Paused runs continue. Steps before the chosen one keep their outputs.'],
  pause: ['Pause', 'Running attempts finish. No further step begins until somebody resumes the runs.'],
  cancel: ['Cancel', 'The runs stop at their next safe point.'],
  skip: ['Skip step', 'The step counts as done without having done its work.'],
  signal: ['Send signal', 'The signal is stored before each answer, and delivered once.'],
};
const verbs = Object.keys(texts);
const final = ['Cancelled', 'Succeeded'];

// selectionOf returns what selects the runs of a list for a bulk, or why nothing does.
export function selectionOf(filter, query) {
  if (filter.subject) return { why: 'A bulk cannot be of one subject: mark the runs, or search for the subject.' };
  if (final.includes(filter.phase)) return { why: `The runs have ended: they are ${filter.phase}.` };
  if (!filter.flow && !filter.fault && !filter.phase && !filter.selector && !filter.text && !query.since) return { why: 'Mark runs, or narrow the list first.' };
  const { flow, fault, selector, text, since: createdAfter, until: createdBefore } = query;
  return { selection: { flow, fault, phases: filter.phase ? [filter.phase] : undefined, selector, text, createdAfter, createdBefore } };
}

// bulkBar shows the verbs for the marked runs; without marks, for all runs of the list.
export function bulkBar({ marked, total, all, me, clear, done }) {
  const why = marked.size ? '' : all.why ?? (total ? '' : total === undefined ? 'The runs are being counted …' : 'The list is empty.');
  const many = marked.size ? `${count(marked.size)} marked` : total === undefined ? 'All of this list' : `All ${count(total)} of this list`;
  return html`<div class="actions bulk" role="group" aria-label="Many runs" data-key="bulk"><span class="help" data-key="many">${many}:</span>
    ${verbs.map((verb) => button(texts[verb][0], why, () => askMany(verb, marked.size ? { ids: [...marked].sort() } : all.selection, me, done), verb === 'cancel' ? 'danger' : ''))}
    ${marked.size ? html`<button type="button" data-key="clear" onclick=${clear}>Clear marks</button>` : null}</div>`;
}

// fieldsOf returns the fields of a verb, as rows of label and element, and the arguments that they hold.
function fieldsOf(verb) {
  const field = (id, more) => make('input', { id, ...more });
  if (verb === 'resume') {
    const from = make('select', { id: 'from' }, html`<option value="">as the flow says</option><option value="failed">the failed step</option><option value="first">the first step</option>`);
    return { rows: [['from', 'Resume from', from]], spec: () => ({ from: from.value || undefined }) };
  }
  if (verb === 'cancel') {
    const mode = make('select', { id: 'mode' }, ['hold', 'undo', 'drop'].map((m) => html`<option>${m}</option>`));
    return { rows: [['mode', 'Mode: hold keeps the done steps and pauses, undo undoes them, drop keeps them and ends', mode]], spec: () => ({ mode: mode.value }) };
  }
  if (verb === 'skip') {
    const step = field('step', { placeholder: 'empty: the step that the fault names' });
    const force = make('select', { id: 'force' }, html`<option value="">only if the flow allows it</option><option value="yes">also if the flow does not allow it</option>`);
    return { rows: [['step', 'Step', step], ['force', 'Skip', force]], spec: () => ({ step: step.value.trim() || undefined, force: Boolean(force.value) || undefined }) };
  }
  if (verb === 'signal') {
    const name = field('signal-name', { required: true });
    const data = field('data', { placeholder: 'JSON or text, at most 64 KiB' });
    return { rows: [['signal-name', 'Name of the signal', name], ['data', 'Data', data]], why: () => (name.value.trim() ? '' : 'Name the signal first.'), spec: () => ({ signal: name.value.trim(), data: jsonOf(data.value.trim()) }) };
  }
  return { rows: [], spec: () => ({}) };
}

function jsonOf(text) {
  if (!text) return undefined;
  try { return JSON.parse(text); } catch { return text; }
}

const planOf = (plan) => [
  table('Plan', ['#Runs', 'Flow', 'Phase', 'Fault'], plan.groups.map((g) => row(`${g.flow} ${g.phase} ${g.fault ?? ''}`, html`<td class="number">${count(g.runs)}</td>`, html`<th scope="row">${g.flow}</th>`, badge(g.phase), html`<td>${g.fault ? html`<code>${g.fault}</code>` : '–'}</td>`)), 'no runs match'),
  plan.first.length ? html`<details><summary>The oldest ${plan.first.length === plan.runs ? '' : `${plan.first.length} `}of them</summary>${table('Oldest runs', ['Run', 'Subject', 'Step'], plan.first.map((r) => row(r.id, html`<th scope="row">${link(path('runs', r.id), r.id.slice(-8))}</th>`, r.subject, r.step)))}</details>` : null,
];

// askMany shows the dialog of a verb for the runs of a selection.
function askMany(verb, selection, me, done) {
  const [title, text] = texts[verb];
  const reason = make('input', { id: 'reason', maxlength: '1000' });
  const fields = fieldsOf(verb);
  const place = make('div', { 'aria-live': 'polite' });
  const name = `b${newKey().slice(0, 12)}`; // one dialog orders one bulk, however often its button is pressed
  let plan = null, wrong = '', turn = 0, timer;
  const spec = () => ({ verb, ...selection, ...fields.spec(), actor: me.name });
  async function read() {
    const mine = ++turn;
    plan = null;
    wrong = fields.why?.() ?? '';
    box.check();
    if (wrong) return show(place);
    try {
      const { body } = await request('POST', '/v1/plans', { body: { bulk: spec() } });
      if (mine !== turn) return undefined;
      plan = body.bulk;
      wrong = plan.runs ? '' : 'No run matches.';
      show(place, planOf(plan));
    } catch (error) {
      if (mine !== turn) return undefined;
      wrong = error.message;
      show(place, problem(error));
    }
    return box.check();
  }
  const again = () => { plan = null; clearTimeout(timer); timer = setTimeout(read, 250); };
  const box = dialog({
    title: `${title}: many runs`, verb: title, kind: verb === 'cancel' ? 'danger' : 'main',
    content: html`<p>${text}</p><div class="form" oninput=${again}>${fields.rows.map(([id, label, element]) => html`<label for=${id}>${label}</label>${element}`)}</div>
      <div class="form"><label for="reason">Why, for history</label>${reason}</div><h3>Which runs it will ask</h3>${place}`,
    ready: () => wrong || (plan ? '' : 'The plan is being made …'),
    act: async () => {
      const { at, runs } = plan;
      const body = { spec: { ...spec(), reason: reason.value || undefined, createdBefore: selection.createdBefore ?? at, planned: runs } };
      await request('PUT', `/v1/objects/Bulk/default/${name}`, { body });
      say(`${title} of ${count(runs)} runs was ordered.`);
      done(name);
    },
    closed: () => { turn++; clearTimeout(timer); },
  });
  read();
}
