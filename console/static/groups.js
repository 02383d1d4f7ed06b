// The process groups of a FoundationDB cluster: zones as columns, classes as rows, a button for each group; a list of
// those that a filter finds; and the one that is chosen. A thousand groups change one by one: only the buttons of groups
// that have changed are touched.
import { h, make, show } from './dom.js';
import { get } from './api.js';
import { age, ago, at, badge, count, facts, problem, row, table } from './parts.js';

const most = 100; // rows of the list before somebody asks for all
const columns = 60; // zones that have a column each; where there are more, as when each pod is a zone, they share one

// marks are the sign, the color and the words of the states.
const marks = {
  Serves: ['✔', 'good', 'serves'], Wrong: ['✖', 'bad', 'has a condition'], Draining: ['↷', 'busy', 'marked for removal, its data moves away'],
  Drained: ['○', 'calm', 'marked for removal, safe to delete'], Skipped: ['↷', 'bad', 'marked for removal, without moving its data'],
};

const clock = (when) => new Date(when).toLocaleString();

// reasonOf says why a group is where it is, in a text that does not change while time passes.
function reasonOf(g) {
  const own = g.state === 'Wrong' ? [] : [marks[g.state]?.[2] ?? g.state];
  const since = g.since ? `since ${clock(g.since)}` : '';
  return [[...own, since].filter(Boolean).join(' '), ...(g.conditions ?? []).map((c) => `${c.type} since ${clock(c.since)}`), ...(g.plan ?? [])].filter(Boolean).join('; ');
}

const zoneText = (zone) => zone || 'not known yet';

// flat returns all groups with their class, zone, reason and what a filter searches.
function flat(c) {
  return c.classes.flatMap((k) => k.zones.flatMap((z) => z.groups.map((g) => {
    const reason = reasonOf(g);
    return { ...g, kind: k.name, zone: z.name, reason, text: `${g.id} ${k.name} ${z.name} ${(g.addresses ?? []).join(' ')} ${reason}`.toLowerCase() };
  })));
}

export class Groups {
  constructor(place, chosen, choose) {
    Object.assign(this, { place, chosen, told: choose, filter: { q: '', state: '' }, buttons: new Map(), shape: '', all: [], listed: false, whole: false, said: null, asked: 0 });
    const set = (name, value) => { this.filter[name] = value; this.whole = false; this.sift(); };
    this.grid = make('div', { class: 'zones scroll', role: 'group', 'aria-label': 'Grid of groups', tabindex: '0' });
    this.list = make('div', {});
    this.note = make('p', { class: 'help', role: 'status' });
    this.panel = make('aside', { class: 'chosen', 'aria-label': 'Chosen group', 'aria-live': 'polite' });
    this.states = make('select', { id: 'group-state', onchange: (e) => set('state', e.target.value) });
    this.as = make('select', { id: 'group-view', onchange: (e) => { this.listed = e.target.value === 'list'; this.sift(); } }, h('option', { value: 'grid' }, 'Grid'), h('option', { value: 'list' }, 'List'));
    this.view = make('section', { 'aria-label': 'Groups' }, h('h2', {}, 'Groups'),
      h('form', { class: 'filter', role: 'search', 'aria-label': 'Groups', onsubmit: (e) => e.preventDefault() },
        h('label', { for: 'group-q' }, 'Filter'), h('input', { id: 'group-q', type: 'search', placeholder: 'id, class, zone, address or reason', oninput: (e) => { clearTimeout(this.timer); this.timer = setTimeout(() => set('q', e.target.value.trim().toLowerCase()), 200); } }),
        h('label', { for: 'group-state' }, 'State'), this.states, h('label', { for: 'group-view' }, 'Show as'), this.as),
      this.note, h('div', { class: 'beside' }, h('div', {}, this.grid, this.list), this.panel));
    this.grid.onclick = (e) => { const b = e.target.closest('button'); if (b) this.choose(b.dataset.group); };
    this.grid.onkeydown = (e) => this.walk(e);
  }

  close() { clearTimeout(this.timer); this.asked++; }

  // update shows the groups of a cluster as they are now.
  update(c) {
    this.all = flat(c);
    this.coordinators = new Set(c.coordinators.map((x) => x.group));
    const shape = JSON.stringify(c.classes.map((k) => [k.name, k.desired, k.zones.map((z) => [z.name, z.groups.map((g) => g.id)])]));
    if (shape !== this.shape) this.build(c);
    this.shape = shape;
    for (const g of this.all) this.paint(g);
    this.sift();
    this.explain();
  }

