// Flows: the list, and one flow with its steps, its runs, and a form made of its input's schema that starts a run.
import { h, html, make, say, show } from './dom.js';
import { get, newKey, request } from './api.js';
import { flowGraph } from './flowgraph.js';
import { roomOf } from './graph.js';
import { Form } from './form.js';
import { live } from './live.js';
import { runColumns, runRows } from './runrows.js';
import { badge, count, facts, link, path, problem, reveal, row, table } from './parts.js';

const newest = 10; // runs of a flow that its page shows

const runsOf = (flow, phase) => `runs?${new URLSearchParams(phase ? { flow, phase } : { flow })}`;
const pageOf = (f) => `flows/${encodeURIComponent(f.name)}${f.kind ? `?kind=${encodeURIComponent(f.kind)}` : ''}`;

export function flowsPage(main) {
  const list = make('div', {});
  show(main, h('h1', {}, 'Flows'), list);
  async function refresh() {
    try {
      const [{ items }, counts] = await Promise.all([get('/v1/flows'), get('/v1/run-counts')]);
      const runs = new Map(counts.flows.map((c) => [c.name, c.runs]));
      show(list, table('Flows', ['Flow', 'Kind', '#Version', '#Steps', '#Runs', 'Description'], items.map((f) => row(`${f.kind ?? ''}/${f.name}`, html`<th scope="row">${link(pageOf(f), f.name)}</th>`, f.kind ?? 'all',
        html`<td class="number">${f.version}</td>`, html`<td class="number">${f.count}</td>`, html`<td class="number">${link(runsOf(f.name), count(runs.get(f.name) ?? 0))}</td>`, html`<td class="reason">${f.description}</td>`)), 'the server has loaded none'));
    } catch (error) {
      show(list, problem(error));
    }
  }
  refresh();
  return live('/v1/events?type=run', refresh);
}

export function flowPage(main, { rest: [name], query, title, me }) {
  const kind = query.get('kind') ?? undefined;
  const top = make('div', {});
  const runs = make('div', {});
  const start = make('div', {});
  const drawing = make('div', {});
  let whole = false;
  title(name);
  show(main, html`<p class="crumbs">${link('flows', 'Flows')} / ${name}</p>`, top, start, runs);

  async function begin() {
    try {
      const flow = await get(`/v1/flows/${encodeURIComponent(name)}`, { kind });
      show(top, html`<div class="title"><h1>${flow.name}</h1><span>version ${flow.version}</span></div>
        ${flow.description ? html`<p>${flow.description}</p>` : null}
        ${facts([['Kind of subjects', flow.kind ?? 'all'], ['Deadline', flow.deadline], ['At the deadline', flow.onDeadline], ['On a change', flow.onChange], ['Hash', html`<code>${flow.hash.slice(0, 12)}</code>`]])}
        <h2>Graph</h2>${drawing}
        <h2>Steps</h2>${stepsOf('Steps', flow.steps)}${flow.finally?.length ? html`<h3>Finally</h3>${stepsOf('Finally', flow.finally)}` : null}`);
      draw(flow);
      show(start, starter(flow, me));
      await refresh();
    } catch (error) {
      show(top, h('h1', {}, 'Flow'), problem(error));
    }
  }

  function draw(flow) {
    show(drawing, flowGraph(flow, { whole, room: roomOf(main), reveal: (path) => reveal(top, path), expand: () => { whole = true; draw(flow); } }));
  }

  async function refresh() {
    try {
      const [counts, { items }] = await Promise.all([get('/v1/run-counts', { flow: name }), get('/v1/runs', { flow: name, limit: newest })]);
      show(runs, html`<h2>Runs</h2><p class="attention" data-key="phases">${counts.phases.map((c) => html`<span data-key=${c.name}>${link(runsOf(name, c.name), badge(c.name), ` ${count(c.runs)}`)} </span>`)}</p>
        ${table('Newest runs', runColumns, runRows(items))}${counts.runs > items.length ? html`<p class="help">${link(runsOf(name), `All ${count(counts.runs)} runs`)}</p>` : null}`);
    } catch (error) {
      show(runs, problem(error));
    }
  }

  begin();
  return live('/v1/events?type=run', refresh);
}

// stepsOf shows steps with those in structures below them.
function stepsOf(caption, steps) {
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
  return table(caption, ['Step', 'Kind', 'Does', 'When', 'Attempts', 'Timeout', 'Can', 'Description'], rows);
}

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
