// The leak report, for operators.
import { h, make, show } from './dom.js';
import { get } from './api.js';
import { live } from './live.js';
import { Pager, age, badge, link, path, problem, prose, row, table } from './parts.js';

const size = 100;
const pollInterval = 10000; // the collector's findings are no events

export function leaksPage(main, { query }) {
  let kind = query.get('kind') ?? '';
  const list = make('div', {});
  const pager = new Pager(size, () => refresh());
  show(main, h('h1', {}, 'Leaks'),
    h('p', {}, 'Resources that could not be deleted after several attempts (leaked), that were given up (forgotten), or that have the tag of this installation but no record (orphan). They may cost money. The remedy of each says how to end it. A provider that cannot be read (unseen) may have more.'),
    h('form', { class: 'filter', role: 'search', onsubmit: (e) => e.preventDefault() },
      h('label', { for: 'kind' }, 'Kind'), h('input', { id: 'kind', value: kind, placeholder: 'vm, network, address …', oninput: (e) => { kind = e.target.value.trim(); pager.first(); refresh(); } })),
    list);
  async function refresh() {
    try {
      const page = await get('/v1/leaks', { kind, limit: size, cursor: pager.cursor });
      pager.took(page);
      show(list, table('Leaks', ['Name', 'Kind', 'Phase', 'Cluster', 'Provider', 'Since', '#Attempts', 'Fault and remedy'], page.items.map((l) => row(`${l.provider} ${l.phase} ${l.cluster} ${l.kind} ${l.resource} ${l.id}`,
        h('th', { scope: 'row' }, l.resource || `provider ${l.provider}`, l.id ? h('div', {}, h('code', {}, l.id)) : null), l.kind, badge(l.phase), ofCluster(l), l.provider,
        age(new Date(l.since).getFullYear() > 1 ? l.since : ''), h('td', { class: 'number' }, l.attempts || '–'),
        h('td', { class: 'reason' }, h('div', {}, l.code ? [h('code', {}, l.code), ' '] : null, l.text), l.remedy ? h('div', {}, h('strong', {}, 'Remedy: '), prose(l.remedy)) : null))), 'none'),
      pager.view(page.items.length, page.total));
    } catch (error) {
      show(list, problem(error));
    }
  }
  refresh();
  return live('/v1/events?type=leak,cluster', refresh, pollInterval);
}

// ofCluster returns a link to the cluster if it has a record, else the id in the tag.
function ofCluster(l) {
  if (l.clusterName) return link(path('clusters', l.cluster), l.clusterName);
  if (!l.resource) return '–'; // the row is about the whole provider
  return l.cluster ? [h('span', {}, 'no record'), h('div', {}, h('code', {}, l.cluster))] : 'no cluster';
}
