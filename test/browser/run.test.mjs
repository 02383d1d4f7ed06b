// The page of a run: its timeline with a retry and a child run, outputs, live logs, an approval, a signal, a skip and a resume, each with its plan.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { join } from 'node:path';
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { Visitor, at, browse, missing, serve, shots } from './fixture.mjs';

const skip = missing() || false;
const exec = (script) => `uses: exec\n  with: {command: [sh, -c, ${JSON.stringify(script)}]}`;

// The flow waits for files, so that each test decides when a step goes on.
const flows = (dir) => ({
  'inner.yaml': `flowName: Inner\nsteps:\n- stepName: Work\n  ${exec('echo from the child')}\n`,
  'ship.yaml': `flowName: Ship
steps:
- stepName: Build
  ${exec('echo building; echo a warning >&2; echo image-v7')}
- stepName: Flaky
  ${exec(`test -e ${dir}/tried || { touch ${dir}/tried; echo not yet; exit 1; }; echo fine`)}
  retry: {attempts: 3, first: 10ms}
- stepName: Below
  flow: Inner
- stepName: Approve
  uses: approval
  with: {message: "Ship it?", deadline: 30m}
- stepName: Deploy
  ${exec(`echo begun; until test -e ${dir}/deploy; do sleep 0.1; done; echo deployed`)}
- stepName: Check
  ${exec(`test -e ${dir}/checked || { echo no luck; exit 3; }`)}
  skippable: true
  retry: {attempts: 1}
- stepName: Last
  wait: {signal: go, deadline: 10m}
`,
  'one.yaml': 'flowName: One\nlimits: {runs: [{key: provider/aws, atOnce: 1}]}\nsteps:\n- {stepName: Hold, wait: {signal: go, deadline: 10m}}\n',
  'call.yaml': 'flowName: Call\nsteps:\n- {stepName: Call, uses: exec, with: {command: ["true"]}, limits: [{key: provider/api, atOnce: 2, rate: 1/1h}]}\n',
  'tenant.yaml': 'flowName: Tenant\nlimits: {runs: [{key: tenant/a, rate: 1/1h}]}\nsteps:\n- {stepName: Call, uses: exec, with: {command: ["true"]}}\n',
});

let server, browser, visitor, page, run, dir;
before(async () => {
  if (skip) return;
  dir = mkdtempSync(join(tmpdir(), 'pawl-browser-'));
  mkdirSync(join(dir, 'flows'));
  for (const [name, text] of Object.entries(flows(dir))) writeFileSync(join(dir, 'flows', name), text);
  [server, browser] = await Promise.all([serve('dev', { config: 'none', dir, more: ['--flows', join(dir, 'flows')] }), browse()]);
  visitor = new Visitor(server, browser);
  run = await server.api('POST', '/v1/runs', { flow: 'Ship', subject: 'demo/default/ship' });
  page = await visitor.open(`#/runs/${run.id}`);
});
after(async () => {
  await browser?.close();
  await server?.close();
});

const fact = (name) => page.locator('.facts > div', { has: page.getByText(name, { exact: true }) }).locator('dd');
const lane = (name) => page.getByRole('group', { name: 'Timeline' }).getByRole('img', { name: new RegExp(`^${name}:`) });
const step = (name) => page.getByRole('group', { name: /^Steps of run/ }).getByRole('row', { name: new RegExp(`^${name}\\b`) });

