// The guide of a fault: Markdown of which headings, lists, fences and code are shown.
import { html } from './dom.js';
import { prose } from './parts.js';

function block(text) {
  if (text.startsWith('```')) return html`<pre tabindex="0">${text.replace(/^```.*\n?/, '').replace(/\n?```\s*$/, '')}</pre>`;
  if (/^#+ /.test(text)) return html`<h3>${text.replace(/^#+ /, '')}</h3>`;
  const lines = text.split('\n');
  if (lines.every((l) => /^([-*]|\d+\.) /.test(l.trim()))) return html`<ul>${lines.map((l) => html`<li>${prose(l.trim().replace(/^([-*]|\d+\.) /, ''))}</li>`)}</ul>`;
  return html`<p>${prose(text)}</p>`;
}

// guide shows the guide of a fault; null if it has none.
export function guide(markdown) {
  if (!markdown?.trim()) return null;
  const blocks = markdown.trim().match(/```[\s\S]*?```|(?:(?!```)[\s\S])+?(?=\n\s*\n|```|$)/g) ?? [];
  return html`<details class="guide" open><summary>Guide</summary>${blocks.map((b) => b.trim()).filter(Boolean).map(block)}</details>`;
}
