// Workers and locks: which processes work, on what, until when their leases hold, and who holds what they share.
import { html, make, show } from './dom.js';
import { all, get } from './api.js';
import { live } from './live.js';
import { runColumns, runRows } from './runrows.js';
import { age, badge, count, problem, row, table } from './parts.js';

const every = 5000; // leases are renewed without events

const state = (w) => (w.expired && w.count ? badge('Alert', 'lease ended: its runs are taken over') : w.expired ? badge('Stopped', 'idle or gone') : w.count ? badge('Running', 'works') : badge('Waiting', 'idle'));

export function workersPage(main) {
  const view = make('div', {});
  const locks = make('div', {});
  show(main, html`<h1>Workers</h1>`, view, html`<h2>Locks</h2>`, locks);
  async function refresh() {
    await Promise.all([
      get('/v1/workers').then(({ items }) => show(view,
        table('Workers', ['Worker', 'State', '#Runs', 'Lease ends', 'Lease', 'Since'], items.map((w) => row(w.name, html`<th scope="row">${w.name}</th>`, state(w), html`<td class="number">${count(w.count)}</td>`, age(w.until), w.lease, age(w.since))), 'none has claimed a run yet'),
        items.filter((w) => w.count).map((w) => html`<section data-key=${w.name}><h2>Runs of ${w.name}</h2>${table(`Runs of ${w.name}`, runColumns, runRows(w.runs))}${w.count > w.runs.length ? html`<p class="help">The oldest ${w.runs.length} of ${count(w.count)}.</p>` : null}</section>`)),
      (error) => show(view, problem(error))),
      all('/v1/locks').then((items) => show(locks, table('Locks', ['Lock', 'State', 'Holder', 'Until', 'Since', 'Must not hold it'], items.map((l) => row(l.name, html`<th scope="row">${l.name}</th>`, held(l), l.holder, age(l.until), age(l.since),
        html`<td class="reason">${l.unreadable ?? l.denied.join(', ')}</td>`)), 'nobody holds one')), (error) => show(locks, error.code === 'NOT_SERVED' ? html`<p class="empty">${error.message}</p>` : problem(error))),
    ]);
  }
  refresh();
  return live('/v1/events?type=run', refresh, every);
}

const held = (l) => (l.unreadable ? badge('Alert', 'unreadable') : !l.holder ? badge('Created', 'free') : l.expired ? badge('Stopped', 'its time is over') : badge('Running', 'held'));