  // build makes the table anew: a group, a class or a zone has come or gone.
  build(c) {
    const all = [...new Set(c.classes.flatMap((k) => k.zones.map((z) => z.name)))].sort((a, b) => a.localeCompare(b, 'en', { numeric: true }));
    const shared = all.length > columns;
    const zones = shared ? [all] : all.map((z) => [z]);
    const focused = this.grid.contains(document.activeElement) ? document.activeElement.dataset.group : undefined;
    this.buttons = new Map();
    const keep = (id) => (b) => { if (b) this.buttons.set(id, b); };
    const cell = (k, of) => h('td', {}, (shared ? k.zones : k.zones.filter((z) => z.name === of[0])).flatMap((z) => z.groups).map((g) => h('button', { type: 'button', tabindex: '-1', 'data-group': g.id, 'data-key': g.id, ref: keep(g.id) })));
    const present = (k) => k.zones.flatMap((z) => z.groups).filter((g) => !g.since).length;
    show(this.grid, h('table', {}, h('caption', { class: 'heard' }, 'Groups by class and zone. Arrow keys go from group to group, Enter chooses one.'),
      h('thead', {}, h('tr', {}, h('th', { scope: 'col' }, 'Class'), zones.map((of) => h('th', { scope: 'col' }, shared ? `${count(of.length)} zones` : `Zone ${zoneText(of[0])}`)))),
      h('tbody', {}, c.classes.map((k) => h('tr', {}, h('th', { scope: 'row' }, k.name, h('div', { class: 'help' }, `${count(present(k))} of ${count(k.desired)}`)), zones.map((of) => cell(k, of)))))));
    this.stop(focused ?? this.chosen);
    if (focused) this.buttons.get(focused)?.focus();
  }

  // paint shows a group in its button, if it has changed.
  paint(g) {
    const b = this.buttons.get(g.id);
    const [sign, mood] = marks[g.state] ?? ['·', 'calm'];
    const text = `${sign} ${g.id.match(/\d+$/)?.[0] ?? g.id}`;
    const title = `${g.id}, zone ${zoneText(g.zone)}: ${g.reason}`;
    if (b.textContent !== text) b.textContent = text;
    if (b.title !== title) { b.title = title; b.setAttribute('aria-label', title); }
    if (b.dataset.mood !== mood) b.dataset.mood = mood;
    const pressed = String(g.id === this.chosen);
    if (b.getAttribute('aria-pressed') !== pressed) b.setAttribute('aria-pressed', pressed);
  }

  // stop makes one button the stop of the tab key.
  stop(id) {
    const at = this.buttons.get(id) ?? this.buttons.values().next().value;
    if (this.tab !== at) this.tab?.setAttribute('tabindex', '-1');
    this.tab = at;
    at?.setAttribute('tabindex', '0');
  }

  // walk goes to another group by an arrow key: left and right within the row, up and down to the next row.
  walk(e) {
    const from = e.target.closest?.('button');
    if (!from || !['ArrowLeft', 'ArrowRight', 'ArrowUp', 'ArrowDown', 'Home', 'End'].includes(e.key)) return;
    e.preventDefault();
    const line = [...from.closest('tr').querySelectorAll('button')];
    let to;
    if (e.key === 'ArrowLeft' || e.key === 'ArrowRight') to = line[line.indexOf(from) + (e.key === 'ArrowLeft' ? -1 : 1)];
    else if (e.key === 'Home') [to] = line;
    else if (e.key === 'End') to = line.at(-1);
    else {
      const next = e.key === 'ArrowUp' ? 'previousElementSibling' : 'nextElementSibling';
      const column = from.closest('td').cellIndex;
      for (let tr = from.closest('tr')[next]; tr && !to; tr = tr[next]) to = tr.cells[column].querySelector('button') ?? tr.querySelector('button');
    }
    if (!to) return;
    this.stop(to.dataset.group);
    to.focus();
  }

  // sift shows what the filter finds: in the grid the rest is dim, the list has nothing else.
  sift() {
    const { q, state } = this.filter;
    const found = this.all.filter((g) => (!state || g.state === state) && (!q || g.text.includes(q)));
    const states = Object.keys(marks).filter((s) => s === state || this.all.some((g) => g.state === s));
    show(this.states, h('option', { value: '' }, 'All'), states.map((s) => h('option', { value: s }, s)));
    this.states.value = state;
    const ids = new Set(found.map((g) => g.id));
    for (const [id, b] of this.buttons) if (b.classList.contains('dim') === ids.has(id)) b.classList.toggle('dim', !ids.has(id));
    const text = `${count(found.length)} of ${count(this.all.length)} groups; ${count(found.filter((g) => g.conditions?.length).length)} with a condition`;
    if (this.note.textContent !== text) this.note.textContent = text;
    this.grid.hidden = this.listed;
    this.list.hidden = !this.listed;
    if (!this.listed) return;
    const trouble = (g) => (g.state === 'Serves' ? 1 : 0);
    const lines = [...found].sort((a, b) => trouble(a) - trouble(b));
    const shown = this.whole ? lines : lines.slice(0, most);
    show(this.list, table('List of groups', ['Group', 'Class', 'Zone', 'State', 'Addresses', 'Why'], shown.map((g) => row(g.id,
      h('th', { scope: 'row' }, h('button', { type: 'button', class: 'plain', onclick: () => this.choose(g.id) }, g.id)), g.kind, zoneText(g.zone), badge(g.state), (g.addresses ?? []).join(' '), h('td', { class: 'reason' }, g.reason))), 'none matches the filter'),
    shown.length < lines.length ? h('button', { type: 'button', onclick: () => { this.whole = true; this.sift(); } }, `${count(lines.length - shown.length)} more`) : null);
  }

