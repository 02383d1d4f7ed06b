// Drawings: a flow, a run with a retry, a child run and a healer, a machine, and a run of many steps.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { join } from 'node:path';
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { Visitor, at, browse, missing, press, row, serve, shots } from './fixture.mjs';

const skip = missing() || false;
const exec = (script) => `uses: exec\n  with: {command: [sh, -c, ${JSON.stringify(script)}]}`;
const many = 200; // steps of the long flow
const huge = 1200; // more steps than an answer of the server has

// The flow waits for files, so that each test decides when a step goes on.
const files = (dir) => ({
  'flows/inner.yaml': `flowName: Inner\nsteps:\n- stepName: Work\n  ${exec('echo from the child')}\n`,
  'flows/mend.yaml': `flowName: Mend\nsteps:\n- stepName: Fix\n  ${exec(`touch ${dir}/mended`)}\n`,
  'flows/ship_faults.yaml': 'faults:\n- {code: SHIP_BROKEN, class: blocked, title: the ship is broken, remedy: Mend it., healer: {flow: Mend, limits: {first: 10ms}}}\n',
  'flows/ship.yaml': `flowName: Ship
steps:
- stepName: Build
  ${exec('echo image-v7')}
- stepName: Break
  uses: exec
  with: {shell: "test -e ${dir}/mended || exit 3", faults: {3: SHIP_BROKEN}}
- stepName: Below
  flow: Inner
- stepName: Deliver
  parallel:
    branches:
    - {name: Post, steps: [{stepName: Send, uses: exec, with: {command: [echo, sent]}}]}
    - {name: Mail, steps: [{stepName: Write, uses: exec, with: {command: [echo, written]}}]}
- stepName: Each
  forEach: {list: '["a", "b", "c"]', as: item}
  steps:
  - stepName: Count
    uses: exec
    with: {command: [echo, one]}
- stepName: Never
  when: "false"
  ${exec('echo never')}
- stepName: Last
  wait: {signal: go, deadline: 10m}
- stepName: After
  ${exec('echo after')}
`,
  'flows/huge.yaml': `flowName: Huge\nsteps:\n${Array.from({ length: huge }, (_, i) => `- {stepName: S${i}, ${i === huge - 1 ? 'wait: {signal: go, deadline: 10m}' : 'uses: exec, when: "false", with: {command: ["true"]}'}}\n`).join('')}`,
  'flows/long.yaml': `flowName: Long\nsteps:\n${Array.from({ length: many }, (_, i) => `- stepName: S${i}\n  ${i === many / 2 ? 'wait: {signal: go, deadline: 10m}' : exec('true')}\n`).join('')}`,
  'machines/lamp.yaml': `machine: Lamp
kind: lamp
initial: Dark
any: [{event: delete, to: Gone, when: object.metadata.deleting}]
states:
  Dark: {on: [{event: create, to: Lighting}]}
  Lighting: {flow: Light, then: Lit}
  Lit: {description: it is lit, on: [{event: refit, to: Lighting, when: object.spec.power > 9}]}
  Interrupted: {description: the lighting failed}
  Gone: {}
`,
  'machines/light.yaml': 'flowName: Light\nsteps:\n- {stepName: Switch, uses: exec, with: {command: [echo, light]}}\n',
});

let server, browser, visitor, run, long;
before(async () => {
  if (skip) return;
  const dir = mkdtempSync(join(tmpdir(), 'pawl-browser-'));
  for (const folder of ['flows', 'machines']) mkdirSync(join(dir, folder));
  for (const [name, text] of Object.entries(files(dir))) writeFileSync(join(dir, name), text);
  [server, browser] = await Promise.all([serve('dev', { config: 'none', dir, more: ['--flows', join(dir, 'flows'), '--machines', join(dir, 'machines')] }), browse()]);
  visitor = new Visitor(server, browser);
  [run, long] = await Promise.all(['Ship', 'Long'].map((flow) => server.api('POST', '/v1/runs', { flow, subject: `demo/default/${flow.toLowerCase()}` })));
  await server.api('PUT', '/v1/objects/lamp/default/desk', { spec: { power: 5 } });
});
after(async () => {
  await browser?.close();
  await server?.close();
});

