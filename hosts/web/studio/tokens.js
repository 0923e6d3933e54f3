// The tokens of a value, and what each was chosen from.

import { bar, element, percent } from './show.js';

const shown = (text) => (text === '' ? '·' : text.replaceAll('\n', '⏎\n'));

/** A list of tokens of which one is looked at: the newest, until the user chooses another. */
export class Tokens {
  #list;
  #about;
  #candidates = null;
  #followed = true;

  constructor(list, about) {
    this.#list = list;
    this.#about = about;
    list.addEventListener('keydown', (e) => this.#step(e));
  }

  clear() {
    this.#list.replaceChildren();
    this.#about.replaceChildren(element('p', { className: 'quiet', textContent: 'Choose a token to see what else there was.' }));
    this.#candidates = null;
    this.#followed = true;
  }

  /** What the next token is chosen from. */
  candidates({ candidates }) {
    this.#candidates = candidates;
  }

  /** One more token; or text that came without one. */
  token({ ids, text, forced }) {
    // Text that had been held back comes without a token.
    const candidates = ids.length > 0 ? this.#candidates : null;
    if (ids.length > 0) this.#candidates = null;
    const how = !forced ? 'chosen by the model' : candidates ? 'forced by what is left of the budget' : 'forced by the type';
    this.#add(ids, shown(text), how, forced, candidates);
  }

  /** The value has ended; by a token of its own if candidates are left. */
  end() {
    const end = this.#candidates?.find((c) => c.text === '' && c.allowed);
    if (end) this.#add([end.id], '■', 'the end, chosen by the model', false, this.#candidates);
    this.#candidates = null;
  }

  #add(ids, text, how, forced, candidates) {
    const about = `${how}${ids.length > 0 ? `, id ${ids.join(' ')}` : ''}`;
    const made = element('button', { type: 'button', className: forced ? 'forced' : 'sampled', textContent: text, title: about, tabIndex: -1 });
    const look = () => this.#look(made, ids, about, candidates);
    made.addEventListener('focus', () => ((this.#followed = false), look()));
    made.addEventListener('click', () => made.focus());
    const newest = this.#list.lastChild;
    if (newest && this.#followed) newest.tabIndex = -1;
    this.#list.append(made);
    if (!this.#followed) return;
    look();
    this.#list.scrollTop = this.#list.scrollHeight;
  }

  #look(token, ids, about, candidates) {
    for (const other of this.#list.querySelectorAll('[aria-current]')) (other.removeAttribute('aria-current'), (other.tabIndex = -1));
    token.setAttribute('aria-current', 'true');
    token.tabIndex = 0;
    const heading = element('p', { className: 'quiet' }, element('code', { textContent: token.textContent }), ` ${about}`);
    const bars = (candidates ?? []).map((c) => {
      const label = c.text === '' ? 'the end' : JSON.stringify(c.text);
      const made = bar(label, c.probability);
      made.classList.toggle('refused', !c.allowed);
      made.classList.toggle('taken', ids.includes(c.id));
      made.title = `id ${c.id}, ${percent(c.probability)}: ${c.allowed ? (ids.includes(c.id) ? 'taken' : 'allowed') : 'the type does not allow it here'}`;
      return made;
    });
    this.#about.replaceChildren(heading, element('div', { className: 'bars' }, ...bars));
  }

  #step(e) {
    const all = [...this.#list.children];
    const at = all.indexOf(document.activeElement);
    const to = { ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1, Home: 0, End: all.length - 1 }[e.key];
    if (to === undefined || !all[to]) return;
    e.preventDefault();
    all[to].focus();
  }
}
