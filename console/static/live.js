// What a page shows is kept fresh by the server's events, and by asking every
// few seconds while they do not come.

const kinds = ['run', 'step', 'waiting', 'object', 'cluster', 'drift', 'leak', 'reset'];
const pollEvery = 5000;
const againAfter = 10000;
const gap = 400; // between two refreshes, however much happens

// live calls refresh when something happened, and every so many milliseconds
// for what is no event. It gives a function that ends it.
export function live(path, refresh, every) {
  let source, poll, again, closed = false, waiting = null, busy = false;
  const note = document.getElementById('live');

  const tell = (text) => { if (note.textContent !== text) note.textContent = text; };
  const turn = async () => {
    waiting = null;
    if (closed) return;
    if (busy) { soon('busy'); return; }
    busy = true;
    try { await refresh(); } finally { busy = false; }
  };
  const soon = () => { waiting ??= setTimeout(turn, gap); };
  const lost = () => {
    tell('◌ asking every 5 s');
    poll ??= setInterval(soon, pollEvery);
  };
  const open = () => {
    if (closed) return;
    source = new EventSource(path);
    source.onopen = () => {
      tell('● live');
      clearInterval(poll);
      poll = undefined;
      soon(); // what happened in between
    };
    source.onerror = () => {
      lost();
      if (source.readyState !== EventSource.CLOSED) return; // it tries again itself
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
    tell('');
  };
}
