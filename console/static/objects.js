// Objects: the list.
import { h, make, show } from './dom.js';
import { get } from './api.js';
import { live } from './live.js';
import { Pager, age, badge, link, path, problem, row, table } from './parts.js';

const size = 100;

// stateOf returns the state in the status of an object; empty if the status has another form.
export const stateOf = (o) => o.status?.state ?? o.status?.phase ?? (o.deletionMark ? 'Deleting' : '');

export function objectsPage(main, { query }) {
  const filter = { kind: query.get('kind') ?? '', selector: query.get('selector') ?? '' };
  const list = make('div', {});
  const pager = new Pager(size, () => refresh());
  let timer;
  const set = (name, value) => { filter[name] = value.trim(); pager.first(); clearTimeout(timer); timer = setTimeout(refresh, 250); };
  show(main, h('h1', {}, 'Objects'),
    h('form', { class: 'filter', role: 'search', onsubmit: (e) => e.preventDefault() },
      h('label', { for: 'kind' }, 'Kind'), h('input', { id: 'kind', value: filter.kind, oninput: (e) => set('kind', e.target.value) }),
      h('label', { for: 'selector' }, 'Labels'), h('input', { id: 'selector', value: filter.selector, placeholder: 'key=value, !key', oninput: (e) => set('selector', e.target.value) })),
    list);
  async function refresh() {
    try {
      const page = await get(filter.kind ? `/v1/objects/${encodeURIComponent(filter.kind)}` : '/v1/objects', { selector: filter.selector, limit: size, cursor: pager.cursor });
      pager.took(page);
      show(list, table('Objects', ['Kind', 'Namespace', 'Name', 'State', 'Reason', 'Generation', 'Age'], page.items.map((o) => row(`${o.kind}/${o.namespace}/${o.name}`,
        o.kind, o.namespace, h('th', { scope: 'row' }, link(path('objects', o.kind, o.namespace, o.name), o.name)), badge(stateOf(o)), h('td', { class: 'reason' }, o.status?.reason ?? o.status?.fault?.code), o.generation, age(o.createdAt)))),
      pager.view(page.items.length));
    } catch (error) {
      show(list, problem(error));
    }
  }
  refresh();
  const end = live('/v1/events?type=object', refresh);
  return () => { clearTimeout(timer); end(); };
}
