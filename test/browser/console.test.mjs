import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { browse, missing, root, serve } from './house.mjs';

const skip = missing() || false;
const shots = join(root, 'bin/screenshots');
let house, browser;
const wrong = []; // what the browser complained of: scripts that fail, and what the policy refused

// Clusters take half a minute to be made, all of them together.
const made = {};
before(async () => {
  if (skip) return;
  mkdirSync(shots, { recursive: true });
  [house, browser] = await Promise.all([serve('dev'), browse()]);
  await Promise.all(['detail', 'plan', 'delete-me'].map(async (name) => { made[name] = await running(name, name === 'detail' ? { size: 2 } : {}); }));
});
after(async () => {
  await browser?.close();
  await house?.close();
});

async function open(place = '', options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(90000);
  page.on('pageerror', (e) => wrong.push(e.message));
  page.on('console', (m) => m.type() === 'error' && !/status of 4\d\d/.test(m.text()) && wrong.push(m.text()));
  await page.goto(`${house.url}/${place}`);
  return page;
}

const create = async (name, more = {}) => (await house.api('POST', '/v1/clusters', { name, zone: 'zone-1', offering: 'small', size: 1, version: 'v1.0', ...more })).cluster;
const row = (page, name) => page.getByRole('row', { name: new RegExp(`^${name}\\b`) });
const at = (page, text) => page.locator('.title .badge', { hasText: text }).waitFor();

async function running(name, more) {
  const made = await create(name, more);
  for (let i = 0; i < 240; i++) {
    const found = await house.api('GET', `/v1/clusters/${made.id}`);
    if (found.state === 'Running') return found;
    await new Promise((r) => { setTimeout(r, 250); });
  }
  throw new Error(`${name} does not become Running: ${JSON.stringify(await house.api('GET', `/v1/clusters/${made.id}`))}`);
}

test('the list shows a cluster that was made elsewhere, live, without a reload', { skip }, async () => {
  const page = await open();
  await page.getByText('● live').waitFor();
  await create('live');
  await row(page, 'live').locator('.badge', { hasText: 'Starting' }).waitFor();
  assert.match(await row(page, 'live').innerText(), /live\s+◐ Starting/);
  await row(page, 'live').locator('.badge', { hasText: 'Running' }).waitFor();
  await page.getByLabel('Filter').fill('no such');
  await page.getByText('none fits the filter').waitFor();
  await page.getByLabel('Filter').fill('LIV');
  await row(page, 'live').waitFor();
  await page.getByLabel('State').selectOption('Alert');
  await page.getByText('none fits the filter').waitFor();
  assert.match(page.url(), /q=LIV&state=Alert/);
  await page.context().close();
});

test('a list of 10,000 is paged', { skip }, async () => {
  const page = await open('#/leaks');
  await page.route('**/v1/clusters?*', (route) => {
    const from = Number(new URL(route.request().url()).searchParams.get('cursor') ?? 0);
    route.fulfill({ json: { total: 10000, next: from + 100 < 10000 ? String(from + 100) : undefined, items: Array.from({ length: 100 }, (_, i) => ({
      id: `id-${from + i}`, name: `c${from + i}`, state: 'Running', desired: 'Running', size: 3, existing: i ? 3 : 2, created: '2026-01-01T00:00:00Z', revision: 1 })) } });
  });
  await page.getByRole('link', { name: 'Clusters' }).click();
  await page.locator('.range', { hasText: /^1–100 of 10000/ }).waitFor();
  assert.equal(await page.locator('tbody tr').count(), 100);
  assert.match(await row(page, 'c0').innerText(), /3\s+2 ≠/);
  await page.getByRole('button', { name: 'Next' }).click();
  await page.locator('.range', { hasText: '101–200 of 10000' }).waitFor();
  await row(page, 'c199').waitFor();
  await page.getByRole('button', { name: 'Previous' }).click();
  await page.locator('.range', { hasText: /^1–100 of 10000/ }).waitFor();
  await page.context().close();
});

test('the detail shows machine, nodes, drift, work, journal and history', { skip }, async () => {
  const c = made.detail;
  const page = await open(`#/clusters/${c.id}`);
  await at(page, 'Running');
  const machine = page.getByRole('img', { name: /The cluster is Running/ });
  await machine.waitFor();
  assert.equal(await machine.locator('.here').getAttribute('data-state'), 'Running');
  assert.equal(await machine.locator('.place').count(), 11);
  assert.equal(await page.getByRole('group', { name: 'Nodes', exact: true }).locator('tbody tr').count(), 3);
  await page.getByText(c.endpoint).waitFor();
  const drift = page.getByRole('group', { name: 'Desired, recorded, observed', exact: true });
  await drift.waitFor();
  assert.match(await drift.innerText(), /observed\s+reachable\s+2\s+1/);
  assert.match(await page.getByRole('group', { name: /^Steps of run/ }).innerText(), /join\s+✔ Done/);
  assert.match(await page.getByRole('group', { name: 'Journal', exact: true }).innerText(), /vm\s+\S+worker1\s+● present/);
  assert.match(await page.getByRole('group', { name: 'History', exact: true }).innerText(), /Starting → Running/);
  await page.screenshot({ path: join(shots, 'detail.png'), fullPage: true });
  await page.emulateMedia({ colorScheme: 'dark' });
  await page.screenshot({ path: join(shots, 'detail-dark.png'), fullPage: true });
  await page.getByRole('button', { name: 'Show config' }).click();
  await page.getByRole('dialog').locator('pre').waitFor();
  await page.context().close();
});

