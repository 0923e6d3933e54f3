// Models and sessions: handles in an engine, over any connection.

import { Adapter, adaptHead } from './adapter.js';
import { Checkpoint, loadCheckpoint } from './checkpoint.js';
import { only } from './check.js';
import { freed, invalid } from './errors.js';
import { generate, Stream } from './generation.js';
import { generateMany, streamMany } from './many.js';
import { camel, json, wireBlocks } from './options.js';

const asyncDispose = Symbol.asyncDispose ?? Symbol.for('Symbol.asyncDispose');
const decoder = new TextDecoder();

/** Hands PREFILL events on. */
const prefills = (onPrefill) => ({ name, head }) => (name === 'PREFILL' ? onPrefill?.({ type: 'prefill', ...head }) : undefined);

/**
 * Loads a model.
 * @param {import('./connection.js').Connection} connection
 * @param {typeof Model} Kind what to make of it
 */
export async function loadModel(connection, path, { backend, threads, context, kv, precision, prefixCacheBytes, onProgress, signal }, Kind = Model) {
  const head = { path, backend, threads, context, progress: Boolean(onProgress) };
  const onEvent = ({ name, head: e }) => (name === 'PROGRESS' ? onProgress?.({ done: e.done, total: e.total }) : undefined);
  const { head: loaded, tail } = await connection.request('LOAD', head, { tail: kv === undefined && precision === undefined ? undefined : json({ kv, precision }), signal, onEvent });
  const model = new Kind(connection, loaded.model, camel(JSON.parse(decoder.decode(tail))));
  if (prefixCacheBytes !== undefined) await model.setPrefixCache(prefixCacheBytes);
  return model;
}

const forgottenModels = new FinalizationRegistry(({ connection, model }) => connection.post('UNLOAD', { model }));
const forgottenSessions = new FinalizationRegistry(({ connection, session }) => connection.post('SESSION_CLOSE', { session }));

/** A loaded model. */
export class Model {
  #connection;
  #model;
  #unloaded = null;

  constructor(connection, model, info) {
    this.#connection = connection;
    this.#model = model;
    /** What it is and where it runs. */
    this.info = info;
    forgottenModels.register(this, { connection, model }, this);
  }

