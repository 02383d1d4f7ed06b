// FoundationDB clusters: the list, and one with its groups, its database, its plan, its backups and its restores.
import { h, make, show, say } from './dom.js';
import { get, newKey, request } from './api.js';
import { dialog } from './dialog.js';
import { live } from './live.js';
import { Groups } from './groups.js';
import { Pager, age, ago, at, badge, button, count, facts, link, path, problem, prose, row, table } from './parts.js';

const size = 50;

const versions = (c) => (c.runningVersion && c.runningVersion !== c.version ? `${c.runningVersion} → ${c.version}` : c.version);
const because = (x) => (x.reason ? [h('code', {}, x.reason), x.message ? `: ${x.message}` : null] : x.message);

export function databasesPage(main, { query }) {
  const filter = { namespace: query.get('namespace') ?? '' };
  const list = make('div', {});
  const pager = new Pager(size, () => refresh());
  let timer;
  const set = (name, value) => { filter[name] = value.trim(); pager.first(); clearTimeout(timer); timer = setTimeout(refresh, 250); };
  show(main, h('h1', {}, 'FoundationDB'),
    h('form', { class: 'filter', role: 'search', onsubmit: (e) => e.preventDefault() },
      h('label', { for: 'namespace' }, 'Namespace'), h('input', { id: 'namespace', value: filter.namespace, oninput: (e) => set('namespace', e.target.value) })),
    list);
  async function refresh() {
    try {
      const page = await get('/v1/foundationdb', { ...filter, limit: size, cursor: pager.cursor });
      pager.took(page);
      show(list, table('FoundationDB clusters', ['Cluster', 'Namespace', 'Version', 'State', 'Ready', 'Reconciled', 'Groups', '#Problems', 'Reason', 'Age'], page.items.map((c) => row(`${c.namespace}/${c.name}`,
        h('th', { scope: 'row' }, link(path('foundationdb', c.namespace, c.name), c.name)), c.namespace, versions(c), badge(c.state), badge(String(c.ready), c.ready ? 'yes' : 'no'), badge(String(c.reconciled), c.reconciled ? 'yes' : 'no'),
        `${c.reconciledGroups}/${c.desiredGroups}`, h('td', { class: c.problems ? 'number differs' : 'number' }, count(c.problems)), h('td', { class: 'reason' }, because(c)), age(c.createdAt)))),
      pager.view(page.items.length));
    } catch (error) {
      show(list, problem(error));
    }
  }
  refresh();
  const end = live('/v1/events?type=foundationdb', refresh);
  return () => { clearTimeout(timer); end(); };
}

