// Flows: the list, and one flow with its steps, its runs, and a form made of its input's schema that starts a run.
import { h, html, make, painted, say, show } from './dom.js';
import { get, newKey, request } from './api.js';
import { flowGraph } from './flowgraph.js';
import { roomOf } from './graph.js';
import { Form } from './form.js';
import { Beat, live } from './live.js';
import { runColumns, runRows } from './runrows.js';
import { badge, count, facts, link, path, problem, reveal, row, table } from './parts.js';

const newest = 10; // runs of a flow that its page shows
const countEvery = 5000; // counts read many runs, so that they are not read at each event
const mostSteps = 100; // rows of the table of steps, until all are asked for

const runsOf = (flow, phase) => `runs?${new URLSearchParams(phase ? { flow, phase } : { flow })}`;
const pageOf = (f) => `flows/${encodeURIComponent(f.name)}${f.kind ? `?kind=${encodeURIComponent(f.kind)}` : ''}`;

export function flowsPage(main) {
  const list = make('div', {});
  show(main, h('h1', {}, 'Flows'), list);
  let items, runs;
  const draw = () => items && show(list, table('Flows', ['Flow', 'Kind', '#Version', '#Steps', '#Runs', 'Description'], items.map((f) => row(`${f.kind ?? ''}/${f.name}`, html`<th scope="row">${link(pageOf(f), f.name)}</th>`, f.kind ?? 'all',
    html`<td class="number">${f.version || '–'}</td>`, html`<td class="number">${f.count}</td>`, html`<td class="number">${link(runsOf(f.name), runs ? count(runs.get(f.name) ?? 0) : 'runs')}</td>`, html`<td class="reason">${f.description}</td>`)), 'the server has loaded none'));
  async function read(path, take) {
    try {
      take(await get(path));
      draw();
    } catch (error) {
      show(list, problem(error));
    }
  }
  const reading = new Beat(() => {
    read('/v1/flows', (found) => { items = found.items; });
    read('/v1/run-counts', (found) => { runs = new Map(found.flows.map((c) => [c.name, c.runs])); });
  }, countEvery);
  reading.now();
  const end = live('/v1/events?type=run', () => reading.soon());
  return () => { reading.end(); end(); };
}

export function flowPage(main, { rest: [name], query, title, me }) {
  const [top, steps, drawing, start, runs] = [make('div', {}), make('div', {}), make('div', {}), make('div', {}), make('div', {})];
  const whole = { graph: false, steps: false };
  let flow, items, counts;
  title(name);
  show(main, html`<p class="crumbs">${link('flows', 'Flows')} / ${name}</p>`, top, start, runs);

  async function begin() {
    try {
      flow = await get(`/v1/flows/${encodeURIComponent(name)}`, { kind: query.get('kind') ?? undefined });
      show(top, html`<div class="title"><h1>${flow.name}</h1>${flow.version ? html`<span>version ${flow.version}</span>` : null}</div>
        ${flow.description ? html`<p>${flow.description}</p>` : null}
        ${facts([['Kind of subjects', flow.kind ?? 'all'], ['Deadline', flow.deadline], ['At the deadline', flow.onDeadline], ['On a change', flow.onChange], ['Hash', html`<code>${flow.hash.slice(0, 12)}</code>`]])}
        <h2>Graph</h2>${drawing}
        <h2>Steps</h2>${steps}`);
      drawGraph();
      await new Promise(painted);
      drawSteps();
      show(start, starter(flow, me));
      counting.soon();
      await readRuns();
    } catch (error) {
      show(top, h('h1', {}, 'Flow'), problem(error));
    }
  }

  function drawGraph() {
    show(drawing, flowGraph(flow, { whole: whole.graph, room: roomOf(main), reveal: (path) => {
      allSteps();
      reveal(top, path);
    }, expand: () => { whole.graph = true; drawGraph(); } }));
  }
  function drawSteps() {
    const rows = stepRows(flow.steps);
    const hidden = whole.steps ? 0 : Math.max(0, rows.length - mostSteps);
    show(steps, stepsTable('Steps', rows.slice(0, rows.length - hidden)), hidden ? html`<button type="button" data-key="all-steps" onclick=${allSteps}>Show all ${count(rows.length)} steps</button>` : null,
      flow.finally?.length ? html`<h3>Finally</h3>${stepsTable('Finally', stepRows(flow.finally))}` : null);
  }
  function allSteps() {
    if (whole.steps) return;
    whole.steps = true;
    drawSteps();
  }

  const drawRuns = () => items && show(runs, html`<h2>Runs</h2>${counts ? html`<p class="attention" data-key="phases">${counts.phases.map((c) => html`<span data-key=${c.name}>${link(runsOf(name, c.name), badge(c.name), ` ${count(c.runs)}`)} </span>`)}</p>` : null}
    ${table('Newest runs', runColumns, runRows(items))}${counts?.runs > items.length ? html`<p class="help">${link(runsOf(name), `All ${count(counts.runs)} runs`)}</p>` : null}`);
  async function readRuns() {
    try {
      ({ items } = await get('/v1/runs', { flow: name, limit: newest }));
      drawRuns();
    } catch (error) {
      show(runs, problem(error));
    }
  }
  const counting = new Beat(async () => {
    try {
      counts = await get('/v1/run-counts', { flow: name });
      drawRuns();
    } catch (error) {
      show(runs, problem(error));
    }
  }, countEvery);

  begin();
  const end = live('/v1/events?type=run', () => { counting.soon(); return readRuns(); });
  return () => { counting.end(); end(); };
}

