// One run: its timeline, steps with outputs, logs, fault with its guide, history, and every request to it.
import { h, html, make, painted, say, show } from './dom.js';
import { get } from './api.js';
import { live } from './live.js';
import { Logs } from './logs.js';
import { flowGraph, withoutKeys } from './flowgraph.js';
import { roomOf } from './graph.js';
import { timeline } from './timeline.js';
import { ask, countedOf, moreActions } from './requests.js';
import { guide } from './guide.js';
import { limitOf, runActions, runFacts, runFault, stepsTable } from './steps.js';
import { age, count, json, link, path, problem, reveal, row, runBadge, subjectLink, table } from './parts.js';

const page = 500; // events that are read at once
const mostEvents = 100; // rows of the history, until all that were read are asked for
const mostChildren = 20; // child runs in the timeline
const mostSteps = 100; // rows of the table of steps, until all are asked for
const stepPage = 1000; // older steps that are read at once
const limitEvery = 5000; // while a run waits for a limit: other runs change what it waits for

// flowOf reads the flow of a run; flows are for operators.
async function flowOf(run, me) {
  if (me.role !== 'operator') return null;
  return get(`/v1/flows/${encodeURIComponent(run.flow)}`, { kind: run.subject.split('/')[0] }).catch(() => null);
}

// healersOf returns the healers of a run with the step whose fault each has healed.
const healersOf = (run, events) => (run.healing ?? []).map((h) => ({ ...h, step: events.findLast((e) => e.kind === 'HealingBegun' && e.code === h.code)?.step ?? run.fault?.step ?? run.step }));

export function runPage(main, { rest: [id], title, me }) {
  const at = `/v1/runs/${encodeURIComponent(id)}`;
  const view = make('div', {});
  const trouble = make('div', {});
  const events = new Events(at);
  const logs = me.role === 'operator' ? new Logs(id) : null;
  const more = { below: false, whole: false, graph: false, steps: false, events: false }; // what is drawn beyond the first screen
  let flow; // as it is loaded; null: it is not, or it is not for the caller
  let phase;
  let run;
  let children = [];
  let counted; // the states of all steps, if the run has more than its answer tells
  const older = new OlderSteps(at);
  let again, closed = false;
  show(main, view);

  async function refresh() {
    try {
      const first = run ? null : childrenOf(id, children); // it needs no more than the id: at the same time as the run
      const others = (r, history) => Promise.all([first ?? childrenOf(r.id, children), flow === undefined ? flowOf(r, me) : flow, history ? events.read(r.seq) : null]);
      const known = run && others(run, more.below || run.healing?.length); // asked at the same time as the run itself
      known?.catch(() => {}); // told below
      run = await get(at);
      [children, flow] = await (known ?? others(run, run.healing?.length)); // the graph has healers at the step of their event
      counted = await countedOf(run);
      await older.follow(run.earlierSteps, counted);
      if (closed) return;
      title(`Run ${run.id.slice(-6)}`);
      if (phase && phase !== run.phase) say(`The run is ${run.phase}.`);
      phase = run.phase;
      logs?.update((run.steps ?? []).map((s) => s.name));
      draw();
      clearTimeout(again);
      if (limitOf(run)) again = setTimeout(refresh, limitEvery);
      if (!more.below) {
        await new Promise(painted);
        await events.read(run.seq);
        more.below = true;
        draw();
      }
    } catch (error) {
      if (!closed) show(view, h('h1', {}, 'Run'), problem(error));
    }
  }

  function draw() {
    show(view, html`
      <p class="crumbs" data-key="crumbs">${me.role === 'operator' ? link('runs', 'Runs') : link('clusters', 'Clusters')} / ${run.parent ? html`${link(path('runs', run.parent), run.parent.slice(-8))} / ` : null}${run.id}</p>
      <div class="title" data-key="title"><h1>${run.flow}</h1>${runBadge(run)}<span>on ${subjectLink(run.subject)}</span></div>
      <div data-key="fault">${runFault(run)}${guide(run.fault?.guide)}${run.warning ? html`<p class="busy"><strong>▲ ${run.warning}</strong></p>` : null}</div>
      <div data-key="actions">${runActions(run, (verb) => ask(verb, run, refresh).catch((e) => show(trouble, problem(e))))}${me.role === 'operator' ? moreActions(run, refresh, (what) => show(trouble, what)) : null}${trouble}</div>
      <div data-key="facts">${runFacts(run)}</div>
      ${flow ? html`<section data-key="graph" aria-labelledby="h-graph"><h2 id="h-graph">Graph</h2>${flow.hash === run.hash ? null : html`<p class="help">The flow was changed since this run began: the graph is that of ${flow.version && flow.version !== run.version ? `version ${flow.version}` : 'the present one'}.</p>`}${graph()}</section>` : null}
      ${more.below ? below() : null}`);
  }

  const below = () => html`
      <section class="long" data-key="timeline" aria-labelledby="h-timeline"><h2 id="h-timeline">Timeline</h2>${timeline(run, events.items, children, { whole: more.whole, toggle: () => { more.whole = true; draw(); } })}</section>
      <section class="long" data-key="steps" aria-labelledby="h-steps"><h2 id="h-steps">Steps</h2>
        ${left() > 0 && more.steps ? html`<button type="button" data-key="older-steps" onclick=${() => older.more(run.earlierSteps).then(draw, (e) => show(trouble, problem(e)))}>Show ${count(Math.min(stepPage, left()))} older steps of ${count(left())}</button>` : null}
        ${stepsTable({ ...run, steps: stepsOf() }, { total: run.earlierSteps && run.earlierSteps + run.steps.length, output: true, most: more.steps ? undefined : mostSteps, all: () => { more.steps = true; draw(); }, logs: logs && ((step) => { logs.choose(step); document.getElementById('h-logs').scrollIntoView({ block: 'start' }); }) })}
        ${run.input && Object.keys(run.input).length ? html`<details><summary>Input</summary>${json(run.input)}</details>` : null}
        ${run.result !== undefined ? html`<details><summary>Result</summary>${json(run.result)}</details>` : null}
      </section>
      ${logs ? html`<section data-key="logs" aria-labelledby="h-logs"><h2 id="h-logs">Logs</h2>${logs.view}</section>` : null}
      <section class="long" data-key="history" aria-labelledby="h-history"><h2 id="h-history">History</h2>${historyTable()}
        ${hiddenEvents() ? html`<button type="button" data-key="all-events" onclick=${() => { more.events = true; draw(); }}>Show all ${count(events.items.length)} of the newest</button>`
    : events.older ? html`<button type="button" data-key="older-events" onclick=${() => events.readOlder().then(draw, (e) => show(trouble, problem(e)))}>Show ${Math.min(page, events.older)} older of ${events.older}</button>` : null}
      </section>`;

  const graph = () => flowGraph(flow, {
    run, counted, children: children.map((c) => c.run), healers: healersOf(run, events.items), whole: more.graph, room: roomOf(main),
    reveal: async (step) => {
      const place = () => stepsOf().findIndex((s) => s.name === step);
      while (place() < 0 && left() > 0 && counted.some((s) => (s.name ?? s.path) === step)) await older.more(run.earlierSteps);
      if (place() < stepsOf().length - mostSteps) { more.steps = true; draw(); }
      reveal(view, step);
    },
    open: (child) => { location.hash = `#/${path('runs', child)}`; },
    expand: () => { more.graph = true; draw(); },
  });

  const left = () => older.from ?? run.earlierSteps ?? 0;
  const stepsOf = () => {
    const known = new Set(run.steps.map((s) => s.name));
    return [...older.items.filter((s) => !known.has(s.name)), ...run.steps];
  };

  const hiddenEvents = () => !more.events && events.items.length > mostEvents;
  const historyTable = () => table('History', ['When', 'What', 'Step', 'Attempt', 'Message', 'By'], events.items.slice(more.events ? 0 : -mostEvents).reverse().map((e) => row(`e${e.seq}`,
    age(e.at), e.kind, e.step, e.attempt, h('td', { class: 'reason' }, e.code ? [h('code', {}, e.code), ' '] : null, [e.reason, e.message].filter(Boolean).join(': ')), e.actor)));

  refresh();
  const end = live(`/v1/events?run=${encodeURIComponent(id)}`, refresh);
  return () => { closed = true; clearTimeout(again); logs?.close(); end(); };
}

