// Requests to /v1. Every failure is a Problem with code, detail and remedy.

let csrf = '';

export class Problem extends Error {
  constructor(problem) {
    super(problem.detail || problem.title || 'the request failed');
    Object.assign(this, { code: problem.code ?? '', status: problem.status ?? 0, title: problem.title ?? '', remedy: problem.remedy ?? '', errors: problem.errors ?? [] });
  }
}

const unreachable = () => new Problem({ code: 'SERVER_UNREACHABLE', title: 'the server does not answer', detail: 'The server does not answer.',
  remedy: 'Check that it runs and that this machine reaches it. The console then continues without a reload.' });

// request sends a request and returns its answer as {body, etag}. options: query, body, etag (If-Match), key (Idempotency-Key), token, signal.
export async function request(method, path, options = {}) {
  const headers = { Accept: 'application/json' };
  const query = new URLSearchParams(Object.entries(options.query ?? {}).filter(([, v]) => v !== undefined && v !== ''));
  if (method !== 'GET' && csrf) headers['X-Pawl-Csrf'] = csrf;
  if (options.token) headers.Authorization = `Bearer ${options.token}`;
  if (options.etag) headers['If-Match'] = options.etag;
  if (options.key) headers['Idempotency-Key'] = options.key;
  if (options.body !== undefined) headers['Content-Type'] = 'application/json';
  let response;
  try {
    response = await fetch(path + (query.size ? `?${query}` : ''), {
      method, headers, signal: options.signal, credentials: 'same-origin', cache: 'no-store',
      body: options.body === undefined ? undefined : JSON.stringify(options.body),
    });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw unreachable();
  }
  const body = await response.json().catch(() => ({}));
  if (!response.ok) {
    const problem = new Problem({ status: response.status, ...body });
    if (response.status === 401 && !options.token) document.dispatchEvent(new Event('signedout'));
    throw problem;
  }
  return { body, etag: response.headers.get('ETag') ?? '' };
}

const early = new Map(); // answers that are under way, by what was asked

const asked = (path, query) => JSON.stringify([path, query ?? {}]);

// ahead asks for what the page that is being opened will get first, so that get finds it under way.
export function ahead(path, query) {
  const answer = request('GET', path, { query });
  answer.catch(() => {}); // get tells, if somebody wants it
  early.set(asked(path, query), answer);
}

// endAhead forgets the answers that no page took.
export const endAhead = () => early.clear();

export async function get(path, query) {
  const answer = early.get(asked(path, query));
  early.delete(asked(path, query));
  return (await (answer ?? request('GET', path, { query }))).body;
}

// newKey returns an Idempotency-Key: requests with the same key are executed once.
export function newKey() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, '0')).join('');
}

// session returns the caller, and stores the CSRF token that changes need.
export async function session() {
  const who = await get('/v1/session');
  csrf = who.csrf ?? '';
  return who;
}

export async function signIn(token) {
  const { body } = await request('POST', '/v1/session', { token });
  csrf = body.csrf;
  return body;
}

export async function signOut() {
  await request('DELETE', '/v1/session');
  csrf = '';
}

// all reads all pages of a list, up to about `most` items.
export async function all(path, most = 5000) {
  const items = [];
  for (let cursor = ''; ;) {
    const page = await get(path, { limit: 500, cursor });
    items.push(...page.items);
    if (!page.next || items.length >= most) return items;
    cursor = page.next;
  }
}