// stepRows are the rows of steps with those in structures below them.
function stepRows(steps) {
  const rows = [];
  const walk = (list, depth, scope) => {
    for (const s of list) {
      const marks = [s.undo && 'undo', s.skippable && 'skippable', s.noReturn && 'no return'].filter(Boolean).join(', ');
      rows.push(row(`step-${scope}${s.name}`, html`<th scope="row"><span class=${`depth-${Math.min(depth, 4)}`}>${s.name}</span></th>`, s.kind, s.uses ?? s.wait, html`<td class="reason">${s.when ? html`<code>${s.when}</code>` : ''}</td>`,
        s.attempts ?? '', s.timeout, marks, html`<td class="reason">${s.description}</td>`));
      walk(s.steps ?? [], depth + 1, `${scope}${s.name}/`);
    }
  };
  walk(steps ?? [], 0, '');
  return rows;
}

const stepsTable = (caption, rows) => table(caption, ['Step', 'Kind', 'Does', 'When', 'Attempts', 'Timeout', 'Can', 'Description'], rows);

// starter is the form that starts a run: it shows the plan for the input before it asks.
function starter(flow, me) {
  const form = new Form(flow.input, 'input');
  const place = make('div', { 'aria-live': 'polite' });
  const subject = make('input', { id: 'subject', required: true, autocomplete: 'off', placeholder: `${flow.kind ?? 'kind'}/namespace/name` });
  const reason = make('input', { id: 'reason', maxlength: '1000' });
  let key; // one plan starts one run, however often its button is pressed
  const attempt = async (act) => {
    try { await act(); } catch (error) { show(place, problem(error)); }
  };
  const plan = () => attempt(async () => {
    const { body } = await request('POST', '/v1/plans', { body: { flow: flow.kind ? `${flow.kind}/${flow.name}` : flow.name, input: form.value() } });
    key = newKey();
    show(place, html`<h3>Plan</h3>${table('Plan', ['Step', 'Verdict', 'Why'], body.plan.steps.map((s, i) => row(`${i}`, html`<th scope="row">${s.name}</th>`, s.verdict, html`<td class="reason">${s.why}</td>`)))}
      <button type="button" class="main" data-key="start" onclick=${send}>Start</button>`);
    place.querySelector('button.main').focus();
  });
  const send = () => attempt(async () => {
    const { body } = await request('POST', '/v1/runs', { key, body: { flow: flow.name, subject: subject.value.trim(), input: form.value(), reason: reason.value || undefined, actor: me.name } });
    say(`The run ${body.id.slice(-8)} was started.`);
    location.hash = `#/${path('runs', body.id)}`;
  });
  return html`<details data-key="start"><summary>Start a run</summary><div class="split">
    <form class="form" onsubmit=${(e) => { e.preventDefault(); plan(); }} oninput=${() => show(place)}>
      <label for="subject">Subject</label>${subject}${form.view}
      <label for="reason">Why, for history</label>${reason}<button class="main">Show the plan</button></form>${place}</div></details>`;
}