const flow = (page) => page.locator('figure.flow');
const node = (page, name) => page.locator(`.node[data-name="${name}"]`);

test('a flow is drawn with what runs side by side, loops, waits and child flows', { skip }, async () => {
  const page = await visitor.open('#/flows/Ship');
  await node(page, 'Deliver/Mail/Write').waitFor();
  const names = await flow(page).locator('.node').evaluateAll((all) => all.map((n) => n.dataset.name));
  assert.deepEqual(names, ['start', 'Build', 'Break', 'Below', 'Deliver/Post/Send', 'Deliver/Mail/Write', 'Each/Count', 'Never', 'Last', 'After', 'done']);
  const frame = (name) => flow(page).locator(`.frame[data-name="${name}"]`);
  assert.match(await frame('Deliver').textContent(), /Deliver.*side by side, 2 at once/);
  assert.match(await frame('Each').textContent(), /⟳ each of .*, 1 at once/);
  assert.match(await node(page, 'Below').textContent(), /flow Inner/);
  assert.match(await node(page, 'Last').textContent(), /signal go/);
  const [post, mail] = await Promise.all(['Deliver/Post/Send', 'Deliver/Mail/Write'].map((n) => node(page, n).boundingBox()));
  assert.ok(mail.y > post.y + post.height && Math.abs(mail.x - post.x) < 30, 'branches stand one below the other');
  await node(page, 'Last').press('Enter');
  assert.match(await page.evaluate(() => document.activeElement.textContent), /^Last/);
  await page.screenshot({ path: join(shots, 'graph-flow.png') });
  await page.context().close();
});

test('a run has each step in its state, with its child run and its healer, live', { skip }, async () => {
  const page = await visitor.open(`#/runs/${run.id}`);
  await page.getByText('● live').waitFor();
  await node(page, 'Last').getByText('Waiting').waitFor();
  assert.match(await node(page, 'Build').getAttribute('class'), /\bgood\b/);
  assert.match(await node(page, 'Last').getAttribute('class'), /\bbusy\b.*\bhere\b/);
  assert.match(await node(page, 'Never').textContent(), /↷ Never\s*Skipped/);
  assert.match(await node(page, 'Each/Count').textContent(), /✔ Count\s*Done 3 times/);
  assert.match(await node(page, 'After').getAttribute('class'), /\blater\b/);
  assert.match(await node(page, 'After').getAttribute('aria-label'), /^After exec, not begun/);
  assert.match(await flow(page).locator('.healer').textContent(), /healer\s*SHIP_BROKEN\s*1 attempt/);
  assert.match(await flow(page).locator('.child').getAttribute('aria-label'), /^✔ run \w{8} Succeeded, of Inner/);
  await page.screenshot({ path: join(shots, 'graph-run.png') });
  await page.emulateMedia({ colorScheme: 'dark' });
  await page.screenshot({ path: join(shots, 'graph-run-dark.png') });
  await node(page, 'Build').click();
  assert.match(await page.evaluate(() => document.activeElement.textContent), /^Build/);
  await server.api('POST', `/v1/runs/${run.id}/signal`, { name: 'go' });
  await node(page, 'After').getByText('Done').waitFor();
  await at(page, 'Succeeded');
  assert.equal(await flow(page).locator('.here').count(), 0, 'a run that has ended is at no step');
  await flow(page).locator('.child').press('Enter');
  await page.getByRole('heading', { name: 'Inner' }).waitFor();
  await page.context().close();
});

