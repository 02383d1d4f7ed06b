// The console: the session, the choice of the page, and the login.
import { h, show, say } from './dom.js';
import { endAhead, session, signOut } from './api.js';
import { addressed, load, opened, pageOf, pages } from './opening.js';
import { problem } from './parts.js';

const main = document.getElementById('main');
const nav = document.getElementById('nav');
const who = document.getElementById('who');
const loading = main.firstElementChild;

let me = null;
let turn = 0; // counts the pages that were opened
let close = () => {};

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

// go shows the page of the URL. A page is a function that draws it and returns a function that closes it.
async function go() {
  if (!me) return;
  const mine = ++turn;
  if (mine > 1) endAhead(); // they were for the first page
  close();
  close = () => {};
  const { name = offered()[0]?.[0], rest, query } = addressed();
  const { found, page } = pageOf({ name, rest });
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
}

async function start() {
  try {
    me = await (opened.session ?? session()).finally(() => {
      opened.session = undefined;
      loading.remove();
    });
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
