import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { browse, missing, serve, token } from './fixture.mjs';

const skip = missing() || false;
let server, browser;
before(async () => {
  if (!skip) [server, browser] = await Promise.all([serve('server'), browse()]);
});
after(async () => {
  await browser?.close();
  await server?.close();
});

test('a token is traded for a cookie that no script reads', { skip }, async () => {
  const page = await (await browser.newContext()).newPage();
  page.setDefaultTimeout(60000);
  await page.goto(`${server.url}/#/leaks`);
  await page.getByLabel('Token').fill('not-a-token-of-this-server');
  await page.keyboard.press('Enter');
  await page.getByText('UNAUTHENTICATED').waitFor();
  await page.getByLabel('Token').fill(token);
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'Leaks' }).waitFor();
  await page.getByText('● live').waitFor();

  const [cookie] = await page.context().cookies();
  assert.ok(cookie.httpOnly && cookie.sameSite === 'Strict', JSON.stringify(cookie));
  assert.equal(await page.evaluate(() => document.cookie + JSON.stringify({ ...localStorage, ...sessionStorage })), '{}', 'a script can read what signs in');

  // The session outlives a reload, and changes carry its second token.
  await page.goto(`${server.url}/#/clusters/new`);
  await page.reload();
  await page.locator('#zone option').first().waitFor({ state: 'attached' });
  await page.locator('#offering option').first().waitFor({ state: 'attached' });
  await page.getByLabel('Name').fill('signed');
  await page.getByRole('button', { name: 'Show the plan' }).click();
  await page.getByRole('button', { name: 'Create' }).click();
  await page.getByRole('heading', { name: 'signed' }).waitFor();
  const refused = await page.evaluate(async () => (await fetch('/v1/clusters', { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: '{}' })).status);
  assert.equal(refused, 403, 'a change without the second token');

  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByLabel('Token').waitFor();
  assert.deepEqual(await page.context().cookies(), []);
  await page.context().addCookies([cookie]);
  await page.reload();
  await page.getByLabel('Token').waitFor(); // the old cookie is good for nothing

  await server.stop();
  await server.start();
  await page.context().addCookies([cookie]);
  await page.reload();
  await page.getByLabel('Token').waitFor(); // after a restart neither
  await page.context().close();
});

test('a session outlives a restart of the server', { skip }, async () => {
  const page = await (await browser.newContext()).newPage();
  page.setDefaultTimeout(60000);
  await page.goto(`${server.url}/#/leaks`);
  await page.getByLabel('Token').fill(token);
  await page.keyboard.press('Enter');
  await page.getByText('● live').waitFor();
  await server.stop();
  await page.getByText('polling every 5 s').waitFor();
  await server.start();
  await page.getByText('● live').waitFor(); // the page that was open goes on
  await page.reload();
  await page.getByRole('heading', { name: 'Leaks' }).waitFor();
  assert.equal(await page.getByLabel('Token').count(), 0, 'it asks for the token again');
  await page.goto(`${server.url}/#/clusters/new`);
  await page.locator('#zone option').first().waitFor({ state: 'attached' });
  await page.locator('#offering option').first().waitFor({ state: 'attached' });
  await page.getByLabel('Name').fill('after-the-restart');
  await page.getByRole('button', { name: 'Show the plan' }).click();
  await page.getByRole('button', { name: 'Create' }).click();
  await page.getByRole('heading', { name: 'after-the-restart' }).waitFor(); // changes too: the second token is the same
  await page.context().close();
});