// childrenOf reads the newest child runs with their events. A child that has ended is read once.
async function childrenOf(id, known) {
  const { items } = await get('/v1/runs', { parent: id, limit: mostChildren }).catch(() => ({ items: [] })); // for operators only
  return Promise.all(items.map(async (child) => {
    const old = known.find((k) => k.run.id === child.id);
    if (old && old.run.revision === child.revision) return old;
    return { run: child, events: (await get(`/v1/runs/${child.id}/history`, { limit: page }).catch(() => ({ items: [] }))).items };
  }));
}

// Events holds the history of a run from some number to its end.
class Events {
  constructor(of) { Object.assign(this, { at: `${of}/history`, items: [] }); }

  // older is the number of events that are not read.
  get older() { return this.items.length ? this.items[0].seq - 1 : 0; }

  async read(newest) {
    for (let last = this.items.at(-1)?.seq ?? Math.max(0, newest - page); ;) {
      const { items, next } = await get(this.at, { limit: page, cursor: last });
      const fresh = items.filter((e) => e.seq > (this.items.at(-1)?.seq ?? 0));
      this.items.push(...fresh);
      if (!next || !fresh.length) return;
      last = this.items.at(-1).seq;
    }
  }

  async readOlder() {
    const before = this.items[0].seq;
    const { items } = await get(this.at, { limit: page, cursor: Math.max(0, before - 1 - page) });
    this.items.unshift(...items.filter((e) => e.seq < before));
  }
}

// OlderSteps holds steps that the answer for a long run leaves out. It has the newest, and the current one in place of the oldest of these: an answer
// that omits n steps omits some of the first n+1.
class OlderSteps {
  constructor(of) { Object.assign(this, { at: `${of}/steps`, items: [], from: undefined, to: undefined, states: '' }); }

  async read(from, to) {
    const items = [];
    for (let n = from; n < to; n += stepPage) items.push(...(await get(this.at, { cursor: n, limit: Math.min(stepPage, to - n) })).items);
    return items;
  }

  // more reads a page of those before the known ones.
  async more(omitted) {
    this.to ??= omitted + 1;
    const to = this.from ?? this.to;
    const from = Math.max(0, to - stepPage);
    this.reading ??= this.read(from, to).finally(() => { this.reading = null; });
    const items = await this.reading;
    if ((this.from ?? this.to) !== to) return; // another click has read them
    this.items.unshift(...items);
    Object.assign(this, { from, states: '' });
  }

  // follow reads those that the newest answer omits too, and all of them again when one has changed.
  async follow(omitted, counted) {
    if (this.from === undefined) return;
    const paths = new Set(this.items.map((s) => withoutKeys(s.name)));
    const states = JSON.stringify(counted.filter((s) => paths.has(s.path)));
    if (this.states && states !== this.states) this.items = await this.read(this.from, this.to);
    if (omitted + 1 > this.to) this.items.push(...await this.read(this.to, omitted + 1));
    Object.assign(this, { to: Math.max(this.to, omitted + 1), states });
  }
}
