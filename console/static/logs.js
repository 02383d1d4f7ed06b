// What the steps of a run print, live: one stream of lines, of all steps or of one.
import { html, make, show } from './dom.js';
import { get } from './api.js';
import { count, problem } from './parts.js';

const tail = 500; // lines that a stream begins with
const most = 2000; // lines that are kept on the page

export class Logs {
  constructor(run) {
    this.at = `/v1/runs/${encodeURIComponent(run)}/logs`;
    this.steps = [];
    this.step = '';
    this.lines = [];
    this.dropped = 0;
    this.note = 'Connecting …';
    this.list = make('div', { class: 'lines', role: 'log', 'aria-label': 'Lines', tabindex: '0' });
    this.view = make('div', {});
    this.open();
  }

  close() {
    this.source?.close();
    cancelAnimationFrame(this.frame);
    clearTimeout(this.again);
  }

  // choose shows the lines of one step and of the steps inside it; '' is all.
  choose(step) {
    if (step === this.step) return;
    this.step = step;
    this.close();
    this.open();
  }

  update(steps) {
    this.steps = steps;
    this.draw();
  }

  open() {
    Object.assign(this, { lines: [], dropped: 0, note: 'Connecting …', error: undefined });
    const source = new EventSource(`${this.at}/stream?${new URLSearchParams({ tail, ...(this.step ? { step: this.step } : {}) })}`);
    this.source = source;
    source.onopen = () => this.say('live');
    source.addEventListener('log', (e) => this.take(JSON.parse(e.data).lines ?? []));
    source.addEventListener('end', () => { source.close(); this.say('complete: the run has ended'); });
    source.onerror = () => {
      if (source.readyState !== EventSource.CLOSED) return this.say('Reconnecting …');
      this.say('');
      get(this.at, { step: this.step, tail }).then(({ items }) => {
        this.lines = items;
        this.say('not live: reading again in 10 s');
        this.again = setTimeout(() => this.open(), 10000);
      }, (error) => { this.error = error; this.draw(); });
    };
    this.draw();
  }

  say(note) {
    this.note = note;
    this.draw();
  }

  take(lines) {
    this.lines.push(...lines);
    const over = this.lines.length - most;
    if (over > 0) {
      this.lines.splice(0, over);
      this.dropped += over;
    }
    this.draw();
  }

  // draw shows the lines with the next frame. The list follows its end unless somebody has scrolled up.
  draw() {
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => {
      const { list } = this;
      const follows = list.scrollHeight - list.scrollTop - list.clientHeight < 30;
      show(this.view, html`<form class="filter" onsubmit=${(e) => e.preventDefault()}>
          <label for="log-step">Step</label>
          <select id="log-step" onchange=${(e) => this.choose(e.target.value)}>
            <option value="" selected=${this.step === ''}>All</option>${this.steps.map((s) => html`<option data-key=${s} value=${s} selected=${s === this.step}>${s}</option>`)}
          </select><span class="help" role="status">${[this.note, `${count(this.lines.length)} ${this.lines.length === 1 ? 'line' : 'lines'}`].filter(Boolean).join(', ')}${this.dropped ? `, ${count(this.dropped)} older ones left out` : ''}</span>
        </form>${this.error ? problem(this.error) : list}`);
      show(list, this.lines.length ? this.lines.map((l, i) => this.line(l, i)) : html`<p class="empty">${this.note === 'Connecting …' ? this.note : this.step ? 'This step has printed nothing.' : 'Nothing has been printed.'}</p>`);
      if (follows) list.scrollTop = list.scrollHeight;
    });
  }

  line(l, i) {
    const before = this.lines[i - 1];
    const head = !before || before.step !== l.step || before.attempt !== l.attempt || before.round !== l.round;
    return html`<div data-key=${`${this.dropped + i}`} class="line ${l.stream ?? ''}">
      ${head ? html`<strong>${[l.step || 'run', l.attempt ? `attempt ${l.attempt}` : '', l.undo ? 'undo' : ''].filter(Boolean).join(', ')}</strong>` : null}
      <time datetime=${l.at}>${new Date(l.at).toLocaleTimeString()}</time> <span class="stream">${l.stream ?? ''}</span> <span class="text">${l.text}</span></div>`;
  }
}
