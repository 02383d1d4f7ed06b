// Failures of real processes: killed VMs, blocked deletions and orphans, and their
// remedies.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { join } from 'node:path';
import { Visitor, requestRun, at, browse, missing, row, serve, shots } from './fixture.mjs';

const skip = missing() || false;
let server, browser, visitor;
const open = (...where) => visitor.open(...where);
const made = {};
before(async () => {
  if (skip) return;
  [server, browser] = await Promise.all([serve('dev', { config: 'local' }), browse()]);
  visitor = new Visitor(server, browser);
  await Promise.all(['hurt', 'stuck', 'worked'].map(async (name) => { made[name] = await server.running(name); }));
});
after(async () => {
  await browser?.close();
  await server?.close();
});

test('an Alert shows its reason with the remedy, and recover ends it', { skip }, async () => {
  const c = made.hurt;
  const page = await open(`#/clusters/${c.id}`);
  await at(page, 'Running');
  const nodes = (await server.api('GET', `/v1/clusters/${c.id}/nodes`)).items;
  const worker = nodes.find((n) => n.role === 'worker');
  server.kill(worker.id);
  await at(page, 'Alert');
  const fault = page.getByRole('group', { name: 'Fault' }).first();
  assert.match(await fault.innerText(), /▲ .+ [A-Z_]{8,}[\s\S]*Remedy: \S+/);
  assert.match(await page.getByRole('group', { name: 'Findings', exact: true }).innerText(), new RegExp(`power_state\\s+${worker.name}[\\s\\S]*▲ yes`));
  assert.equal(await page.getByRole('img', { name: /The cluster is Alert/ }).locator('.here').getAttribute('data-name'), 'Alert');
  await page.screenshot({ path: join(shots, 'alert.png'), fullPage: true });
  const list = await open('#/clusters?state=Alert');
  await row(list, 'hurt').waitFor();
  assert.match(await row(list, 'hurt').innerText(), /▲ Alert[\s\S]*[A-Z_]{8,}/);
  await list.context().close();

  await page.getByRole('button', { name: 'Recover', exact: true }).click();
  const dialog = page.getByRole('dialog', { name: 'Recover hurt' });
  await dialog.getByRole('group', { name: 'Affected resources', exact: true }).getByText(worker.name).waitFor();
  assert.ok(await dialog.getByLabel('restart nodes that are stopped').isChecked());
  assert.ok(!await dialog.getByLabel('replace the last control node').isChecked(), 'a person has to ask for that');
  await page.screenshot({ path: join(shots, 'recover.png') });
  await dialog.getByRole('button', { name: 'Recover' }).click();
  await dialog.waitFor({ state: 'detached' });
  await at(page, 'Running');
  await fault.waitFor({ state: 'detached' });
  assert.equal((await server.api('GET', `/v1/clusters/${c.id}/nodes`)).items.find((n) => n.role === 'worker').id, worker.id, 'it was stopped, not lost');
  await page.context().close();
});

// While the control node is paused no worker joins: the run waits for the whole test.
test('the work on a cluster is paused, resumed and cancelled from its page', { skip }, async () => {
  const c = made.worked;
  const control = (await server.api('GET', `/v1/clusters/${c.id}/nodes`)).items.find((n) => n.role === 'control').id;
  const page = await open(`#/clusters/${c.id}`);
  await at(page, 'Running');
  const work = page.locator('section', { has: page.getByRole('heading', { name: 'Work' }) });
  const scale = async (size) => {
    server.kill(control, 'SIGSTOP');
    await server.api('POST', `/v1/clusters/${c.id}/scale`, { size });
    await at(page, 'Scaling');
    await work.getByRole('rowheader', { name: 'join' }).waitFor();
  };
  await scale(2);
  // the number of ready nodes, the names of the others, the server URL, the start and the deadline
  const waits = work.getByRole('group', { name: 'Waiting', exact: true });
  await waits.getByText(/at join: .*\d of 3 are ready, not worked-.*nodes call http:\S+\/v1\/nodes\/heartbeat/).waitFor();
  assert.match(await waits.innerText(), /Since\s+\d+ (s|min) ago\s+Gives up\s+[\d:]+/);
  const list = await open('#/clusters');
  await row(list, 'worked').getByText(/at join: .*\d of 3 are ready.*since \d+ (s|min), until [\d:]+/).waitFor();
  await list.context().close();
  await requestRun(page, 'Pause', 'a look first');
  await work.locator('dd .badge', { hasText: 'Paused' }).waitFor();
  assert.match(await work.getByRole('group', { name: 'Fault' }).innerText(), /a look first[\s\S]*Remedy:/);
  assert.equal((await server.api('GET', `/v1/clusters/${c.id}`)).state, 'Scaling', 'a pause is no failure');
  await page.screenshot({ path: join(shots, 'paused.png'), fullPage: true });
  await requestRun(page, 'Resume');
  await work.locator('dd .badge', { hasText: 'Waiting' }).waitFor();
  server.kill(control, 'SIGCONT');
  await at(page, 'Running');
  await page.getByText('2 existing, 2 desired').waitFor();

  await scale(3);
  await requestRun(page, 'Cancel', 'too many');
  await at(page, 'Alert');
  server.kill(control, 'SIGCONT');
  const fault = page.getByRole('group', { name: 'Fault' }).first();
  assert.match(await fault.innerText(), /[A-Z_]{6,}[\s\S]*Remedy: \S/);
  await page.context().close();
});

