// Changes of a cluster: a dialog with the fields and the plan, then the request.
import { h, make, show, say } from './dom.js';
import { get, newKey, request } from './api.js';
import { dialog, nameField } from './dialog.js';
import { problem, row, table } from './parts.js';

const titles = { start: 'Start', stop: 'Stop', scale: 'Scale', upgrade: 'Upgrade', recover: 'Recover', delete: 'Delete', forget: 'Forget' };

export function planView(plan) {
  const nothing = !plan.steps?.length && !plan.resources?.length;
  return h('div', { class: 'plan' },
    (plan.findings ?? []).length ? h('div', { class: 'fault', role: 'alert' }, h('p', {}, h('strong', {}, '▲ Obstacles')),
      h('ul', {}, plan.findings.map((f) => h('li', {}, f.code ? [h('code', {}, f.code), ' '] : null, [f.resource, f.evidence ?? f.type].filter(Boolean).join(': '))))) : null,
    nothing ? h('p', {}, 'Nothing is to be done: the cluster is as requested, or a run is on its way there.') : null,
    (plan.resources ?? []).length ? table('Affected resources', ['Action', 'Kind', 'Name', 'Role'], plan.resources.map((r) => row(`${r.act} ${r.kind} ${r.name}`, r.act, r.kind, h('code', {}, r.name), r.role))) : null,
    (plan.steps ?? []).length ? h('details', { open: true }, h('summary', {}, `${plan.steps.length} steps`),
      h('ol', {}, plan.steps.map((s) => h('li', {}, h('strong', {}, s.name), ' ', s.text, h('span', { class: 'help' }, [s.timeout && ` within ${s.timeout}`, s.tries && `, ${s.tries} tries`].filter(Boolean).join('')))))) : null);
}

const check = (id, text, checked) => h('div', { class: 'check' }, h('input', { id, type: 'checkbox', checked }), h('label', { for: id }, text));
const on = (id) => document.getElementById(id)?.checked ?? false;

// fieldsOf returns the fields of a verb: their view, and a function that returns their values for the request.
async function fieldsOf(verb, cluster) {
  switch (verb) {
    case 'scale': {
      const size = make('input', { id: 'size', type: 'number', min: '1', max: '100', value: cluster.size, required: true });
      return { view: h('div', { class: 'form' }, h('label', { for: 'size' }, 'Desired workers'), size), take: () => ({ size: Number(size.value) }), main: `from ${cluster.size}` };
    }
    case 'stop':
      return { view: check('forced', 'Do not wait for the nodes to drain'), take: () => ({ forced: on('forced') }) };
    case 'upgrade': {
      const { items } = await get('/v1/catalog/version');
      const others = items.filter((v) => !v.disabled && v.id !== cluster.version);
      const version = make('select', { id: 'version' }, others.map((v) => h('option', { value: v.id }, `${v.name} (${v.version})`)));
      return { view: h('div', { class: 'form' }, h('label', { for: 'version' }, `Version, now ${cluster.version || 'none'}`), version,
        check('allowDowntime', 'The only control node may be upgraded in place: the endpoint does not answer meanwhile'),
        check('consent', 'The only control node may be replaced: its data is lost')),
        take: () => ({ version: version.value, allowDowntime: on('allowDowntime'), consent: on('consent') }), why: () => (others.length ? '' : 'There is no other version.') };
    }
    case 'recover':
      return { view: h('fieldset', {}, h('legend', {}, 'For this request, recovery may'), check('restart', 'restart nodes that are stopped', true), check('replace', 'replace nodes that are missing or broken', true),
        check('adopt', 'adopt resources with the tags of this installation'), check('consent', 'replace the last control node')),
      take: () => ({ recovery: ['restart', 'replace', 'adopt'].filter(on), consent: on('consent') }) };
    case 'delete': {
      const name = nameField(cluster.name, 'delete it');
      return { view: [h('p', {}, 'All its resources are deleted. This cannot be undone.'), check('forced', 'Do not wait for the nodes to drain'), name.view], why: name.why, take: () => ({ forced: on('forced') }) };
    }
    default:
      return { view: null, take: () => ({}) };
  }
}

function send(verb, cluster, etag, key, body) {
  const at = `/v1/clusters/${encodeURIComponent(cluster.id)}`;
  if (verb === 'delete') return request('DELETE', at, { etag, query: { forced: body.forced || undefined } });
  return request('POST', `${at}/${verb}`, { etag, key, body });
}

// change shows the plan of a change and requests it. fresh reads the cluster and its ETag again.
export async function change(verb, cluster, fresh, done) {
  if (verb === 'forget') return forget(cluster, done);
  const fields = await fieldsOf(verb, cluster);
  const plan = make('div', { 'aria-live': 'polite' }, h('p', {}, 'Planning …'));
  let state = 'Planning …';
  let etag = '';
  let sequence = 0;
  let planned = ''; // fields of the shown plan
  let shown = ''; // the shown plan
  let timer;
  const showPlan = async (again = false) => {
    const wanted = JSON.stringify(fields.take());
    if (wanted === planned && !again) return; // a click on the button fires a change event too
    planned = wanted;
    const mine = ++sequence;
    state = 'Planning …';
    box.check();
    try {
      const now = await fresh();
      const { body } = await request('POST', '/v1/plans', { body: { change: { cluster: cluster.id, kind: verb, ...fields.take() } } });
      if (mine !== sequence) return;
      etag = now.etag;
      shown = JSON.stringify([body.cluster?.steps, body.cluster?.resources]);
      state = '';
      show(plan, planView(body.cluster ?? {}));
    } catch (error) {
      if (mine !== sequence) return;
      state = 'This change is not possible.';
      show(plan, problem(error));
    }
    box.check();
  };
  let key = newKey();
  const form = h('div', { onchange: () => showPlan(), oninput: (e) => { if (e.target.type === 'number') { clearTimeout(timer); timer = setTimeout(showPlan, 300); } } }, fields.view);
  const box = dialog({
    title: `${titles[verb]} ${cluster.name}`, verb: titles[verb], kind: verb === 'delete' ? 'danger' : 'main',
    content: [form, h('h3', {}, 'What it will do'), plan],
    ready: () => fields.why?.() || state,
    act: async () => {
      for (let tries = 1; ; tries++) {
        try {
          await send(verb, cluster, etag, key, fields.take());
          break;
        } catch (error) {
          if (error.status !== 412) throw error;
          const agreed = shown; // the cluster has changed since the plan was made, for example by state sync
          await showPlan(true);
          key = newKey();
          if (tries === 5 || state || shown !== agreed) throw error; // another plan needs another confirmation
        }
      }
      say(`${titles[verb]} of ${cluster.name} was accepted.`);
      done();
    },
    closed: () => clearTimeout(timer),
  });
  await showPlan();
}

function forget(cluster, done) {
  const name = nameField(cluster.name, 'give it up');
  dialog({
    title: `Forget ${cluster.name}`, verb: 'Forget', kind: 'danger',
    content: [h('p', {}, 'Nothing is deleted at the provider. Resources that may still exist stay in the leak report, and may cost money. The cluster becomes Destroyed.'), name.view],
    ready: name.why,
    act: async () => {
      await request('POST', `/v1/clusters/${encodeURIComponent(cluster.id)}/forget`, { key: newKey(), body: { confirm: name.value() } });
      say(`${cluster.name} is given up.`);
      done();
    },
  });
}
