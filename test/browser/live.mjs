// Measures how long a change takes from the save of a step to the changed text in the page of its run.
//
//   npm --prefix test/browser ci && make build && node test/browser/live.mjs
//
// A run waits for a signal at each of its --times 40 steps, and gets one each second. The page tells when the text of its fact "Step" was another one,
// and the history of the run when that step was saved, both by the clock of this machine. It prints the median and the slowest but one of twenty, and
// ends with 1 when the median is over --gate 100 milliseconds. --against PAWL measures the console of another pawl first.
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { browse, missing, serve } from './fixture.mjs';

const { values } = parseArgs({ options: { times: { type: 'string', default: '40' }, gate: { type: 'string', default: '100' }, against: { type: 'string' } } });
const [times, gate] = [Number(values.times), Number(values.gate)];
if (missing()) { console.error(missing()); process.exit(2); }

// watch records when each text of a fact was there.
const watch = () => {
  window.textAt = {};
  const look = () => {
    const fact = [...document.querySelectorAll('.facts > div')].find((d) => d.firstChild.textContent === 'Step');
    if (fact) window.textAt[fact.lastChild.textContent] ??= performance.timeOrigin + performance.now();
  };
  new MutationObserver(look).observe(document, { childList: true, subtree: true, characterData: true });
};

async function measure(browser, program) {
  const dir = mkdtempSync(join(tmpdir(), 'pawl-live-'));
  mkdirSync(join(dir, 'flows'));
  writeFileSync(join(dir, 'flows/steps.yaml'), `flowName: Steps\nsteps:\n${Array.from({ length: times + 1 }, (_, i) => `- {stepName: S${i}, wait: {signal: go, deadline: 10h}}\n`).join('')}`);
  const server = await serve('dev', { config: 'none', dir, more: ['--flows', join(dir, 'flows')], ...(program ? { program } : {}) });
  try {
    const run = await server.api('POST', '/v1/runs', { flow: 'Steps', subject: 'demo/default/steps' });
    const page = await browser.newPage();
    await page.addInitScript(watch);
    await page.goto(`${server.url}/#/runs/${run.id}`);
    await page.waitForFunction(() => window.textAt.S0);
    await page.getByText('● live').waitFor();
    for (let i = 1; i <= times; i++) {
      await new Promise((r) => { setTimeout(r, 1000); });
      await server.api('POST', `/v1/runs/${run.id}/signal`, { name: 'go' });
      await page.waitForFunction((step) => window.textAt[step], `S${i}`);
    }
    const shown = await page.evaluate(() => window.textAt);
    const { items } = await server.api('GET', `/v1/runs/${run.id}/history?limit=1000`);
    const found = items.filter((e) => e.kind === 'StepWaiting' && e.step !== 'S0').map((e) => shown[e.step] - Date.parse(e.at)).sort((a, b) => a - b);
    const middle = found[Math.floor(found.length / 2)];
    console.log(`${program ? `of ${program}, ` : ''}from the save of a step to its text in the page, ${found.length} times: median ${Math.round(middle)} ms, 95 % below ${Math.round(found[Math.floor(found.length * 0.95)])} ms, fastest ${Math.round(found[0])} ms, gate ${gate} ms${middle > gate ? ', missed' : ''}`);
    return middle <= gate;
  } finally {
    await server.close();
  }
}

const browser = await browse();
let met;
try {
  if (values.against) await measure(browser, values.against);
  met = await measure(browser);
} finally {
  await browser.close();
}
process.exit(met ? 0 : 1);