test('what cannot be deleted says why; forget asks for the name, and it stays in the leaks', { skip }, async () => {
  const c = made.stuck;
  server.addOrphanVM('somebody-elses', { network: c.network.id });
  const page = await open(`#/clusters/${c.id}`);
  await at(page, 'Running');
  await page.getByRole('button', { name: 'Delete', exact: true }).click();
  await page.getByRole('dialog').getByLabel('Name of the cluster').fill('stuck');
  await page.getByRole('dialog').getByRole('row', { name: /^delete network stuck/ }).waitFor();
  // a status write changes the cluster while a person reads the plan, which stays the same.
  await server.api('PATCH', `/v1/clusters/${c.id}`, { description: 'seen' }, { 'If-Match': '*', 'Content-Type': 'application/merge-patch+json' });
  await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
  await at(page, 'Expunge');
  const fault = page.getByRole('group', { name: 'Fault' }).filter({ hasText: 'NETWORK_HAS_FOREIGN_VM' }).first();
  assert.match(await fault.innerText(), /somebody-elses[\s\S]*Remedy: Move or delete the VM/);
  await page.screenshot({ path: join(shots, 'expunge.png'), fullPage: true });

  await page.getByRole('button', { name: 'Forget', exact: true }).click();
  const dialog = page.getByRole('dialog', { name: 'Forget stuck' });
  const go = dialog.getByRole('button', { name: 'Forget' });
  await dialog.getByText('Type the name stuck first.').waitFor();
  await go.press('Enter');
  await dialog.getByLabel('Name of the cluster').fill('stick');
  assert.equal(await go.getAttribute('aria-disabled'), 'true');
  await dialog.getByLabel('Name of the cluster').press('Enter');
  assert.ok(['Expunge', 'Expunging'].includes((await server.api('GET', `/v1/clusters/${c.id}`)).state), 'it was forgotten under another name');
  await page.screenshot({ path: join(shots, 'forget.png') });
  await page.locator('.title .badge', { hasText: /Expunge$/ }).waitFor(); // the collector may be at it just now
  await dialog.getByLabel('Name of the cluster').fill('stuck');
  await go.click();
  await at(page, 'Destroyed');
  await page.getByRole('link', { name: 'Leaks' }).click();
  const leak = row(page, 'stuck');
  await leak.waitFor();
  assert.match(await leak.innerText(), /network[\s\S]*▲ forgotten[\s\S]*NETWORK_HAS_FOREIGN_VM/);
  await page.context().close();
});

test('a VM without a record is on the leak page, with its remedy', { skip }, async () => {
  const page = await open('#/leaks');
  await page.getByText('● live').waitFor();
  server.addOrphanVM('lost-worker1', { tags: { 'pawl-installation': 'walks', 'pawl-cluster': '00000000-0000-0000-0000-000000000001' } });
  await page.getByLabel('Kind').fill('vm');
  const leak = row(page, 'lost-worker1');
  await leak.waitFor(); // by itself, though what the collector meets is no event
  assert.match(await leak.innerText(), /▲ orphan[\s\S]*its cluster is not known[\s\S]*Delete it at the provider/);
  await page.screenshot({ path: join(shots, 'leaks.png') });
  await page.context().close();
});

test('the leak page says that a provider cannot be read, and when it can be again', { skip }, async () => {
  const page = await open('#/leaks');
  await page.getByText('● live').waitFor();
  const unseen = row(page, 'provider local');
  // the page of each cluster of the provider shows it too, although the clusters do not change
  const other = await open(`#/clusters/${made.hurt.id}`);
  await at(other, 'Running');
  server.hide(true);
  await unseen.waitFor();
  await other.getByRole('group', { name: 'Provider' }).getByText(/provider local cannot be read/).waitFor();
  assert.match(await unseen.innerText(), /\? unseen[\s\S]*PROVIDER_UNREACHABLE[\s\S]*Remedy: /);
  server.hide(false);
  await unseen.waitFor({ state: 'detached' });
  await other.getByRole('group', { name: 'Provider' }).waitFor({ state: 'detached' });
  await other.context().close();
  await page.context().close();
});

test('the browser had nothing to complain of in trouble', { skip }, () => {
  assert.deepEqual(visitor.complaints(), []);
});
