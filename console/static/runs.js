// Runs: the list.
import { h, make, show } from './dom.js';
import { get } from './api.js';
import { live } from './live.js';
import { runBadge } from './steps.js';
import { Pager, age, link, path, problem, row, table } from './parts.js';

const size = 100;
const phases = ['Queued', 'Running', 'Waiting', 'Paused', 'Cancelling', 'Cancelled', 'Succeeded'];

export function runRows(runs) {
  return runs.map((r) => row(r.id, h('th', { scope: 'row' }, link(path('runs', r.id), r.id.slice(-8))), r.flow, subjectLink(r.subject), runBadge(r), r.step, r.attempt, age(r.nextAt), h('td', { class: 'reason' }, r.fault ? [h('code', {}, r.fault.code), ' ', r.fault.message] : ''), age(r.createdAt)));
}

export const runColumns = ['Run', 'Flow', 'Subject', 'Phase', 'Step', 'Attempt', 'Next try', 'Fault', 'Created'];

export function subjectLink(text) {
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
