// Rollouts of a Kubernetes cluster: the list, and one with its batches, pods, checks, preview and history.
import { h, make, show, say } from './dom.js';
import { get, newKey, request } from './api.js';
import { dialog } from './dialog.js';
import { live } from './live.js';
import { Pager, age, ago, at, badge, button, count, facts, link, path, problem, prose, row, table } from './parts.js';

const size = 100;
const most = 24; // pods of a batch that are drawn before somebody asks for all

// stateOf returns the badge of a rollout: that it is paused says more than its state.
function stateOf(r) {
  const true_ = (type) => (r.conditions ?? []).some((c) => c.type === type && c.status === 'True');
  const state = r.position.rollingState ?? '';
  if (true_('Paused')) return badge('Paused', `Paused in ${state}`);
  return badge(state, state || 'not observed yet');
}

const batchOf = (r) => (r.batches?.length ? `${Math.min(r.position.currentBatch + 1, r.batches.length)}/${r.batches.length}` : undefined);
const updatedOf = (r) => (r.position.rolloutTargetSize !== undefined && r.position.mode === 'Rollout' ? `${r.position.upgradedReplicas}/${r.position.rolloutTargetSize}` : undefined);
const moves = (r) => !['', 'locatingTargetApp', 'rolloutSucceed', 'rolloutFailed'].includes(r.position.rollingState ?? '');

export function rolloutsPage(main, { query }) {
  const filter = { namespace: query.get('namespace') ?? '' };
  const list = make('div', {});
  const pager = new Pager(size, () => refresh());
  let timer;
  const set = (name, value) => { filter[name] = value.trim(); pager.first(); clearTimeout(timer); timer = setTimeout(refresh, 250); };
  show(main, h('h1', {}, 'Rollouts'),
    h('form', { class: 'filter', role: 'search', onsubmit: (e) => e.preventDefault() },
      h('label', { for: 'namespace' }, 'Namespace'), h('input', { id: 'namespace', value: filter.namespace, oninput: (e) => set('namespace', e.target.value) })),
    list);
  async function refresh() {
    try {
      const page = await get('/v1/rollouts', { ...filter, limit: size, cursor: pager.cursor });
      pager.took(page);
      show(list, table('Rollouts', ['Rollout', 'Namespace', 'Workload', 'State', 'Batch', 'Updated', 'Waits for', 'Age'], page.items.map((r) => row(`${r.object.namespace}/${r.object.name}`,
        h('th', { scope: 'row' }, link(path('rollouts', r.object.namespace, r.object.name), r.object.name)), r.object.namespace, r.target, stateOf(r), batchOf(r), updatedOf(r),
        h('td', { class: 'reason' }, r.position.waiting ? [r.position.waiting.reason, ', for ', age(r.position.waiting.since)] : ''), age(r.createdAt)))),
      pager.view(page.items.length));
    } catch (error) {
      show(list, problem(error));
    }
  }
  refresh();
  const end = live('/v1/events?type=rollout', refresh);
  return () => { clearTimeout(timer); end(); };
}

