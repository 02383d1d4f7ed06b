import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { join } from 'node:path';
import { Visitor, at, browse, missing, row, serve, shots } from './fixture.mjs';

const skip = missing() || false;
let server, browser, visitor;
const open = (...where) => visitor.open(...where);
const create = (...what) => server.create(...what);

// The creation of all clusters takes half a minute.
const made = {};
before(async () => {
  if (skip) return;
  [server, browser] = await Promise.all([serve('dev'), browse()]);
  visitor = new Visitor(server, browser);
  await Promise.all(['detail', 'plan', 'delete-me'].map(async (name) => { made[name] = await server.running(name, name === 'detail' ? { size: 2 } : {}); }));
});
after(async () => {
  await browser?.close();
  await server?.close();
});

test('the list shows a cluster that was made elsewhere, live, without a reload', { skip }, async () => {
  const page = await open();
  await page.getByText('● live').waitFor();
  await create('live');
  await row(page, 'live').locator('.badge', { hasText: 'Starting' }).waitFor();
  assert.match(await row(page, 'live').innerText(), /live\s+◐ Starting/);
  await row(page, 'live').locator('.badge', { hasText: 'Running' }).waitFor();
  await page.getByLabel('Filter').fill('no such');
  await page.getByText('none matches the filter').waitFor();
  await page.getByLabel('Filter').fill('LIV');
  await row(page, 'live').waitFor();
  await page.getByLabel('State').selectOption('Alert');
  await page.getByText('none matches the filter').waitFor();
  assert.match(page.url(), /q=LIV&state=Alert/);
  await page.context().close();
});

test('the detail shows machine, nodes, drift, work, journal and history', { skip }, async () => {
  const c = made.detail;
  const page = await open(`#/clusters/${c.id}`);
  await at(page, 'Running');
  const machine = page.getByRole('img', { name: /The cluster is Running/ });
  await machine.waitFor();
  assert.equal(await machine.locator('.here').getAttribute('data-name'), 'Running');
  assert.equal(await machine.locator('.state').count(), 11);
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

test('a disabled button stays, and shows why', { skip }, async () => {
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
  await dialog.getByLabel('Desired workers').fill('3');
  await dialog.getByRole('group', { name: 'Affected resources', exact: true }).getByText('worker3').waitFor();
  assert.equal(await dialog.getByRole('row', { name: /^create vm/ }).count(), 2);
  await page.screenshot({ path: join(shots, 'plan.png') });
  assert.equal((await server.api('GET', `/v1/clusters/${c.id}`)).size, 1, 'a plan changes nothing');
  await dialog.getByRole('button', { name: 'Scale' }).click();
  await dialog.waitFor({ state: 'detached' });
  await page.getByText('3 existing, 3 desired').waitFor();
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
  await dialog.getByText('Affected resources').first().waitFor({ state: 'attached' });
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

test('objects are listed and shown, live', { skip }, async () => {
  const page = await open('#/objects');
  await page.getByText('● live').waitFor();
  await server.api('PUT', '/v1/objects/ConfigMap/default/c1', { spec: { size: 3 } });
  await page.getByRole('link', { name: 'c1' }).click();
  await page.getByRole('group', { name: 'Spec', exact: true }).getByRole('row', { name: /^size 3/ }).waitFor();
  await server.api('PATCH', '/v1/objects/ConfigMap/default/c1', { status: { state: 'Running' } }, { 'If-Match': '*', 'Content-Type': 'application/merge-patch+json' });
  await at(page, 'Running');
  await page.context().close();
});

test('without events it asks, and comes back to them', { skip }, async () => {
  const page = await open('#/leaks');
  await page.context().route('**/v1/events*', (route) => route.abort());
  await page.getByRole('link', { name: 'Clusters' }).click();
  await page.getByText('polling every 5 s').waitFor();
  await create('asked');
  await row(page, 'asked').waitFor();
  await page.context().unroute('**/v1/events*');
  await page.getByText('● live').waitFor();
  await page.context().close();
});

test('the browser had nothing to complain of', { skip }, () => {
  assert.deepEqual(visitor.complaints(), []);
});
