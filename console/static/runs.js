// Runs: the list, with its filters in the address, counts, marks and requests to many runs.
import { h, html, make, painted, show } from './dom.js';
import { get } from './api.js';
import { bulkBar, selectionOf } from './bulk.js';
import { Beat, live } from './live.js';
import { runColumns, runRows } from './runrows.js';
import { Pager, count, link, path, problem, table } from './parts.js';

const size = 100;
const screen = 20; // rows that are drawn at once; the others follow when these are on the screen
const countEvery = 5000; // counts read many runs, so that they come less often than the list
const phases = ['Queued', 'Running', 'Waiting', 'Paused', 'Cancelling', 'Cancelled', 'Succeeded'];
const names = ['text', 'phase', 'flow', 'fault', 'subject', 'selector', 'since', 'until'];
const spans = [['', 'at any time'], ['1h', 'in the last hour'], ['24h', 'in the last day'], ['168h', 'in the last week'], ['720h', 'in the last 30 days']];

// instant returns the time of a filter: 24h is 24 hours ago.
function instant(text) {
  const hours = text.match(/^(\d+)h$/);
  return hours ? new Date(Date.now() - hours[1] * 3600e3).toISOString() : text;
}

const queryOf = (filter) => Object.fromEntries(Object.entries(filter).filter(([, v]) => v).map(([k, v]) => [k, k === 'since' || k === 'until' ? instant(v) : v]));

export function runsPage(main, { query, me }) {
  const filter = Object.fromEntries(names.map((n) => [n, query.get(n) ?? '']));
  const bulks = (me.parts ?? []).includes('bulks');
  const marked = new Set();
  const [counts, bar, list, told] = [make('div', {}), make('div', {}), make('div', {}), make('div', { 'aria-live': 'polite' })];
  const pager = new Pager(size, () => readList());
  let shown, total, timer, turn = 0, countTurn = 0, whole = false;

  // set changes a filter, and the address with it, so that a reload and a copied link show the same list.
  function set(name, value) {
    filter[name] = value.trim();
    const kept = new URLSearchParams(Object.entries(filter).filter(([, v]) => v));
    history.replaceState(null, '', `#/runs${kept.size ? `?${kept}` : ''}`);
    pager.first();
    turn++; // what is being read is of the old filter
    countTurn++;
    total = undefined;
    clear();
    clearTimeout(timer);
    timer = setTimeout(refresh, 250);
  }
  const choose = (name, value) => { // a count is pressed again to take its filter away
    set(name, filter[name] === value ? '' : value);
    form.elements[name].value = filter[name];
  };
  function clear() {
    marked.clear();
    for (const box of list.querySelectorAll('input[type=checkbox]')) box.checked = false;
    drawBar();
  }
  function mark(id, on) {
    if (on) marked.add(id); else marked.delete(id);
    drawBar();
  }
  function markAll() {
    for (const r of shown) marked.add(r.id);
    for (const box of list.querySelectorAll('input[type=checkbox]')) box.checked = true;
    drawBar();
  }
  const drawBar = () => bulks && show(bar, bulkBar({ marked, total, all: selectionOf(filter, queryOf(filter)), me, clear, done: (name) => {
    show(told, html`<p>The bulk ${link(path('objects', 'Bulk', 'default', name), name)} was ordered. Its page tells which runs have accepted the request.</p>`);
    clear();
    refresh();
  } }));
  const pick = bulks ? (r) => [html`<td class="pick"><label><input type="checkbox" checked=${marked.has(r.id)} onchange=${(e) => mark(r.id, e.target.checked)} /><span class="heard">Mark run ${r.id.slice(-8)}</span></label></td>`] : undefined;

  const field = (name, label, element) => h('span', { class: 'field' }, h('label', { for: name }, label), element);
  const input = (name, label, more) => field(name, label, h('input', { id: name, name, value: filter[name], oninput: (e) => set(name, e.target.value), ...more }));
  const select = (name, label, options) => field(name, label, h('select', { id: name, name, onchange: (e) => set(name, e.target.value) }, options.map(([value, text]) => h('option', { value, selected: value === filter[name] }, text))));
  const times = spans.some(([v]) => v === filter.since) ? spans : [...spans, [filter.since, `since ${filter.since}`]];
  const form = make('form', { class: 'filter', role: 'search', onsubmit: (e) => e.preventDefault() },
    input('text', 'Search', { type: 'search', placeholder: 'id, flow, subject, label' }),
    select('phase', 'Phase', [['', 'any'], ...phases.map((p) => [p, p])]),
    input('flow', 'Flow'), input('fault', 'Fault', { placeholder: 'code' }), input('subject', 'Subject', { placeholder: 'kind/namespace/name' }),
    input('selector', 'Labels', { placeholder: 'key=value, !key' }), select('since', 'Created', times));
  show(main, h('h1', {}, 'Runs'), form, counts, bar, told, list);

  const chip = (name, value, runs) => html`<button type="button" data-key=${`${name} ${value}`} aria-pressed=${String(filter[name] === value)} onclick=${() => choose(name, value)}>${value} ${count(runs)}</button>`;
  const drawCounts = (found) => show(counts, html`<div class="attention" role="group" aria-label="Counts" data-key="counts">
    ${phases.map((p) => found.phases.find((c) => c.name === p)).filter(Boolean).map((c) => chip('phase', c.name, c.runs))}${found.faults.slice(0, 5).map((c) => chip('fault', c.name, c.runs))}</div>`);

  // The list is read after each event. Its counts have their own beat, but for a filter that changes.
  const counting = new Beat(readCounts, countEvery);
  const failed = (error) => show(list, problem(error));
  const draw = () => {
    if (!shown) return; // the counts came first
    drawBar();
    show(list, bulks && shown.length ? html`<button type="button" class="plain" data-key="mark" onclick=${markAll}>Mark all ${count(shown.length)} on this page</button>` : null,
      table('Runs', bulks ? ['Mark', ...runColumns] : runColumns, runRows(whole ? shown : shown.slice(0, screen), pick)), pager.view(shown.length, total));
  };

  async function readList() {
    const mine = ++turn;
    try {
      const page = await get('/v1/runs', { ...queryOf(filter), limit: size, cursor: pager.cursor });
      if (mine !== turn) return;
      pager.took(page);
      shown = page.items;
      draw();
      if (!whole) painted(() => { whole = true; draw(); });
    } catch (error) {
      if (mine === turn) failed(error);
    }
  }
  async function readCounts() {
    const mine = ++countTurn;
    try {
      const asked = queryOf(filter);
      const { phase, fault, ...wide } = asked;
      const [all, exact] = await Promise.all([get('/v1/run-counts', wide), phase || fault ? get('/v1/run-counts', asked) : null]);
      if (mine !== countTurn) return;
      total = (exact ?? all).runs;
      drawCounts(all);
      draw();
    } catch (error) {
      if (mine === countTurn) failed(error);
    }
  }
  const refresh = () => {
    counting.now();
    return readList();
  };
  readList();
  painted(() => counting.soon());
  const end = live('/v1/events?type=run,step', () => { counting.soon(); return readList(); });
  return () => { turn++; countTurn++; clearTimeout(timer); counting.end(); end(); };
}
