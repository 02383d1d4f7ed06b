// The timeline of a run: a line for each step with a bar for each attempt, wait and pause, and the lines of child runs
// below the step that started them. Bars have places in percent, so that it fits any width.
import { html } from './dom.js';
import { count, link, path, took } from './parts.js';

const most = 150; // lines that are drawn before somebody asks for all

const ends = { StepRetrying: 'failed', StepFailed: 'failed', StepLost: 'lost', StepDone: 'done', StepSkipped: 'skipped', StepUndone: 'undone' };
const words = { done: 'done', failed: 'failed', lost: 'lost with its worker', skipped: 'skipped', undone: 'undone', wait: 'wait', retry: 'until the next attempt', pause: 'pause', healing: 'healer', open: 'running' };

// barsOf returns the lines of a run from its events: names with bars of {kind, from, to, text}. to is absent while the bar grows.
export function barsOf(events) {
  const lines = new Map();
  const open = new Map(); // name of a line: its growing bar
  const begin = (name, kind, at, text) => {
    if (!lines.has(name)) lines.set(name, []);
    const bar = { kind, from: Date.parse(at), text };
    lines.get(name).push(bar);
    open.set(name, bar);
  };
  const end = (name, at, kind, text) => {
    const bar = open.get(name);
    if (!bar) return;
    bar.to = Date.parse(at);
    if (bar.kind === 'open' && kind) bar.kind = kind;
    if (text) bar.text = `${bar.text}: ${text}`;
    open.delete(name);
  };
  for (const e of events) {
    const why = [e.code, e.reason, e.message].filter(Boolean).join(' ');
    if (e.kind === 'StepStarted') {
      end(e.step, e.at);
      begin(e.step, 'open', e.at, `attempt ${e.attempt}`);
    } else if (e.kind === 'StepWaiting') {
      end(e.step, e.at, 'done');
      begin(e.step, 'wait', e.at, why || 'waits');
    } else if (ends[e.kind]) {
      end(e.step, e.at, ends[e.kind], why);
      if (e.kind === 'StepRetrying') begin(e.step, 'retry', e.at, `after attempt ${e.attempt}`);
    } else if (e.kind === 'HealingBegun') {
      begin(`heal:${e.code ?? ''}`, 'healing', e.at, why || 'healer');
    } else if (e.kind === 'HealingEnded') {
      end(`heal:${e.code ?? ''}`, e.at, '', e.message);
    } else if (e.kind === 'RunPaused') {
      for (const name of [...open.keys()]) end(name, e.at);
      begin('Paused', 'pause', e.at, why || 'paused');
    } else if (e.kind === 'RunResumed') {
      end('Paused', e.at);
    } else if (['RunSucceeded', 'RunCancelled'].includes(e.kind)) {
      for (const name of [...open.keys()]) end(name, e.at, 'done');
    }
  }
  return [...lines].map(([name, bars]) => ({ name, bars }));
}

// linesOf returns the lines of a run, each child run below the step that waits for it.
function linesOf(events, children) {
  const left = [...children];
  const lines = [];
  for (const line of barsOf(events)) {
    lines.push(line);
    const own = left.filter(({ run }) => events.some((e) => e.step === line.name && e.message?.includes(run.id)));
    for (const child of own) {
      left.splice(left.indexOf(child), 1);
      lines.push(...barsOf(child.events).map((l) => ({ ...l, child: child.run })));
    }
  }
  for (const child of left) lines.push(...barsOf(child.events).map((l) => ({ ...l, child: child.run })));
  return lines;
}

const say = (b, now) => `${b.text}, ${words[b.kind]}${b.to ? '' : ' until now'}, ${took((b.to ?? now) - b.from)}`;

// timeline draws the lines. run gives the frame of time; toggle shows all lines.
export function timeline(run, events, children, { whole, toggle }) {
  const all = linesOf(events, children);
  if (!all.length) return html`<p class="empty">Timeline: no step has begun yet.</p>`;
  const lines = whole ? all : all.slice(-most);
  const now = Date.now();
  const first = Math.min(...lines.flatMap((l) => l.bars.map((b) => b.from)));
  const last = run.endedAt ? Date.parse(run.endedAt) : now;
  const width = Math.max(1, last - first);
  const place = (at) => (100 * (at - first)) / width;
  return html`<figure class="timeline" data-key="timeline" role="group" aria-label="Timeline">
    <div class="lane scale" aria-hidden="true"><span></span><div class="ticks">${[0, 1, 2, 3, 4].map((n) => html`<span>${n === 0 ? new Date(first).toLocaleTimeString() : `+${took((width * n) / 4)}`}</span>`)}</div></div>
    ${lines.map((l) => html`<div class="lane ${l.child ? 'inner' : ''}" data-key=${`${l.child?.id ?? ''} ${l.name}`}>
      <span class="name" title=${l.name}>${l.child ? link(path('runs', l.child.id), l.name) : l.name}</span>
      <svg role="img" aria-label=${`${l.name}: ${l.bars.slice(-10).map((b) => say(b, now)).join('; ')}`} height="20" width="100%">
        <line class="track" x1="0" x2="100%" y1="10" y2="10" />
        ${l.bars.map((b, i) => html`<rect data-key=${i} class="bar ${b.kind}" x=${`${place(b.from)}%`} width=${`${Math.max(0.3, place(b.to ?? last) - place(b.from))}%`} y=${['wait', 'retry'].includes(b.kind) ? 7 : 3} height=${['wait', 'retry'].includes(b.kind) ? 6 : 14} rx="2"><title>${say(b, now)}</title></rect>`)}
      </svg></div>`)}
    <figcaption>${legend(lines)}${lines.length < all.length ? html` <button type="button" onclick=${toggle}>Show all ${count(all.length)} lines</button>` : null}</figcaption>
  </figure>`;
}

function legend(lines) {
  const kinds = Object.keys(words).filter((k) => lines.some((l) => l.bars.some((b) => b.kind === k)));
  return kinds.map((k) => html`<span class="legend" data-key=${k}><svg width="18" height="12" aria-hidden="true"><rect class="bar ${k}" x="1" width="16" y=${['wait', 'retry'].includes(k) ? 4 : 1} height=${['wait', 'retry'].includes(k) ? 5 : 10} rx="2" /></svg> ${words[k]}</span>`);
}
