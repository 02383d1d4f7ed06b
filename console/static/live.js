// Events of the server keep a page up to date. While the stream is broken, the page
// polls.

const kinds = ['run', 'step', 'waiting', 'object', 'cluster', 'drift', 'leak', 'rollout', 'foundationdb', 'reset'];
const pollEvery = 5000;
const againAfter = 10000;
const gap = 400; // between the end of a refresh and the beginning of the next

// live calls refresh at once after an event, and every `every` milliseconds for changes
// without events. Events that follow closely share a refresh: pause is the time between two. It returns a function that ends it.
export function live(path, refresh, every, pause = gap) {
  let source, poll, again, closed = false, waiting = null, busy = false, missed = false;
  let last = performance.now(); // the page itself has begun to read
  const note = document.getElementById('live');

  const setNote = (text) => { if (note.textContent !== text) note.textContent = text; };
  const turn = async () => {
    waiting = null;
    if (closed) return;
    if (busy) {
      missed = true;
      return;
    }
    busy = true;
    try { await refresh(); } finally {
      busy = false;
      last = performance.now();
      if (missed) soon();
      missed = false;
    }
  };
  const soon = () => { waiting ??= setTimeout(turn, Math.max(0, last + pause - performance.now())); };
  const lost = () => {
    setNote('◌ reconnecting, polling every 5 s');
    poll ??= setInterval(soon, pollEvery);
  };
  const open = () => {
    if (closed) return;
    source = new EventSource(path);
    source.onopen = () => {
      setNote('● live');
      clearInterval(poll);
      poll = undefined;
      soon(); // for the changes in between
    };
    source.onerror = () => {
      lost();
      if (source.readyState !== EventSource.CLOSED) return; // the browser reconnects
      clearTimeout(again);
      again = setTimeout(open, againAfter);
    };
    for (const kind of kinds) source.addEventListener(kind, soon);
  };
  open();
  const clock = every && setInterval(soon, every);
  return () => {
    closed = true;
    clearInterval(clock);
    source?.close();
    clearInterval(poll);
    clearTimeout(waiting);
    clearTimeout(again);
    setNote('');
  };
}

// Beat calls act at most once in `every` milliseconds, for what costs more than to be read at each event.
export class Beat {
  constructor(act, every) {
    Object.assign(this, { act, every, last: -Infinity, timer: undefined });
  }
  // soon calls act as soon as the time allows, however often it is called meanwhile.
  soon() {
    const wait = this.last + this.every - Date.now();
    if (wait <= 0) this.now(); else this.timer ??= setTimeout(() => this.now(), wait);
  }
  now() {
    this.end();
    this.last = Date.now();
    this.act();
  }
  end() {
    clearTimeout(this.timer);
    this.timer = undefined;
  }
}