export function rolloutPage(main, { rest: [namespace, name], title }) {
  const place = `/v1/rollouts/${path(namespace, name)}`;
  const view = make('div', {});
  const more = { plan: null, history: null, wide: new Set(), open: false };
  let known;
  show(main, view);
  async function refresh() {
    try {
      const r = await get(place);
      if (more.open) more.plan = await planOf(place);
      title(name);
      const now = `${r.position.rollingState ?? ''} ${r.position.waiting?.reason ?? ''}`;
      if (known !== undefined && known !== now) say(`The rollout is ${r.position.rollingState}${r.position.waiting ? `, and waits for ${r.position.waiting.reason}` : ''}.`);
      known = now;
      draw(r);
    } catch (error) {
      show(view, h('p', { class: 'crumbs' }, link('rollouts', 'Rollouts'), ' / ', `${namespace}/${name}`), h('h1', {}, 'Rollout'), problem(error));
    }
  }
  function draw(r) {
    show(view,
      h('p', { class: 'crumbs' }, link('rollouts', 'Rollouts'), ' / ', `${namespace}/${name}`),
      h('div', { class: 'title' }, h('h1', {}, name), stateOf(r), h('span', {}, r.target)),
      actions(r, (verb) => ask(verb, r, place, refresh)), stop(r), waits(r), about(r), unseen(r),
      batches(r, more, () => draw(r)),
      others(r), checks(r),
      preview(r, more, async (open) => {
        more.open = open;
        if (!open) return;
        more.plan = await planOf(place);
        draw(r);
      }),
      history(r, more, async () => {
        more.history = (await get(`${place}/history`).catch(() => null))?.items;
        draw(r);
      }));
  }
  refresh();
  return live(`/v1/events?rollout=${encodeURIComponent(`${namespace}/${name}`)}`, refresh);
}

// planOf returns the preview, or the error with which the plan would be refused.
const planOf = (place) => get(`${place}/plan`).catch((error) => ({ error }));

const labels = { approve: 'Approve', pause: 'Pause', resume: 'Resume', retry: 'Retry', undo: 'Undo', abandon: 'Abandon' };

function actions(r, act) {
  return h('div', { class: 'actions', role: 'group', 'aria-label': 'Actions of the rollout', 'data-key': 'actions' },
    (r.verbs ?? []).map((v) => button(labels[v.name], v.why ?? '', () => act(v.name), v.name === 'approve' && !v.why ? 'main' : ['undo', 'abandon'].includes(v.name) ? 'danger' : '')));
}

// stop shows a pause, a failure, or a refused edit of the plan, with its remedy.
function stop(r) {
  const { pause, failure, planRefused, rollback } = r.position;
  const box = (key, text, code, message, since) => h('div', { class: 'fault', role: 'group', 'aria-label': text, 'data-key': key },
    h('p', {}, h('strong', {}, '▲ ', text), code ? [' ', h('code', {}, code)] : null, since ? [', for ', age(since)] : null), message ? h('p', {}, message) : null,
    r.remedy ? h('p', { class: 'remedy' }, h('strong', {}, 'Remedy: '), prose(r.remedy)) : null);
  return [
    pause ? box('pause', `Paused by ${pause.by}`, pause.reason, pause.message, pause.since) : null,
    r.position.rollingState === 'rolloutFailed' && failure ? box('failure', rollback ? 'Rolled back' : 'Failed', failure.reason, failure.message) : null,
    planRefused ? box('refused', 'The edit of the plan is not taken over', 'PlanChangeRefused', planRefused) : null,
  ];
}

// waits shows what the present batch waits for, since when, until when, and what to do.
function waits(r) {
  const w = r.position.waiting;
  if (!w || ['rolloutSucceed', 'rolloutFailed'].includes(r.position.rollingState)) return null;
  const shown = Boolean(r.position.pause);
  return h('div', { class: 'waiting', role: 'group', 'aria-label': 'Waiting', 'data-key': 'waiting' },
    h('p', {}, h('strong', {}, '◔ Waits for '), h('code', {}, w.reason), w.message ? `: ${w.message}` : null),
    r.remedy && !shown ? h('p', { class: 'remedy' }, h('strong', {}, 'Remedy: '), prose(r.remedy)) : null,
    facts([['Since', [age(w.since), ' ago']], ['Deadline', w.deadline ? at(w.deadline) : 'none']]));
}

