// Machines: the list with the objects in each state, and the drawing of one with its transitions.
import { h, html, make, show } from './dom.js';
import { get } from './api.js';
import { live } from './live.js';
import { roomOf } from './graph.js';
import { machineGraph } from './machinegraph.js';
import { count, facts, link, path, problem, row, table } from './parts.js';

const pause = 5000; // between two counts: the server reads all objects for one

export function machinesPage(main) {
  const list = make('div', {});
  show(main, h('h1', {}, 'Machines'), list);
  async function refresh() {
    try {
      const { items } = await get('/v1/machines');
      show(list, table('Machines', ['Machine', 'Kind', 'Begins in', '#States', '#Objects', 'By state', 'File'], items.map((m) => row(`${m.kind}`, html`<th scope="row">${link(path('machines', m.kind), m.name)}</th>`, m.kind, m.initial,
        html`<td class="number">${m.count}</td>`, html`<td class="number">${m.objects ? objectsLink(m.kind, m.objects.total) : '–'}</td>`, html`<td class="reason">${(m.objects?.byState ?? []).map((s) => `${count(s.objects)} ${s.state}`).join(', ')}</td>`, html`<td class="reason">${m.file}</td>`)), 'the server has loaded none'));
    } catch (error) {
      show(list, problem(error));
    }
  }
  refresh();
  return live('/v1/events?type=object', refresh, undefined, pause);
}

const objectsLink = (kind, n) => link(`objects?${new URLSearchParams({ kind })}`, count(n));

const causes = { then: 'the work is done', else: 'the work has paused', abort: 'the work was cancelled' };

export function machinePage(main, { rest: [kind], title }) {
  const view = make('div', {});
  let chosen, machine, drawn;
  show(main, html`<p class="crumbs">${link('machines', 'Machines')} / ${kind}</p>`, view);

  async function refresh() {
    try {
      machine = await get(`/v1/machines/${encodeURIComponent(kind)}`);
      const table = JSON.stringify([machine.states, machine.transitions]);
      if (drawn?.table !== table) drawn = { table, states: machine.states, transitions: machine.transitions }; // the same object keeps its places
      title(machine.name);
      draw();
    } catch (error) {
      show(view, h('h1', {}, 'Machine'), problem(error));
    }
  }

  const choose = (state) => {
    chosen = chosen === state ? undefined : state;
    draw();
  };

  function draw() {
    const counts = new Map((machine.objects?.byState ?? []).map((s) => [s.state, s.objects]));
    const state = machine.states.find((s) => s.name === chosen);
    const ways = machine.transitions.filter((t) => !chosen || t.from === chosen || (!t.from && t.to !== chosen && state?.type !== 'final'));
    show(view, html`<div class="title"><h1>${machine.name}</h1></div>
      ${facts([['Kind of objects', machine.kind], ['Begins in', machine.initial], ['States', machine.count], ['Objects', machine.objects && objectsLink(machine.kind, machine.objects.total)], ['File', machine.file]])}
      ${machineGraph(drawn, { here: chosen, subject: machine.name, counts, choose, room: roomOf(main), caption: ['Choose a state for the ways that leave it.'] })}
      <h2>${chosen ? `Ways out of ${chosen}` : 'Transitions'}</h2>
      ${state?.description ? html`<p>${state.description}</p>` : null}${state?.flows ? html`<p>Its work is the flow ${state.flows.map((f, i) => [i ? ', ' : '', link(`${path('flows', f)}?${new URLSearchParams({ kind: machine.kind })}`, f)])}.</p>` : null}
      ${table('Transitions', ['From', 'Event', 'To', 'Condition', 'Why'], ways.map((t, i) => row(`${i}`, t.from ?? 'any state', html`<th scope="row">${t.event ?? causes[t.cause]}</th>`, t.to,
        html`<td class="reason">${t.when ? html`<code>${t.when}</code>` : ''}</td>`, html`<td class="reason">${t.why}</td>`)), 'no event leaves this state')}`);
  }

  refresh();
  return live('/v1/events?type=object', refresh, undefined, pause);
}
