// One object: its state with the ways out, why it is there and what would move it, its conditions, its spec and status as
// tables, its runs and their events.
import { h, html, make, show } from './dom.js';
import { get, request } from './api.js';
import { live } from './live.js';
import { runColumns, runRows } from './runrows.js';
import { stateOf } from './objects.js';
import { stepsTable } from './steps.js';
import { machineGraph, ofPlan } from './machinegraph.js';
import { roomOf } from './graph.js';
import { age, ago, badge, facts, fault, json, link, path, problem, prose, row, table } from './parts.js';

const mostEvents = 100;

export function objectPage(main, { rest, title }) {
  const id = rest.join('/');
  const [kind, namespace, name] = rest;
  const view = make('div', {});
  let states; // the machine of its kind; null: the server has no table of it
  show(main, view);
  async function refresh() {
    try {
      const [o, { items: runs }, plan] = await Promise.all([get(`/v1/objects/${path(...rest)}`), get('/v1/runs', { subject: id, limit: 20 }),
        request('POST', '/v1/plans', { body: { object: { kind, namespace, name } } }).then(({ body }) => body.machine, (error) => ({ error }))]);
      if (states === undefined && plan?.state) states = await get(`/v1/machines/${encodeURIComponent(kind)}`, { counts: false }).catch(() => null);
      const run = runs[0] && await get(`/v1/runs/${runs[0].id}`);
      const events = run ? (await get(`/v1/runs/${run.id}/history`, { limit: mostEvents, cursor: Math.max(0, run.seq - mostEvents) })).items : [];
      title(o.name);
      draw(o, plan ?? {}, runs, run, events);
    } catch (error) {
      show(view, h('h1', {}, 'Object'), problem(error));
    }
  }

  function draw(o, plan, runs, run, events) {
    const at = o.status?.machine ?? {};
    const { machine, conditions, fault: held, ...status } = o.status ?? {};
    const part = (key, heading, ...content) => html`<section data-key=${key} aria-labelledby=${`h-${key}`}><h2 id=${`h-${key}`}>${heading}</h2>${content}</section>`;
    show(view, html`
      <p class="crumbs">${link('objects', 'Objects')} / ${id}</p>
      <div class="title"><h1>${o.name}</h1>${badge(stateOf(o))}${at.since ? html`<span>since ${age(at.since)}</span>` : null}${o.deletionMark ? html`<span>is being deleted</span>` : null}</div>
      <div data-key="fault">${fault(held)}</div>
      ${facts([['Kind', o.kind], ['Namespace', o.namespace], ['Machine', plan.machine], ['Generation', o.generation], ['Revision', o.revision], ['Created', ago(o.createdAt)], ['Finalizers', o.finalizers?.join(', ')],
        ['Labels', Object.entries(o.labels ?? {}).map(([k, v]) => `${k}=${v}`).join(', ')], ['Owner', o.owner && `${o.owner.kind}/${o.owner.name}`]])}
      ${part('state', 'State', plan.error ? planError(plan.error) : why(plan, at, states, roomOf(main)))}
      ${part('conditions', 'Conditions', table('Conditions', ['Type', 'Status', 'Reason', 'Message', 'Since'], (conditions ?? []).map((c) => row(c.type, html`<th scope="row">${c.type}</th>`, c.status, html`<td><code>${c.reason}</code></td>`, html`<td class="reason">${c.message}</td>`, age(c.lastTransitionTime)))))}
      ${part('spec', 'Spec', fields('Spec', o.spec))}
      ${part('status', 'Status', fields('Status', status))}
      ${part('runs', 'Runs', table('Runs', runColumns, runRows(runs)), run ? [h('h3', {}, 'Steps of the newest run'), stepsTable(run)] : null)}
      ${part('events', 'Events', table('Events', ['When', 'What', 'Step', 'Attempt', 'Message', 'By'], [...events].reverse().map((e) => row(`e${e.seq}`, age(e.at), e.kind, e.step, e.attempt,
        html`<td class="reason">${e.code ? html`<code>${e.code}</code> ` : null}${[e.reason, e.message].filter(Boolean).join(': ')}</td>`, e.actor)), 'no run has begun'), run && events[0]?.seq > 1 ? html`<p class="help">The newest ${events.length}; ${link(path('runs', run.id), 'the run')} has all.</p>` : null)}
      <details data-key="json"><summary>As JSON</summary>${json(o)}</details>`);
  }

  refresh();
  return live('/v1/events?type=object,run,step', refresh);
}