function about(r) {
  const p = r.position;
  const asked = p.lastRequest;
  return facts([['Movement', p.mode], ['From', p.lastSourceRevision], ['To', p.lastTargetRevision],
    ['Updated', p.mode === 'Rollout' && p.rolloutTargetSize !== undefined ? `${p.upgradedReplicas} of ${p.rolloutTargetSize} pods, ${p.upgradedReadyReplicas} ready` : undefined],
    ['Size', p.mode === 'Scale' && p.rolloutTargetSize !== undefined ? `${p.rolloutOriginalSize} → ${p.rolloutTargetSize}` : undefined],
    ['Began', ago(p.started)], ['Newest request', asked && `${asked.verb} by ${asked.by || 'somebody'}: ${asked.code ? `${asked.code}, ${asked.message}` : 'accepted'}`],
    ['Behind', r.behind ? 'the status is of an older spec' : undefined],
    ['Hold', (r.conditions ?? []).some((c) => c.type === 'HoldUnguarded' && c.status === 'True') ? 'not guarded: a write of somebody else may release pods' : undefined]]);
}

const unseen = (r) => (r.unseen ? h('div', { class: 'fault', role: 'group', 'aria-label': 'Pods', 'data-key': 'unseen' }, h('p', {}, h('strong', {}, '▲ The pods are not shown: '), r.unseen)) : null);

const looks = { Done: ['✔', 'done'], Present: ['◐', 'here'], ToCome: ['○', 'later'] };
const phases = { batchInitializing: 'begins', batchInRolling: 'releases its pods', batchVerifying: 'is being verified', batchFinalizing: 'is being finished', batchReady: 'available', batchVerifyFailed: 'has failed' };

function batches(r, more, again) {
  if (!r.batches?.length) return [h('h2', {}, 'Batches'), h('p', { class: 'empty' }, 'No rollout has begun yet.')];
  return [h('h2', {}, 'Batches'), h('ol', { class: 'batches', 'aria-label': 'Batches', 'data-key': 'batches' }, r.batches.map((b) => {
    const [sign, mood] = looks[b.state] ?? looks.ToCome;
    const text = b.phase ? phases[b.phase] ?? b.phase : b.state === 'Done' ? 'done' : 'to come';
    return h('li', { class: `batch ${mood}`, 'data-key': `batch-${b.index}`, 'aria-current': mood === 'here' ? 'step' : undefined },
      h('h3', {}, h('span', { 'aria-hidden': 'true' }, `${sign} `), `Batch ${b.index}`),
      h('p', { class: 'help' }, `${b.size} ${b.size === 1 ? 'pod' : 'pods'}, ${text}`, b.start ? [b.end ? ` after ${tookText(b)}` : [', for ', age(b.start)]] : null),
      pods(r, b, more, again));
  }))];
}

