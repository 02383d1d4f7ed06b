// Schedules: their calendar, their runs, and the verbs that steer them. Workers: who works, and on what.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Visitor, browse, missing, row, serve, token } from './fixture.mjs';

const skip = missing() || false;
let server, browser, visitor;
const spec = { cron: '30 1 * * *', timeZone: 'Europe/Berlin', flow: 'Greet', subject: 'demo/default/nightly', overlap: 'queue', except: ['12-24'] };

before(async () => {
  if (skip) return;
  [server, browser] = await Promise.all([serve('dev', { config: 'none' }), browse()]);
  visitor = new Visitor(server, browser);
  await server.api('PUT', '/v1/objects/Schedule/default/nightly', { spec });
  await server.api('PUT', '/v1/objects/Schedule/default/often', { spec: { interval: '1h', flow: 'Greet', subject: 'demo/default/often' } });
});
after(async () => {
  await browser?.close();
  await server?.close();
});

const nightly = () => server.api('GET', '/v1/schedules/default/nightly');

test('schedules are listed with when they begin next', { skip }, async () => {
  const page = await visitor.open('#/schedules');
  const text = await row(page, 'nightly').innerText();
  assert.match(text, /30 1 \* \* \* Europe\/Berlin[\s\S]*Greet[\s\S]*in \d+ (h|d|min)[\s\S]*queue/);
  assert.match(await row(page, 'often').innerText(), /every 1h[\s\S]*in \d+ (min|s)[\s\S]*skip/);
  await page.getByRole('link', { name: 'nightly' }).click();
  await page.getByRole('heading', { name: 'nightly' }).waitFor();
  const { next } = await nightly();
  const ticks = page.getByRole('group', { name: 'Next ticks' }).locator('tbody th time');
  assert.deepEqual(await ticks.evaluateAll((all) => all.map((t) => t.dateTime)), next);
  assert.equal(next.length, 5);
  await page.getByText('12-24').waitFor();
  await page.context().close();
});

test('a pause says what it leaves out, a resume what it will start', { skip }, async () => {
  const page = await visitor.open('#/schedules/default/nightly');
  const { next } = await nightly();
  await page.getByRole('button', { name: 'Pause' }).click();
  const dialog = page.getByRole('dialog');
  const left = dialog.getByRole('group', { name: 'Next ticks' }).locator('tbody th time');
  assert.deepEqual(await left.evaluateAll((all) => all.map((t) => t.dateTime)), next);
  await dialog.getByLabel('Why').fill('new disks');
  await page.keyboard.press('Escape');
  assert.equal((await nightly()).object.annotations, undefined, 'a closed dialog has paused it');
  await page.getByRole('button', { name: 'Pause' }).click();
  await dialog.getByLabel('Why').fill('new disks');
  await dialog.getByRole('button', { name: 'Pause' }).click();
  await page.locator('.title', { hasText: 'Paused' }).getByText(/new disks$/).waitFor();
  await page.getByText('Next ticks: it is paused.').waitFor();
  assert.match((await nightly()).object.annotations['pawl.dev/pause'], /: new disks$/);
  assert.equal(await page.getByRole('button', { name: 'Pause' }).getAttribute('aria-disabled'), 'true');

  await page.getByRole('button', { name: 'Resume' }).click();
  await dialog.waitFor();
  assert.deepEqual(await dialog.getByRole('group', { name: 'Next ticks' }).locator('tbody th time').evaluateAll((all) => all.map((t) => t.dateTime)), next);
  await dialog.getByRole('button', { name: 'Resume' }).click();
  await page.locator('.title', { hasText: 'Active' }).waitFor();
  assert.equal((await nightly()).object.annotations?.['pawl.dev/pause'], undefined);
  await page.context().close();
});