// planError shows why there is no plan. A kind without machine is nothing wrong.
const planError = (error) => (error.status === 404 || error.status === 422 ? html`<p class="help">${error.message}</p>` : problem(error));

const acts = { rest: 'stays as it is', move: 'changes its state', start: 'starts a run', end: 'ends a run', work: 'works', wait: 'waits' };

// why shows the state with its ways out, and what would happen next, as `pawl plan` tells it.
function why(plan, at, states, room) {
  const came = at.event ? `It came here ${at.previous ? `from ${at.previous} ` : ''}by the event ${at.event}${at.message ? `: ${at.message}` : ''}.` : '';
  return [
    plan.state ? machineGraph(states ?? ofPlan(plan), { here: plan.state, considered: plan.considered, to: plan.to, room, caption: ['A sign before an event tells whether its condition holds now: ✔ it is chosen, ✖ it does not hold.'] }) : null,
    html`<p><strong>Now: </strong>${acts[plan.act] ?? plan.act}${plan.to ? ` to ${plan.to}` : ''}${plan.why ? `, because ${plan.why}` : ''}. ${came}</p>`,
    plan.code ? html`<p class="remedy"><code>${plan.code}</code> ${plan.remedy ? html`<strong>Remedy: </strong>${prose(plan.remedy)}` : null}</p>` : null,
    plan.links ? table('Plan', ['Link', 'Verdict', 'Acts', 'Reason', 'Message'], plan.links.map((l) => row(l.link, html`<th scope="row">${l.link}</th>`, l.held ? `${l.verdict}, held` : l.verdict, (l.acts ?? []).join(', '), html`<td><code>${l.reason}</code></td>`, html`<td class="reason">${[l.message, l.behind && `behind ${l.behind}`].filter(Boolean).join('; ')}</td>`)))
      : table('Plan', ['Event', 'To', 'Condition', 'Verdict', 'Message'], (plan.considered ?? []).map((c, i) => row(`${c.event} ${i}`, html`<th scope="row">${c.event}</th>`, c.to, html`<td class="reason">${c.when ? html`<code>${c.when}</code>` : 'always'}</td>`, verdict(c.verdict), html`<td class="reason">${[c.message, c.why].filter(Boolean).join('; ')}</td>`)), 'no event leaves this state'),
  ];
}

const verdict = (v) => badge({ chosen: 'Done', refused: 'Pending', ignored: 'Skipped', delayed: 'Waiting', impossible: 'Failed', failed: 'Failed' }[v] ?? 'Pending', v);

// fields shows a value as rows of path and value, so that nobody has to read JSON.
function fields(caption, value) {
  const rows = [];
  const walk = (at, v) => {
    if (v !== null && typeof v === 'object' && Object.keys(v).length) for (const [k, inner] of Object.entries(v)) walk(Array.isArray(v) ? `${at}[${k}]` : at ? `${at}.${k}` : k, inner);
    else rows.push([at, typeof v === 'string' ? v : JSON.stringify(v)]);
  };
  for (const [k, v] of Object.entries(value ?? {})) walk(k, v);
  return table(caption, ['Field', 'Value'], rows.map(([k, v]) => row(k, html`<th scope="row"><code>${k}</code></th>`, html`<td class="reason">${v}</td>`)));
}