test('the timeline has the attempts, the time between them, waits, and the child run inside its parent', { skip }, async () => {
  await lane('Approve').waitFor();
  assert.match(await lane('Flaky').getAttribute('aria-label'), /attempt 1: COMMAND_FAILED .*failed.*; after attempt 1, until the next attempt.*; attempt 2, done/);
  assert.match(await lane('Approve').getAttribute('aria-label'), /wait until now/);
  const names = await page.locator('.lane .name').allTextContents();
  assert.deepEqual(names, ['Build', 'Flaky', 'Below', 'Work', 'Approve']);
  assert.equal(await fact('Flow').innerText(), 'Ship', 'its file states no version');
  assert.match(await page.locator('.lane.inner a').getAttribute('href'), /#\/runs\/\w{26}/);
  assert.equal(await lane('Flaky').locator('.bar.failed').count(), 1);
});

test('a step shows its output and what it has printed', { skip }, async () => {
  await step('Flaky').getByText('fine').waitFor();
  await step('Build').getByRole('button', { name: 'Logs of Build' }).click();
  const lines = page.getByRole('log', { name: 'Lines' });
  await lines.getByText('not yet').waitFor({ state: 'detached' }); // the lines of all steps are gone
  await lines.getByText('a warning').waitFor();
  assert.equal(await page.getByLabel('Step', { exact: true }).inputValue(), 'Build');
  assert.doesNotMatch(await lines.innerText(), /not yet/);
  assert.match(await lines.innerText(), /stderr a warning/);
  await page.getByLabel('Step', { exact: true }).selectOption('');
  await lines.getByText('not yet').waitFor();
  await page.screenshot({ path: join(shots, 'run.png'), fullPage: true });
});

test('an approval is given with its reason, after its plan, and lines come while a step runs', { skip }, async () => {
  await page.getByRole('button', { name: 'Approve', exact: true }).click();
  const dialog = page.getByRole('dialog', { name: /^Approve run/ });
  assert.match(await dialog.getByRole('row', { name: /^Approve/ }).innerText(), /Waiting\s+goes on with the signal/);
  await dialog.getByLabel(/^Reason/).fill('looks good');
  await dialog.getByRole('button', { name: 'Approve', exact: true }).click();
  await dialog.waitFor({ state: 'detached' });
  await page.getByRole('log', { name: 'Lines' }).getByText('begun').waitFor();
  await step('Deploy').getByText('Running').waitFor();
  const { steps } = await server.api('GET', `/v1/runs/${run.id}`);
  assert.equal(steps.find((s) => s.name === 'Approve').output.choice, 'approve');
  assert.deepEqual(Object.values(steps.find((s) => s.name === 'Approve').output.comments), ['looks good']);
  writeFileSync(join(dir, 'deploy'), '');
  await page.getByRole('log', { name: 'Lines' }).getByText('deployed').waitFor();
});

test('a resume says where it begins, and a failed step is skipped', { skip }, async () => {
  await at(page, 'Paused');
  await page.locator('.title .badge.bad').waitFor(); // a fault has paused it
  await page.getByRole('button', { name: 'Resume run' }).click();
  let dialog = page.getByRole('dialog', { name: /^Resume run/ });
  assert.match(await dialog.getByRole('row', { name: /^Check/ }).innerText(), /Failed\s+runs again/);
  assert.match(await dialog.getByRole('row', { name: /^Build/ }).innerText(), /Done\s+stays as it is/);
  await dialog.getByLabel('Resume from').selectOption('first');
  await dialog.getByRole('row', { name: /^Build/ }).getByText('runs again').waitFor();
  await page.screenshot({ path: join(shots, 'resume.png') });
  await dialog.getByRole('button', { name: 'Do nothing' }).click();
  await page.getByRole('button', { name: 'Skip step' }).click();
  dialog = page.getByRole('dialog', { name: /^Skip run/ });
  await dialog.getByRole('row', { name: /^Check/ }).getByText('is skipped').waitFor();
  await dialog.getByLabel('Why').fill('not needed here');
  await dialog.getByRole('button', { name: 'Skip', exact: true }).click();
  await dialog.waitFor({ state: 'detached' });
  await step('Check').getByText('Skipped').waitFor();
});

test('a signal says who waits for it, and ends the run', { skip }, async () => {
  if ((await server.api('GET', `/v1/runs/${run.id}`)).phase === 'Paused') await server.api('POST', `/v1/runs/${run.id}/resume`, {});
  await step('Last').getByText('Waiting').waitFor();
  await page.getByRole('button', { name: 'Send signal' }).click();
  const dialog = page.getByRole('dialog', { name: /^Send a signal/ });
  assert.equal(await dialog.getByLabel('Name of the signal').inputValue(), 'go');
  assert.match(await dialog.getByRole('row', { name: /^Last/ }).innerText(), /goes on with the signal/);
  await dialog.getByLabel('Name of the signal').fill('gone');
  await dialog.getByText('No step waits for this signal now.').waitFor();
  await dialog.getByLabel('Name of the signal').fill('go');
  await dialog.getByRole('button', { name: 'Send', exact: true }).click();
  await at(page, 'Succeeded');
  await page.getByText(/complete: the run has ended/).waitFor();
});

test('a run says in one line for which limit it waits, and who holds the limit', { skip }, async () => {
  const start = (flow, n) => server.api('POST', '/v1/runs', { flow, subject: `demo/default/${flow}${n}` });
  const limit = (of) => of.getByRole('group', { name: 'Limit', exact: true });
  const holder = await start('One', 1);
  const [queued, behind] = [await start('One', 2), await start('One', 3)];
  const other = await visitor.open(`#/runs/${behind.id}`);
  await limit(other).getByText(/^◔ Waits for limit provider\/aws: 1 of 1 running, 1 before it, .*; held by: /).waitFor();
  assert.equal(await limit(other).getByRole('link').getAttribute('href'), `#/runs/${holder.id}`);
  // nothing happens to this run itself when the one before it leaves: the line is read again
  await server.api('POST', `/v1/runs/${queued.id}/cancel`, {});
  await limit(other).getByText(/provider\/aws: 1 of 1 running, \d/).waitFor();
  await server.api('POST', `/v1/runs/${holder.id}/signal`, { name: 'go' });
  await at(other, 'Waiting');
  await limit(other).waitFor({ state: 'detached' });

  for (const [flow, text] of [['Call', /^◔ Waits for limit provider\/api: 0 of 2 running, 1 of 1 started within 1h, /], ['Tenant', /^◔ Waits for limit tenant\/a: 1 of 1 started within 1h, /]]) {
    const first = await start(flow, 1);
    while ((await server.api('GET', `/v1/runs/${first.id}`)).phase !== 'Succeeded') await new Promise((r) => { setTimeout(r, 100); });
    const second = await start(flow, 2);
    await other.goto(`${server.url}/#/runs/${second.id}`);
    await limit(other).getByText(text).waitFor();
    assert.equal(await other.getByRole('group', { name: 'Waiting', exact: true }).count(), 0, 'one line, not two');
  }
  await other.context().close();
});

test('on a narrow screen the page of a run has no sideways scroll', { skip }, async () => {
  await page.setViewportSize({ width: 400, height: 800 });
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 400);
});

test('the browser had nothing to complain of at the page of a run', { skip }, () => {
  assert.deepEqual(visitor.complaints(), []);
});
