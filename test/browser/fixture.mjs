// The fixture of the tests: a real server and a real browser.
import { execFile, spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { extname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';

export const root = new URL('../..', import.meta.url).pathname;
export const token = 'a-token-for-the-tests-of-the-console';
export const shots = join(root, 'bin/screenshots');
const binary = process.env.PAWL ?? join(root, 'bin/pawl');
const filler = process.env.FILL ?? join(root, 'bin/fill');
const chromiumPath = process.env.CHROMIUM ?? '/usr/bin/chromium';

const versions = `versions:
  - {id: v1.0, version: 1.0.0, template: node-1.0}
  - {id: v1.1, version: 1.1.0, template: node-1.1}
installation: walks
`;

// The cluster configurations: a simulated cloud; processes of this machine, whose
// state changes only by user actions; and a simulated cloud that fill has prepared. 'none' is a server without clusters.
export const configs = {
  sim: () => `${versions}providers: [{name: sim, type: sim}]\nsync: {interval: 1s}\n`,
  local: (dir) => `${versions}providers: [{name: local, type: local, dir: ${join(dir, 'vms')}}]\nrecovery: none\nsync: {interval: 1s}\ngc: {interval: 2s, first: 5s}\ntimeouts: {call: 10s, settle: 12s}\n`,
  filled: (dir) => `${versions}providers: [{name: sim, type: sim, dir: ${join(dir, 'cloud.json')}}]\n`,
};

const flow = `flowName: Greet
steps:
- stepName: Hello
  uses: exec
  with: {command: [echo, hello]}
- stepName: Answer
  wait: {signal: answer, deadline: 10m}
`;

// missing returns why the tests cannot run here; '' if they can.
export function missing() {
  if (!existsSync(binary)) return `${binary} is missing: make build`;
  if (!existsSync(chromiumPath)) return `${chromiumPath} is missing: apt-get install chromium`;
  if (!existsSync(new URL('node_modules/playwright-core', import.meta.url))) return 'playwright-core is missing: npm ci in test/browser';
  return '';
}

// fill creates a folder whose store and cloud hold a number of clusters.
export async function fill(clusters) {
  const dir = mkdtempSync(join(tmpdir(), 'pawl-browser-'));
  await promisify(execFile)(filler, ['--dir', dir, '--clusters', String(clusters)]);
  return dir;
}

// serve starts pawl dev, or pawl server with a token, and returns a client of it.
export async function serve(verb = 'dev', { config = 'sim', dir = mkdtempSync(join(tmpdir(), 'pawl-browser-')), more = [], program = binary } = {}) {
  if (config !== 'none') writeFileSync(join(dir, 'clusters.yaml'), configs[config](dir));
  writeFileSync(join(dir, 'token'), `${token}\n`, { mode: 0o600 });
  writeFileSync(join(dir, 'greet.yaml'), flow);
  let process_, ended, url;

  async function start() {
    const listen = url ? new URL(url).host : '127.0.0.1:0'; // a restart keeps the address
    const args = [verb, '--listen', listen, '--dsn', join(dir, 'pawl.db'), ...(config === 'none' ? [] : ['--clusters', join(dir, 'clusters.yaml')]), '--flows', join(dir, 'greet.yaml'), '--log-level', 'error', ...more];
    if (verb === 'server') args.push('--token-file', join(dir, 'token'), '--actions', 'exec');
    process_ = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, XDG_STATE_HOME: dir, PAWL_CONTEXTS: join(dir, 'contexts.yaml') } });
    const said = [];
    process_.stderr.on('data', (d) => said.push(d));
    ended = new Promise((resolve) => { process_.once('exit', resolve); });
    url = await new Promise((resolve, reject) => {
      createInterface(process_.stdout).on('line', (line) => {
        const found = line.match(/listens on (http:\S+)/);
        if (found) resolve(found[1]);
      });
      ended.then(() => reject(new Error(`the server ended: ${Buffer.concat(said)}`)));
    });
  }
  async function stop() {
    process_.kill('SIGTERM');
    await ended;
  }
  await start();
  const server = {
    url, dir, start, stop,
    async api(method, path, body, headers = {}) {
      const answer = await fetch(url + path, { method, headers: { 'Content-Type': 'application/json', ...(verb === 'server' ? { Authorization: `Bearer ${token}` } : {}), ...headers }, body: body && JSON.stringify(body) });
      const text = await answer.text();
      if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
      return JSON.parse(text);
    },
    create: async (name, more = {}) => (await server.api('POST', '/v1/clusters', { name, zone: config === 'local' ? 'local' : 'zone-1', offering: 'small', size: 1, version: 'v1.0', ...more })).cluster,
    // until waits for a state and returns the cluster.
    async until(id, state) {
      let found;
      for (let i = 0; i < 360; i++) {
        found = await server.api('GET', `/v1/clusters/${id}`);
        if (found.state === state) return found;
        await new Promise((r) => { setTimeout(r, 250); });
      }
      throw new Error(`${id} does not become ${state}: ${JSON.stringify(found)}`);
    },
    running: async (name, more) => server.until((await server.create(name, more)).id, 'Running'),
    // kill sends a signal to the process of a VM of the provider local.
    kill(vm, signal = 'SIGKILL') {
      process.kill(JSON.parse(readFileSync(join(dir, 'vms/vms', vm, 'process.json'))).pid, signal);
    },
    // addOrphanVM adds a VM to the folder of the provider local that belongs to no cluster and was never started.
    addOrphanVM(name, { tags = {}, network = '' }) {
      const id = `vm-${[...name].map((c) => c.charCodeAt(0).toString(16)).join('').padEnd(24, '0').slice(0, 24)}`;
      mkdirSync(join(dir, 'vms/vms', id), { mode: 0o700 });
      writeFileSync(join(dir, 'vms/vms', id, 'vm.json'), JSON.stringify({ id, kind: 'vm', name, identity: id, tags, created: '2026-01-01T00:00:00Z', cores: 1, memoryMB: 1024,
        spec: { zone: 'local', offering: 'small', template: 'node-1.0', network } }));
      return id;
    },
    // hide moves the folder of the provider local away, like a lost disk, or back.
    hide(away) { renameSync(join(dir, away ? 'vms' : 'vms-away'), join(dir, away ? 'vms-away' : 'vms')); },
    async close() {
      await stop();
      for (const vm of config === 'local' ? readdirSync(join(dir, 'vms/vms')) : []) {
        try { server.kill(vm); } catch { /* it has ended or was never started */ }
      }
      rmSync(dir, { recursive: true, force: true });
    },
  };
  return server;
}

