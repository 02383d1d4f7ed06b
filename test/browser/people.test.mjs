// People who use no mouse, do not see colours, or have a narrow screen.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { join } from 'node:path';
import { Visitor, at, browse, missing, press, row, serve, shots } from './fixture.mjs';

const skip = missing() || false;
let server, browser, visitor;
const open = (...where) => visitor.open(...where);
before(async () => {
  if (skip) return;
  [server, browser] = await Promise.all([serve('dev'), browse()]);
  visitor = new Visitor(server, browser);
  await server.running('walked');
});
after(async () => {
  await browser?.close();
  await server?.close();
});

test('a cluster is made with the keyboard only', { skip }, async () => {
  const page = await open();
  await page.getByText('● live').waitFor();
  await press(page, 'Tab', 'New cluster');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'New cluster' }).waitFor();
  await page.locator('#zone option').first().waitFor({ state: 'attached' });
  await page.locator('#offering option').first().waitFor({ state: 'attached' });
  await press(page, 'Tab', 'name');
  await page.keyboard.type('by-keys');
  await page.keyboard.press('Enter');
  await page.getByRole('button', { name: 'Create' }).waitFor();
  await press(page, 'Tab', 'Create');
  await page.keyboard.press('Enter');
  await at(page, 'Running');
  await press(page, 'Tab', 'Stop');
  await page.keyboard.press('Enter');
  await page.getByRole('dialog').getByText(/steps/).first().waitFor();
  for (let i = 0; i < 12; i++) {
    await page.keyboard.press('Tab');
    assert.ok(await page.evaluate(() => document.activeElement === document.body || document.querySelector('dialog').contains(document.activeElement)), 'the focus leaves the dialog');
  }
  await page.keyboard.press('Escape');
  assert.equal(await page.getByRole('dialog').count(), 0);
  assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Stop', 'the focus is not where it was');
  await page.context().close();
});

test('list, detail and the dialog of a plan work by keyboard alone', { skip }, async () => {
  const page = await open();
  await row(page, 'walked').waitFor();
  await press(page, 'Tab', 'q');
  await page.keyboard.type('walk');
  await page.locator('.range', { hasText: '1–1 of 1' }).waitFor();
  await press(page, 'Tab', 'walked');
  await page.keyboard.press('Enter');
  await at(page, 'Running');

  await press(page, 'Tab', 'Scale');
  await page.keyboard.press('Enter');
  const dialog = page.getByRole('dialog', { name: 'Scale walked' });
  await dialog.getByText('Nothing is to be done').waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.id), 'size', 'the dialog does not begin at its first field');
  await page.keyboard.press('Control+a');
  await page.keyboard.type('2');
  await dialog.getByRole('row', { name: /^create vm/ }).waitFor();
  await page.keyboard.press('Escape');
  await dialog.waitFor({ state: 'detached' });
  assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Scale');
  assert.equal((await server.api('GET', '/v1/clusters?q=walked')).items[0].size, 1, 'Escape has changed something');

  await page.keyboard.press('Enter');
  await dialog.getByText('Nothing is to be done').waitFor();
  await page.keyboard.press('Control+a');
  await page.keyboard.type('2');
  await dialog.getByRole('row', { name: /^create vm/ }).waitFor();
  await page.keyboard.press('Enter'); // within the field: the form's own button
  await dialog.waitFor({ state: 'detached' });
  await page.getByText('2 existing, 2 desired').waitFor();
  await at(page, 'Running');

  await press(page, 'Tab', 'Journal');
  await page.keyboard.press('Enter');
  assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Journal');
  assert.ok(await page.getByRole('heading', { name: 'Journal' }).evaluate((e) => e.getBoundingClientRect().top < innerHeight), 'the jump does not arrive');
  await press(page, 'Shift+Tab', 'Clusters');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'Clusters' }).waitFor();
  await page.context().close();
});

