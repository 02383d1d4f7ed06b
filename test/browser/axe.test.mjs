// axe-core looks for barriers on every page of the console: in light and dark colors, and on the width of a phone.
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Visitor, browse, looks, missing, serve, violations } from './fixture.mjs';

const skip = missing() || false;
const machine = 'machine: Lamp\nkind: lamp\ninitial: Dark\nstates:\n  Dark: {on: [{event: create, to: Lit}]}\n  Lit: {description: it is lit, on: [{event: refit, to: Dark, when: object.spec.power > 9}]}\n';

let server, browser, visitor, ids;

before(async () => {
  if (skip) return;
  const dir = mkdtempSync(join(tmpdir(), 'pawl-browser-'));
  mkdirSync(join(dir, 'machines'));
  writeFileSync(join(dir, 'machines/lamp.yaml'), machine);
  [server, browser] = await Promise.all([serve('dev', { dir, more: ['--machines', join(dir, 'machines')] }), browse()]);
  visitor = new Visitor(server, browser);
  await server.api('PUT', '/v1/objects/lamp/default/desk', { spec: { power: 5 } });
  await server.api('PUT', '/v1/objects/Schedule/default/nightly', { spec: { cron: '30 1 * * *', flow: 'Greet', subject: 'demo/default/nightly', input: {} } });
  const cluster = await server.running('seen');
  const run = await server.api('POST', '/v1/runs', { flow: 'Greet', subject: 'demo/default/one' });
  const { items: [account] } = await server.api('GET', '/v1/accounts');
  ids = { cluster: cluster.id, run: run.id, account: account.id };
});
after(async () => {
  await browser?.close();
  await server?.close();
});

// name, address, and what the page shows when it is complete
const pages = () => [
  ['clusters', '#/clusters', 'role=row[name=/seen/]'], ['a new cluster', '#/clusters/new', '#zone option >> nth=0'], ['a cluster', `#/clusters/${ids.cluster}`, '.title .badge'],
  ['runs', '#/runs', 'role=row[name=/Greet/] >> nth=0'], ['a run', `#/runs/${ids.run}`, '.title .badge'],
  ['flows', '#/flows', 'role=row[name=/^Greet/]'], ['a flow', '#/flows/Greet', 'role=group[name="Steps"]'],
  ['faults', '#/faults', 'role=group[name="Declared faults"]'], ['a fault', '#/faults/TIMEOUT', '.remedy'],
  ['schedules', '#/schedules', 'role=row[name=/^nightly/]'], ['a schedule', '#/schedules/default/nightly', 'role=group[name="Next ticks"]'],
  ['workers', '#/workers', 'role=group[name="Workers"]'],
  ['objects', '#/objects', 'role=row[name=/nightly/]'], ['an object', '#/objects/Schedule/default/nightly', '.title .badge'],
  ['machines', '#/machines', 'role=row[name=/^Lamp/]'], ['a machine', '#/machines/lamp', 'figure.machine svg'], ['an object with its machine', '#/objects/lamp/default/desk', 'figure.machine svg'],
  ['leaks', '#/leaks', 'h1'], ['accounts', '#/accounts', 'role=group[name="Domains"]'], ['an account', `#/accounts/${ids?.account}`, '.title .badge'], ['the audit trail', '#/audit', 'role=group[name="Audit trail"]'],
];

// Each entry of the menu is one of the pages above. Rollouts and FoundationDB are on servers for Kubernetes only: their tests look.
test('every page of the menu is looked at', { skip }, async () => {
  const page = await visitor.open();
  await page.getByRole('navigation').getByRole('link').first().waitFor();
  const menu = await page.getByRole('navigation').getByRole('link').evaluateAll((all) => all.map((a) => a.hash.split('/')[1]));
  const seen = new Set(pages().map(([, at]) => at.split('/')[1]));
  assert.ok(menu.length >= 10, menu.join());
  assert.deepEqual(menu.filter((m) => !seen.has(m)), []);
  await page.context().close();
});

for (const [look, options] of Object.entries(looks)) {
  test(`no page has a serious barrier: ${look}`, { skip, timeout: 300000 }, async () => {
    const page = await visitor.open('', options);
    const found = [];
    for (const [name, address, shown] of pages()) {
      await page.goto(`${server.url}/${address}`);
      await page.locator(shown).first().waitFor({ state: 'attached' });
      found.push(...(await violations(page)).map((v) => `${name}: ${v}`));
    }
    assert.deepEqual(found, []);
    await page.context().close();
  });
}

test('dialogs have no serious barrier', { skip, timeout: 300000 }, async () => {
  for (const [look, options] of Object.entries(looks)) {
    const page = await visitor.open('', options);
    for (const [address, button] of [['#/schedules/default/nightly', 'Pause'], ['#/schedules/default/nightly', 'Run now'], ['#/schedules/default/nightly', 'Backfill'], [`#/runs/${ids.run}`, 'Cancel run'], [`#/runs/${ids.run}`, 'Send signal'], [`#/clusters/${ids.cluster}`, 'Scale']]) {
      await page.goto(`${server.url}/${address}`);
      await page.getByRole('button', { name: button, exact: true }).click();
      await page.getByRole('dialog').waitFor();
      assert.deepEqual((await violations(page)).map((v) => `${look}, ${button}: ${v}`), []);
      await page.keyboard.press('Escape');
      await page.getByRole('dialog').waitFor({ state: 'detached' });
    }
    await page.context().close();
  }
});

test('the sign-in has no serious barrier', { skip }, async () => {
  const guarded = await serve('server', { config: 'none' });
  try {
    for (const options of Object.values(looks)) {
      const page = await new Visitor(guarded, browser).open('', options);
      await page.getByLabel('Token').waitFor();
      assert.deepEqual(await violations(page), []);
      await page.context().close();
    }
  } finally {
    await guarded.close();
  }
});

test('a barrier is found', { skip }, async () => {
  const page = await visitor.open('#/faults');
  await page.getByRole('group', { name: 'Declared faults' }).waitFor();
  await page.evaluate(() => { document.querySelector('main').append(document.createElement('button')); });
  assert.match((await violations(page)).join(), /button-name/);
  await page.context().close();
});
