// Dialogs use the browser's dialog element: it keeps the focus inside, and Escape closes it.
import { h, make, show } from './dom.js';
import { problem } from './parts.js';

let number = 0;

// dialog shows content and a button that calls act. ready returns why the button is disabled, '' if it is not.
// act returns a promise; the dialog closes when it is fulfilled, and shows the error when it is rejected.
export function dialog({ title, content, verb, kind = 'main', ready = () => '', act, closed }) {
  const id = `dialog-${++number}`;
  const wrong = make('div', {});
  const why = make('p', { class: 'help', id: `${id}-why`, role: 'status' });
  const go = make('button', { class: kind, 'aria-describedby': `${id}-why` }, verb);
  let busy = false;
  const check = () => {
    const reason = busy ? 'Working …' : ready();
    if (reason) go.setAttribute('aria-disabled', 'true'); else go.removeAttribute('aria-disabled');
    if (why.textContent !== reason) why.textContent = reason;
    return !reason;
  };
  const submit = async (event) => {
    event.preventDefault();
    if (!act) return box.close();
    if (!check()) return;
    busy = true;
    check();
    show(wrong);
    try {
      await act();
      box.close();
    } catch (error) {
      show(wrong, problem(error));
    } finally {
      busy = false;
      check();
    }
  };
  const box = make('dialog', { 'aria-labelledby': `${id}-title` },
    h('form', { onsubmit: submit, oninput: () => check() },
      h('h2', { id: `${id}-title` }, title), content, wrong, act ? why : null,
      h('div', { class: 'buttons' }, act ? h('button', { type: 'button', onclick: () => box.close() }, 'Do nothing') : null, go)));
  const from = document.activeElement;
  box.addEventListener('close', () => {
    box.remove();
    closed?.();
    from?.focus?.();
  });
  document.body.append(box);
  check();
  box.showModal();
  return { check, close: () => box.close() };
}

// nameField returns a field for the name of the cluster, so that nobody deletes it by mistake.
export function nameField(name, what) {
  const input = make('input', { id: 'confirm-name', autocomplete: 'off', spellcheck: false, 'aria-describedby': 'confirm-help' });
  return {
    view: h('div', { class: 'form' }, h('label', { for: 'confirm-name' }, 'Name of the cluster'), input,
      h('p', { id: 'confirm-help', class: 'help' }, `Type ${name} to ${what}.`)),
    why: () => (input.value === name ? '' : `Type the name ${name} first.`),
    value: () => input.value,
  };
}
