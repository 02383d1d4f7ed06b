// What could not be deleted, for operators.
import { h, show } from './dom.js';
import { get } from './api.js';
import { live } from './live.js';
import { Pager, age, badge, link, path, problem, row, table } from './parts.js';

const size = 100;

export function leaksPage(main, { query }) {
  let kind = query.get('kind') ?? '';
  const list = h('div', {});
  const pager = new Pager(size, () => refresh());
  main.replaceChildren(h('h1', {}, 'Leaks'),
    h('p', {}, 'Resources that could not be deleted after several attempts, were given up, or are in nobody’s books. They may cost money. Each says what ends it.'),
    h('form', { class: 'filter', role: 'search', onsubmit: (e) => e.preventDefault() },
      h('label', { for: 'kind' }, 'Kind'), h('input', { id: 'kind', value: kind, oninput: (e) => { kind = e.target.value.trim(); pager.first(); refresh(); } })),
    list);
  async function refresh() {
    try {
      const page = await get('/v1/leaks', { kind, limit: size, cursor: pager.cursor });
      pager.took(page);
      show(list, table('Leaks', ['Cluster', 'Account', 'Provider', 'Kind', 'Name', 'Provider’s id', 'Phase', 'Since', 'Attempts', 'Fault', 'Remedy'], page.items.map((l) => row(`${l.cluster} ${l.kind} ${l.resource}`,
        l.cluster ? link(path('clusters', l.cluster), l.clusterName ?? l.cluster) : 'nobody’s', l.accountId, l.provider, l.kind, h('th', { scope: 'row' }, l.resource), l.id && h('code', {}, l.id), badge(l.phase),
        age(new Date(l.since).getFullYear() > 1 ? l.since : ''), l.attempts, h('td', { class: 'reason' }, l.code ? [h('code', {}, l.code), ' ', l.text] : l.text), h('td', { class: 'reason' }, l.remedy))), 'nothing leaks'),
      pager.view(page.items.length, page.total));
    } catch (error) {
      show(list, problem(error));
    }
  }
  refresh();
  return live('/v1/events?type=leak,cluster', refresh);
}