test('of a run of many steps those around the present one are drawn, and the others when they are asked for', { skip }, async () => {
  const page = await visitor.open(`#/runs/${long.id}`);
  await node(page, `S${many / 2}`).getByText('Waiting').waitFor();
  const before = await flow(page).locator('.node').count();
  assert.ok(before < 40, `${before} nodes`);
  const rest = flow(page).locator('.rest').first();
  assert.match(await rest.getAttribute('aria-label'), /^… \d+ steps \d+ Done, show them$/);
  await rest.focus();
  await rest.press('Enter');
  await node(page, 'S10').waitFor();
  assert.equal(await flow(page).locator('.node').count(), many + 2);
  await page.getByRole('button', { name: /^Show all 101 steps/ }).waitFor();
  await node(page, 'S0').click();
  assert.match(await page.evaluate(() => document.activeElement.textContent), /^S0/);
  await page.context().close();
});

test('a run of more steps than an answer has shows the state of each, and its older steps when they are asked for', { skip }, async () => {
  const started = await server.api('POST', '/v1/runs', { flow: 'Huge', subject: 'demo/default/huge' });
  const page = await visitor.open(`#/runs/${started.id}`);
  await node(page, `S${huge - 1}`).getByText('Waiting').waitFor();
  await page.getByRole('button', { name: `${huge - 9} steps` }).waitFor();
  assert.match(await page.getByRole('button', { name: `${huge - 9} steps` }).getAttribute('aria-label'), new RegExp(`${huge - 9} Skipped`));
  assert.match(await node(page, 'S0').innerHTML(), /Skipped/, 'it has begun and is over');
  const rows = page.getByRole('group', { name: /^Steps of run/ }).locator('tbody tr');
  await page.getByRole('button', { name: `Show the newest 1,000 of ${huge.toLocaleString('en')} steps` }).click();
  await page.getByRole('button', { name: 'Show 200 older steps of 200' }).waitFor();
  assert.equal(await rows.count(), 1000);
  await node(page, 'S3').or(node(page, 'S0')).first().click();
  await page.waitForFunction(() => /^S0/.test(document.activeElement.textContent));
  assert.equal(await rows.count(), huge);
  await page.getByRole('button', { name: 'Pause run' }).click();
  assert.match(await page.getByRole('dialog').getByRole('row', { name: /^S0\b/ }).innerText(), /Skipped\s+stays as it is/);
  await page.context().close();
});

test('of a flow of many steps the first hundred rows are drawn, and the others when one of them is chosen', { skip }, async () => {
  const page = await visitor.open('#/flows/Long');
  const rows = page.getByRole('group', { name: 'Steps', exact: true }).locator('tbody tr');
  await page.getByRole('button', { name: `Show all ${many} steps` }).waitFor();
  assert.equal(await rows.count(), 100);
  await node(page, `S${many - 1}`).click();
  assert.match(await page.evaluate(() => document.activeElement.textContent), new RegExp(`^S${many - 1}`));
  assert.equal(await rows.count(), many);
  await page.context().close();
});

test('of a long history the newest rows are drawn, and the others when they are asked for', { skip }, async () => {
  const page = await visitor.open(`#/runs/${long.id}`);
  const rows = page.getByRole('group', { name: 'History', exact: true }).locator('tbody tr');
  const all = page.getByRole('button', { name: /^Show all \d+ of the newest/ });
  await all.waitFor();
  assert.equal(await rows.count(), 100);
  await all.click();
  assert.ok(await rows.count() > 200, `${await rows.count()} rows`);
  await all.waitFor({ state: 'detached' });
  await page.context().close();
});

