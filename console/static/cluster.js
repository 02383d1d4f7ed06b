// One cluster: its state, its nodes and resources, its runs, and the actions.
import { h, make, show, say } from './dom.js';
import { all, get, request } from './api.js';
import { live } from './live.js';
import { machineGraph, ofLifecycle } from './machinegraph.js';
import { roomOf } from './graph.js';
import { change } from './change.js';
import { ask } from './requests.js';
import { dialog } from './dialog.js';
import { runActions, runFacts, runFault, stepsTable } from './steps.js';
import { age, ago, badge, button, facts, fault, link, path, problem, row, runBadge, table, unseen, waiting } from './parts.js';

const verbs = [['start', 'Start'], ['stop', 'Stop'], ['scale', 'Scale'], ['upgrade', 'Upgrade'], ['recover', 'Recover'], ['delete', 'Delete'], ['forget', 'Forget']];

const parts = ['Nodes', 'Drift', 'Work', 'Journal', 'History'];

export function clusterPage(main, { rest: [id], me, title }) {
  const at = `/v1/clusters/${encodeURIComponent(id)}`;
  const view = make('div', {});
  const history = new History(`${at}/history`);
  let drift = null; // result of the last comparison
  let comparing = false;
  let compared = ''; // gist of the compared cluster
  let lifecycle = null;
  let known = null;
  let seen = '';
  show(main, view);

  const fresh = () => request('GET', at).then(({ body, etag }) => ({ cluster: body, etag }));

  async function compare() {
    if (comparing) return;
    comparing = true;
    compared = seen;
    drift = await get(`${at}/drift`).then((report) => ({ report }), (error) => ({ error }));
    comparing = false;
    await refresh();
  }
  const compareNow = () => compare().then(() => say('Desired, recorded and observed were compared.'));

  // gist changes when the last comparison is out of date.
  const gist = (c) => [c.state, c.size, ...(c.findings ?? []).map((f) => `${f.type} ${f.resource ?? f.id}`)].join();

  async function refresh() {
    try {
      lifecycle ??= ofLifecycle(await get('/v1/lifecycle'));
      const { cluster } = await fresh();
      const [offers, nodes, resources, runs] = await Promise.all([
        get(`${at}/actions`), get(`${at}/nodes`), get(`${at}/resources`), get(`${at}/runs`, { limit: 20 }), history.read()]);
      const current = runs.items.find((r) => r.id === cluster.run) ?? runs.items[0];
      const run = current && await get(`/v1/runs/${current.id}`).catch(() => current);
      title(cluster.name);
      if (known && known !== cluster.state) say(`${cluster.name} is ${cluster.state}.`);
      known = cluster.state;
      seen = gist(cluster);
      if (known === 'Destroyed') drift = null;
      show(view, ...draw({ cluster, offers: offers.items, nodes: nodes.items, resources: resources.items, runs: runs.items, run }));
      if (known !== 'Destroyed' && seen !== compared) compare();
    } catch (error) {
      show(view, h('h1', {}, 'Cluster'), problem(error), h('p', {}, link('clusters', 'Back to the list')));
    }
  }

  const draw = ({ cluster: c, offers, nodes, resources, runs, run }) => [
    h('p', { class: 'crumbs' }, link('clusters', 'Clusters'), ' / ', c.name),
    h('div', { class: 'title' }, h('h1', {}, c.name), badge(c.state), h('span', {}, 'since ', age(c.since))),
    c.code || c.reason ? fault(c, `${c.state === 'Destroyed' ? 'Why it ended' : 'Why it is not as desired'}`) : null,
    unseen(c.unseen, c.provider),
    c.waiting && c.waiting.run !== run?.id ? waiting(c.waiting) : null, // else the section Work shows it
    h('div', { class: 'actions', role: 'group', 'aria-label': 'Actions of the cluster', 'data-key': 'actions' },
      verbs.map(([verb, text]) => {
        const offer = offers.find((o) => o.verb === verb);
        const why = !offer?.allowed ? offer?.reason ?? 'The server does not offer it.' : offer.idle ? `Nothing is to be done: it is ${c.state}.` : '';
        if (verb === 'forget' && me.role !== 'operator') return null;
        return button(text, why, () => change(verb, c, fresh, refresh).catch((e) => show(view, problem(e))), ['delete', 'forget'].includes(verb) ? 'danger' : '');
      })),
    jumps(),
    h('div', { class: 'pair', 'data-key': 'pair' }, section('Facts', facts([
      ['State', badge(c.state)], ['Desired', c.desired], ['Workers', `${c.existing ?? '?'} existing, ${c.size} desired`], ['Control nodes', c.controlNodes],
      ['Endpoint', c.endpoint && h('code', {}, c.endpoint)], ['Console', c.consoleEndpoint && h('code', {}, c.consoleEndpoint)], ['Version', c.version], ['Zone', c.zone?.name ?? c.zone?.id], ['Offering', c.offering?.name ?? c.offering?.id],
      ['Network', c.network?.name ?? c.network?.id], ['Provider', c.provider], ['Cores', c.cores], ['Memory', c.memoryMB && `${c.memoryMB} MB`], ['Recovery', c.recovery ? c.recovery.join(', ') || 'none' : 'default'],
      ['Next try', c.nextTry && age(c.nextTry)], ['Owner', [c.domain, c.account].filter(Boolean).join('/')], ['Created', ago(c.created)], ['Id', h('code', {}, c.id)], ['Description', c.description]]),
    c.endpoint ? h('button', { type: 'button', onclick: config }, 'Show config …') : null),
    section('Lifecycle', machineGraph(lifecycle, { here: c.state, subject: 'The cluster', room: roomOf(main) * 0.58 }))),
    section('Nodes', table('Nodes', ['Name', 'Role', 'Ready', 'Version', 'Address', 'Last heartbeat', 'Provider’s id'], nodes.map((n) => row(n.name,
      h('th', { scope: 'row' }, n.name), n.role, badge(n.ready, n.notReady ? `no: ${n.notReady}` : { true: 'ready', false: 'no', unknown: 'not known' }[n.ready]), n.version, n.address, age(n.heartbeatAt), n.id && h('code', {}, n.id))))),
    section('Drift', driftView(c), h('button', { type: 'button', onclick: compareNow }, 'Compare now')),
    section('Work', run ? [runFault(run), runActions(run, (verb) => ask(verb, run, refresh).catch((e) => show(view, problem(e)))), runFacts(run), stepsTable(run)] : h('p', {}, 'No run has worked on it.'),
      runs.length > 1 ? [h('h3', {}, 'All runs'), table('All runs', ['Run', 'Flow', 'Phase', 'Step', 'Attempt', 'Created', 'Fault'], runs.map((r) => row(r.id, link(path('runs', r.id), r.id.slice(-8)), r.flow, runBadge(r), r.step, r.attempt, age(r.createdAt), r.fault && h('code', {}, r.fault.code))))] : null),
    section('Journal', table('Journal', ['Kind', 'Name', 'Phase', 'Origin', 'Step', 'Attempts', 'Provider’s id', 'Last error'], resources.map((r) => row(r.key + r.name,
      r.kind, h('th', { scope: 'row' }, r.name), badge(r.phase), r.origin, r.step, r.attempts ?? 0, r.id && h('code', {}, r.id), h('td', { class: 'reason' }, r.code ? [h('code', {}, r.code), ' ', r.error] : ''))), 'none yet')),
    section('History', historyView(history)),
  ];

  const section = (name, ...content) => h('section', { 'data-key': name, 'aria-labelledby': `h-${name}` }, h('h2', { id: `h-${name}`, tabindex: '-1' }, name), content);
  const jump = (name) => {
    const heading = document.getElementById(`h-${name}`);
    heading.scrollIntoView({ block: 'start' });
    heading.focus({ preventScroll: true });
  };
  const jumps = () => h('nav', { class: 'jumps', 'aria-label': 'Parts of the page', 'data-key': 'jumps' }, parts.map((name) => h('button', { type: 'button', 'data-key': name, onclick: () => jump(name) }, name)));

  // short returns the name of a node without the prefix of the cluster.
  const short = (c, name) => (name.startsWith(`${c.name}-${c.id.slice(0, 6)}-`) ? name.slice(c.name.length + 8) : name);

  function driftView(c) {
    const findings = drift?.report?.findings ?? c.findings ?? [];
    const sides = drift?.report && table('Desired, recorded, observed', ['', 'State', 'Workers', 'Control', 'Nodes'], ['desired', 'recorded', 'observed'].map((side) => {
      const s = drift.report[side];
      return row(side, h('th', { scope: 'row' }, side), s.state, s.workers, s.control, (s.nodes ?? []).map((n) => `${short(c, n.name)}${n.power ? ` ${n.power}` : ''}`).join(', '));
    }));
    return h('div', { 'aria-live': 'polite' }, drift?.error ? problem(drift.error) : null, sides,
      drift?.report ? h('p', {}, 'Compared ', ago(drift.report.at), '. The policy allows ', (drift.report.policy ?? []).join(', ') || 'nothing', '.') : null,
      table('Findings', ['Type', 'Resource', 'Since', 'Evidence', 'Beyond tolerance', 'Then', 'When'], findings.map((f) => row(`${f.type}-${f.resource}-${f.id}`,
        h('th', { scope: 'row' }, f.type), f.resource ?? f.id, age(f.since), f.evidence, f.alarm ? badge('Alert', 'yes') : 'no', f.then, age(f.at))), drift?.report ? 'none' : 'none at the last pass'));
  }

  function historyView(events) {
    const shown = events.whole ? events.items : events.items.slice(-50);
    return [table('History', ['When', 'Type', 'What', 'State', 'Reason', 'By'], [...shown].reverse().map((e) => row(`e${e.seq}`,
      age(e.at), e.type, e.event, e.from && e.from !== e.state ? `${e.from} → ${e.state}` : e.state, h('td', { class: 'reason' }, e.code ? [h('code', {}, e.code), ' ', e.reason] : e.reason), e.actor))),
    shown.length < events.items.length ? h('button', { type: 'button', onclick: () => { events.whole = true; refresh(); } }, `Show all ${events.items.length}`) : null];
  }

  async function config() {
    try {
      const { configData } = await get(`${at}/config`);
      dialog({ title: 'Access to the cluster', verb: 'Close', content: [h('p', {}, 'This read is recorded in history. Keep the configuration secret.'), h('pre', { tabindex: '0' }, configData)] });
    } catch (error) {
      dialog({ title: 'Access to the cluster', verb: 'Close', content: problem(error) });
    }
  }

  refresh();
  return live(`${at}/events`, refresh);
}

// History holds the events of a cluster.
class History {
  constructor(from) { Object.assign(this, { from, items: [], whole: false }); }
  async read() {
    this.items = await all(this.from);
    return this.items;
  }
}
