// Takes the pictures of docs/pictures: pages of the console on a real server, in light and dark.
//
//	make pictures
//
// A picture is 1280 pixels wide and has at most 150 KB: the program ends with 1 when one has more.
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { browse, missing, root, serve } from './fixture.mjs';

const most = 150 * 1024;
const to = join(root, 'docs/pictures');
if (missing()) { console.error(missing()); process.exit(2); }

const exec = (script) => `uses: exec\n  with: {shell: ${JSON.stringify(script)}}`;
const files = {
  'flows/order_faults.yaml': 'faults:\n- {code: CARRIER_AWAY, class: blocked, title: the carrier does not answer, remedy: "Ask the carrier when it is back, then `pawl resume` the run."}\n',
  'flows/order.yaml': `flowName: Order
description: packs what was ordered, and sends it
input:
  type: object
  required: [item]
  properties:
    item: {type: string, description: what is ordered, maxLength: 40}
    count: {type: integer, default: 1, minimum: 1}
    carrier: {enum: [north, south]}
    gift: {type: boolean}
steps:
- stepName: Reserve
  ${exec('echo 3 in stock')}
- stepName: Wrap
  when: has(input.gift) && input.gift
  ${exec('echo wrapped')}
- stepName: Prepare
  parallel:
    branches:
    - {name: Pack, steps: [{stepName: Box, uses: exec, with: {shell: echo packed}}, {stepName: Label, uses: exec, with: {shell: echo labelled}}]}
    - {name: Bill, steps: [{stepName: Invoice, uses: exec, with: {shell: echo billed}}]}
- stepName: Ship
  uses: exec
  with: {shell: "test $CARRIER != south || { echo no answer from the carrier >&2; exit 3; }", env: {CARRIER: "\${has(input.carrier) ? input.carrier : 'north'}"}, faults: {3: CARRIER_AWAY}}
- stepName: Delivered
  wait: {signal: delivered, deadline: 72h}
`,
  'flows/backup.yaml': `flowName: Backup\ndescription: keeps a copy of the orders\nsteps:\n- stepName: Copy\n  ${exec('echo copied 41 MB')}\n- stepName: Verify\n  ${exec('echo the same')}\n`,
};

const dir = mkdtempSync(join(tmpdir(), 'pawl-pictures-'));
mkdirSync(join(dir, 'flows'));
for (const [name, text] of Object.entries(files)) writeFileSync(join(dir, name), text);
mkdirSync(to, { recursive: true });
const [server, browser] = await Promise.all([serve('dev', { dir, more: ['--flows', join(dir, 'flows')] }), browse()]);

// phase waits until a run is in a phase.
async function phase(id, wanted) {
  for (let i = 0; i < 240; i++) {
    if ((await server.api('GET', `/v1/runs/${id}`)).phase === wanted) return;
    await new Promise((r) => { setTimeout(r, 250); });
  }
  throw new Error(`the run ${id} does not become ${wanted}`);
}

let failed = false;

// take draws a page in both colors. act brings it into the state that is shown; height is that of the picture.
async function take(name, place, shown, height, act = () => {}) {
  for (const colorScheme of ['light', 'dark']) {
    const context = await browser.newContext({ viewport: { width: 1280, height }, colorScheme, reducedMotion: 'reduce' });
    const page = await context.newPage();
    await page.goto(`${server.url}/${place}`);
    await page.getByText('● live').waitFor();
    await page.locator(shown).first().waitFor();
    await act(page);
    const path = join(to, `${name}-${colorScheme}.png`);
    const { length } = await page.screenshot({ path });
    console.log(`${name}-${colorScheme}.png: ${Math.ceil(length / 1024)} KB${length > most ? ', too large' : ''}`);
    failed ||= length > most;
    await context.close();
  }
}

try {
  const order = (n, input) => server.api('POST', '/v1/runs', { flow: 'Order', subject: `order/default/${1000 + n}`, input, actor: 'shop' });
  const cluster = await server.running('orders', { size: 3 });
  await server.api('PUT', '/v1/objects/Schedule/default/nightly', { spec: { cron: '30 1 * * *', flow: 'Backup', subject: 'demo/default/orders', input: {} } });
  for (let n = 0; n < 12; n++) await order(n, { item: ['book', 'lamp', 'chair'][n % 3], count: 1 + n % 4, carrier: 'north', gift: n % 2 === 0 });
  for (let n = 0; n < 6; n++) await phase((await server.api('POST', '/v1/runs', { flow: 'Backup', subject: `demo/default/shop${n}`, actor: 'nightly' })).id, 'Succeeded');
  const paused = await order(12, { item: 'table', carrier: 'south', gift: true });
  await phase(paused.id, 'Paused');
  await order(13, { item: 'shelf', carrier: 'south' });

  await take('runs', '#/runs', 'role=button[name=/^Paused 2/]', 760);
  await take('paused-run', `#/runs/${paused.id}`, 'figure.flow .here', 900);
  await take('cluster', `#/clusters/${cluster.id}`, 'figure.machine svg', 820);
  await take('flow-form', '#/flows/Order', 'role=group[name="Newest runs"]', 820, async (page) => {
    await page.getByText('Start a run').click();
    await page.getByLabel('Subject').fill('order/default/2000');
    await page.getByLabel('item', { exact: true }).fill('book');
    await page.getByLabel('carrier (optional)').selectOption('north');
    await page.getByRole('button', { name: 'Show the plan' }).click();
    await page.getByRole('group', { name: 'Plan', exact: true }).waitFor();
    await page.getByText('Start a run').evaluate((e) => e.scrollIntoView({ block: 'start' }));
  });
  await take('schedule', '#/schedules/default/nightly', 'role=group[name="Next ticks"]', 700);
} finally {
  await browser.close();
  await server.close();
}
process.exit(failed ? 1 : 0);