test('a button that is of no use now stays, and says why', { skip }, async () => {
  const c = made.detail;
  const page = await open(`#/clusters/${c.id}`);
  await at(page, 'Running');
  const start = page.getByRole('button', { name: 'Start' });
  assert.equal(await start.getAttribute('aria-disabled'), 'true');
  const forget = page.getByRole('button', { name: 'Forget' });
  await forget.focus();
  const why = page.locator(`#${await forget.getAttribute('aria-describedby')}`);
  assert.ok(await why.isVisible());
  assert.match(await why.innerText(), /it is Running, not Expunge/);
  await forget.press('Enter');
  assert.equal(await page.getByRole('dialog').count(), 0);
  assert.equal(await page.getByRole('button', { name: 'Resume run' }).getAttribute('aria-disabled'), 'true');
  await page.context().close();
});

test('a change shows its plan first, and carries it out', { skip }, async () => {
  const c = made.plan;
  const page = await open(`#/clusters/${c.id}`);
  await at(page, 'Running');
  await page.getByRole('button', { name: 'Scale' }).click();
  const dialog = page.getByRole('dialog', { name: 'Scale plan' });
  await dialog.getByLabel('Workers wanted').fill('3');
  await dialog.getByRole('group', { name: 'What is touched', exact: true }).getByText('worker3').waitFor();
  assert.equal(await dialog.getByRole('row', { name: /^create vm/ }).count(), 2);
  await page.screenshot({ path: join(shots, 'plan.png') });
  assert.equal((await house.api('GET', `/v1/clusters/${c.id}`)).size, 1, 'a plan changes nothing');
  await dialog.getByRole('button', { name: 'Scale' }).click();
  await dialog.waitFor({ state: 'detached' });
  await page.getByText('3 there, 3 wanted').waitFor();
  await at(page, 'Running');
  await page.getByRole('button', { name: 'Stop' }).click();
  await page.getByRole('dialog').getByText(/steps/).first().waitFor();
  await page.getByRole('dialog').getByRole('button', { name: 'Stop' }).click();
  await at(page, 'Stopped');
  await page.context().close();
});

test('delete asks for the name', { skip }, async () => {
  const c = made['delete-me'];
  const page = await open(`#/clusters/${c.id}`);
  await at(page, 'Running');
  await page.getByRole('button', { name: 'Delete' }).click();
  const dialog = page.getByRole('dialog');
  const go = dialog.getByRole('button', { name: 'Delete' });
  await dialog.getByText('What is touched').first().waitFor({ state: 'attached' });
  await dialog.getByText('Type the name delete-me first.').waitFor();
  await go.press('Enter');
  assert.equal(await dialog.count(), 1, 'it deletes without the name');
  await dialog.getByLabel('Name of the cluster').fill('delete-m');
  assert.equal(await go.getAttribute('aria-disabled'), 'true');
  await dialog.getByLabel('Name of the cluster').fill('delete-me');
  await go.click();
  await at(page, 'Destroyed');
  await page.context().close();
});