// lineOf returns what a pattern finds in the output of a program.
export function lineOf(program, pattern) {
  const said = [];
  program.stderr?.on('data', (d) => said.push(d));
  return new Promise((resolve, reject) => {
    createInterface(program.stdout).on('line', (line) => {
      const found = line.match(pattern);
      if (found) resolve(found[1]);
    });
    program.once('exit', () => reject(new Error(`it ended: ${Buffer.concat(said)}`)));
  });
}

// off are features of the browser that are of no use here. Each window would load some 60 modules of its own search box beside the first page. The
// switch replaces that of Playwright, so that the others are those which it turns off.
const off = ['WebUIOmniboxPopup', 'WebUIOmniboxAimPopup', 'WebUIOmniboxFullPopup',
  'AvoidUnnecessaryBeforeUnloadCheckSync', 'DestroyProfileOnBrowserClose', 'HttpsUpgrades', 'HttpsFirstBalancedModeAutoEnable', 'LensOverlay', 'MediaRouter', 'PaintHolding', 'ThirdPartyStoragePartitioning',
  'AvoidCorsURLLoaderRestartOnRedirect', 'TcpPortRandomizationWin', 'OptimizationHints', 'NetworkTimeServiceQuerying', 'AimEnabled', 'PreconnectToSearch'];

