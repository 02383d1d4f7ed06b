// The rows of a table of runs, on the page of runs and wherever else runs are listed.
import { h } from './dom.js';
import { age, link, path, row, runBadge, subjectLink } from './parts.js';

export function runRows(runs, first = () => []) {
  return runs.map((r) => row(r.id, ...first(r), h('th', { scope: 'row' }, link(path('runs', r.id), r.id.slice(-8))), r.flow, subjectLink(r.subject), runBadge(r), r.step, r.attempt, age(r.nextAt), h('td', { class: 'reason' }, r.fault ? [h('code', {}, r.fault.code), ' ', r.fault.message] : ''), age(r.createdAt)));
}

export const runColumns = ['Run', 'Flow', 'Subject', 'Phase', 'Step', 'Attempt', 'Next try', 'Fault', 'Created'];
