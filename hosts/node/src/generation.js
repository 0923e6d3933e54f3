// Generating: the promise form and the iterated form of the same request.

import { Checkpoint, loadCheckpoint } from './checkpoint.js';
import { invalid } from './errors.js';
import { camel, generateTail } from './options.js';

const decoder = new TextDecoder();

/** A public event from a wire message; undefined for kinds that a newer bridge may send. */
function eventOf({ name, head, tail }) {
  if (name === 'PREFILL') return { type: 'prefill', done: head.done, total: head.total };
  if (name === 'TOKENS') return { type: 'token', ids: head.ids, text: decoder.decode(tail), forced: head.forced };
  if (name === 'PARTIAL') {
    const json = decoder.decode(tail);
    return { type: 'partial', path: head.path, value: JSON.parse(json), json, finalBytes: head.final_bytes };
  }
  return undefined;
}

function resultOf(connection, { head, tail }) {
  const { value, text, finish, usage } = JSON.parse(decoder.decode(tail));
  const kept = head.checkpoint === null ? null : new Checkpoint(connection, { checkpoint: head.checkpoint });
  return {
    value,
    text,
    finish,
    usage: camel(usage),
    /** The state after the value, if it was asked for. */
    checkpoint() {
      if (kept) return kept;
      throw invalid('no checkpoint was kept: pass `keep: true`, or take it from a session');
    },
  };
}

/**
 * Runs a GENERATE, or with a group one of its members.
 * @param {import('./connection.js').Connection} connection
 * @param {{ model?: number, session?: number, group?: number, members?: number }} on
 * @param {{ onEvent?: (event: object) => unknown, onId?: (id: number) => void }} [hooks]
 */
export async function generate(connection, on, type, options = {}, { onEvent, onId } = {}) {
  const { checkpoint, keep = false, signal, onToken, onPrefill, onPartial } = options;
  const partials = options.partials ?? (onPartial ? true : undefined);
  const tail = generateTail(type, { ...options, partials });
  if (checkpoint !== undefined && on.model === undefined) {
    throw invalid('a session goes on where it is: open one from the checkpoint instead');
  }
  const given = checkpoint === undefined || checkpoint instanceof Checkpoint;
  const start = given ? checkpoint : await loadCheckpoint(connection, on.model, checkpoint, { signal });
  const listen = (message) => {
    const event = eventOf(message);
    if (event === undefined) return undefined;
    const called = { token: onToken, prefill: onPrefill, partial: onPartial }[event.type]?.(event);
    return onEvent ? onEvent(event) : called;
  };
  const events = Boolean(onEvent ?? onToken ?? onPrefill ?? onPartial);
  const head = { ...on, checkpoint: start?.handleOn(connection) ?? null, keep, events };
  const name = on.group === undefined ? 'GENERATE' : 'GENERATE_BRANCH';
  try {
    return resultOf(connection, await connection.request(name, head, { tail, signal, onEvent: listen, onId }));
  } finally {
    if (!given) start.drop().catch(() => {});
  }
}

/** A generation that is iterated: the bridge computes no further ahead than its consumer has credit for. */
export class Stream {
  #connection;
  #id = null;
  #queue = [];
  #wake = null;
  #done = false;
  #cancelled = false;
  #failed = null;
  #result;
  /** Whether events are taken as they come, since somebody waits for the result alone. */
  #flowing = false;

  /** `onUnsent` is called if the request fails before it could be sent. */
  constructor(connection, on, type, options, onUnsent) {
    this.#connection = connection;
    const hooks = {
      onId: (id) => {
        this.#id = id;
        // Cancelled while its checkpoint was still being uploaded. Later, for the request itself goes first.
        if (this.#cancelled) queueMicrotask(() => connection.cancel(id));
      },
      onEvent: (event) =>
        new Promise((resolve) => {
          this.#queue.push({ event, resolve });
          if (this.#flowing) resolve();
          this.#wake?.();
        }),
    };
    this.#result = generate(connection, on, type, options, hooks);
    // A failure that nobody asks `result` for is the iterator's to report.
    this.ended = this.#result.then(
      () => this.#end(null),
      (error) => {
        this.#end(error);
        if (this.#id === null) onUnsent?.();
      },
    );
  }

  /**
   * The result. Asking for it before the events were iterated lets them come without waiting for the iterator:
   * who wants the bridge held back iterates first.
   */
  get result() {
    if (!this.#flowing) {
      this.#flowing = true;
      for (const { resolve } of this.#queue) resolve();
    }
    return this.#result;
  }

  #end(error) {
    this.#done = true;
    this.#failed = error;
    this.#wake?.();
  }

  /** Ends the generation early; `result` rejects with the error `cancelled`. */
  cancel() {
    this.#cancelled = true;
    if (this.#id !== null) this.#connection.cancel(this.#id);
  }

  /** A checkpoint between two tokens: it holds at least the events that were iterated so far. */
  async checkpoint({ signal } = {}) {
    if (this.#id === null || this.#done) throw invalid('the generation is not running');
    const take = { session: null, generation: this.#id };
    const { head } = await this.#connection.request('CHECKPOINT_TAKE', take, { signal });
    return new Checkpoint(this.#connection, head);
  }

  async *[Symbol.asyncIterator]() {
    try {
      for (;;) {
        const next = this.#queue.shift();
        if (next) {
          yield next.event;
          next.resolve();
        } else if (this.#done) {
          // A failure belongs to whoever iterates, an early `cancel()` as well.
          if (this.#failed) throw this.#failed;
          return;
        } else {
          await new Promise((resolve) => (this.#wake = resolve));
        }
      }
    } finally {
      if (!this.#done) {
        // `break` out of the loop: the generation is not wanted any more.
        this.cancel();
      }
      for (const { resolve } of this.#queue.splice(0)) resolve();
    }
  }
}
