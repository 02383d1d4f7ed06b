// The console: the session, the choice of the page, and the login. Only the modules of the page that is opened are loaded.
import { h, show, say } from './dom.js';
import { endAhead, session, signOut } from './api.js';
import { problem } from './parts.js';

const main = document.getElementById('main');
const nav = document.getElementById('nav');
const who = document.getElementById('who');
const loading = main.firstElementChild;

// name in the URL, text, page of the list and page of one item (function of a module), for operators only, part of the server
const pages = [
  ['clusters', 'Clusters', ['clusters', 'clustersPage'], ['cluster', 'clusterPage'], false, 'clusters'],
  ['rollouts', 'Rollouts', ['rollouts', 'rolloutsPage'], ['rollouts', 'rolloutPage'], true, 'rollouts'],
  ['foundationdb', 'FoundationDB', ['foundationdb', 'databasesPage'], ['foundationdb', 'databasePage'], true, 'foundationdb'],
  ['runs', 'Runs', ['runs', 'runsPage'], ['run', 'runPage'], true],
  ['flows', 'Flows', ['flows', 'flowsPage'], ['flows', 'flowPage'], true],
  ['faults', 'Faults', ['faults', 'faultsPage'], ['faults', 'faultPage'], true],
  ['schedules', 'Schedules', ['schedules', 'schedulesPage'], ['schedules', 'schedulePage'], true, 'schedules'],
  ['workers', 'Workers', ['workers', 'workersPage'], ['workers', 'workersPage'], true, 'workers'],
  ['objects', 'Objects', ['objects', 'objectsPage'], ['object', 'objectPage'], true, 'objects'],
  ['machines', 'Machines', ['machines', 'machinesPage'], ['machines', 'machinePage'], true, 'machines'],
  ['leaks', 'Leaks', ['leaks', 'leaksPage'], ['leaks', 'leaksPage'], true, 'clusters'],
  ['accounts', 'Accounts', ['accounts', 'accountsPage'], ['accounts', 'accountPage'], true, 'accounts'],
  ['audit', 'Audit', ['accounts', 'auditPage'], ['accounts', 'auditPage'], true, 'accounts'],
];

// modules has, for each module of a page, the modules that it imports beyond those that index.html preloads, so that the
// browser asks for all at once. A test keeps it complete.
const modules = {
  accounts: ['dialog'],
  cluster: ['change', 'dialog', 'graph', 'layout', 'machinegraph', 'requests', 'steps', 'vendor/dagre'],
  clusters: [],
  create: ['change', 'dialog'],
  faults: ['guide'],
  flows: ['flowgraph', 'form', 'graph', 'runrows'],
  foundationdb: ['dialog', 'groups'],
  leaks: [],
  login: [],
  machines: ['graph', 'layout', 'machinegraph', 'vendor/dagre'],
  object: ['graph', 'layout', 'machinegraph', 'objects', 'runrows', 'steps', 'vendor/dagre'],
  objects: [],
  rollouts: ['dialog'],
  run: ['dialog', 'flowgraph', 'graph', 'guide', 'logs', 'requests', 'steps', 'timeline'],
  runs: ['bulk', 'dialog', 'runrows'],
  schedules: ['dialog', 'runrows'],
  workers: ['runrows'],
};

const load = (name) => Promise.all([name, ...modules[name]].map((m) => import(`./${m}.js`))).then(([found]) => found);

let me = null;
let turn = 0; // counts the pages that were opened
let close = () => {};

function route() {
  const [path, query] = location.hash.replace(/^#\/?/, '').split('?');
  const [name, ...rest] = path.split('/').map(decodeURIComponent);
  return { name: name || (me && offered()[0]?.[0]), rest, query: new URLSearchParams(query ?? '') };
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
  endAhead();
  close();
  close = () => {};
  me = null;
  show(nav);
  show(who);
  document.title = 'Sign in · Pawl';
  load('login').then(({ login }) => login(main, (found) => {
    me = found;
    go();
  }), outdated);
}

// outdated is shown when a module cannot be loaded: mostly because another version of the server has other files.
const outdated = () => show(main, h('h1', {}, 'This page could not be loaded'), h('p', {}, 'The server does not answer, or it was updated since the console was opened.'),
  h('button', { type: 'button', class: 'main', onclick: () => location.reload() }, 'Load the console again'));

// chosen returns the page of the URL: its entry above, and its module and function.
function chosen({ name, rest }) {
  const found = pages.find(([to]) => to === name);
  return { found, page: name === 'clusters' && rest[0] === 'new' ? ['create', 'createPage'] : found?.[rest.length ? 3 : 2] };
}

// go shows the page of the URL. A page is a function that draws it and returns a function that closes it. Its module may export
// ahead, with a function by the name of the page that asks for what the page reads first.
async function go() {
  if (!me) return;
  const mine = ++turn;
  close();
  close = () => {};
  const { name, rest, query } = route();
  const { found, page } = chosen({ name, rest });
  menu(name);
  show(main);
  document.title = `${found?.[1] ?? 'Nothing'} · Pawl`;
  main.focus({ preventScroll: true });
  scrollTo(0, 0);
  if (!found || (found[4] && !operator())) {
    show(main, h('h1', {}, found ? 'For operators' : 'There is nothing here'), h('p', {}, found ? `${me.name} is ${me.role}; this page is for operators.` : offered().length ? 'Choose a page above.' : 'This server runs no container clusters; all else is for operators.'));
    return;
  }
  const module = await load(page[0]).catch(reportError);
  if (mine !== turn || !me) return;
  if (!module) return outdated();
  close = module[page[1]](main, { rest, query, me, title: (text) => { document.title = `${text} · Pawl`; } }) ?? (() => {});
  endAhead();
}

async function start() {
  const asked = location.hash && chosen(route()).page;
  if (asked) load(asked[0]).then((module) => me ?? module.ahead?.[asked[1]]?.(route()), () => {}); // while the session is read
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
