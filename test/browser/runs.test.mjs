// Runs: pause, resume and cancel of a flow's run; the upgrade of a cluster.
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
  [server, browser] = await Promise.all([serve('dev'), browse()]);
  visitor = new Visitor(server, browser);
  made.older = await server.running('older');
});
after(async () => {
  await browser?.close();
  await server?.close();
});

// whyNot returns the reason that a disabled button of a run shows.
async function whyNot(page, verb) {
  const button = page.getByRole('button', { name: `${verb} run` });
  assert.equal(await button.getAttribute('aria-disabled'), 'true', `${verb} is of use`);
  await button.hover();
  const why = page.locator(`#${await button.getAttribute('aria-describedby')}`);
  assert.ok(await why.isVisible());
  return why.innerText();
}

test('a run is paused and resumed, and its steps are shown', { skip }, async () => {
  const run = await server.api('POST', '/v1/runs', { flow: 'Greet', subject: 'demo/default/c1' });
  const page = await open('#/runs');
  await row(page, `Mark run ${run.id.slice(-8)}`).getByText('Waiting').waitFor();
  await page.getByRole('link', { name: run.id.slice(-8) }).click();
  await page.getByRole('group', { name: /^Steps of run/ }).getByRole('rowheader', { name: 'Answer' }).waitFor();
  // the reason, the start and the deadline of the wait
  const waits = page.getByRole('group', { name: 'Waiting', exact: true });
  assert.match(await waits.innerText(), /Waits at Answer: signal answer\s+Since\s+\d+ (s|min) ago\s+Gives up\s+[\d:]+.*\(in \d+ min\)/);
  assert.match(await whyNot(page, 'Resume'), /Waiting, not paused/);
  await requestRun(page, 'Pause', 'for the test');
  await at(page, 'Paused');
  await page.getByText('Remedy:').first().waitFor();
  assert.match(await whyNot(page, 'Pause'), /paused already/);
  assert.match(await page.getByRole('group', { name: 'History', exact: true }).innerText(), /for the test/);
  await requestRun(page, 'Resume');
  await at(page, 'Waiting');
  await server.api('POST', `/v1/runs/${run.id}/signal`, { name: 'answer' });
  await at(page, 'Succeeded');
  await waits.waitFor({ state: 'detached' });
  for (const verb of ['Pause', 'Resume', 'Cancel']) assert.match(await whyNot(page, verb), /The run has ended: it is Succeeded/);
  await page.context().close();
});