export function databasePage(main, { rest: [namespace, name, chosen], title }) {
  const place = `/v1/foundationdb/${path(namespace, name)}`;
  const [head, database, foot] = [make('div', {}), make('div', {}), make('div', {})];
  const groups = new Groups(place, chosen, (id) => history.replaceState(null, '', `#/${path('foundationdb', namespace, name)}${id ? `/${path(id)}` : ''}`));
  let known;
  show(main, head);
  async function refresh() {
    try {
      const c = await get(place);
      title(name);
      if (known !== undefined && known !== c.state) say(`The cluster is ${c.state}.`);
      known = c.state;
      if (!groups.view.isConnected) show(main, head, groups.view, database, foot);
      show(head, crumbs(), h('div', { class: 'title' }, h('h1', {}, name), badge(c.state), h('span', {}, `FoundationDB ${versions(c)}`)), actions(c), stop(c), about(c));
      groups.update(c);
      show(database, configuration(c), coordinators(c), conditions(c));
      show(foot, plan(c, (verb, one) => ask(verb, c, one)), backups(c), restores(c));
    } catch (error) {
      show(main, head);
      show(head, crumbs(), h('h1', {}, 'FoundationDB cluster'), problem(error));
    }
  }
  const crumbs = () => h('p', { class: 'crumbs' }, link('foundationdb', 'FoundationDB'), ' / ', `${namespace}/${name}`);

  function actions(c) {
    const none = c.held.length ? '' : 'No link is held.';
    return h('div', { class: 'actions', role: 'group', 'aria-label': 'Actions of the cluster', 'data-key': 'actions' },
      button('Approve', c.plan.hash ? '' : 'The operator holds no plan back.', () => ask('approve', c), c.plan.hash ? 'main' : ''),
      button('Hold', c.held.length === c.links.length ? 'All links are held.' : '', () => ask('hold', c)),
      button('Release', none, () => ask('release', c)));
  }

  // ask writes an annotation as pawl fdb hold and approve do. one is a link; without it the dialog asks for one.
  function ask(verb, c, one) {
    const key = newKey();
    const from = verb === 'hold' ? c.links.filter((l) => !c.held.includes(l)) : c.held;
    const choice = verb === 'approve' || one ? null : make('select', { id: 'link' }, h('option', { value: '' }, 'all links'), from.map((l) => h('option', { value: l }, l)));
    const { hash } = c.plan; // of the plan that the dialog shows
    dialog({
      title: `${asks[verb].title} ${one ?? name}`, verb: asks[verb].title,
      content: [h('p', {}, asks[verb].text), verb === 'approve' ? approved(c) : null, choice ? h('div', { class: 'form' }, h('label', { for: 'link' }, 'Link of the operator'), choice) : null],
      act: async () => {
        const only = one ?? choice?.value;
        await request('POST', `${place}/${verb}`, { key, body: verb === 'approve' ? { hash } : { links: only ? [only] : [] } });
        say(`${asks[verb].title} was accepted.`);
        refresh();
      },
    });
  }

  refresh();
  const end = live(`/v1/events?foundationdb=${encodeURIComponent(`${namespace}/${name}`)}`, refresh);
  return () => { groups.close(); end(); };
}

const asks = {
  approve: { title: 'Approve', text: 'Exactly this plan passes once, although links are held. If the cluster has another plan by then, nothing is approved.' },
  hold: { title: 'Hold', text: 'The operator goes on judging, and its plan shows what it would do. It does not act until the link is released or the plan is approved.' },
  release: { title: 'Release', text: 'The operator acts again as soon as nothing else is in the way.' },
};

const approved = (c) => [facts([['Hash of the plan', h('code', {}, c.plan.hash)]]),
  h('ul', {}, c.plan.entries.filter((e) => e.reason === 'Held').map((e) => h('li', {}, h('strong', {}, e.link), ` ${e.action} ${few(e.targets)}`)))];

// stop shows why the cluster does not go on.
function stop(c) {
  if (!c.reason && !c.message) return null;
  const bad = ['Refused', 'Unavailable'].includes(c.state);
  return h('div', { class: bad ? 'fault' : 'waiting', role: 'group', 'aria-label': 'Reason', 'data-key': 'reason' }, h('p', {}, h('strong', {}, bad ? '▲ ' : '◔ ', c.state), ' ', because(c)));
}

const about = (c) => facts([['Ready', c.ready ? 'yes' : 'no'], ['Reconciled', c.reconciled ? 'yes' : 'no'], ['Available', c.available ? 'yes' : 'no'], ['Fully replicated', c.fullReplication ? 'yes' : 'no'],
  ['Groups as they should be', `${count(c.reconciledGroups)} of ${count(c.desiredGroups)}`], ['Groups with a condition', count(c.problems)],
  ['Running version', c.runningVersion || 'none yet'], ['Desired version', c.version], ['Maintenance', c.maintenanceZone && `zone ${c.maintenanceZone}`], ['Created', ago(c.createdAt)]]);

function configuration(c) {
  const waits = c.plan.entries.find((e) => e.link === 'UpdateDatabaseConfiguration' && !e.now);
  return [h('h2', {}, 'Database'), facts([['Configuration', c.configuration ? h('code', {}, c.configuration) : 'not known yet'], ['Desired', c.desiredConfiguration && h('code', {}, c.desiredConfiguration)]]),
    c.stages.length ? [h('h3', {}, 'Stages'), h('ol', { 'aria-label': 'Stages' }, c.stages.map((s) => h('li', {}, h('code', {}, `configure ${s}`)))),
      waits ? h('p', { class: 'help' }, 'The next stage waits for ', because(waits), waits.since ? [', for ', age(waits.since)] : null, '.') : null] : null];
}

