// Rollouts: the page of pawl console against a real control plane with the operator, and its buttons.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { Visitor, at, browse, lineOf, looks, missing, press, root, shots, violations } from './fixture.mjs';

const binary = process.env.PAWL ?? join(root, 'bin/pawl');
const stager = process.env.STAGE ?? join(root, 'bin/stage');
const noStage = ['kube-apiserver', 'etcd', 'kube-controller-manager'].find((name) => !existsSync(join(root, 'bin', name)));
const skip = missing() || (existsSync(stager) ? '' : `${stager} is missing: go -C test build -o bin/stage ./browser/stage`) || (noStage && `${noStage} is missing: make controlplane`) || false;

let stage, console_, server, browser, visitor;
const tell = (line) => stage.stdin.write(`${line}\n`);
const batch = (page, index) => page.getByRole('list', { name: 'Batches' }).locator('> li').nth(index);

before(async () => {
  if (skip) return;
  stage = spawn(stager, { cwd: root, stdio: ['pipe', 'pipe', 'inherit'] });
  const kubeconfig = await lineOf(stage, /^(\/.*)$/);
  console_ = spawn(binary, ['console', '--kubeconfig', kubeconfig, '--listen', '127.0.0.1:0', '--as', 'ann'], { stdio: ['ignore', 'pipe', 'pipe'] });
  server = { url: await lineOf(console_, /listens on (http:\S+)/) };
  browser = await browse();
  visitor = new Visitor(server, browser);
});
after(async () => {
  await browser?.close();
  for (const p of [console_, stage]) {
    if (!p) continue;
    const ended = new Promise((resolve) => { p.once('exit', resolve); });
    if (p === stage) p.stdin.end(); else p.kill('SIGTERM');
    await ended;
  }
});

// act presses a button of the page and answers its dialog.
async function act(page, verb, reason, more = async () => {}) {
  await page.getByRole('group', { name: 'Actions of the rollout' }).getByRole('button', { name: verb, exact: true }).click();
  const dialog = page.getByRole('dialog');
  await more(dialog);
  if (reason) await dialog.getByLabel('Why').fill(reason);
  await dialog.getByRole('button', { name: verb, exact: true }).click();
  await dialog.waitFor({ state: 'detached' });
}

test('pawl console opens at the Rollouts, and shows only what the cluster has', { skip }, async () => {
  const page = await visitor.open();
  await page.getByRole('heading', { name: 'Rollouts' }).waitFor();
  assert.deepEqual(await page.getByRole('navigation', { name: 'Pages' }).getByRole('link').allTextContents(), ['Rollouts', 'Runs', 'Flows', 'Faults', 'Objects']);
  await page.getByRole('row', { name: /^etcd default StatefulSet etcd .*locatingTargetApp/ }).waitFor();
  await page.getByText('● live').waitFor();
  await press(page, 'Tab', 'etcd');
  await page.keyboard.press('Enter');
  await page.getByText('No rollout has begun yet.').waitFor();
  // the preview of another template, with roles, zones and quorum
  await page.getByText('What happens from here on').click();
  await page.getByText('Nothing is to be rolled now: this is the plan of another template.').waitFor();
  await page.getByRole('row', { name: /^0 1 1 etcd-4 \(follower zone-b\) .* 4$/ }).waitFor();
  assert.match(await page.getByRole('group', { name: 'Preview of the batches' }).innerText(), /etcd-1 \(leader zone-b\)/);
  await page.context().close();
});

