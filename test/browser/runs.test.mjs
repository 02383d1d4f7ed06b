// Runs: pause, resume and cancel, of a flow and of a cluster's work; the upgrade of a cluster.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { join } from 'node:path';
import { Walker, at, browse, missing, row, serve, shots } from './house.mjs';

const skip = missing() || false;
let house, browser, walker;
const open = (...where) => walker.open(...where);
const made = {};
before(async () => {
  if (skip) return;
  [house, browser] = await Promise.all([serve('dev'), browse()]);
  walker = new Walker(house, browser);
  await Promise.all(['older', 'worked'].map(async (name) => { made[name] = await house.running(name); }));
});
after(async () => {
  await browser?.close();
  await house?.close();
});

// ask presses a button of a run and answers its dialog.
async function ask(page, verb, reason) {
  await page.getByRole('button', { name: `${verb} run` }).click();
  const dialog = page.getByRole('dialog');
  if (reason) await dialog.getByLabel('Why').fill(reason);
  await dialog.getByRole('button', { name: verb, exact: true }).click();
  await dialog.waitFor({ state: 'detached' });
}

// whyNot is what the button of a run says instead of being of use.
async function whyNot(page, verb) {
  const button = page.getByRole('button', { name: `${verb} run` });
  assert.equal(await button.getAttribute('aria-disabled'), 'true', `${verb} is of use`);
  await button.hover();
  const why = page.locator(`#${await button.getAttribute('aria-describedby')}`);
  assert.ok(await why.isVisible());
  return why.innerText();
}

test('a run is paused and resumed, and its steps are shown', { skip }, async () => {
  const run = await house.api('POST', '/v1/runs', { flow: 'Greet', subject: 'demo/default/c1' });
  const page = await open('#/runs');
  await row(page, run.id.slice(-8)).getByText('Waiting').waitFor();
  await page.getByRole('link', { name: run.id.slice(-8) }).click();
  await page.getByRole('group', { name: /^Steps of run/ }).getByRole('rowheader', { name: 'Answer' }).waitFor();
  assert.match(await whyNot(page, 'Resume'), /Waiting, not paused/);
  await ask(page, 'Pause', 'for the test');
  await at(page, 'Paused');
  await page.getByText('Remedy:').first().waitFor();
  assert.match(await whyNot(page, 'Pause'), /paused already/);
  assert.match(await page.getByRole('group', { name: 'History', exact: true }).innerText(), /for the test/);
  await ask(page, 'Resume');
  await at(page, 'Waiting');
  await house.api('POST', `/v1/runs/${run.id}/signal`, { name: 'answer' });
  await at(page, 'Succeeded');
  for (const verb of ['Pause', 'Resume', 'Cancel']) assert.match(await whyNot(page, verb), /The run has ended: it is Succeeded/);
  await page.context().close();
});

test('a run is cancelled, in the mode that was chosen', { skip }, async () => {
  const run = await house.api('POST', '/v1/runs', { flow: 'Greet', subject: 'demo/default/c2' });
  const page = await open(`#/runs/${run.id}`);
  await at(page, 'Waiting');
  await page.getByRole('button', { name: 'Cancel run' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel(/^Mode/).selectOption('drop');
  await dialog.getByRole('button', { name: 'Cancel', exact: true }).click();
  await at(page, 'Cancelled');
  assert.match(await whyNot(page, 'Cancel'), /it is Cancelled/);
  await page.context().close();
});

test('the work on a cluster is paused, resumed and cancelled from its page', { skip }, async () => {
  const c = made.worked;
  const page = await open(`#/clusters/${c.id}`);
  await at(page, 'Running');
  const scale = async (from, size) => {
    await page.getByRole('button', { name: 'Scale', exact: true }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Workers wanted').fill(String(size));
    await dialog.getByRole('row', { name: /^create vm/ }).nth(size - from - 1).waitFor();
    await dialog.getByRole('button', { name: 'Scale' }).click();
    await at(page, 'Scaling');
  };
  const work = page.locator('section', { has: page.getByRole('heading', { name: 'Work' }) });
  await scale(1, 7);
  await ask(page, 'Pause', 'a look first');
  await work.locator('dd .badge', { hasText: 'Paused' }).waitFor();
  assert.match(await work.getByRole('group', { name: 'Fault' }).innerText(), /Remedy:/);
  assert.equal((await house.api('GET', `/v1/clusters/${c.id}`)).state, 'Scaling', 'a pause is no failure');
  await page.screenshot({ path: join(shots, 'paused.png'), fullPage: true });
  await ask(page, 'Resume');
  await at(page, 'Running');
  await page.getByText('7 there, 7 wanted').waitFor();

  await scale(7, 14);
  await ask(page, 'Cancel', 'too many');
  await at(page, 'Alert');
  const fault = page.getByRole('group', { name: 'Fault' }).first();
  assert.match(await fault.innerText(), /[A-Z_]{6,}[\s\S]*Remedy: \S/);
  await page.screenshot({ path: join(shots, 'cancelled.png') });
  await page.context().close();
});

test('an upgrade offers the other versions, shows what it replaces, and asks about the last control node', { skip }, async () => {
  const c = made.older;
  const page = await open(`#/clusters/${c.id}`);
  await at(page, 'Running');
  await page.getByRole('button', { name: 'Upgrade' }).click();
  const dialog = page.getByRole('dialog', { name: 'Upgrade older' });
  await dialog.locator('option').first().waitFor({ state: 'attached' });
  assert.deepEqual(await dialog.getByLabel('Version, now v1.0').locator('option').allTextContents(), ['v1.1 (1.1.0)']);
  await dialog.getByLabel('The last control node may be replaced').check();
  await dialog.getByRole('row', { name: /^replace vm older-\S+control1/ }).waitFor();
  await page.screenshot({ path: join(shots, 'upgrade.png') });
  await dialog.getByRole('button', { name: 'Upgrade' }).click();
  await dialog.waitFor({ state: 'detached' });
  await at(page, 'Scaling');
  await at(page, 'Running');
  const nodes = (await house.api('GET', `/v1/clusters/${c.id}/nodes`)).items;
  assert.deepEqual(nodes.map((n) => `${n.role} ${n.version}`).sort(), ['control v1.1', 'worker v1.1']);
  await page.getByRole('group', { name: 'Nodes', exact: true }).getByText('v1.1').first().waitFor();
  await page.context().close();
});

test('the browser had nothing to complain of at runs', { skip }, () => {
  assert.deepEqual(walker.complaints(), []);
});
