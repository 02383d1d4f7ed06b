// A drawing of a state and the ways that leave it, from the plan of an object.
import { html } from './dom.js';

const [left, right, height, half] = [120, 520, 64, [90, 20]];

const box = (name, x, y, here) => html`<g class=${`state${here ? ' here' : ''}`} data-state=${name} aria-current=${here ? 'true' : undefined}>
  ${here ? html`<rect class="outline" x=${x - half[0] - 6} y=${y - half[1] - 6} width=${2 * half[0] + 12} height=${2 * half[1] + 12} rx="14" />` : null}
  <rect class="box" x=${x - half[0]} y=${y - half[1]} width=${2 * half[0]} height=${2 * half[1]} rx="9" /><text x=${x} y=${y + 5}>${here ? `▶ ${name}` : name}</text></g>`;

export function waysOut({ state, to, considered = [] }) {
  const ways = new Map(); // ways to the same state share a line
  for (const c of considered) ways.set(c.to, [...(ways.get(c.to) ?? []), c]);
  if (to && !ways.has(to)) ways.set(to, [{ event: 'then', to }]);
  const tall = Math.max(1, ways.size) * height;
  const text = `It is ${state}. ${ways.size ? [...ways].map(([name, all]) => `To ${name} on ${all.map((c) => c.event).join(' or ')}`).join('; ') : 'No event leaves this state'}.`;
  return html`<figure class="machine ways" data-key="ways"><svg viewBox=${`0 0 640 ${tall}`} role="img" aria-label=${text}>
    <defs>${['arrow', 'arrow-lit'].map((id) => html`<marker id=${`way-${id}`} class=${id} viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0L10 5L0 10z" /></marker>`)}</defs>
    ${[...ways].map(([name, all], i) => {
      const y = (i + 0.5) * height;
      const lit = name === to;
      const middle = (left + right) / 2;
      return html`<g data-key=${name} class=${lit ? 'connection lit' : 'connection'}>
        <path d=${`M${left + half[0] + 8} ${tall / 2}C${middle} ${tall / 2} ${middle} ${y} ${right - half[0] - 4} ${y}`} marker-end=${`url(#way-${lit ? 'arrow-lit' : 'arrow'})`} />
        <text class="label" x=${right - half[0] - 70} y=${y - 6}>${all.map((c) => c.event).join(', ')}</text></g>${box(name, right, y, false)}`;
    })}${box(state, left, tall / 2, true)}</svg><figcaption>${text}</figcaption></figure>`;
}
