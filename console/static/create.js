// A new cluster: the page shows the plan before it sends the request.
import { h, make, show, say } from './dom.js';
import { get, newKey, request } from './api.js';
import { planView } from './change.js';
import { link, path, problem } from './parts.js';

export function createPage(main, { title }) {
  title('New cluster');
  const plan = make('div', { 'aria-live': 'polite' });
  const key = newKey();
  const lists = {};
  const field = (id, text, input) => [h('label', { for: id }, text), input];
  const choice = (id, first) => (lists[id] = Object.assign(make('select', { id }), { first }));
  const input = (id, more) => h('input', { id, ...more });
  const value = (id) => document.getElementById(id).value;
  const body = () => ({
    name: value('name').trim(), description: value('description') || undefined, zone: value('zone'), offering: value('offering'), size: Number(value('size')),
    controlNodes: Number(value('control')), network: value('network') || undefined, version: value('version') || undefined, onFailure: value('failure') || undefined,
  });
  const attempt = async (act) => {
    try { await act(); } catch (error) { show(plan, problem(error)); }
  };
  const showPlan = () => attempt(async () => {
    const found = await request('POST', '/v1/plans', { body: { create: body() } });
    show(plan, h('h2', {}, 'Plan'), planView(found.body.cluster), h('button', { type: 'button', class: 'main', onclick: send }, 'Create'));
    plan.querySelector('button.main').focus();
  });
  const send = () => attempt(async () => {
    const created = await request('POST', '/v1/clusters', { key, body: body() });
    say(`${created.body.cluster.name} is being created.`);
    location.hash = `#/${path('clusters', created.body.cluster.id)}`;
  });
  show(main, h('p', { class: 'crumbs' }, link('clusters', 'Clusters'), ' / new'), h('h1', {}, 'New cluster'), h('div', { class: 'split' },
    h('form', { class: 'form', onsubmit: (e) => { e.preventDefault(); showPlan(); }, oninput: () => show(plan) },
      field('name', 'Name', input('name', { required: true, maxlength: '255', autocomplete: 'off' })), field('description', 'Description', input('description', { maxlength: '4096' })),
      field('zone', 'Zone', choice('zone')), field('offering', 'Offering of each node', choice('offering')),
      field('size', 'Workers', input('size', { type: 'number', min: '1', max: '100', value: '2', required: true })),
      field('control', 'Control nodes', h('select', { id: 'control' }, ['1', '3', '5'].map((n) => h('option', {}, n)))),
      field('version', 'Version', choice('version', 'none')), field('network', 'Network', choice('network', 'a new one')),
      field('failure', 'If it cannot be completed', h('select', { id: 'failure' }, [['', 'default of the server'], ['rollback', 'delete its resources at once'], ['lazy', 'delete its resources later'], ['keep', 'keep its resources']].map(([v, t]) => h('option', { value: v }, t)))),
      h('button', { class: 'main' }, 'Show the plan')),
    plan));
  for (const kind of Object.keys(lists)) {
    get(`/v1/catalog/${kind}`).then(({ items }) => show(lists[kind], lists[kind].first ? h('option', { value: '' }, lists[kind].first) : null, items.filter((i) => !i.disabled).map((i) => h('option', { value: i.id }, i.cores ? `${i.name} (${i.cores} ${i.cores === 1 ? 'core' : 'cores'}, ${i.memoryMB} MB)` : i.name))),
      (error) => show(plan, problem(error)));
  }
}
