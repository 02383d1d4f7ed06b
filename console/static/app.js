// The console: the session, the choice of the page, and the login.
import { h, show, say } from './dom.js';
import { session, signOut } from './api.js';
import { login } from './login.js';
import { problem } from './parts.js';
import { clustersPage } from './clusters.js';
import { clusterPage } from './cluster.js';
import { createPage } from './create.js';
import { runsPage } from './runs.js';
import { runPage } from './run.js';
import { flowsPage, flowPage } from './flows.js';
import { faultsPage, faultPage } from './faults.js';
import { objectsPage } from './objects.js';
import { objectPage } from './object.js';
import { machinesPage, machinePage } from './machines.js';
import { schedulesPage, schedulePage } from './schedules.js';
import { workersPage } from './workers.js';
import { accountsPage, accountPage, auditPage } from './accounts.js';
import { leaksPage } from './leaks.js';
import { rolloutsPage, rolloutPage } from './rollouts.js';
import { databasesPage, databasePage } from './foundationdb.js';

const main = document.getElementById('main');
const nav = document.getElementById('nav');
const who = document.getElementById('who');
const loading = main.firstElementChild;

// name in the URL, text, page of the list, page of one item, for operators only, part of the server
const pages = [
  ['clusters', 'Clusters', clustersPage, clusterPage, false, 'clusters'],
  ['rollouts', 'Rollouts', rolloutsPage, rolloutPage, true, 'rollouts'],
  ['foundationdb', 'FoundationDB', databasesPage, databasePage, true, 'foundationdb'],
  ['runs', 'Runs', runsPage, runPage, true],
  ['flows', 'Flows', flowsPage, flowPage, true],
  ['faults', 'Faults', faultsPage, faultPage, true],
  ['schedules', 'Schedules', schedulesPage, schedulePage, true, 'schedules'],
  ['workers', 'Workers', workersPage, workersPage, true, 'workers'],
  ['objects', 'Objects', objectsPage, objectPage, true, 'objects'],
  ['machines', 'Machines', machinesPage, machinePage, true, 'machines'],
  ['leaks', 'Leaks', leaksPage, leaksPage, true, 'clusters'],
  ['accounts', 'Accounts', accountsPage, accountPage, true, 'accounts'],
  ['audit', 'Audit', auditPage, auditPage, true, 'accounts'],
];

let me = null;
let close = () => {};

function route() {
  const [path, query] = location.hash.replace(/^#\/?/, '').split('?');
  const [name, ...rest] = path.split('/').map(decodeURIComponent);
  return { name: name || offered()[0]?.[0], rest, query: new URLSearchParams(query ?? '') };
}

const operator = () => me.role === 'operator';

// offered returns the pages that the server has something for, and the caller may see. The first is the front page.
function offered() {
  const parts = me.parts ?? [];
  return pages.filter(([, , , , only, part]) => (!only || operator()) && (!part || parts.includes(part)));
}

function menu(name) {
  show(nav, offered().map(([to, text]) => h('a', { href: `#/${to}`, 'aria-current': to === name ? 'page' : undefined, 'data-key': to }, text)));
  show(who, me.name === me.role ? me.name : `${me.name} (${me.role})`, ' ', me.csrf ? h('button', { type: 'button', onclick: leave }, 'Sign out') : null);
}

async function leave() {
  await signOut().catch(() => {});
  showLogin();
}

function showLogin() {
  close();
  close = () => {};
  me = null;
  show(nav);
  show(who);
  document.title = 'Sign in · Pawl';
  login(main, (found) => {
    me = found;
    go();
  });
}

// go shows the page of the URL. A page is a function that draws it and returns a function that closes it.
async function go() {
  if (!me) return;
  close();
  close = () => {};
  const { name, rest, query } = route();
  const found = pages.find(([to]) => to === name);
  menu(name);
  show(main);
  document.title = `${found?.[1] ?? 'Nothing'} · Pawl`;
  main.focus({ preventScroll: true });
  scrollTo(0, 0);
  if (!found || (found[4] && !operator())) {
    show(main, h('h1', {}, found ? 'For operators' : 'There is nothing here'), h('p', {}, found ? `${me.name} is ${me.role}; this page is for operators.` : offered().length ? 'Choose a page above.' : 'This server runs no container clusters; all else is for operators.'));
    return;
  }
  const page = rest.length === 0 ? found[2] : name === 'clusters' && rest[0] === 'new' ? createPage : found[3];
  close = page(main, { rest, query, me, title: (text) => { document.title = `${text} · Pawl`; } }) ?? (() => {});
}

async function start() {
  try {
    me = await session().finally(() => loading.remove());
    await go();
  } catch (error) {
    if (error.status === 401) return showLogin();
    show(main, h('h1', {}, 'Pawl'), problem(error), h('button', { type: 'button', onclick: start }, 'Try again'));
    say(error.message);
  }
}

addEventListener('hashchange', go);
document.addEventListener('signedout', () => { if (me) showLogin(); });
start();