test('a run is paused and resumed, and its steps are shown', { skip }, async () => {
  const run = await house.api('POST', '/v1/runs', { flow: 'Greet', subject: 'demo/default/c1' });
  const page = await open('#/runs');
  await row(page, run.id.slice(-8)).getByText('Waiting').waitFor();
  await page.getByRole('link', { name: run.id.slice(-8) }).click();
  await page.getByRole('group', { name: /^Steps of run/ }).getByRole('rowheader', { name: 'Answer' }).waitFor();
  await page.getByRole('button', { name: 'Pause run' }).click();
  await page.getByRole('dialog').getByLabel('Why').fill('for the test');
  await page.getByRole('dialog').getByRole('button', { name: 'Pause', exact: true }).click();
  await at(page, 'Paused');
  await page.getByText('Remedy:').first().waitFor();
  await page.getByRole('button', { name: 'Resume run' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Resume', exact: true }).click();
  await at(page, 'Waiting');
  await house.api('POST', `/v1/runs/${run.id}/signal`, { name: 'answer' });
  await at(page, 'Succeeded');
  await page.context().close();
});

test('objects are listed and shown, live', { skip }, async () => {
  const page = await open('#/objects');
  await page.getByText('● live').waitFor();
  await house.api('PUT', '/v1/objects/demo/default/c1', { spec: { size: 3 } });
  await page.getByRole('link', { name: 'c1' }).click();
  await page.getByText('"size": 3').waitFor();
  await house.api('PATCH', '/v1/objects/demo/default/c1', { status: { state: 'Running' } }, { 'If-Match': '*', 'Content-Type': 'application/merge-patch+json' });
  await at(page, 'Running');
  await page.context().close();
});

test('leaks are shown with what ends them', { skip }, async () => {
  const page = await open('#/leaks');
  await page.getByText('nothing leaks').waitFor();
  await page.route('**/v1/leaks?*', (route) => route.fulfill({ json: { total: 1, items: [{ cluster: 'u1', clusterName: 'old', provider: 'sim', kind: 'vm', resource: 'old-worker1', id: 'vm-1',
    since: '2026-01-01T00:00:00Z', attempts: 6, code: 'PROVIDER_REFUSED', text: '<b>no</b>', remedy: 'Delete it by hand.', phase: 'leaked', accountId: 'a1' }] } }));
  await page.reload();
  const leak = row(page, 'old');
  await leak.waitFor();
  assert.match(await leak.innerText(), /▲ leaked[\s\S]*6[\s\S]*PROVIDER_REFUSED <b>no<\/b>[\s\S]*Delete it by hand/);
  await page.context().close();
});

test('a cluster is made with the keyboard only', { skip }, async () => {
  const page = await open();
  await page.getByText('● live').waitFor();
  const press = async (key, until) => {
    for (let i = 0; i < 60; i++) {
      const here = await page.evaluate(() => { const e = document.activeElement; return { name: e.id || e.textContent.trim(), visible: getComputedStyle(e).outlineStyle !== 'none' || e.matches('main, body') }; });
      if (here.name === until) {
        assert.ok(here.visible, `the focus on ${until} is not visible`);
        return;
      }
      await page.keyboard.press(key);
    }
    throw new Error(`the keyboard does not reach ${until}`);
  };
  await press('Tab', 'New cluster');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'New cluster' }).waitFor();
  await page.locator('#zone option').first().waitFor({ state: 'attached' });
  await page.locator('#offering option').first().waitFor({ state: 'attached' });
  await press('Tab', 'name');
  await page.keyboard.type('by-keys');
  await page.keyboard.press('Enter');
  await page.getByRole('button', { name: 'Create' }).waitFor();
  await press('Tab', 'Create');
  await page.keyboard.press('Enter');
  await at(page, 'Running');
  await press('Tab', 'Stop');
  await page.keyboard.press('Enter');
  await page.getByRole('dialog').getByText(/steps/).first().waitFor();
  for (let i = 0; i < 12; i++) {
    await page.keyboard.press('Tab');
    assert.ok(await page.evaluate(() => document.activeElement === document.body || document.querySelector('dialog').contains(document.activeElement)), 'the focus leaves the dialog');
  }
  await page.keyboard.press('Escape');
  assert.equal(await page.getByRole('dialog').count(), 0);
  assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Stop', 'the focus is not where it was');
  await page.context().close();
});

test('without events it asks, and comes back to them', { skip }, async () => {
  const page = await open('#/leaks');
  await page.context().route('**/v1/events*', (route) => route.abort());
  await page.getByRole('link', { name: 'Clusters' }).click();
  await page.getByText('asking every 5 s').waitFor();
  await create('asked');
  await row(page, 'asked').waitFor();
  await page.context().unroute('**/v1/events*');
  await page.getByText('● live').waitFor();
  await page.context().close();
});

test('everything has a name, and no state is told by its colour alone', { skip }, async () => {
  const [c] = (await house.api('GET', '/v1/clusters')).items;
  for (const place of ['', `#/clusters/${c.id}`, '#/clusters/new', '#/runs', '#/objects', '#/leaks']) {
    const page = await open(place);
    await page.locator('h1').waitFor();
    await page.waitForLoadState('load');
    const nameless = await page.evaluate(() => [...document.querySelectorAll('button, a, input, select, table, [role=group], svg[role=img]')].filter((e) => {
      const label = e.labels?.length || e.getAttribute('aria-label') || e.textContent.trim() || e.querySelector('caption');
      return !label;
    }).map((e) => e.outerHTML.slice(0, 120)));
    assert.deepEqual(nameless, [], place);
    const colours = await page.evaluate(() => [...document.querySelectorAll('.badge')].filter((e) => !/\S \S/.test(e.textContent)).map((e) => e.outerHTML));
    assert.deepEqual(colours, [], place);
    await page.context().close();
  }
});

test('the browser had nothing to complain of', { skip }, () => {
  assert.deepEqual(wrong.filter((w) => !/ERR_FAILED/.test(w)), []); // what a test has aborted
});