function tookText(b) {
  const seconds = Math.max(0, Math.round((new Date(b.end) - new Date(b.start)) / 1000));
  return seconds < 60 ? `${seconds} s` : `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}

function pods(r, b, more, again) {
  const all = b.pods ?? [];
  if (!all.length) return b.size && moves(r) ? h('p', { class: 'help' }, r.position.mode === 'Scale' ? 'These pods are made or removed by then.' : 'The workload chooses its pods.') : null;
  const shown = more.wide.has(b.index) ? all : all.slice(0, most);
  return [h('ul', { class: 'pods' }, shown.map((p) => pod(p))),
    shown.length < all.length ? h('button', { type: 'button', onclick: () => { more.wide.add(b.index); again(); } }, `${count(all.length - shown.length)} more`) : null];
}

// signOf returns the sign, the color and the words of a pod.
function signOf(p) {
  if (p.leaving) return ['◌', 'busy', 'is being replaced'];
  if (p.updated) return p.ready ? ['✔', 'good', 'new, ready'] : ['◐', 'busy', 'new, not ready'];
  return p.ready ? ['●', 'calm', 'old, ready'] : ['✖', 'bad', 'old, not ready'];
}

function pod(p) {
  const [sign, mood, text] = signOf(p);
  return h('li', { class: 'pod', 'data-key': p.name, title: `${p.name}, revision ${p.revision}` },
    h('span', { class: mood, 'aria-hidden': 'true' }, sign), h('span', { class: 'name' }, p.name), h('span', { class: `badge ${mood}` }, text),
    h('span', { class: 'help' }, [p.ordinal !== undefined && `ordinal ${p.ordinal}`, p.role, p.zone, p.revision].filter(Boolean).join(' · ')));
}

function others(r) {
  if (!r.pods?.length) return null;
  return [h('h2', {}, moves(r) ? 'Other pods' : 'Pods'), table('Pods beside the batches', ['Pod', 'State', '#Ordinal', 'Role', 'Zone', 'Revision'], r.pods.map((p) => {
    const [sign, mood, text] = signOf(p);
    return row(p.name, h('th', { scope: 'row' }, p.name), h('span', { class: `badge ${mood}` }, h('span', { 'aria-hidden': 'true' }, `${sign} `), text), h('td', { class: 'number' }, p.ordinal ?? '–'), p.role, p.zone, h('td', {}, h('code', {}, p.revision)));
  }))];
}

function checks(r) {
  if (!r.checks?.length) return null;
  return [h('h2', {}, 'Gates, metrics, webhooks and probes of the batch'), table('Checks', ['Check', 'Kind', 'Verdict', 'Value', 'Wants', 'When', 'Again'], r.checks.map((c) => row(`${c.kind} ${c.name} ${c.when ?? ''}`,
    h('th', { scope: 'row' }, c.name), c.kind, verdict(c), h('td', { class: 'reason' }, c.value ?? '–'), h('td', { class: 'reason' }, c.wants ? h('code', {}, c.wants) : '–'), c.when, c.next && !c.verdict ? age(c.next) : '–')))];
}

function verdict(c) {
  const so = c.of ? ` (${c.passed ?? 0} of ${c.of})` : '';
  switch (c.verdict) {
    case 'Passed': return badge('Succeeded', `Passed${so}`);
    case 'Failed': case 'Inconclusive': return badge('Failed', c.verdict + so);
    case 'Skipped': return badge('Skipped', 'Skipped');
    case 'Open': return badge('Succeeded', 'Open');
    case 'Closed': return h('span', {}, badge('Waiting', 'Closed'), c.since ? [', for ', age(c.since)] : null);
    default: return badge('Waiting', `pending${so}`);
  }
}

function preview(r, more, toggle) {
  const plan = r.preview?.length ? { batches: r.preview } : more.plan;
  const open = more.open || Boolean(r.preview?.length);
  return [h('h2', {}, 'Preview'), h('details', { open, 'data-key': 'preview', ontoggle: (e) => { if (e.target.open !== more.open) toggle(e.target.open); } },
    h('summary', {}, r.preview?.length ? 'What would happen: the annotation pawl.dev/dry-run keeps it from beginning' : 'What happens from here on, if all goes well'),
    plan ? planView(plan) : h('p', {}, 'Planning …'))];
}

function planView(plan) {
  if (plan.error) return problem(plan.error);
  const notes = plan.batches.flatMap((b) => [['stops', b.stops], ['gates', b.gates], ['webhooks', b.webhooks], ['metrics', b.metrics], ['handover', b.handovers]]
    .filter(([, all]) => all?.length).map(([what, all]) => `Batch ${b.index}, ${what}: ${all.join(', ')}`));
  const warnings = plan.batches.flatMap((b) => b.warnings ?? []);
  return [plan.assumed ? h('p', { class: 'help' }, 'Nothing is to be rolled now: this is the plan of another template.') : null,
    table('Preview of the batches', ['Batch', '#Size', '#Target', 'Pods', '#Partition', 'Replicas', '#Away', '#At worst', '#Quorum left'], plan.batches.map((b) => row(`preview-${b.index}`,
      h('th', { scope: 'row' }, b.index), ...[b.size, b.target].map((n) => h('td', { class: 'number' }, n)), h('td', { class: 'reason' }, podNames(b)), number(b.partition === 2147483647 ? 'all held' : b.partition),
      Object.entries(b.replicas ?? {}).map(([k, v]) => `${k} ${v}`).join(', '), number(b.unavailable), number(b.worstCase), number(b.quorumLeft)))),
    notes.length ? h('ul', {}, notes.map((n) => h('li', {}, n))) : null,
    warnings.map((w) => h('p', { class: 'busy' }, h('strong', {}, '▲ Warning: '), w))];
}

const number = (n) => h('td', { class: 'number' }, n ?? '–');

function podNames(b) {
  const named = (b.pods ?? []).filter((p) => p.ordinal >= 0).map((p) => { const more = [p.role, p.zone].filter(Boolean).join(' '); return more ? `${p.name} (${more})` : p.name; });
  if (!b.pods?.length) return '–';
  if (!named.length) return `${b.pods.length} of its choice`;
  return named.length > most ? `${named.slice(0, most).join(', ')}, ${named.length - most} more` : named.join(', ');
}

function history(r, more, older) {
  const records = more.history ? [...more.history.filter((o) => !(r.history ?? []).some((n) => n.sequence === o.sequence)), ...(r.history ?? [])] : r.history ?? [];
  return [h('h2', {}, 'History'), table('History', ['#Number', 'When', 'Event', 'To', '#Batch', 'By', 'Why'], [...records].reverse().map((x) => row(`record-${x.sequence}`,
    h('td', { class: 'number' }, x.sequence), age(x.time), x.event, h('td', { class: 'reason' }, x.to), h('td', { class: 'number' }, x.batch), x.by, h('td', { class: 'reason' }, [x.why, movedBy(x), valuesOf(x)].filter(Boolean).join('; ')))), 'nothing yet'),
  !more.history && records.length && records[0].sequence > 1 ? h('button', { type: 'button', 'data-key': 'older', onclick: older }, 'Show older records') : null];
}

// movedBy returns the pods that were moved.
const movedBy = (x) => [...(x.pods ?? []), x.morePods ? `${x.morePods} more` : ''].filter(Boolean).join(', ');

// valuesOf returns what gates and metrics said. The end of a key is the kind and the name.
const valuesOf = (x) => Object.entries(x.values ?? {}).map(([k, v]) => `${k.split('/').slice(-2).join(' ')}: ${v}`).join('; ');

const texts = {
  approve: 'The next batch runs, whatever batchPartition says.',
  pause: 'A release in flight ends, nothing new starts. It is the field paused of the plan: the next rollout begins with a pause too.',
  resume: 'The rollout goes on, past what paused it.',
  retry: 'What paused it is asked once more.',
  undo: 'The pods that were changed go back to the old revision, in batches.',
  abandon: 'The rollout ends. The pods stay as they are, and the partition keeps them.',
};

// ask writes a request as pawl rollout does, and waits for the operator's answer.
function ask(verb, r, place, done) {
  const reason = make('input', { id: 'reason', maxlength: '1000' });
  const batch = verb === 'approve' ? make('select', { id: 'batch' }, h('option', { value: 'next' }, 'the next batch'), h('option', { value: 'all' }, 'all batches'),
    (r.batches ?? []).filter((b) => b.index > r.position.currentBatch).map((b) => h('option', { value: String(b.index) }, `up to batch ${b.index}`))) : null;
  const key = newKey();
  dialog({
    title: `${labels[verb]} ${r.object.name}`, verb: labels[verb], kind: ['undo', 'abandon'].includes(verb) ? 'danger' : 'main',
    content: [h('p', {}, texts[verb]), h('div', { class: 'form' }, batch ? [h('label', { for: 'batch' }, 'Let run'), batch] : null,
      verb === 'pause' ? null : [h('label', { for: 'reason' }, 'Why, for history'), reason])],
    act: async () => {
      await request('POST', `${place}/${verb}`, { key, body: { reason: reason.value || undefined, batch: batch?.value } });
      say(`${labels[verb]} was accepted.`);
      done();
    },
  });
}
