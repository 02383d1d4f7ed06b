// Measures how long the console takes from the address to what a person has come for: a list of 10,000 runs, and a run of 1,000 steps.
//
//   npm --prefix test/browser ci && make build && node test/browser/paint.mjs
//
// It starts a server, fills it, and opens each page --times 7 in a fresh context: nothing is cached. It prints the median, and ends with 1 when one
// is over --gate 300 milliseconds. --trace DIR keeps traces of the browser; they open in the performance panel of its developer tools. --against PAWL
// measures the console of another pawl too, on a copy of the same store and in turn with the first, so that a busy minute meets both.
import { cpSync, mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { browse, missing, serve } from './fixture.mjs';

const { values } = parseArgs({ options: { times: { type: 'string', default: '7' }, gate: { type: 'string', default: '300' }, runs: { type: 'string', default: '10000' }, steps: { type: 'string', default: '1000' }, trace: { type: 'string' }, against: { type: 'string' } } });
const [times, gate, runs, steps] = ['times', 'gate', 'runs', 'steps'].map((n) => Number(values[n]));
if (missing()) { console.error(missing()); process.exit(2); }

const dir = mkdtempSync(join(tmpdir(), 'pawl-paint-'));
mkdirSync(join(dir, 'flows'));
writeFileSync(join(dir, 'flows/one.yaml'), 'flowName: One\nsteps:\n- {stepName: Wait, wait: {signal: go, deadline: 10h}}\n');
writeFileSync(join(dir, 'flows/long.yaml'), `flowName: Long\nsteps:\n${Array.from({ length: steps }, (_, i) => `- {stepName: S${i}, ${i === steps - 1 ? 'wait: {signal: go, deadline: 10h}' : 'uses: exec, with: {command: ["true"]}'}}\n`).join('')}`);
const [server, browser] = await Promise.all([serve('dev', { config: 'none', dir, more: ['--flows', join(dir, 'flows')] }), browse()]);

// shown tells when something is in the page, and the frame with it was drawn.
const watch = (selector) => {
  const look = () => {
    if (!document.querySelector(selector)) return;
    seen.disconnect();
    requestAnimationFrame(() => setTimeout(() => { window.shownAt = performance.now(); }));
  };
  const seen = new MutationObserver(look);
  seen.observe(document, { childList: true, subtree: true });
};

const median = (all) => all.toSorted((a, b) => a - b)[Math.floor(all.length / 2)];

async function measure(name, place, selector) {
  const servers = [[server, 'shown'], ...(other ? [[other, `of ${values.against} shown`]] : [])].map(([at, what]) => ({ at, what, found: [] }));
  for (let i = 0; i < times; i++) for (const s of servers) s.found.push(await load(s.at, name, place, selector, values.trace && i === times - 1 && s.at === server));
  const [shown] = servers.map(({ what, found }) => {
    const middle = median(found.map((f) => f.shown));
    console.log(`${name}: ${what} ${Math.round(middle)} ms (${found.map((f) => Math.round(f.shown)).join(' ')}), first paint ${Math.round(median(found.map((f) => f.first)))} ms, gate ${gate} ms${middle > gate ? ', missed' : ''}`);
    return middle;
  });
  return shown <= gate;
}

// load opens a place in a fresh context, and returns when it was shown.
async function load(at, name, place, selector, traced) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
  try {
    const page = await context.newPage();
    await page.addInitScript(watch, selector);
    if (traced) await browser.startTracing(page, { path: join(values.trace, `${name.replaceAll(/\W+/g, '-')}.json`), categories: ['devtools.timeline', 'blink.user_timing', 'loading', 'v8.execute'] });
    await page.goto(`${at.url}/${place}`);
    await page.waitForFunction(() => window.shownAt, undefined, { timeout: 60000 });
    const found = await page.evaluate(() => ({ shown: window.shownAt, first: performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0 }));
    if (traced) await browser.stopTracing();
    return found;
  } finally {
    await context.close();
  }
}

let other;
let met = true;
try {
  if (values.trace) mkdirSync(values.trace, { recursive: true });
  const long = await server.api('POST', '/v1/runs', { flow: 'Long', subject: 'demo/default/long' });
  let next = 0;
  await Promise.all(Array.from({ length: 50 }, async () => { while (next < runs) await server.api('POST', '/v1/runs', { flow: 'One', subject: `demo/default/s${next++}` }); }));
  for (;;) {
    const { phase } = await server.api('GET', `/v1/runs/${long.id}`);
    if (phase === 'Waiting') break;
    if (phase === 'Paused') throw new Error('the long run is paused');
    await new Promise((r) => { setTimeout(r, 500); });
  }
  if (values.against) {
    await server.stop();
    const copy = mkdtempSync(join(tmpdir(), 'pawl-paint-'));
    cpSync(dir, copy, { recursive: true });
    other = await serve('dev', { config: 'none', dir: copy, more: ['--flows', join(copy, 'flows')], program: values.against });
    await server.start();
  }
  met = await measure(`a list of ${runs.toLocaleString('en')} runs`, '#/runs', '.range');
  met = await measure(`a run of ${steps.toLocaleString('en')} steps`, `#/runs/${long.id}`, 'figure.flow svg') && met;
  met = await measure('its flow', '#/flows/Long', 'figure.flow svg') && met;
} finally {
  await browser.close();
  await other?.close();
  await server.close();
}
process.exit(met ? 0 : 1);