test('a batch is held, approved with a reason, and shown as it moves', { skip }, async () => {
  const page = await visitor.open('#/rollouts/default/etcd');
  await page.getByText('No rollout has begun yet.').waitFor();
  tell('image r2'); // no reload: the page hears of it
  await at(page, 'Paused in rollingInBatches');
  const waits = page.getByRole('group', { name: 'Waiting', exact: true });
  assert.match(await waits.innerText(), /Waits for HeldByPartition: batch 1 may run when batchPartition is 1, or when it is approved[\s\S]*Since\s+\d+ (s|min) ago\s+Deadline\s+none/);
  assert.match(await batch(page, 0).innerText(), /Batch 0\s+1 pod, available after [\s\S]*etcd-4\s*new, ready\s*ordinal 4 · follower · zone-b · etcd-/);
  assert.match(await batch(page, 1).innerText(), /Batch 1\s+2 pods, to come[\s\S]*etcd-3\s*old, ready[\s\S]*etcd-2/);
  assert.match(await batch(page, 2).innerText(), /etcd-0[\s\S]*etcd-1\s*old, ready\s*ordinal 1 · leader/);
  await page.screenshot({ path: join(shots, 'rollout-held.png'), fullPage: true });
  for (const [scheme, width, name] of [['dark', 1280, 'dark'], ['light', 390, 'phone']]) {
    const other = await visitor.open('#/rollouts/default/etcd', { colorScheme: scheme, viewport: { width, height: 900 } });
    await at(other, 'Paused');
    assert.equal(await other.evaluate(() => document.documentElement.scrollWidth <= innerWidth), true, `${name}: the page is wider than the screen`);
    await other.screenshot({ path: join(shots, `rollout-${name}.png`), fullPage: true });
    await other.context().close();
  }
  const resume = page.getByRole('button', { name: 'Resume', exact: true });
  assert.equal(await resume.getAttribute('aria-disabled'), 'true');
  await resume.hover();
  await page.getByText('batchPartition holds it: approve lets it go on.').waitFor();
  await act(page, 'Approve', 'smoke tests passed');
  await page.getByText('approve by ann: accepted').waitFor();
  await page.getByText(/batch 2 may run when batchPartition is 2/).waitFor();
  assert.match(await batch(page, 1).innerText(), /etcd-3\s*new, ready[\s\S]*etcd-2\s*new, ready/);
  assert.match(await page.getByRole('group', { name: 'History', exact: true }).innerText(), /smoke tests passed/);
  await page.getByRole('row', { name: /^errors Metric Passed \(2 of 2\) 0\.012 at most 0\.05/ }).waitFor();
  await page.getByRole('row', { name: /^lag Gate/ }).waitFor();
  await act(page, 'Approve', 'all is well', (dialog) => dialog.getByLabel('Let run').selectOption('all'));
  await at(page, 'rolloutSucceed');
  await page.context().close();
});

test('a broken version is seen, and taken back with a reason', { skip }, async () => {
  const page = await visitor.open('#/rollouts/default/etcd');
  await at(page, 'rolloutSucceed');
  tell('breaks r3');
  tell('image r3');
  await at(page, 'rollingInBatches');
  await page.getByText('PodsNotReady').first().waitFor();
  await batch(page, 0).getByText('new, not ready').waitFor();
  const waits = page.getByRole('group', { name: 'Waiting', exact: true });
  assert.match(await waits.innerText(), /Deadline\s+[\d:]+.*\(in \d+ min\)/);
  await page.screenshot({ path: join(shots, 'rollout-broken.png'), fullPage: true });
  await act(page, 'Undo', 'it does not start');
  await at(page, 'rolloutFailed');
  const failure = page.getByRole('group', { name: 'Rolled back' });
  assert.match(await failure.innerText(), /Remedy: Write a template that works/);
  assert.match(await page.getByRole('group', { name: 'History', exact: true }).innerText(), /it does not start/);
  await page.screenshot({ path: join(shots, 'rollout-back.png'), fullPage: true });
  await page.context().close();
});

test('a page of another site and a foreign name are refused', { skip }, async () => {
  const refused = async (headers, code) => {
    const answer = await fetch(`${server.url}/v1/rollouts/default/etcd/abandon`, { method: 'POST', headers: { 'Content-Type': 'application/json', ...headers }, body: '{}' });
    assert.equal((await answer.json()).code, code);
  };
  await refused({ Origin: 'https://evil.example' }, 'ORIGIN_REFUSED');
  await refused({ 'Sec-Fetch-Site': 'cross-site' }, 'ORIGIN_REFUSED');
});

test('no page of Rollouts has a serious barrier', { skip, timeout: 300000 }, async () => {
  const found = [];
  for (const [look, options] of Object.entries(looks)) {
    for (const address of ['#/rollouts', '#/rollouts/default/etcd']) {
      const page = await visitor.open(address, options);
      await page.getByRole('row', { name: /etcd/ }).or(page.locator('.batch')).first().waitFor();
      found.push(...(await violations(page)).map((v) => `${address}, ${look}: ${v}`));
      await page.context().close();
    }
  }
  assert.deepEqual(found, []);
});

test('the browser had nothing to complain of at rollouts', { skip }, () => {
  assert.deepEqual(visitor.complaints(), []);
});
