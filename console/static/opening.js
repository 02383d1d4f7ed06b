// What the browser asks for at once, before the console itself is there: the session, the modules of the page that is opened, and what
// that page reads first.
import { ahead, session } from './api.js';

// name in the URL, text, page of the list and page of one item (function of a module), for operators only, part of the server
export const pages = [
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

// load loads the module of a page.
export const load = (name) => Promise.all([name, ...modules[name]].map((m) => import(`./${m}.js`))).then(([found]) => found);

// first has, for some pages, what they get first: one answer less to wait for.
const first = {
  runsPage: ({ query }) => (query.size ? [] : [['/v1/runs', { limit: 100, cursor: '' }]]),
  runPage: ({ rest: [id] }) => [[`/v1/runs/${encodeURIComponent(id)}`], ['/v1/runs', { parent: id, limit: 20 }]],
  flowsPage: () => [['/v1/flows'], ['/v1/run-counts']],
  flowPage: ({ rest: [name], query }) => [[`/v1/flows/${encodeURIComponent(name)}`, { kind: query.get('kind') ?? undefined }]],
};

function decoded(text) {
  try { return decodeURIComponent(text); } catch { return text; }
}

// addressed returns the page, the item and the query that the address names.
export function addressed() {
  const [path, query] = location.hash.replace(/^#\/?/, '').split('?');
  const [name, ...rest] = path.split('/').map(decoded);
  return { name: name || undefined, rest, query: new URLSearchParams(query ?? '') };
}

// pageOf returns the entry of a page above, and its module and function.
export function pageOf({ name, rest }) {
  const found = pages.find(([to]) => to === name);
  return { found, page: name === 'clusters' && rest[0] === 'new' ? ['create', 'createPage'] : found?.[rest.length ? 3 : 2] };
}

// opened is the session that is under way when the console begins.
export const opened = { session: session() };
opened.session.catch(() => {}); // the console tells

const { page } = pageOf(addressed());
if (page) {
  load(page[0]).catch(() => {});
  for (const [path, query] of first[page[1]]?.(addressed()) ?? []) ahead(path, query);
}
