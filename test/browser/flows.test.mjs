// Flows and faults: their pages, a run that is started from a form, and who is stuck by which fault.
import assert from 'node:assert/strict';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Visitor, at, browse, missing, row, serve } from './fixture.mjs';

const skip = missing() || false;
let server, browser, visitor;

before(async () => {
  if (skip) return;
  const dir = mkdtempSync(join(tmpdir(), 'pawl-browser-'));
  writeFileSync(join(dir, 'order.yaml'), `flowName: Order
description: orders what was asked for
input:
  type: object
  required: [item]
  properties:
    item: {type: string, description: what is ordered, maxLength: 20}
    count: {type: integer, default: 1, minimum: 1}
    colour: {enum: [red, green]}
    gift: {type: boolean}
    options: {type: object}
steps:
- stepName: Check
  uses: exec
  with: {shell: "test $ITEM != broken || exit 3", env: {ITEM: "\${input.item}"}, faults: {3: ITEM_BROKEN}}
- stepName: Wrap
  when: has(input.gift) && input.gift
  uses: exec
  with: {command: [echo, wrapped]}
- stepName: Deliver
  parallel:
    branches:
    - {name: Post, steps: [{stepName: Send, uses: exec, with: {command: [echo, sent]}, undo: {uses: exec, with: {command: [echo, back]}}}]}
`);
  writeFileSync(join(dir, 'order_faults.yaml'), `faults:\n- {code: ITEM_BROKEN, class: blocked, title: the item is broken, remedy: "Repair it, then \`pawl resume\`."}\n`);
  [server, browser] = await Promise.all([serve('dev', { dir, config: 'none', more: ['--flows', join(dir, 'order.yaml'), '--flows', join(dir, 'order_faults.yaml')] }), browse()]);
  visitor = new Visitor(server, browser);
});
after(async () => {
  await browser?.close();
  await server?.close();
});

test('a flow is read, and a run is started from a form of its input', { skip }, async () => {
  const page = await visitor.open('#/flows');
  await page.getByRole('link', { name: 'Order', exact: true }).click();
  await page.getByRole('heading', { name: 'Order', exact: true }).waitFor();
  const steps = page.getByRole('group', { name: 'Steps', exact: true });
  assert.match(await steps.innerText(), /Wrap[\s\S]*has\(input\.gift\)[\s\S]*Send[\s\S]*undo/);

  await page.getByText('Start a run').click();
  await page.getByLabel('Subject').fill('order/default/one');
  await page.getByLabel('item', { exact: true }).fill('book');
  assert.equal(await page.getByLabel('count (optional)').getAttribute('placeholder'), 'default: 1');
  await page.getByLabel('colour (optional)').selectOption('green');
  // what is no JSON is said with its field, and nothing is asked
  await page.getByLabel('options (optional)').fill('{');
  await page.getByRole('button', { name: 'Show the plan' }).click();
  assert.match(await page.getByRole('alert').innerText(), /options: /);
  await page.getByLabel('options (optional)').fill('{"fast": true}');
  await page.getByRole('button', { name: 'Show the plan' }).click();
  const plan = page.getByRole('group', { name: 'Plan', exact: true });
  await row(plan, 'Wrap').getByText('skip').waitFor();
  // a change of the input takes the plan away
  await page.getByLabel('gift (optional)').selectOption('true');
  await plan.waitFor({ state: 'detached' });
  await page.getByRole('button', { name: 'Show the plan' }).click();
  await row(plan, 'Wrap').getByText('run').waitFor();
  await page.getByRole('button', { name: 'Start', exact: true }).click();
  await at(page, 'Succeeded');
  const { items: [run] } = await server.api('GET', '/v1/runs?flow=Order');
  assert.deepEqual(run.subject, 'order/default/one');
  const full = await server.api('GET', `/v1/runs/${run.id}`);
  assert.deepEqual(full.input, { item: 'book', count: 1, colour: 'green', gift: true, options: { fast: true } });

  // the page of the flow has the run
  await page.goto(`${server.url}/#/flows/Order`);
  await page.getByRole('group', { name: 'Newest runs' }).getByRole('link', { name: run.id.slice(-8) }).waitFor();
  await page.context().close();
});

