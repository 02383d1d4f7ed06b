// Faults: by which ones runs are stuck, and all that the server declares, with their remedies.
import { h, html, make, show } from './dom.js';
import { get } from './api.js';
import { guide } from './guide.js';
import { Beat, live } from './live.js';
import { count, facts, link, problem, prose, row, table } from './parts.js';

const countEvery = 5000;

// countingLive refreshes after events of runs, but not more often than counts may be read. It returns a function that ends it.
function countingLive(refresh) {
  const counting = new Beat(refresh, countEvery);
  counting.now();
  const end = live('/v1/events?type=run', () => counting.soon());
  return () => { counting.end(); end(); };
}

const runsBy = (code) => `runs?${new URLSearchParams({ fault: code })}`;

export function faultsPage(main, { query }) {
  let text = query.get('text') ?? '';
  const [stuck, list] = [make('div', {}), make('div', {})];
  let all = [], counts = [];
  const draw = () => {
    const known = new Map(all.map((f) => [f.code, f]));
    show(stuck, html`<h2>Paused by a fault</h2>${table('Runs by fault', ['Fault', '#Runs', 'Remedy'], counts.map((c) => row(c.name, html`<th scope="row">${link(`faults/${c.name}`, c.name)}</th>`,
      html`<td class="number">${link(runsBy(c.name), count(c.runs))}</td>`, html`<td class="reason">${prose(known.get(c.name)?.remedy ?? '')}</td>`)), 'no run is paused by one')}`);
    const wanted = text.toLowerCase();
    const shown = all.filter((f) => !wanted || `${f.code} ${f.title} ${f.remedy ?? ''}`.toLowerCase().includes(wanted));
    show(list, table('Declared faults', ['Fault', 'Class', 'Meaning'], shown.map((f) => row(f.code, html`<th scope="row">${link(`faults/${f.code}`, f.code)}</th>`, f.class, html`<td class="reason">${f.title}</td>`)), 'none is like that'));
  };
  show(main, h('h1', {}, 'Faults'), stuck, h('h2', {}, 'Declared'),
    h('form', { class: 'filter', role: 'search', onsubmit: (e) => e.preventDefault() }, h('label', { for: 'text' }, 'Search'),
      h('input', { id: 'text', type: 'search', value: text, placeholder: 'code, meaning, remedy', oninput: (e) => { text = e.target.value.trim(); history.replaceState(null, '', `#/faults${text ? `?${new URLSearchParams({ text })}` : ''}`); draw(); } })), list);
  async function refresh() {
    try {
      const [declared, found] = await Promise.all([all.length ? { items: all } : get('/v1/faults'), get('/v1/run-counts')]);
      [all, counts] = [declared.items, found.faults];
      draw();
    } catch (error) {
      show(stuck, problem(error));
    }
  }
  return countingLive(refresh);
}

export function faultPage(main, { rest: [code], title }) {
  const view = make('div', {});
  title(code);
  show(main, html`<p class="crumbs">${link('faults', 'Faults')} / ${code}</p>`, view);
  async function refresh() {
    try {
      const [f, counts] = await Promise.all([get(`/v1/faults/${encodeURIComponent(code)}`), get('/v1/run-counts', { fault: code })]);
      show(view, html`<div class="title"><h1>${f.code}</h1></div><p>${f.title}</p>
        ${f.remedy ? html`<p class="remedy"><strong>Remedy: </strong>${prose(f.remedy)}</p>` : null}
        ${facts([['Class', f.class], ['In conditions', f.reason], ['Paused runs', link(runsBy(f.code), count(counts.runs))], ['Charged', f.uncharged ? 'not to the step' : undefined],
          ['Healed by', f.healer && (f.healer.flow ? link(`flows/${encodeURIComponent(f.healer.flow)}`, f.healer.flow) : 'a function of the program')], ['Attempts to heal', f.healer?.attempts]])}
        ${guide(f.guide)}
        ${counts.flows.length ? table('Runs by flow', ['Flow', '#Runs'], counts.flows.map((c) => row(c.name, html`<th scope="row">${c.name}</th>`, html`<td class="number">${link(`runs?${new URLSearchParams({ flow: c.name, fault: f.code })}`, count(c.runs))}</td>`))) : null}`);
    } catch (error) {
      show(view, problem(error));
    }
  }
  return countingLive(refresh);
}