test('a page that is opened asks for nothing twice', { skip }, async () => {
  for (const [place, shown] of [[`#/runs/${long.id}`, 'figure.flow svg'], ['#/runs', 'role=row[name=/Long/]'], ['#/flows', 'role=row[name=/^Long/]'], ['#/flows/Long', 'figure.flow svg']]) {
    const page = await visitor.open();
    await page.getByText('● live').waitFor();
    await page.waitForLoadState();
    const asked = [];
    await page.route('**/v1/events?**', (route) => route.abort()); // their arrival asks again
    page.on('request', (r) => asked.push(r.url().replace(/^.*(?=\/v1\/)/, '')));
    await page.goto('about:blank');
    await page.goto(`${server.url}/${place}`);
    await page.locator(shown).first().waitFor();
    const read = asked.filter((a) => a.startsWith('/v1/') && !a.startsWith('/v1/events'));
    assert.deepEqual(read.filter((a, i) => read.indexOf(a) !== i), [], place);
    assert.ok(read.length >= 2, read.join());
    await page.context().close();
  }
});

test('machines are listed with their objects; a state is chosen by keyboard', { skip }, async () => {
  const page = await visitor.open('#/machines');
  await row(page, 'Lamp').getByText('1 Lit').waitFor();
  assert.match(await row(page, 'Lamp').innerText(), /Lamp\s+lamp\s+Dark\s+5\s+1\s+1 Lit\s+\S*lamp\.yaml/);
  await row(page, 'Lamp').getByRole('link', { name: 'Lamp' }).click();
  await node(page, 'Lit').getByText('1 object').waitFor();
  assert.equal(await page.locator('.state').count(), 5);
  await page.locator('main').focus();
  await press(page, 'Tab', 'Lit 1 object');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'Ways out of Lit' }).waitFor();
  const ways = page.getByRole('group', { name: 'Transitions', exact: true });
  assert.deepEqual(await ways.locator('tbody tr').evaluateAll((all) => all.map((r) => [...r.cells].slice(0, 3).map((c) => c.textContent).join(' '))), ['any state delete Gone', 'Lit refit Lighting']);
  assert.equal(await node(page, 'Lit').getAttribute('aria-pressed'), 'true');
  assert.equal(await page.locator('.connection.lit').count(), 2);
  await page.screenshot({ path: join(shots, 'graph-machine.png') });
  await page.context().close();
});

test('an object is lit in its machine, with the conditions that hold', { skip }, async () => {
  const page = await visitor.open('#/objects/lamp/default/desk');
  const machine = page.getByRole('img', { name: 'It is Lit. From here it goes to Gone on delete (refused), to Lighting on refit (refused).' });
  await machine.waitFor();
  assert.equal(await machine.locator('.here').getAttribute('data-name'), 'Lit');
  assert.deepEqual(await machine.locator('.label.lit').allTextContents(), ['✖ delete', '✖ refit']);
  const places = () => machine.locator('.node .box').evaluateAll((all) => all.map((e) => e.getAttribute('x')).join());
  const before = await places();
  await server.api('DELETE', '/v1/objects/lamp/default/desk', undefined, { 'If-Match': '*' });
  await page.getByRole('img', { name: /^It is Gone\. No event leaves this state/ }).or(page.getByText('OBJECT_NOT_FOUND').first()).waitFor();
  assert.ok(before.length > 0);
  await page.context().close();
});

test('on a narrow screen drawings scroll by themselves, and the page does not', { skip }, async () => {
  for (const place of ['#/flows/Ship', `#/runs/${run.id}`, '#/machines/lamp']) {
    const page = await visitor.open(place, { viewport: { width: 390, height: 800 }, colorScheme: 'dark' });
    await page.locator('figure.graph svg').waitFor();
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth) <= 0, `${place} is too wide`);
    const letters = await page.locator('figure.graph svg text').first().evaluate((e) => e.getBoundingClientRect().height);
    assert.ok(letters >= 9, `${place}: letters of ${letters} px`);
    await page.context().close();
  }
  const page = await visitor.open('#/machines/lamp');
  await page.locator('figure.graph svg').waitFor();
  await page.evaluate(() => document.querySelector('main').focus());
  await press(page, 'Tab', 'Dark');
  await page.context().close();
});

test('the browser had nothing to complain of at drawings', { skip }, () => {
  assert.deepEqual(visitor.complaints(), []);
});