test('flows read their counts every few seconds, not at each event', { skip }, async () => {
  const [list, one] = [await visitor.open('#/flows'), await visitor.open('#/flows/Order')];
  await row(list, 'Order').getByRole('link', { name: /^\d+$/ }).waitFor();
  await one.getByRole('group', { name: 'Newest runs' }).waitFor();
  for (const page of [list, one]) await page.getByText('● live').waitFor();
  const asked = { '/v1/flows': 0, '/v1/run-counts': 0, '/v1/runs': 0 };
  for (const page of [list, one]) page.on('request', (r) => { asked[new URL(r.url()).pathname]++; });
  for (let n = 1; n <= 6; n++) {
    const { id } = await server.api('POST', '/v1/runs', { flow: 'Order', subject: `order/default/beat${n}`, input: { item: 'book' } });
    await one.getByRole('group', { name: 'Newest runs' }).getByRole('link', { name: id.slice(-8) }).waitFor();
  }
  const { runs } = await server.api('GET', '/v1/run-counts?flow=Order');
  await row(list, 'Order').getByRole('link', { name: String(runs), exact: true }).waitFor(); // the beat comes after the last event too
  assert.ok(asked['/v1/runs'] >= 6, `the newest runs were read ${asked['/v1/runs']} times`);
  assert.ok(asked['/v1/run-counts'] < asked['/v1/runs'], `counts were read ${asked['/v1/run-counts']} times, the newest runs ${asked['/v1/runs']} times`);
  for (const page of [list, one]) await page.context().close();
});

test('a refused input is said by the server, and starts nothing', { skip }, async () => {
  const page = await visitor.open('#/flows/Order');
  await page.getByText('Start a run').click();
  await page.getByLabel('Subject').fill('order/default/two');
  await page.getByLabel('item', { exact: true }).fill('book');
  await page.getByLabel('options (optional)').fill('3');
  await page.getByRole('button', { name: 'Show the plan' }).click();
  assert.match(await page.getByRole('alert').innerText(), /options/);
  assert.equal(await page.getByRole('button', { name: 'Start', exact: true }).count(), 0);
  await page.context().close();
});

test('faults tell who is stuck by them', { skip }, async () => {
  for (const n of [1, 2]) await server.api('POST', '/v1/runs', { flow: 'Order', subject: `order/default/broken${n}`, input: { item: 'broken' } });
  const page = await visitor.open('#/faults');
  const stuck = page.getByRole('group', { name: 'Runs by fault' });
  await row(stuck, 'ITEM_BROKEN').getByRole('link', { name: '2', exact: true }).waitFor();
  assert.match(await row(stuck, 'ITEM_BROKEN').innerText(), /Repair it/);
  await row(stuck, 'ITEM_BROKEN').getByRole('link', { name: 'ITEM_BROKEN' }).click();
  await page.getByRole('heading', { name: 'ITEM_BROKEN' }).waitFor();
  await page.getByRole('group', { name: 'Runs by flow' }).getByRole('link', { name: '2', exact: true }).click();
  await page.locator('.range', { hasText: '1–2 of 2' }).waitFor();
  assert.equal(await page.getByLabel('Fault', { exact: true }).inputValue(), 'ITEM_BROKEN');

  await page.goto(`${server.url}/#/faults`);
  await page.getByLabel('Search').fill('item is broken');
  await page.getByRole('group', { name: 'Declared faults' }).locator('tbody tr').first().waitFor();
  assert.equal(await page.getByRole('group', { name: 'Declared faults' }).locator('tbody tr').count(), 1);
  await page.context().close();
});
