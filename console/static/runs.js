// Runs: the list, and one run with its steps and history.
import { h, make, show, say } from './dom.js';
import { get } from './api.js';
import { live } from './live.js';
import { changeRun } from './change.js';
import { runActions, runBadge, runFacts, runFault, stepsTable } from './steps.js';
import { Pager, age, json, link, path, problem, row, table } from './parts.js';

const size = 100;
const phases = ['Queued', 'Running', 'Waiting', 'Paused', 'Cancelling', 'Cancelled', 'Succeeded'];

export function runRows(runs) {
  return runs.map((r) => row(r.id, h('th', { scope: 'row' }, link(path('runs', r.id), r.id.slice(-8))), r.flow, subject(r.subject), runBadge(r), r.step, r.attempt, age(r.nextAt), h('td', { class: 'reason' }, r.fault ? [h('code', {}, r.fault.code), ' ', r.fault.message] : ''), age(r.createdAt)));
}

export const runColumns = ['Run', 'Flow', 'Subject', 'Phase', 'Step', 'Attempt', 'Next try', 'Fault', 'Created'];

function subject(text) {
  const [kind, namespace, name] = text.split('/');
  return kind === 'cluster' ? link(path('clusters', name), text) : link(path('objects', kind, namespace, name), text);
}

export function runsPage(main, { query }) {
  const filter = { phase: query.get('phase') ?? '', flow: query.get('flow') ?? '', subject: query.get('subject') ?? '' };
  const list = make('div', {});
  const pager = new Pager(size, () => refresh());
  let timer;
  const set = (name, value) => { filter[name] = value.trim(); pager.first(); clearTimeout(timer); timer = setTimeout(refresh, 250); };
  show(main, h('h1', {}, 'Runs'),
    h('form', { class: 'filter', role: 'search', onsubmit: (e) => e.preventDefault() },
      h('label', { for: 'phase' }, 'Phase'), h('select', { id: 'phase', onchange: (e) => set('phase', e.target.value) }, h('option', { value: '' }, 'any'), phases.map((p) => h('option', { selected: p === filter.phase }, p))),
      h('label', { for: 'flow' }, 'Flow'), h('input', { id: 'flow', value: filter.flow, oninput: (e) => set('flow', e.target.value) }),
      h('label', { for: 'subject' }, 'Subject'), h('input', { id: 'subject', value: filter.subject, placeholder: 'kind/namespace/name', oninput: (e) => set('subject', e.target.value) })),
    list);
  async function refresh() {
    try {
      const page = await get('/v1/runs', { ...filter, limit: size, cursor: pager.cursor });
      pager.took(page);
      show(list, table('Runs', runColumns, runRows(page.items)), pager.view(page.items.length));
    } catch (error) {
      show(list, problem(error));
    }
  }
  refresh();
  const end = live('/v1/events?type=run,step', refresh);
  return () => { clearTimeout(timer); end(); };
}

export function runPage(main, { rest: [id], title, me }) {
  const at = `/v1/runs/${encodeURIComponent(id)}`;
  const view = make('div', {});
  let known;
  show(main, view);
  async function refresh() {
    try {
      const run = await get(at);
      const events = (await get(`${at}/history`, { limit: 500, cursor: Math.max(0, run.seq - 500) })).items;
      title(`Run ${run.id.slice(-6)}`);
      if (known && known !== run.phase) say(`The run is ${run.phase}.`);
      known = run.phase;
      show(view,
        h('p', { class: 'crumbs' }, me.role === 'operator' ? link('runs', 'Runs') : link('clusters', 'Clusters'), ' / ', run.id),
        h('div', { class: 'title' }, h('h1', {}, run.flow), runBadge(run), h('span', {}, 'on ', subject(run.subject))),
        runFault(run), runActions(run, (verb) => changeRun(verb, run, refresh)), runFacts(run),
        h('h2', {}, 'Steps'), run.earlierSteps ? h('p', { class: 'help' }, `The newest ${run.steps.length} steps; ${run.earlierSteps} older ones are omitted.`) : null, stepsTable(run),
        run.input ? h('details', {}, h('summary', {}, 'Input'), json(run.input)) : null,
        h('h2', {}, 'History'), table('History', ['When', 'What', 'Step', 'Attempt', 'Message', 'By'], events.slice(-500).reverse().map((e) => row(`e${e.seq}`,
          age(e.at), e.kind, e.step, e.attempt, h('td', { class: 'reason' }, e.code ? [h('code', {}, e.code), ' '] : null, [e.reason, e.message].filter(Boolean).join(': ')), e.actor))));
    } catch (error) {
      show(view, h('h1', {}, 'Run'), problem(error));
    }
  }
  refresh();
  return live(`/v1/events?run=${encodeURIComponent(id)}`, refresh);
}