test('a run is cancelled, in the mode that was chosen', { skip }, async () => {
  const run = await server.api('POST', '/v1/runs', { flow: 'Greet', subject: 'demo/default/c2' });
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

test('the list of runs has filters in its address and counts, and asks many runs after a plan', { skip }, async () => {
  const ids = [];
  for (const n of [1, 2, 3]) ids.push((await server.api('POST', '/v1/runs', { flow: 'Greet', subject: `demo/default/many${n}`, labels: { wave: n < 3 ? 'first' : 'second' } })).id);
  const page = await open('#/runs?text=demo/default/many');
  const rows = page.locator('tbody tr');
  const counts = page.getByRole('group', { name: 'Counts' });
  await counts.getByRole('button', { name: 'Waiting 3' }).waitFor();
  await page.locator('.range', { hasText: '1–3 of 3' }).waitFor();
  assert.equal(await rows.count(), 3);

  // a filter goes into the address, and a reload keeps it
  await page.getByLabel('Labels').fill('wave=first');
  await page.locator('.range', { hasText: '1–2 of 2' }).waitFor();
  assert.match(page.url(), /#\/runs\?text=demo%2Fdefault%2Fmany&selector=wave%3Dfirst$/);
  await counts.getByRole('button', { name: 'Waiting 2' }).click();
  await counts.getByRole('button', { name: 'Waiting 2', pressed: true }).waitFor();
  await page.reload();
  await page.locator('.range', { hasText: '1–2 of 2' }).waitFor();
  assert.equal(await page.getByLabel('Phase').inputValue(), 'Waiting');
  await counts.getByRole('button', { name: 'Waiting 2' }).click();
  await page.getByLabel('Labels').fill('');
  await page.locator('.range', { hasText: '1–3 of 3' }).waitFor();

  // two marked runs are paused; the plan comes first
  const many = page.getByRole('group', { name: 'Many runs' });
  await many.getByText('All 3 of this list').waitFor();
  await row(page, `Mark run ${ids[0].slice(-8)}`).getByRole('checkbox').check();
  await row(page, `Mark run ${ids[2].slice(-8)}`).getByRole('checkbox').check();
  await many.getByText('2 marked').waitFor();
  await many.getByRole('button', { name: 'Pause' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByRole('row', { name: /^2 Greet.*Waiting/ }).waitFor();
  await dialog.getByLabel('Why, for history').fill('many at once');
  await page.screenshot({ path: join(shots, 'bulk.png') });
  await dialog.getByRole('button', { name: 'Pause', exact: true }).click();
  await dialog.waitFor({ state: 'detached' });
  await counts.getByRole('button', { name: 'Paused 2', exact: true }).waitFor();
  await many.getByText('All 3 of this list').waitFor();
  assert.equal(await page.getByRole('checkbox', { checked: true }).count(), 0);
  const bulk = (await server.api('GET', '/v1/objects/Bulk')).items[0];
  assert.deepEqual([bulk.spec.verb, bulk.spec.ids, bulk.spec.planned, bulk.spec.reason], ['pause', [ids[0], ids[2]].sort(), 2, 'many at once']);

  // all of the list go on by a signal; one that needs a name says so
  await counts.getByRole('button', { name: 'Paused 2', exact: true }).click();
  await page.locator('.range', { hasText: '1–2 of 2' }).waitFor();
  await many.getByRole('button', { name: 'Resume' }).click();
  await dialog.getByRole('row', { name: /^2 Greet.*Paused/ }).waitFor();
  await dialog.getByRole('button', { name: 'Resume', exact: true }).click();
  await counts.getByRole('button', { name: 'Waiting 3' }).waitFor();
  await page.getByLabel('Phase').selectOption('');
  await page.locator('.range', { hasText: '1–3 of 3' }).waitFor();
  await many.getByRole('button', { name: 'Send signal' }).click();
  await dialog.getByText('Name the signal first.').waitFor();
  await dialog.getByLabel('Name of the signal').fill('answer');
  await dialog.getByRole('row', { name: /^3 Greet.*Waiting/ }).waitFor();
  await dialog.getByRole('button', { name: 'Send signal', exact: true }).click();
  await counts.getByRole('button', { name: 'Succeeded 3' }).waitFor();
  await page.getByRole('link', { name: /^b[0-9a-f]{12}$/ }).click();
  await page.getByRole('heading', { level: 1, name: /^b[0-9a-f]{12}$/ }).waitFor();
  await at(page, 'Complete');

  // what cannot be asked says why
  for (const [address, why] of [['#/runs', 'Mark runs, or narrow the list first.'], ['#/runs?phase=Succeeded', 'The runs have ended: they are Succeeded.'], ['#/runs?subject=demo/default/many1', 'A bulk cannot be of one subject: mark the runs, or search for the subject.'], ['#/runs?text=nobody-has-this', 'The list is empty.']]) {
    await page.goto(`${server.url}/${address}`);
    const pause = page.getByRole('group', { name: 'Many runs' }).getByRole('button', { name: 'Pause' });
    await page.waitForFunction((text) => [...document.querySelectorAll('.bulk .why')].some((e) => e.textContent === text), why);
    assert.equal(await pause.getAttribute('aria-disabled'), 'true');
  }
  await page.context().close();
});

test('the list follows each event, its counts every few seconds', { skip }, async () => {
  const start = (n) => server.api('POST', '/v1/runs', { flow: 'Greet', subject: `demo/default/beat${n}` });
  const page = await open('#/runs?text=demo/default/beat');
  await page.getByText('Runs: none.').waitFor();
  const asked = { '/v1/runs': 0, '/v1/run-counts': 0 };
  page.on('request', (r) => { asked[new URL(r.url()).pathname]++; });
  const counts = page.getByRole('group', { name: 'Counts' });
  for (const n of [1, 2, 3, 4]) {
    await start(n);
    await row(page, `Mark run \\w+ \\w+ Greet demo/default/beat${n}`).waitFor();
  }
  await counts.getByRole('button', { name: 'Waiting 4' }).waitFor();
  await page.locator('.range', { hasText: '1–4 of 4' }).waitFor();
  assert.ok(asked['/v1/runs'] >= 4, `the list was read ${asked['/v1/runs']} times`);
  assert.ok(asked['/v1/run-counts'] < asked['/v1/runs'], `the counts were read ${asked['/v1/run-counts']} times, the list ${asked['/v1/runs']} times`);
  // a filter that changes counts at once
  const before = asked['/v1/run-counts'];
  await page.getByLabel('Phase').selectOption('Paused');
  await page.locator('.range', { hasText: 'nothing' }).waitFor();
  await page.waitForFunction((text) => document.querySelector('.bulk .why')?.textContent === text, 'The list is empty.', { timeout: 4000 });
  assert.ok(asked['/v1/run-counts'] > before);
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
  await dialog.getByText('DOWNTIME_NOT_ALLOWED').first().waitFor(); // the plan says what has to be allowed
  await dialog.getByLabel('The only control node may be upgraded in place').check();
  await dialog.getByRole('row', { name: /^upgrade vm older-\S+control1/ }).waitFor();
  await page.screenshot({ path: join(shots, 'upgrade.png') });
  await dialog.getByRole('button', { name: 'Upgrade' }).click();
  await dialog.waitFor({ state: 'detached' });
  await at(page, 'Scaling');
  await at(page, 'Running');
  const nodes = (await server.api('GET', `/v1/clusters/${c.id}/nodes`)).items;
  assert.deepEqual(nodes.map((n) => `${n.role} ${n.version}`).sort(), ['control 1.1.0', 'worker v1.1']);
  await page.getByRole('group', { name: 'Nodes', exact: true }).getByText('v1.1').first().waitFor();
  await page.context().close();
});

test('the browser had nothing to complain of at runs', { skip }, () => {
  assert.deepEqual(visitor.complaints(), []);
});