  // choose opens the panel of a group; choosing it again closes it.
  choose(id) {
    const before = this.chosen;
    this.chosen = id === before ? undefined : id;
    this.said = null;
    this.told(this.chosen);
    this.stop(id);
    for (const g of this.all) if (g.id === before || g.id === id) this.paint(g);
    this.explain();
  }

  // explain shows the chosen group at once with what the cluster tells of it, then with what its pod tells, and with the
  // database when somebody asks for that.
  async explain(database = false) {
    const { chosen: id } = this;
    const g = this.all.find((x) => x.id === id);
    this.draw(g);
    if (!g || (!database && this.reading === id)) return; // an update does not outrun what somebody has asked for
    const asked = ++this.asked;
    this.reading = database ? id : undefined;
    const said = await get(`${this.place}/groups/${encodeURIComponent(id)}`, database ? { database } : {}).catch((error) => ({ error }));
    if (asked !== this.asked) return;
    this.reading = undefined;
    const kept = !database && this.said?.group?.id === id && this.said.read ? { servers: this.said.servers, gates: this.said.gates, silence: this.said.silence, read: this.said.read } : {};
    this.said = { ...said, ...kept, ...(database ? { read: new Date().toISOString() } : {}) };
    this.draw(g);
  }

  draw(g) {
    if (!g) {
      show(this.panel, h('p', { class: 'help' }, this.chosen ? `There is no group ${this.chosen} any more.` : 'Choose a group: here is then why it is where it is.'));
      return;
    }
    const x = this.said?.group?.id === g.id || this.said?.error ? this.said : {};
    show(this.panel, h('div', { class: 'title' }, h('h3', {}, g.id), badge(g.state), h('button', { type: 'button', onclick: () => this.choose(g.id) }, 'Close')),
      h('p', {}, marks[g.state]?.[2] ?? g.state, g.since ? [', for ', age(g.since)] : null, '.'),
      x.error ? problem(x.error) : null,
      facts([['Class', g.kind], ['Zone', zoneText(g.zone)], ['Addresses', (g.addresses ?? []).join(' ') || 'none'], ['Coordinator', this.coordinators.has(g.id) ? 'yes' : 'no'],
        ['Pod', x.pod && [x.pod, x.podPhase ? `, ${x.podPhase} on ${x.node || 'no node'}` : '']], ['Marked for removal', ago(g.since)],
        ['Exclusion', x.exclusion?.state && [x.exclusion.state, x.exclusion.note ? `: ${x.exclusion.note}` : '']], ['Replaced by itself, at the earliest', x.replacedAt && at(x.replacedAt)]]),
      h('h4', {}, 'Conditions'), g.conditions?.length ? h('ul', {}, g.conditions.map((c) => h('li', { 'data-key': c.type }, h('strong', {}, c.type), ', for ', age(c.since)))) : h('p', { class: 'help' }, 'none'),
      h('h4', {}, 'In the plan'), g.plan?.length ? h('ul', {}, g.plan.map((p) => h('li', {}, p))) : h('p', { class: 'help' }, 'nothing'),
      this.database(x));
  }

  // database shows what the database itself says of the chosen group.
  database(x) {
    return [h('h4', {}, 'In the database'),
      x.read ? h('p', { class: 'help' }, 'Read ', ago(x.read), x.silence ? `: ${x.silence}` : '') : h('p', { class: 'help' }, 'Not read.'),
      x.read && !x.silence ? [(x.servers ?? []).map((s) => h('p', { 'data-key': s.address }, h('code', {}, s.address), ` ${s.version ?? ''} `, (s.roles ?? []).join(', ') || 'no role', `, ${count(s.bytes)} B`, s.excluded ? ', excluded' : '')),
        x.servers?.length ? null : h('p', {}, 'None of its servers reports.'),
        (x.gates ?? []).map((k) => h('p', { 'data-key': `${k.name} ${k.for}` }, badge(k.open ? 'Done' : 'Waiting', `${k.name}, ${k.for}`), k.open ? ': open' : [': ', h('code', {}, k.reason), ' ', k.message]))] : null,
      h('button', { type: 'button', onclick: () => this.explain(true) }, 'Read the database')];
  }
}
