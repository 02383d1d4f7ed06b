// Accounts and the audit trail: who may call, within which limits, with which credentials, and what was called.
import { h, html, make, say, show } from './dom.js';
import { all, get, newKey, request } from './api.js';
import { dialog } from './dialog.js';
import { Pager, age, badge, button, facts, link, path, problem, row, table } from './parts.js';

const size = 100;
const newest = 20; // calls that the page of an account shows

const state = (a) => (a.disabled ? badge('Stopped', 'disabled') : badge('Running', 'active'));
const limits = [['clusters', 'clusters'], ['nodes', 'nodes'], ['cores', 'cores'], ['memoryMB', 'MB of memory'], ['size', 'workers of a cluster']];
const limitText = (a) => limits.filter(([key]) => a.limits?.[key]).map(([key, text]) => `${a.limits[key]} ${text}`).join(', ') || 'none';
const domainsByID = async () => new Map((await all('/v1/domains')).map((d) => [d.id, d]));

export function accountsPage(main) {
  const list = make('div', {});
  const pager = new Pager(size, () => refresh());
  show(main, h('h1', {}, 'Accounts'), list);
  async function refresh() {
    try {
      const [page, domains] = await Promise.all([get('/v1/accounts', { limit: size, cursor: pager.cursor }), domainsByID()]);
      pager.took(page);
      show(list, table('Accounts', ['Account', 'Domain', 'Role', 'State', 'Limits', 'Created'], page.items.map((a) => row(a.id, html`<th scope="row">${link(path('accounts', a.id), a.name)}</th>`, domains.get(a.domainId)?.path ?? a.domainId, a.role, state(a), limitText(a), age(a.created)))), pager.view(page.items.length),
        html`<h2>Domains</h2>`, table('Domains', ['Domain', 'State', 'Created'], [...domains.values()].map((d) => row(d.id, html`<th scope="row">${d.path}</th>`, state(d), age(d.created)))));
    } catch (error) {
      show(list, problem(error));
    }
  }
  refresh();
}

const credentials = (caption, items) => table(caption, ['Id', 'For', 'State', 'Last used', 'Ends', 'Created'], items.map((c) => row(c.id, html`<th scope="row"><code>${c.id}</code></th>`, c.name, c.revoked ? badge('Stopped', 'revoked') : c.expires && new Date(c.expires) <= Date.now() ? badge('Stopped', 'has ended') : badge('Running', 'works'), age(c.lastUse), age(c.expires), age(c.created))));

export function accountPage(main, { rest: [id], title, me }) {
  const view = make('div', {});
  const failed = make('div', { 'aria-live': 'polite' });
  show(main, failed, view);

  async function refresh() {
    try {
      const [a, domains, trail] = await Promise.all([get(`/v1/accounts/${encodeURIComponent(id)}`), domainsByID(), get('/v1/audit', { account: id, limit: newest })]);
      const [tokens, keys] = await Promise.all(['tokens', 'keys'].map((kind) => get(`/v1/${kind}`, { account: a.id, limit: size })));
      title(a.name);
      const change = a.disabled ? 'Enable' : 'Disable';
      const mayNot = me.role === 'user' ? 'Administrators of the domain may.' : '';
      show(view, html`<p class="crumbs">${link('accounts', 'Accounts')} / ${a.name}</p><div class="title"><h1>${a.name}</h1>${state(a)}</div>
        <div class="actions" role="group" aria-label="Actions">${button(change, mayNot, () => ask(a, change), a.disabled ? '' : 'danger')}</div>
        ${facts([['Role', a.role], ['Domain', domains.get(a.domainId)?.path ?? a.domainId], ['Id', html`<code>${a.id}</code>`], ['Created', age(a.created)], ...limits.map(([key, text]) => [`Limit of ${text}`, a.limits?.[key]])])}
        <h2>Tokens</h2>${credentials('Tokens', tokens.items)}<h2>Keys</h2>${credentials('Keys', keys.items)}
        <h2>Newest calls</h2>${entries(trail.items)}${trail.next ? html`<p>${link(`audit?${new URLSearchParams({ account: a.id })}`, 'All its calls')}</p>` : null}`);
    } catch (error) {
      show(view, h('h1', {}, 'Account'), problem(error));
    }
  }

  function ask(a, change) {
    const key = newKey();
    dialog({ title: `${change} ${a.name}`, verb: change, kind: a.disabled ? 'main' : 'danger',
      content: html`<p>${a.disabled ? 'Its tokens, keys and sessions work again.' : 'All its calls are refused, with tokens, keys and sessions. Its clusters and runs go on.'}</p>`,
      act: async () => {
        await request('POST', `/v1/accounts/${encodeURIComponent(a.id)}/${change.toLowerCase()}`, { key });
        say(`${a.name} is ${change.toLowerCase()}d.`);
        refresh();
      } });
  }
  refresh();
}

const entries = (items) => table('Audit trail', ['When', 'Who', 'Call', 'Target', 'Outcome', 'Through'], items.map((e) => row(`${e.seq}`, html`<td><time datetime=${e.at} title=${new Date(e.at).toLocaleString()}>${e.at.slice(0, 19)}Z</time></td>`, e.account ? link(path('accounts', e.account), e.who) : e.who || 'nobody known',
  html`<td class="reason"><code>${e.call}</code></td>`, html`<td class="reason">${e.target}</td>`, e.outcome === 'ok' ? badge('Done', 'ok') : badge('Failed', e.outcome), e.face)), 'no call has changed anything');

export function auditPage(main, { query }) {
  const filter = Object.fromEntries(['account', 'target', 'outcome'].map((n) => [n, query.get(n) ?? '']));
  const list = make('div', {});
  const pager = new Pager(size, () => refresh());
  let timer, turn = 0;
  const set = (name, value) => {
    filter[name] = value.trim();
    const kept = new URLSearchParams(Object.entries(filter).filter(([, v]) => v));
    history.replaceState(null, '', `#/audit${kept.size ? `?${kept}` : ''}`);
    pager.first();
    clearTimeout(timer);
    timer = setTimeout(refresh, 250);
  };
  const input = (name, label, placeholder) => html`<span class="field"><label for=${name}>${label}</label><input id=${name} value=${filter[name]} placeholder=${placeholder} oninput=${(e) => set(name, e.target.value)} /></span>`;
  show(main, html`<h1>Audit trail</h1><form class="filter" role="search" onsubmit=${(e) => e.preventDefault()}>${input('account', 'Account', 'id or name')}${input('target', 'Target', 'the whole id or path')}
    <span class="field"><label for="outcome">Outcome</label><select id="outcome" onchange=${(e) => set('outcome', e.target.value)}>${[['', 'any'], ['ok', 'ok'], ['refused', 'refused']].map(([v, text]) => html`<option value=${v} selected=${v === filter.outcome}>${text}</option>`)}</select></span></form>`, list);
  async function refresh() {
    const mine = ++turn;
    try {
      const page = await get('/v1/audit', { ...filter, limit: size, cursor: pager.cursor });
      if (mine !== turn) return;
      pager.took(page);
      show(list, entries(page.items), pager.view(page.items.length));
    } catch (error) {
      if (mine === turn) show(list, problem(error));
    }
  }
  refresh();
  return () => { turn++; clearTimeout(timer); };
}