const coordinators = (c) => [h('h3', {}, 'Coordinators'), table('Coordinators', ['Address', 'Group'], c.coordinators.map((x) => row(x.address, h('th', { scope: 'row' }, h('code', {}, x.address)), x.group || 'of no group of this object')), 'none yet')];

const conditions = (c) => [h('h3', {}, 'Conditions'), table('Conditions', ['Condition', 'Status', 'Reason', 'Message'], c.conditions.map((x) => row(x.type, h('th', { scope: 'row' }, x.type), x.status, h('td', {}, h('code', {}, x.reason)), h('td', { class: 'reason' }, x.message))), 'the operator has not looked yet')];

// few shows the first targets. The status has some of them, and at the end how many more there are.
function few(targets = []) {
  if (targets.length <= 5) return targets.join(', ');
  const clipped = /^and (\d+) more$/.exec(targets.at(-1));
  return `${targets.slice(0, 4).join(', ')} and ${targets.length - 4 + (clipped ? clipped[1] - 1 : 0)} more`;
}

function heldText(c) {
  const free = c.links.filter((l) => !c.held.includes(l));
  if (!free.length) return 'all links';
  return free.length < c.held.length ? `all links but ${free.join(', ')}` : c.held.join(', ');
}

function plan(c, act) {
  const entries = c.plan.entries;
  const offer = (e) => (!c.links.includes(e.link) ? '' : c.held.includes(e.link)
    ? h('button', { type: 'button', 'aria-label': `Release ${e.link}`, onclick: () => act('release', e.link) }, 'Release')
    : h('button', { type: 'button', 'aria-label': `Hold ${e.link}`, onclick: () => act('hold', e.link) }, 'Hold'));
  return [h('h2', {}, 'Plan'), facts([['Hash', c.plan.hash && h('code', {}, c.plan.hash)], ['Held', heldText(c)]]),
    table('Plan', ['Link', 'Action', 'Targets', 'When', 'Why not now', 'Since', 'Earliest', 'Remedy', 'Hold'], entries.map((e, i) => row(`${e.link} ${e.action} ${i}`,
      h('th', { scope: 'row' }, e.link), e.action, h('td', { class: 'reason', title: (e.targets ?? []).join(', ') }, few(e.targets) || '–'), e.now ? badge('Running', 'now') : badge('Waiting', 'waits'),
      h('td', { class: 'reason' }, e.now ? '–' : because(e)), age(e.since), h('td', {}, e.notBefore ? at(e.notBefore) : '–'), h('td', { class: 'reason' }, e.remedy ? prose(e.remedy) : '–'), h('td', {}, offer(e)))), 'nothing is to be done')];
}

function backups(c) {
  return [h('h2', {}, 'Backups'), c.unseen ? h('p', { class: 'busy' }, `Not all is shown: ${c.unseen}`) : null,
    table('Backups', ['Backup', 'State', 'Tag', 'Restorable', 'Agents', 'URL', 'Reason'], c.backups.map((b) => row(b.name, h('th', { scope: 'row' }, b.name),
      badge(b.state, b.state === b.desired ? b.state : `${b.state}, wanted: ${b.desired}`), b.tag, badge(String(b.restorable), b.restorable ? 'yes' : 'no'), `${b.agents}/${b.desiredAgents}`, h('td', { class: 'reason' }, h('code', {}, b.url ?? '')), h('td', { class: 'reason' }, because(b)))))];
}

function restores(c) {
  return [h('h2', {}, 'Restores'), table('Restores', ['Restore', 'State', 'Tag', 'To', 'Keys', 'Started', 'Completed', 'Reason'], c.restores.map((r) => row(r.name, h('th', { scope: 'row' }, r.name),
    badge(r.state), r.tag, r.backupVersion ? `version ${r.backupVersion}` : 'the newest version', h('td', { class: 'reason' }, (r.keyRanges ?? []).join('; ') || 'all keys'), age(r.startedAt), age(r.completedAt), h('td', { class: 'reason' }, because(r)))))];
}
