// A conversation on the same engine. A session keeps its state; the oldest exchanges go when the context is full.

import { type } from '../index.js';
import { element } from './show.js';

const $ = (id) => document.getElementById(id);
/** Tokens of one reply. */
const REPLY_TOKENS = 256;

/** The chat tab. */
export class Chat {
  #engine = null;
  #messages = [];
  #session = null;
  #abort = null;

  constructor() {
    $('say').addEventListener('submit', (e) => {
      e.preventDefault();
      void this.#say($('message').value.trim());
    });
    $('message').addEventListener('keydown', (e) => {
      if (e.key !== 'Enter' || e.shiftKey) return;
      e.preventDefault();
      $('say').requestSubmit();
    });
    $('chat-stop').addEventListener('click', () => this.#abort?.abort());
    $('chat-clear').addEventListener('click', () => this.use(this.#engine));
  }

  /** Begins anew with an engine. */
  use(engine) {
    this.#abort?.abort();
    this.#engine = engine;
    this.#messages = [];
    this.#session = null;
    $('messages').replaceChildren();
  }

  async #say(content) {
    if (!this.#engine || this.#abort || content === '') return;
    $('message').value = '';
    $('chat-error').hidden = true;
    this.#messages.push({ role: 'user', content });
    this.#show('user', content);
    const reply = this.#show('assistant', '…');
    this.#abort = new AbortController();
    $('chat-stop').disabled = false;
    let said = '';
    try {
      this.#session ??= await this.#engine.session();
      const { signal } = this.#abort;
      await this.#fit(signal);
      const onToken = ({ text }) => (reply.textContent = said += text);
      const { text } = await this.#session.generate(type.text(), { maxTokens: REPLY_TOKENS, signal, onToken });
      said = text;
      this.#messages.push({ role: 'assistant', content: said });
      reply.textContent = said;
    } catch (e) {
      if (this.#abort?.signal.aborted) {
        reply.textContent = `${said} …`;
        this.#messages.push({ role: 'assistant', content: said });
      } else {
        this.#messages.pop();
        reply.remove();
        $('chat-error').textContent = e.message;
        $('chat-error').hidden = false;
      }
    } finally {
      this.#abort = null;
      $('chat-stop').disabled = true;
    }
  }

  /** Makes the conversation the context; where it is too long, without its oldest exchanges. */
  async #fit(signal) {
    for (;;) {
      try {
        return await this.#session.setContext({ chat: this.#messages }, { signal });
      } catch (e) {
        if (e.name !== 'context_overflow') throw e;
        const shorter = await this.#engine.chatTrimOldestExchange(this.#messages);
        if (!shorter) throw e;
        this.#messages = shorter;
      }
    }
  }

  #show(role, text) {
    const made = element('li', { className: role, textContent: text });
    $('messages').append(made);
    made.scrollIntoView({ block: 'end' });
    return made;
  }
}
