// Schedules: the list, and one schedule with its next and last ticks, its runs, and the verbs that steer it.
import { html, make, say, show } from './dom.js';
import { get, newKey, request } from './api.js';
import { dialog } from './dialog.js';
import { live } from './live.js';
import { runColumns, runRows } from './runrows.js';
import { Pager, age, at, badge, button, facts, fault, json, link, path, problem, row, subjectLink, table } from './parts.js';

const size = 100;
const newest = 10; // runs of a schedule that its page shows
const pageOf = (o) => path('schedules', o.namespace, o.name);
const state = (s) => badge(s.state === 'Invalid' ? 'Refused' : s.state === 'Active' ? 'Running' : s.state, s.state || 'new');
const why = (o) => o.annotations?.['pawl.dev/pause'];
const moment = (when) => html`<time datetime=${when} title=${new Date(when).toLocaleString()}>${when.replace('.000Z', 'Z')}</time>`;

export function schedulesPage(main) {
  const list = make('div', {});
  const pager = new Pager(size, () => refresh());
  show(main, html`<h1>Schedules</h1>`, list);
  async function refresh() {
    try {
      const page = await get('/v1/schedules', { limit: size, cursor: pager.cursor });
      pager.took(page);
      show(list, table('Schedules', ['Schedule', 'Namespace', 'When', 'Flow', 'State', 'Last', 'Next', 'Overlap', '#Runs', '#Skipped', 'Fault'], page.items.map((s) => {
        const { object: o } = s;
        const status = o.status ?? {};
        return row(`${o.namespace}/${o.name}`, html`<th scope="row">${link(pageOf(o), o.name)}</th>`, o.namespace, html`<td><code>${s.when ?? ''}</code></td>`, link(path('flows', o.spec.flow), o.spec.flow), state(s), age(status.recent?.[0]?.tick),
          age(s.next[0]), o.spec.overlap ?? 'skip', html`<td class="number">${status.started ?? 0}</td>`, html`<td class="number">${status.skipped ?? 0}</td>`, html`<td>${status.fault ? html`<code>${status.fault.code}</code>` : ''}</td>`);
      }), 'there are none'), pager.view(page.items.length));
    } catch (error) {
      show(list, problem(error));
    }
  }
  refresh();
  return live('/v1/events?type=object', refresh);
}