  /** A value of the type. */
  generate(type, options = {}) {
    return generate(this.#connection, { model: this.#model }, type, options, this);
  }

  /** The same, iterated event by event. */
  stream(type, options = {}) {
    return new Stream(this.#connection, { model: this.#model }, type, options, this);
  }

  /** Several values that continue one checkpoint, or an empty context: a pass over the weights serves all of them. */
  generateMany(branches, options = {}) {
    return generateMany(this.#connection, { model: this.#model }, branches, options, this);
  }

  /** The same, each iterated by itself. */
  streamMany(branches, options = {}) {
    return streamMany(this.#connection, { model: this.#model }, branches, options, this);
  }

  /** What it has done since it was loaded, and the memory it takes. */
  async stats() {
    const { tail } = await this.#connection.request('MODEL_STATS', { model: this.#model });
    const { memory, prefix, ...counts } = JSON.parse(decoder.decode(tail));
    return { ...camel(counts), memory: camel(memory), prefix: camel(prefix) };
  }

  /** Bytes of state kept of earlier contexts, so that one that begins alike is not computed again; 0 is off. */
  async setPrefixCache(bytes) {
    if (!Number.isSafeInteger(bytes) || bytes < 0) throw invalid('setPrefixCache: a number of bytes is needed');
    await this.#connection.request('MODEL_PREFIX_CACHE', { model: this.#model, bytes });
  }

  /** Goes on with the value that a checkpoint was taken in. */
  async resume(checkpoint, options = {}) {
    if (checkpoint === undefined) throw invalid('resume: the checkpoint of a value in progress is needed');
    return generate(this.#connection, { model: this.#model }, null, { ...options, checkpoint }, this);
  }

  /** A session: a sequence that is appended to and generated from. */
  async session(options = {}) {
    const { checkpoint, context, signal } = only(options, ['checkpoint', 'context', 'signal'], 'session');
    const given = checkpoint === undefined || checkpoint instanceof Checkpoint;
    const start = given ? checkpoint : await this.restore(checkpoint, { signal });
    const head = { model: this.#model, checkpoint: start?.handleOn(this.#connection) ?? null, context };
    try {
      const { head: opened } = await this.#connection.request('SESSION_OPEN', head, { signal, owner: [this, start] });
      return new Session(this.#connection, opened);
    } finally {
      if (!given) start.drop().catch(() => {});
    }
  }

  /** A checkpoint from its bytes or from a file, checked against this model. */
  async restore(source, options = {}) {
    const { signal, parent, policy } = only(options, ['signal', 'parent', 'policy'], 'restore');
    return loadCheckpoint(this.#connection, this.#model, source, { signal, parent, policy, owner: this });
  }

  /** A LoRA adapter: a .gguf file, or PEFT's folder. */
  async loadAdapter(path, { signal } = {}) {
    if (typeof path !== 'string') throw invalid('loadAdapter: the path of an adapter is needed');
    const { head, tail } = await this.#connection.request('ADAPTER_LOAD', { model: this.#model, path }, { signal });
    return new Adapter(this.#connection, head.adapter, camel(JSON.parse(decoder.decode(tail))));
  }

  /** Frees it now instead of when it is collected. */
  async unload() {
    forgottenModels.unregister(this);
    this.#unloaded ??= freed(this.#connection.request('UNLOAD', { model: this.#model }));
    await this.#unloaded;
  }

  async [asyncDispose]() {
    await this.unload();
  }
}

/** One sequence. A call that fails leaves it as it was. */
export class Session {
  #connection;
  #session;
  #tokens;
  #closed = null;

  constructor(connection, { session, tokens }) {
    this.#connection = connection;
    this.#session = session;
    this.#tokens = tokens;
    forgottenSessions.register(this, { connection, session }, this);
  }

  /** Tokens it held after the last append. */
  get tokens() {
    return this.#tokens;
  }

  async #append(blocks, replace, given = {}) {
    const { signal, onPrefill } = only(given, ['signal', 'onPrefill'], replace ? 'setContext' : 'append');
    const options = { tail: json({ blocks: wireBlocks(blocks) }), signal, onEvent: prefills(onPrefill), owner: this };
    const { head } = await this.#connection.request('SESSION_APPEND', { session: this.#session, replace }, options);
    this.#tokens = head.tokens;
  }

  /** Appends blocks. */
  append(blocks, options) {
    return this.#append(blocks, false, options);
  }

  /** Makes blocks the whole context; what is equal so far is kept. */
  setContext(blocks, options) {
    return this.#append(blocks, true, options);
  }

  /** Runs with these adapters and no others from now on; its tokens are run again. */
  async setAdapters(adapters, { signal, onPrefill } = {}) {
    const head = adaptHead(this.#connection, this.#session, adapters);
    await this.#connection.request('SESSION_ADAPT', head, { signal, onEvent: prefills(onPrefill) });
  }

  /** A value of the type, which then is part of the session. */
  generate(type, options = {}) {
    return generate(this.#connection, { session: this.#session }, type, options, this);
  }

  /** The same, iterated event by event. */
  stream(type, options = {}) {
    return new Stream(this.#connection, { session: this.#session }, type, options, this);
  }

  /** Several values that continue the session, which stays as it is: a pass over the weights serves all of them. */
  generateMany(branches, options = {}) {
    return generateMany(this.#connection, { session: this.#session }, branches, options, this);
  }

  /** The same, each iterated by itself. */
  streamMany(branches, options = {}) {
    return streamMany(this.#connection, { session: this.#session }, branches, options, this);
  }

  async #cut(begin, end, { signal, onPrefill } = {}) {
    const { head } = await this.#connection.request('SESSION_CUT', { session: this.#session, begin, end }, { signal, onEvent: prefills(onPrefill) });
    this.#tokens = head.tokens;
  }

  /** Keeps the first `length` tokens. */
  truncate(length, options) {
    return this.#cut(length, null, options);
  }

  /** Removes the tokens from `begin` up to, but not including, `end`; what follows them is computed again. */
  dropRange(begin, end, options) {
    return this.#cut(begin, end, options);
  }

  /** Goes on with the value that the session's checkpoint was taken in. */
  resume(options = {}) {
    return generate(this.#connection, { session: this.#session }, null, options, this);
  }

  /** The state now. */
  async checkpoint() {
    const { head } = await this.#connection.request('CHECKPOINT_TAKE', { session: this.#session }, { owner: this });
    return new Checkpoint(this.#connection, head);
  }

  /** A second session with the same content. */
  async fork() {
    const { head } = await this.#connection.request('SESSION_FORK', { session: this.#session }, { owner: this });
    return new Session(this.#connection, head);
  }

  /** Frees it now instead of when it is collected. */
  async close() {
    forgottenSessions.unregister(this);
    this.#closed ??= freed(this.#connection.request('SESSION_CLOSE', { session: this.#session }));
    await this.#closed;
  }

  async [asyncDispose]() {
    await this.close();
  }
}
