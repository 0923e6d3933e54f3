// Generating: the promise form and the iterated form of the same request.

import { Checkpoint, loadCheckpoint } from './checkpoint.js';
import { only } from './check.js';
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
  if (name === 'CANDIDATES') return { type: 'candidates', candidates: JSON.parse(decoder.decode(tail)) };
  return undefined;
}

function resultOf(connection, { head, tail }) {
  const { value, text, finish, usage, confidence, warnings = [] } = JSON.parse(decoder.decode(tail));
  const kept = head.checkpoint === null ? null : new Checkpoint(connection, { checkpoint: head.checkpoint });
  return {
    value,
    text,
    finish,
    usage: camel(usage),
    ...(confidence && { confidence }),
    warnings,
    /** The state after the value, if it was asked for. */
    checkpoint() {
      if (kept) return kept;
      throw invalid('no checkpoint was kept: pass `keep: true`, or take it from a session');
    },
  };
}

/** A GENERATE whose arguments were read: what is wrong with them is known, and later changes do not matter. */
function prepare(on, type, options, owner) {
  const tail = generateTail(type, options);
  if (options.checkpoint !== undefined && on.model === undefined) {
    throw invalid('a session goes on where it is: open one from the checkpoint instead');
  }
  const { checkpoint, keep = false, signal, onToken, onPrefill, onPartial, onCandidates } = options;
  const called = { token: onToken, prefill: onPrefill, partial: onPartial, candidates: onCandidates };
  return { on, tail, checkpoint, keep, signal, called, owner };
}

/**
 * Runs a prepared GENERATE, or with a group one of its members.
 * @param {{ onEvent?: (event: object) => unknown, onId?: (id: number) => void, cancel?: AbortSignal, hold?: boolean }} [hooks]
 */
async function run(connection, { on, tail, checkpoint, keep, signal, called, owner }, { onEvent, ...hooks } = {}) {
  const given = checkpoint === undefined || checkpoint instanceof Checkpoint;
  const start = given ? checkpoint : await loadCheckpoint(connection, on.model, checkpoint, { signal, cancel: hooks.cancel, owner });
  const listen = (message) => {
    const event = eventOf(message);
    if (event === undefined) return undefined;
    const answer = called[event.type]?.(event);
    return onEvent ? onEvent(event) : answer;
  };
  const events = Boolean(onEvent ?? Object.values(called).find(Boolean));
  const name = on.group === undefined ? 'GENERATE' : 'GENERATE_BRANCH';
  try {
    const head = { ...on, checkpoint: start?.handleOn(connection) ?? null, keep, events };
    const more = { tail, signal, onEvent: listen, owner: [owner, start], ...hooks };
    return resultOf(connection, await connection.request(name, head, more));
  } finally {
    if (!given) start.drop().catch(() => {});
  }
}

/**
 * Runs a GENERATE.
 * @param {import('./connection.js').Connection} connection
 * @param {{ model?: number, session?: number }} on
 * @param {object} owner the model or session, which is needed until the end
 */
export async function generate(connection, on, type, options, owner) {
  return run(connection, prepare(on, type, options, owner));
}

/** What a stream shares with its request. It does not refer to the stream, so that a forgotten stream is noticed. */
class Flow {
  id = null;
  queue = [];
  wake = null;
  done = false;
  failed = null;
  /** The result's promise, once the request was begun. */
  result = null;
  /** Whether events are taken as they come, since somebody waits for the result alone. */
  flowing = false;
  canceller = new AbortController();

  /** Resolves once the request has ended, however it did. */
  ended = new Promise((resolve) => (this.resolve = resolve));

  constructor(connection, prepared, onUnsent) {
    this.connection = connection;
    this.prepared = prepared;
    this.onUnsent = onUnsent;
  }

  /** Begins the request. It keeps this process alive only while somebody waits for its events or its result. */
  start() {
    if (this.result) return;
    this.result = run(this.connection, this.prepared, {
      cancel: this.canceller.signal,
      hold: false,
      onId: (id) => (this.id = id),
      onEvent: (event) =>
        new Promise((resolve) => {
          this.queue.push({ event, resolve });
          if (this.flowing) resolve();
          this.wake?.();
        }),
    });
    this.prepared = null;
    // A failure that nobody asks `result` for is the iterator's to report.
    this.result.then(
      () => this.end(null),
      (error) => {
        this.end(error);
        if (this.id === null) this.onUnsent?.();
      },
    );
  }

  end(error) {
    this.done = true;
    this.failed = error;
    this.wake?.();
    this.resolve();
    forgotten.unregister(this);
  }

  /** Waits while keeping the process alive. */
  async held(promise) {
    this.connection.transport.hold();
    try {
      return await promise;
    } finally {
      this.connection.transport.release();
    }
  }

  cancel() {
    this.canceller.abort();
  }
}

/** Nobody can read these any more: their requests need not go on. */
const forgotten = new FinalizationRegistry((flow) => {
  if (!flow.flowing) flow.cancel();
});

/**
 * A generation that is iterated: it begins with the first event asked for, and the bridge computes no further ahead
 * than its consumer has credit for.
 */
export class Stream {
  #flow;

  /** With `now` it begins at once; `onUnsent` is called if its request fails before it could be sent. */
  constructor(connection, on, type, options, owner, { now = false, onUnsent } = {}) {
    this.#flow = new Flow(connection, prepare(on, type, options, owner), onUnsent);
    if (now) this.#start();
  }

  /** Resolves, never rejects, once the generation has ended, however it did. */
  get ended() {
    return this.#flow.ended;
  }

  #start() {
    if (this.#flow.result) return;
    this.#flow.start();
    forgotten.register(this, this.#flow, this.#flow);
  }

  /**
   * The result. Asking for it before the events were iterated lets them come without waiting for the iterator:
   * who wants the bridge held back iterates first.
   */
  get result() {
    const flow = this.#flow;
    this.#start();
    if (!flow.flowing) {
      flow.flowing = true;
      for (const { resolve } of flow.queue) resolve();
      flow.held(flow.result).catch(() => {});
    }
    return flow.result;
  }

  /** Ends the generation early; `result` rejects with the error `cancelled`. */
  cancel() {
    this.#flow.cancel();
  }

  /** A checkpoint between two tokens: it holds at least the events that were iterated so far. */
  async checkpoint(options = {}) {
    const { signal } = only(options, ['signal'], 'checkpoint');
    const { id, done, connection } = this.#flow;
    if (id === null || done) throw invalid('the generation is not running: it begins when it is iterated');
    const { head } = await connection.request('CHECKPOINT_TAKE', { session: null, generation: id }, { signal });
    return new Checkpoint(connection, head);
  }

  async *[Symbol.asyncIterator]() {
    const flow = this.#flow;
    this.#start();
    try {
      for (;;) {
        const next = flow.queue.shift();
        if (next) {
          yield next.event;
          next.resolve();
        } else if (flow.done) {
          // A failure belongs to whoever iterates, an early `cancel()` as well.
          if (flow.failed) throw flow.failed;
          return;
        } else {
          await flow.held(new Promise((resolve) => (flow.wake = resolve)));
          flow.wake = null;
        }
      }
    } finally {
      // `break` out of the loop: the generation is not wanted any more.
      if (!flow.done) this.cancel();
      for (const { resolve } of flow.queue.splice(0)) resolve();
    }
  }
}
