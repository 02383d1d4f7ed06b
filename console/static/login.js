// The login exchanges a token for a cookie. The console does not store the token.
import { h, make, show } from './dom.js';
import { signIn } from './api.js';
import { problem } from './parts.js';

export function login(main, done) {
  const wrong = make('div', {});
  const token = make('input', { id: 'token', type: 'password', name: 'token', autocomplete: 'current-password', required: true, size: '50', 'aria-describedby': 'token-help', spellcheck: false });
  const send = async (event) => {
    event.preventDefault();
    show(wrong);
    try {
      done(await signIn(token.value.trim()));
    } catch (error) {
      show(wrong, problem(error));
      token.focus();
    }
  };
  show(main, h('h1', {}, 'Sign in'),
    h('form', { class: 'form', onsubmit: send },
      h('label', { for: 'token' }, 'Token'), token,
      h('p', { id: 'token-help', class: 'help' }, 'A token of your account, or one of the operator’s --token-file. The browser gets a cookie that is valid for 12 hours.'),
      h('button', { class: 'main' }, 'Sign in')),
    wrong);
  token.focus();
}