test('a run now and a backfill come after their plans', { skip }, async () => {
  const page = await visitor.open('#/schedules/default/nightly');
  await page.getByRole('button', { name: 'Run now' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByRole('row', { name: /^Hello run/ }).waitFor();
  await dialog.getByLabel('Why, for history').fill('before the upgrade');
  await dialog.getByRole('button', { name: 'Run now' }).click();
  await dialog.waitFor({ state: 'detached' });
  const runs = page.getByRole('group', { name: 'Runs', exact: true });
  await runs.getByText('Waiting').waitFor();
  const { items } = await server.api('GET', '/v1/runs?selector=pawl.dev/schedule=default/nightly');
  assert.equal(items.length, 1);
  assert.equal(items[0].subject, 'demo/default/nightly');

  await page.getByRole('button', { name: 'Backfill' }).click();
  await dialog.getByText('Choose the time first.').waitFor();
  await dialog.getByLabel('From (UTC)').fill('2026-01-01T00:00');
  await dialog.getByLabel('To (UTC)').fill('2025-01-01T00:00');
  await dialog.getByText('BACKFILL_INVALID').waitFor();
  await dialog.getByLabel('To (UTC)').fill('2026-01-03T00:00');
  const plan = dialog.getByRole('group', { name: 'Plan', exact: true });
  await plan.getByText('starts').first().waitFor();
  assert.deepEqual(await plan.locator('tbody th').allInnerTexts(), ['2026-01-01T00:30:00Z', '2026-01-02T00:30:00Z']);
  assert.equal((await server.api('GET', '/v1/runs?selector=pawl.dev/schedule=default/nightly')).items.length, 1, 'the plan has started runs');
  await dialog.getByRole('button', { name: 'Start the runs' }).click();
  await dialog.waitFor({ state: 'detached' });
  await page.waitForFunction(() => document.querySelectorAll('[aria-label="Runs"] tbody tr').length === 3);
  // a second backfill finds nothing to start
  await page.getByRole('button', { name: 'Backfill' }).click();
  await dialog.getByLabel('From (UTC)').fill('2026-01-01T00:00');
  await dialog.getByLabel('To (UTC)').fill('2026-01-03T00:00');
  await plan.getByText('has its run').first().waitFor();
  await dialog.getByText('There is nothing to start.').waitFor();
  await page.context().close();
});

test('workers tell what they work on', { skip }, async () => {
  const page = await visitor.open('#/workers');
  await page.getByRole('heading', { name: 'Workers', exact: true }).waitFor();
  const { items } = await server.api('GET', '/v1/workers');
  assert.equal(items.length, 1);
  await row(page, items[0].name.replaceAll(/[^\w-]/g, '.')).waitFor();
  await page.getByText(/^Locks: nobody holds one|this server shares no locks/).waitFor();
  await page.context().close();
});

test('the trail tells who has called what, by account and outcome', { skip }, async () => {
  const guarded = await serve('server', { config: 'none' });
  try {
    const uma = await guarded.api('POST', '/v1/accounts', { name: 'uma', role: 'operator' });
    const { token: hers } = await guarded.api('POST', '/v1/tokens', { account: uma.id, name: 'for the test' });
    const refused = await fetch(`${guarded.url}/v1/runs`, { method: 'POST', headers: { Authorization: `Bearer ${hers}`, 'Content-Type': 'application/json' }, body: '{"flow":"None","subject":"a/b/c"}' });
    assert.equal(refused.status, 404);
    const visitors = new Visitor(guarded, browser);
    const page = await visitors.open('');
    await page.getByLabel('Token').fill(token);
    await page.keyboard.press('Enter');
    await page.getByRole('link', { name: 'Accounts' }).click();
    await page.getByRole('link', { name: 'uma' }).click();
    const trail = page.getByRole('group', { name: 'Audit trail' });
    await trail.getByText('FLOW_UNKNOWN').waitFor();
    await page.getByRole('group', { name: 'Tokens' }).getByText('for the test').waitFor();

    await page.getByRole('button', { name: 'Disable' }).click();
    await page.getByRole('dialog').getByText('All its calls are refused').waitFor();
    await page.getByRole('dialog').getByRole('button', { name: 'Disable' }).click();
    await page.locator('.title', { hasText: 'disabled' }).waitFor();
    assert.equal((await guarded.api('GET', `/v1/accounts/${uma.id}`)).disabled, true);
    await page.getByRole('button', { name: 'Enable' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Enable' }).click();
    await page.locator('.title', { hasText: 'active' }).waitFor();

    await page.getByRole('link', { name: 'Audit' }).click();
    await row(trail, '').getByText('/disable').first().waitFor();
    await page.getByLabel('Outcome').selectOption('refused');
    await page.waitForFunction(() => document.querySelectorAll('[aria-label="Audit trail"] tbody tr').length === 1);
    await page.getByLabel('Account').fill('operator');
    await page.getByText('Audit trail: no call has changed anything.').waitFor();
    assert.match(page.url(), /#\/audit\?account=operator&outcome=refused$/);
    await page.context().close();
    assert.deepEqual(visitors.complaints(), []);
  } finally {
    await guarded.close();
  }
});

test('the browser had nothing to complain of at schedules', { skip }, () => {
  assert.deepEqual(visitor.complaints(), []);
});
