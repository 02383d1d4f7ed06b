// What somebody meets first: the front page of a plain server, and an object that a machine drives.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Visitor, at, browse, missing, row, serve, shots, token } from './fixture.mjs';

const skip = missing() || false;

const lamp = `machine: Lamp
kind: lamp
initial: Dark
states:
  Dark: {on: [{event: create, to: Lighting}]}
  Lighting: {flow: Light, then: Lit}
  Lit: {description: it is lit, on: [{event: refit, to: Lighting, when: object.spec.power > 9}]}
  Interrupted: {description: the lighting failed}
`;
const light = 'flowName: Light\nsteps:\n- {stepName: Switch, uses: exec, with: {command: [echo, light]}}\n';

let server, browser, visitor;
before(async () => {
  if (skip) return;
  const dir = mkdtempSync(join(tmpdir(), 'pawl-browser-'));
  mkdirSync(join(dir, 'machines'));
  writeFileSync(join(dir, 'machines/lamp.yaml'), lamp);
  writeFileSync(join(dir, 'machines/light.yaml'), light);
  [server, browser] = await Promise.all([serve('server', { config: 'none', dir, more: ['--machines', join(dir, 'machines')] }), browse()]);
  visitor = new Visitor(server, browser);
});
after(async () => {
  await browser?.close();
  await server?.close();
});

// signIn opens a place of the console and gives the token.
async function signIn(place) {
  const page = await visitor.open(place);
  await page.getByLabel('Token').fill(token);
  await page.getByRole('button', { name: 'Sign in' }).click();
  return page;
}

test('a server without clusters opens on its runs', { skip }, async () => {
  const page = await signIn('');
  await page.getByRole('heading', { name: 'Runs' }).waitFor();
  assert.deepEqual(await page.getByRole('navigation').getByRole('link').allTextContents(), ['Runs', 'Flows', 'Faults', 'Schedules', 'Workers', 'Objects', 'Machines', 'Accounts', 'Audit']);
  assert.equal(await page.locator('.fault').count(), 0);
  await page.context().close();
});

test('a page loads its own modules only, and keeps them', { skip }, async () => {
  const page = await signIn('#/faults');
  await page.getByRole('group', { name: 'Declared faults' }).waitFor();
  const loaded = () => page.evaluate(() => performance.getEntriesByType('resource').map((e) => new URL(e.name).pathname).filter((p) => p.endsWith('.js')));
  const own = (await loaded()).map((p) => p.replace(/^\/static\/[0-9a-f]{16}\//, '')).sort();
  assert.deepEqual([...new Set(own)], ['api.js', 'app.js', 'dom.js', 'faults.js', 'guide.js', 'live.js', 'login.js', 'opening.js', 'parts.js', 'vendor/htm.js', 'vendor/preact.js']);
  await page.getByRole('link', { name: 'Workers' }).click();
  await page.getByRole('heading', { name: 'Workers', level: 1 }).waitFor();
  assert.ok((await loaded()).some((p) => p.endsWith('/workers.js')));
  await page.reload();
  await page.getByRole('heading', { name: 'Workers', level: 1 }).waitFor();
  const sent = await page.evaluate(() => performance.getEntriesByType('resource').filter((e) => e.name.includes('/static/') && e.transferSize > 0).map((e) => e.name));
  assert.deepEqual(sent, [], 'what the browser has is asked for again');
  await page.context().close();
});

test('a page of which the server has no modules any more offers to load the console again', { skip }, async () => {
  const page = await signIn('#/faults');
  await page.getByRole('group', { name: 'Declared faults' }).waitFor();
  await page.route('**/workers.js', (route) => route.abort());
  await page.getByRole('link', { name: 'Workers' }).click();
  await page.getByRole('heading', { name: 'This page could not be loaded' }).waitFor();
  await page.unroute('**/workers.js');
  await page.getByRole('button', { name: 'Load the console again' }).click();
  await page.getByRole('group', { name: 'Workers' }).waitFor();
  visitor.wrong = visitor.wrong.filter((w) => !/dynamically imported module/.test(w));
  await page.context().close();
});

test('the page of an object shows the runs that its machine started', { skip }, async () => {
  await server.api('PUT', '/v1/objects/lamp/default/desk', { spec: { power: 5 } });
  const page = await signIn('#/objects/lamp/default/desk');
  const runs = page.getByRole('group', { name: 'Runs', exact: true });
  await runs.getByRole('link').first().waitFor();
  assert.match(await runs.innerText(), /Light\s+lamp\/default\/desk/);
  await page.getByRole('group', { name: /^Steps of run/ }).getByRole('rowheader', { name: 'Switch' }).waitFor();
  // and so does the list of runs, when it is asked for the object by its name
  await page.goto(`${server.url}/#/runs?subject=lamp/default/desk`);
  await row(page, 'Mark run \\w{8}').getByText('Light').waitFor();
  await page.context().close();
});

test('the page of an object says why it is in its state and what would move it', { skip }, async () => {
  await server.api('PUT', '/v1/objects/lamp/default/shelf', { spec: { power: 5 } });
  const page = await signIn('#/objects/lamp/default/shelf');
  await at(page, 'Lit');
  await page.getByRole('img', { name: 'It is Lit. From here it goes to Lighting on refit (refused).' }).waitFor();
  assert.equal(await page.locator('.machine [aria-current]').getAttribute('data-name'), 'Lit');
  const plan = page.getByRole('group', { name: 'Plan', exact: true });
  assert.match(await plan.getByRole('row', { name: /^refit/ }).innerText(), /Lighting\s+object\.spec\.power > 9\s+.*refused/);
  await page.getByText(/because no event holds/).waitFor();
  await page.getByRole('group', { name: 'Conditions', exact: true }).getByRole('row', { name: /^Ready True Rests/ }).waitFor();
  assert.match(await page.getByRole('group', { name: 'Spec', exact: true }).getByRole('row', { name: /^power/ }).innerText(), /5/);
  await page.getByRole('group', { name: 'Events', exact: true }).getByText('RunSucceeded').waitFor();
  await page.screenshot({ path: join(shots, 'object.png'), fullPage: true });
  await page.context().close();
});

test('the browser had nothing to complain of at first sight', { skip }, () => {
  assert.deepEqual(visitor.complaints(), []);
});
