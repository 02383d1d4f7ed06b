// The list of clusters: the server filters it, it is read page by page, and events refresh it.
import { h, make, show, say } from './dom.js';
import { get } from './api.js';
import { live } from './live.js';
import { Pager, age, badge, count, link, path, problem, row, table, unseenText, waits } from './parts.js';

const size = 100;

export function clustersPage(main, { query, me }) {
  const filter = { q: query.get('q') ?? '', state: query.get('state') ?? '' };
  const list = make('div', { id: 'list' });
  const attention = make('p', { class: 'attention' });
  const pager = new Pager(size, () => refresh().then(() => say(list.querySelector('.range')?.textContent)));
  const states = make('select', { id: 'state', onchange: (e) => set('state', e.target.value) });
  const search = make('input', { id: 'q', type: 'search', value: filter.q, placeholder: 'name or description', oninput: (e) => later(() => set('q', e.target.value)) });
  let timer;
  let sequence = 0;

  const later = (act) => { clearTimeout(timer); timer = setTimeout(act, 250); };
  const set = (name, value) => {
    filter[name] = value;
    const kept = new URLSearchParams(Object.entries(filter).filter(([, v]) => v));
    history.replaceState(null, '', `#/clusters${kept.size ? `?${kept}` : ''}`);
    pager.first();
    refresh();
  };

  show(main,
    h('div', { class: 'title' }, h('h1', {}, 'Clusters'), h('a', { class: 'main', href: '#/clusters/new' }, 'New cluster')),
    h('form', { class: 'filter', role: 'search', onsubmit: (e) => e.preventDefault() },
      h('label', { for: 'q' }, 'Filter'), search, h('label', { for: 'state' }, 'State'), states),
    attention, list);

  // showAttention shows how many clusters of the whole list need a person.
  async function showAttention() {
    const found = await Promise.all(['Alert', 'Expunge'].map(async (state) => [state, (await get('/v1/clusters', { state, limit: 1 })).total]));
    const some = found.filter(([, n]) => n);
    show(attention, some.length ? [some.map(([state, n]) => h('button', { type: 'button', 'data-key': state, onclick: () => { states.value = state; set('state', state); } }, badge(state, `${count(n)} in ${state}`))),
      filter.state ? h('button', { type: 'button', 'data-key': 'all', onclick: () => { states.value = ''; set('state', ''); } }, 'Show all') : null] : null);
  }

  async function refresh() {
    const mine = ++sequence;
    try {
      const page = await get('/v1/clusters', { ...filter, limit: size, cursor: pager.cursor });
      if (mine !== sequence) return; // a later request has been sent
      showAttention().catch(() => {}); // the list itself shows the error
      pager.took(page);
      const columns = ['Name', 'State', 'For', 'Desired', '#Desired workers', '#Existing workers', 'Reason', 'Age'];
      if (me.role !== 'user') columns.push('Account');
      show(list, table('Clusters', columns, page.items.map((c) => line(c, me)), filter.q || filter.state ? 'none matches the filter' : 'none yet'), pager.view(page.items.length, page.total));
    } catch (error) {
      if (mine === sequence) show(list, problem(error));
    }
  }

  get('/v1/lifecycle').then(({ states: found }) => {
    show(states, h('option', { value: '' }, 'All but Destroyed'), found.map(({ name }) => h('option', { value: name }, name)));
    states.value = filter.state;
  }, () => {});
  refresh();
  const end = live('/v1/events?type=cluster,drift,waiting', refresh);
  return () => { clearTimeout(timer); end(); };
}

// why returns the reason of a cluster's state, what its run waits for, or why its provider cannot be read.
function why(c) {
  if (c.code) return [h('code', {}, c.code), ' ', c.reason];
  if (c.waiting) return [waits(c.waiting), ', since ', age(c.waiting.since), c.waiting.until ? [', until ', new Date(c.waiting.until).toLocaleTimeString()] : null];
  return c.unseen ? [unseenText(c.unseen, c.provider), ', since ', age(c.unseen.since)] : '–';
}

function line(c, me) {
  const short = c.existing !== undefined && c.existing !== c.size;
  const cells = [
    h('th', { scope: 'row' }, link(path('clusters', c.id), c.name)), badge(c.state), age(c.since), c.desired,
    h('td', { class: 'number' }, c.size), h('td', { class: short ? 'number differs' : 'number' }, short ? h('strong', {}, `${c.existing} ≠`) : c.existing),
    h('td', { class: 'reason' }, why(c)), age(c.created),
  ];
  if (me.role !== 'user') cells.push([c.domain, c.account].filter(Boolean).join('/'));
  return row(c.id, ...cells);
}
