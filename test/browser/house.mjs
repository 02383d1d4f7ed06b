// A real server with a simulated cloud, and a real browser.
import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

export const root = new URL('../..', import.meta.url).pathname;
export const token = 'a-token-for-the-tests-of-the-console';
const binary = process.env.PAWL ?? join(root, 'bin/pawl');
const chromiumPath = process.env.CHROMIUM ?? '/usr/bin/chromium';

const config = `providers:
  - {name: sim, type: sim}
versions:
  - {id: v1.0, version: 1.0.0, template: node-1.0}
  - {id: v1.1, version: 1.1.0, template: node-1.1}
sync: {interval: 1s}
`;

const flow = `flowName: Greet
steps:
- stepName: Hello
  uses: exec
  with: {command: [echo, hello]}
- stepName: Answer
  wait: {signal: answer, deadline: 10m}
`;

// missing says why the tests cannot run here; '' if they can.
export function missing() {
  if (!existsSync(binary)) return `${binary} is missing: make build`;
  if (!existsSync(chromiumPath)) return `${chromiumPath} is missing: apt-get install chromium`;
  if (!existsSync(new URL('node_modules/playwright-core', import.meta.url))) return 'playwright-core is missing: npm ci in test/browser';
  return '';
}

// serve starts pawl dev, or pawl server with a token, and gives its address.
export async function serve(verb = 'dev') {
  const dir = mkdtempSync(join(tmpdir(), 'pawl-browser-'));
  writeFileSync(join(dir, 'clusters.yaml'), config);
  writeFileSync(join(dir, 'token'), `${token}\n`);
  writeFileSync(join(dir, 'greet.yaml'), flow);
  const args = [verb, '--listen', '127.0.0.1:0', '--dsn', join(dir, 'pawl.db'), '--clusters', join(dir, 'clusters.yaml'), '--flows', join(dir, 'greet.yaml'), '--log-level', 'error'];
  if (verb === 'server') args.push('--token-file', join(dir, 'token'), '--actions', 'exec');
  const process_ = spawn(binary, args, { stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, XDG_STATE_HOME: dir } });
  const said = [];
  process_.stderr.on('data', (d) => said.push(d));
  const ended = new Promise((resolve) => { process_.once('exit', resolve); });
  const url = await new Promise((resolve, reject) => {
    createInterface(process_.stdout).on('line', (line) => {
      const found = line.match(/listens on (http:\S+)/);
      if (found) resolve(found[1]);
    });
    ended.then(() => reject(new Error(`the server ended: ${Buffer.concat(said)}`)));
  });
  return {
    url,
    async api(method, path, body, headers = {}) {
      const answer = await fetch(url + path, { method, headers: { 'Content-Type': 'application/json', ...(verb === 'server' ? { Authorization: `Bearer ${token}` } : {}), ...headers }, body: body && JSON.stringify(body) });
      const text = await answer.text();
      if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
      return JSON.parse(text);
    },
    async close() {
      process_.kill('SIGTERM');
      await ended;
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

export async function browse() {
  const { chromium } = await import('playwright-core');
  return chromium.launch({ executablePath: chromiumPath, args: ['--no-sandbox'] });
}
