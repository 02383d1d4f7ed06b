// How often a page reads: at once after an event, and then with a pause.
import assert from 'node:assert/strict';
import { afterEach, beforeEach, mock, test } from 'node:test';

let now, source, reads, read;
const note = { textContent: '' };
const step = async (ms) => {
  now += ms;
  mock.timers.tick(ms);
  await new Promise(setImmediate);
};
beforeEach(async () => {
  now = 0;
  reads = [];
  mock.timers.enable({ apis: ['setTimeout', 'setInterval'] });
  mock.method(performance, 'now', () => now);
  globalThis.document = { getElementById: () => note };
  globalThis.EventSource = class {
    constructor() { source = this; this.on = {}; }
    addEventListener(kind, act) { this.on[kind] = act; }
    close() {}
  };
  const { live } = await import('../../console/static/live.js');
  read = () => Promise.resolve();
  live('/v1/events', () => { reads.push(now); return read(); });
  source.onopen();
  await step(1000);
  assert.equal(reads.splice(0).length, 1, 'for the changes before the stream was open');
  await step(1000);
});
afterEach(() => mock.reset());

test('an event after a quiet time is read at once, those that follow share one reading', async () => {
  source.on.step();
  source.on.run();
  await step(1);
  assert.deepEqual(reads, [2001]);
  await step(50);
  source.on.step();
  source.on.step();
  await step(349);
  assert.deepEqual(reads, [2001]);
  await step(1);
  assert.deepEqual(reads, [2001, 2401]);
});

test('an event during a reading is read after it', async () => {
  let done;
  read = () => new Promise((r) => { done = r; });
  source.on.step();
  await step(1);
  await step(5000);
  source.on.step();
  await step(1);
  assert.deepEqual(reads, [2001]);
  done();
  await step(1);
  await step(398);
  assert.deepEqual(reads, [2001]);
  await step(2);
  assert.deepEqual(reads, [2001, 7403]);
});