export async function browse() {
  const { chromium } = await import('playwright-core');
  return chromium.launch({ executablePath: chromiumPath, args: ['--no-sandbox', `--disable-features=${off}`] });
}

const kinds = { '.js': 'text/javascript', '.css': 'text/css', '.html': 'text/html', '.svg': 'image/svg+xml' };

// serveFile answers with a file of the folder STATIC in place of the one in the program: a change is tried without a build.
async function serveFile(route) {
  const { origin, pathname } = new URL(route.request().url());
  const name = pathname === '/' ? 'index.html' : pathname.slice(1);
  const policy = (await fetch(origin)).headers.get('content-security-policy');
  await route.fulfill({ path: join(process.env.STATIC, name), headers: { 'Content-Type': kinds[extname(name)], 'Content-Security-Policy': policy } });
}

// Visitor opens pages of a server in a browser, and records the errors of the browser.
export class Visitor {
  constructor(server, browser) {
    Object.assign(this, { server, browser, wrong: [] });
    mkdirSync(shots, { recursive: true });
  }
  async open(place = '', options = {}) {
    const context = await this.browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
    if (process.env.STATIC) await context.route((url) => !url.pathname.startsWith('/v1/'), serveFile);
    const page = await context.newPage();
    page.setDefaultTimeout(90000);
    page.on('pageerror', (e) => this.wrong.push(e.message));
    page.on('console', (m) => m.type() === 'error' && !/status of 4\d\d/.test(m.text()) && this.wrong.push(m.text()));
    await page.goto(`${this.server.url}/${place}`);
    return page;
  }
  // complaints returns failed scripts and violations of the content policy, without requests that a test has aborted.
  complaints() { return this.wrong.filter((w) => !/ERR_FAILED/.test(w)); }
}

// looks are the ways in which axe-core sees a page.
export const looks = { light: { colorScheme: 'light' }, dark: { colorScheme: 'dark' }, phone: { colorScheme: 'light', viewport: { width: 390, height: 844 } } };

// violations returns what axe-core finds on a page that keeps people out: its serious and critical findings, with their places.
export async function violations(page) {
  if (!await page.evaluate(() => 'axe' in window)) await page.evaluate(readFileSync(new URL('node_modules/axe-core/axe.min.js', import.meta.url), 'utf8')); // the policy of the console refuses a script element
  const found = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }));
  return found.violations.filter((v) => ['serious', 'critical'].includes(v.impact)).flatMap((v) => v.nodes.map((n) => `${v.id} at ${n.target.join(' ')}: ${n.any[0]?.message ?? v.help}`));
}

export const row = (page, name) => page.getByRole('row', { name: new RegExp(`^${name}\\b`) });
export const at = (page, text) => page.locator('.title .badge', { hasText: text }).waitFor();

// press presses a key until the named element has the focus, which must be visible.
export async function press(page, key, until) {
  const passed = [];
  for (let i = 0; i < 80; i++) {
    const here = await page.evaluate(() => {
      const e = document.activeElement;
      return { name: (e.id || e.textContent.trim()).slice(0, 60), visible: getComputedStyle(e).outlineStyle !== 'none' || e.matches('main, body') };
    });
    if (here.name === until) {
      if (!here.visible) throw new Error(`the focus on ${until} is not visible`);
      return;
    }
    passed.push(here.name);
    await page.keyboard.press(key);
  }
  throw new Error(`the keyboard does not reach ${until}; it reaches ${passed.join(' | ')}`);
}

// requestRun presses a button of a run and answers its dialog.
export async function requestRun(page, verb, reason) {
  await page.getByRole('button', { name: `${verb} run` }).click();
  const dialog = page.getByRole('dialog');
  if (reason) await dialog.getByLabel('Why').fill(reason);
  await dialog.getByRole('button', { name: verb, exact: true }).click();
  await dialog.waitFor({ state: 'detached' });
}