test('everything has a name', { skip }, async () => {
  const [c] = (await server.api('GET', '/v1/clusters')).items;
  for (const place of ['', `#/clusters/${c.id}`, '#/clusters/new', '#/runs', '#/objects', '#/leaks']) {
    const page = await open(place);
    await page.locator('h1').waitFor();
    await page.waitForLoadState('load');
    const nameless = await page.evaluate(() => [...document.querySelectorAll('button, a, input, select, table, [role=group], svg[role=img]')].filter((e) => {
      const label = e.labels?.length || e.getAttribute('aria-label') || e.textContent.trim() || e.querySelector('caption');
      return !label;
    }).map((e) => e.outerHTML.slice(0, 120)));
    assert.deepEqual(nameless, [], place);
    await page.context().close();
  }
});

test('no state is told by its colour alone', { skip }, async () => {
  const [c] = (await server.api('GET', '/v1/clusters?q=walked')).items;
  const [run] = (await server.api('GET', `/v1/clusters/${c.id}/runs`)).items;
  for (const colorScheme of ['light', 'dark']) {
    for (const place of ['#/clusters', `#/clusters/${c.id}`, '#/runs', `#/runs/${run.id}`]) {
      const page = await open(place, { colorScheme });
      await page.locator('.badge').first().waitFor();
      // Each status colour has a text with the same meaning.
      const silent = await page.evaluate(() => {
        const root = getComputedStyle(document.documentElement);
        const probe = document.body.appendChild(document.createElement('i'));
        const moods = ['--good', '--bad', '--busy'].map((name) => { probe.style.color = root.getPropertyValue(name); return getComputedStyle(probe).color; });
        probe.remove();
        return [...document.querySelectorAll('main *')].filter((e) => moods.includes(getComputedStyle(e).color) && !e.closest('button.danger'))
          .filter((e) => { const whole = e.closest('.badge, .differs, .fault strong'); return !whole || !/^([^\p{L}\p{N}\s]\s+[\p{L}\p{N}].*|.*≠|Remedy: )$/u.test(whole.textContent); }).map((e) => e.outerHTML.slice(0, 160));
      });
      assert.deepEqual(silent, [], `${place} ${colorScheme}`);
      await page.context().close();
    }
  }
  // No two states look alike without colours, in the diagram too.
  const page = await open(`#/clusters/${c.id}`);
  await at(page, 'Running');
  const here = page.locator('.machine .here');
  assert.equal(await here.count(), 1);
  assert.match(await here.textContent(), /^▶ Running$/);
  const badges = await page.evaluate(async () => {
    const beside = (name) => import(new URL(name, document.querySelector('script[src$="/app.js"]').src));
    const { badge } = await beside('parts.js');
    const { textOf } = await beside('dom.js');
    const { states } = await (await fetch('/v1/lifecycle')).json();
    return states.map(({ name }) => textOf(badge(name)));
  });
  assert.equal(new Set(badges).size, badges.length, `${badges}`);
  assert.deepEqual(badges.filter((b) => b.startsWith('·')), [], 'states without a sign');
  await page.context().close();
});

test('on a narrow screen nothing is out of sight, and tables stay tables', { skip }, async () => {
  const [c] = (await server.api('GET', '/v1/clusters?q=walked')).items;
  for (const place of ['#/clusters', `#/clusters/${c.id}`, '#/clusters/new', '#/runs', '#/leaks']) {
    const page = await open(place, { viewport: { width: 390, height: 800 }, colorScheme: 'dark' });
    await page.locator('h1').waitFor();
    await page.waitForLoadState('networkidle').catch(() => {}); // the event stream is idle work
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(wide <= 0, `${place} is ${wide} px too wide`);
    if (place.includes(c.id)) await page.screenshot({ path: join(shots, 'detail-narrow.png'), fullPage: true });
    if (place === '#/clusters') {
      await page.screenshot({ path: join(shots, 'list-narrow.png') });
      assert.match(await page.getByRole('row', { name: /^walked/ }).getByRole('cell').first().innerText(), /Running/);
    }
    await page.context().close();
  }
});

test('the browser had nothing to complain of with people', { skip }, () => {
  assert.deepEqual(visitor.complaints(), []);
});