export function schedulePage(main, { rest: [namespace, name], title }) {
  const place = `/v1/schedules/${path(namespace, name)}`;
  const view = make('div', {});
  const failed = make('div', { 'aria-live': 'polite' });
  title(name);
  show(main, html`<p class="crumbs">${link('schedules', 'Schedules')} / ${namespace} / ${name}</p>`, failed, view);

  async function refresh() {
    try {
      const label = `pawl.dev/schedule=${namespace}/${name}`;
      const [s, { items: runs, next }] = await Promise.all([get(place), get('/v1/runs', { selector: label, limit: newest })]);
      draw(s, runs, next && `runs?${new URLSearchParams({ selector: label })}`);
    } catch (error) {
      show(view, html`<h1>${name}</h1>`, problem(error));
    }
  }

  function draw(s, runs, more) {
    const { object: o } = s;
    const { spec } = o;
    const status = o.status ?? {};
    const paused = s.state === 'Paused';
    const go = (act) => act().catch((error) => show(failed, problem(error)));
    const broken = s.when ? '' : 'The spec cannot be read.';
    show(view, html`<div class="title"><h1>${name}</h1>${state(s)}${paused ? html`<span>${why(o)}</span>` : null}</div>
      <div data-key="fault">${fault(status.fault)}</div>
      <div class="actions" role="group" aria-label="Actions" data-key="actions">
        ${button('Pause', paused ? 'It is paused already.' : '', () => go(() => pause(s)))}${button('Resume', paused ? '' : 'It is not paused.', () => go(() => resume()))}
        ${button('Run now', broken, () => go(() => trigger(s)))}${button('Backfill', broken, () => go(() => backfill()))}</div>
      ${facts([['When', s.when && html`<code>${s.when}</code>`], ['Except', spec.except?.join(', ')], ['Flow', spec.flow && link(path('flows', spec.flow), spec.flow)], ['Subject', spec.subject ? subjectLink(spec.subject) : 'the schedule itself'], ['Overlap', overlaps[spec.overlap ?? 'skip']],
        ['Makes up for', `${spec.catchUp ?? 1} missed`], ['Begins', s.offset && `${s.offset} after each tick`], ['Ticks with a run', status.started ?? 0], ['Ticks without', status.skipped ?? 0], ['Paused since', paused && status.pausedSince ? age(status.pausedSince) : undefined], ['Created', age(o.createdAt)]])}
      ${spec.input ? html`<section data-key="input"><h2>Input</h2>${json(spec.input)}</section>` : null}
      <div class="split" data-key="ticks"><section><h2>Next</h2>${nextTable(s, paused ? 'it is paused' : 'the calendar has ended')}</section>
        <section><h2>Last</h2>${table('Last ticks', ['Tick', 'Became', 'Why'], (status.recent ?? []).map((r) => row(r.tick, html`<th scope="row">${moment(r.tick)}${r.until ? [' to ', moment(r.until)] : null}</th>`, r.run ? link(path('runs', r.run), `run ${r.run.slice(-8)}`) : `skipped${r.count > 1 ? ` (${r.count} ticks)` : ''}`,
          html`<td class="reason">${[r.reason, r.message].filter(Boolean).join(': ')}</td>`)), 'no tick has come yet')}</section></div>
      <h2>Runs</h2>${table('Runs', runColumns, runRows(runs))}${more ? html`<p>${link(more, 'All its runs')}</p>` : null}
      <p>${link(path('objects', 'Schedule', namespace, name), 'The object, with its spec and conditions')}</p>`);
  }

  const post = (verb, body, key) => request('POST', `${place}/${verb}`, { body, key }).then(({ body: answer }) => answer);
  const done = (text) => { say(text); show(failed); refresh(); };

  async function pause(s) {
    const reason = make('input', { id: 'reason', maxlength: '1000' });
    dialog({ title: `Pause ${name}`, verb: 'Pause',
      content: html`<p>It starts nothing until somebody resumes it. The ticks of the pause are not made up for; runs that have begun go on.</p><div class="form"><label for="reason">Why, for those who read it</label>${reason}</div><h3>What it will leave out</h3>${nextTable(s, 'the calendar has ended')}`,
      act: async () => {
        await post('pause', { reason: reason.value.trim() || undefined }, newKey());
        done(`${name} is paused.`);
      } });
  }

  async function resume() {
    const then = await post('resume', { dryRun: true });
    dialog({ title: `Resume ${name}`, verb: 'Resume', content: html`<p>It goes on with its next tick. What was due in the pause is not made up for: a backfill does that.</p><h3>What it will start</h3>${nextTable(then, 'the calendar has ended')}`,
      act: async () => {
        await post('resume', {}, newKey());
        done(`${name} goes on.`);
      } });
  }

  async function trigger({ object: { spec } }) {
    const reason = make('input', { id: 'reason', maxlength: '1000' });
    const { body: { plan } } = await request('POST', '/v1/plans', { body: { flow: spec.flow, input: spec.input } });
    const key = newKey(); // one dialog starts one run, however often its button is pressed
    dialog({ title: `Run ${name} now`, verb: 'Run now',
      content: html`<p>A run begins at once, or waits behind the active run of its subject. The ticks of the schedule stay as they are.</p><div class="form"><label for="reason">Why, for history</label>${reason}</div>
        <h3>What it will do</h3>${table('Plan', ['Step', 'Verdict', 'Why'], plan.steps.map((p, i) => row(`${i}`, html`<th scope="row">${p.name}</th>`, p.verdict, html`<td class="reason">${p.why}</td>`)))}`,
      act: async () => {
        const run = await post('trigger', { reason: reason.value.trim() || undefined }, key);
        done(`The run ${run.id.slice(-8)} was started.`);
      } });
  }

  async function backfill() {
    const from = make('input', { id: 'from', type: 'datetime-local', step: '1', required: true });
    const to = make('input', { id: 'to', type: 'datetime-local', step: '1', required: true });
    const plan = make('div', { 'aria-live': 'polite' });
    let planned = null, wrong = '', turn = 0, timer;
    const body = () => ({ from: utc(from.value), to: utc(to.value) });
    async function read() {
      const mine = ++turn;
      planned = null;
      wrong = from.value && to.value ? '' : 'Choose the time first.';
      box.check();
      if (wrong) return show(plan);
      try {
        const { items } = await post('backfill', { ...body(), dryRun: true });
        if (mine !== turn) return undefined;
        planned = items;
        wrong = items.some((i) => i.result === 'planned') ? '' : 'There is nothing to start.';
        show(plan, table('Plan', ['Tick', 'Run', 'Then'], items.map((i) => row(i.tick, html`<th scope="row">${moment(i.tick)}</th>`, i.result === 'exists' ? link(path('runs', i.run), i.run.slice(-8)) : i.run.slice(-8), i.result === 'exists' ? 'has its run' : 'starts'))));
      } catch (error) {
        if (mine !== turn) return undefined;
        wrong = error.message;
        show(plan, problem(error));
      }
      return box.check();
    }
    const again = () => { planned = null; clearTimeout(timer); timer = setTimeout(read, 250); };
    const box = dialog({ title: `Backfill ${name}`, verb: 'Start the runs', content: html`<p>Ticks of the past get the runs that they have not had, the oldest first, at most 100. They wait in the queue of their subject.</p>
        <div class="form" oninput=${again}><label for="from">From (UTC)</label>${from}<label for="to">To (UTC)</label>${to}</div><h3>What it will start</h3>${plan}`,
      ready: () => wrong || (planned ? '' : 'The plan is being made …'),
      act: async () => {
        const { items } = await post('backfill', body(), newKey());
        done(`${items.filter((i) => i.result === 'started').length} runs were started.`);
      },
      closed: () => { turn++; clearTimeout(timer); } });
    read();
  }

  refresh();
  return live('/v1/events?type=object,run', refresh);
}

const overlaps = { skip: 'skip: a tick has no run while an earlier one goes on', queue: 'queue: runs wait for the earlier ones', replace: 'replace: earlier runs are cancelled' };
const nextTable = (s, empty) => table('Next ticks', ['Tick', 'In your time'], s.next.map((t) => row(t, html`<th scope="row">${moment(t)}</th>`, html`<td>${at(t)}</td>`)), empty);

// utc returns the value of a field of local time as a time of UTC.
const utc = (text) => `${text.length === 16 ? `${text}:00` : text}Z`;
