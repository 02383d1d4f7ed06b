import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { browse, missing, serve, shots, Visitor } from './fixture.mjs';

const skip = missing() || false;
let server, browser;
before(async () => {
  if (!skip) [server, browser] = await Promise.all([serve(), browse()]);
});
after(async () => {
  await browser?.close();
  await server?.close();
});

test('the page of the API shows the operations and asks no other site', { skip }, async () => {
  const visitor = new Visitor(server, browser);
  const page = await visitor.open();
  const asked = [];
  page.on('request', (r) => asked.push(r.url()));
  await page.goto(`${server.url}/docs`);
  await page.getByText('Create a cluster').first().waitFor();
  await page.getByText('/v1/runs/{id}/signal').first().waitFor({ state: 'attached' });
  await page.screenshot({ path: join(shots, 'docs.png') });
  assert.deepEqual(asked.filter((url) => !url.startsWith(`${server.url}/`) && !url.startsWith('data:')), []);
  assert.deepEqual(visitor.complaints(), []);
});
