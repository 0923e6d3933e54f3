// lean for Node: typed values out of local language models, through a bridge process.

import { Adapter, adaptHead } from './adapter.js';
import { findBridge } from './bridge-path.js';
import { Checkpoint, loadCheckpoint } from './checkpoint.js';
import { Connection } from './connection.js';
import { integer, only, text } from './check.js';
import { exited, freed, invalid, LeanError } from './errors.js';
import { generate, Stream } from './generation.js';
import { generateMany, streamMany } from './many.js';
import { camel, json, wireBlocks } from './options.js';
import { BridgeProcess } from './process.js';
import { Type, type } from './type.js';

export { Adapter, Checkpoint, LeanError, Stream, Type, findBridge, type };

/** How long a greeting may take: long enough for a cold disk and a virus scanner. */
const GREETING_MS = 20_000;
/** How long a bridge may take to end after it was asked to. */
const CLOSE_MS = 3_000;

const asyncDispose = Symbol.asyncDispose ?? Symbol.for('Symbol.asyncDispose');
const decoder = new TextDecoder();

/** Hands PREFILL events on. */
const prefills = (onPrefill) => ({ name, head }) => (name === 'PREFILL' ? onPrefill?.({ type: 'prefill', ...head }) : undefined);

/** A bridge process. */
export class Lean {
  #connection;
  #process;

  constructor(connection, process, hello) {
    this.#connection = connection;
    this.#process = process;
    /** Name and version of the engine. */
    this.engine = hello.engine;
    /** What this build can do. */
    this.capabilities = hello.capabilities;
  }

  /** Starts a bridge. While it has nothing to do it does not keep this process alive. */
  static async spawn(options = {}) {
    const known = ['bridge', 'args', 'env', 'cwd', 'onStderr', 'credit'];
    const { bridge, args, env, cwd, onStderr, credit } = only(options, known, 'spawn');
    if (credit !== undefined) integer(credit, 'spawn: credit', 1);
    const file = findBridge(bridge);
    const process = new BridgeProcess(file, { args, env, cwd, onStderr });
    const connection = new Connection(process, { credit });
    let silent;
    const patience = new Promise((_, reject) => {
      silent = setTimeout(() => {
        process.kill();
        const cause = new Error(`${file} did not greet within ${GREETING_MS / 1000} s`);
        reject(exited({ exitCode: null, signal: null, stderr: '', cause }));
      }, GREETING_MS);
    });
    try {
      return new Lean(connection, process, await Promise.race([connection.ready, patience]));
    } finally {
      clearTimeout(silent);
    }
  }

  /** The bridge's process id. */
  get pid() {
    return this.#process.pid;
  }

  /** Loads a model file, or `echo`, the model without weights. */
  async load(path, options = {}) {
    const known = ['backend', 'threads', 'context', 'kv', 'prefixCacheBytes', 'onProgress', 'signal'];
    const { backend, threads, context, kv, prefixCacheBytes, onProgress, signal } = only(options, known, 'load');
    const head = { path: text(path, 'load: the path of a model file'), backend, threads, context, progress: Boolean(onProgress) };
    const onEvent = ({ name, head: e }) => (name === 'PROGRESS' ? onProgress?.({ done: e.done, total: e.total }) : undefined);
    const { head: loaded, tail } = await this.#connection.request('LOAD', head, { tail: kv === undefined ? undefined : json({ kv }), signal, onEvent });
    const model = new Model(this.#connection, loaded.model, camel(JSON.parse(decoder.decode(tail))));
    if (prefixCacheBytes !== undefined) await model.setPrefixCache(prefixCacheBytes);
    return model;
  }

  /** Ends the bridge; what still runs is cancelled. */
  async close() {
    const patience = setTimeout(() => this.#process.kill(), CLOSE_MS);
    this.#connection.cancelWaiting();
    try {
      await this.#connection.request('SHUTDOWN', {});
      this.#process.end();
    } catch (e) {
      if (e.name !== 'bridge_exited' && e.name !== 'cancelled') throw e;
    } finally {
      await this.#process.ended;
      clearTimeout(patience);
    }
  }

  async [asyncDispose]() {
    await this.close();
  }
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
    const { signal, parent } = only(options, ['signal', 'parent'], 'restore');
    return loadCheckpoint(this.#connection, this.#model, source, { signal, parent, owner: this });
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
