// lean for the web: typed values out of language models that run in a worker of the page.

import { Checkpoint } from './client/checkpoint.js';
import { only } from './client/check.js';
import { Connection } from './client/connection.js';
import { invalid, LeanError } from './client/errors.js';
import { Stream } from './client/generation.js';
import { loadModel, Model, Session } from './client/model.js';
import { wireBlocks } from './client/options.js';
import { Type, type } from './client/type.js';
import { mailbox } from './cancels.js';
import { cache } from './store.js';
import { suspends } from './suspend.js';
import { engineError, WorkerTransport } from './transport.js';

export { Checkpoint, Engine, LeanError, Model, Session, Stream, Type, type };

/** The name that a worker's only model has. */
const MODEL = 'model';
const BACKENDS = ['auto', 'cpu', 'gpu', 'threads', 'single'];
const MOST_THREADS = 8;
/** Errors that say that the GPU cannot run a model: out_of_memory, device_lost, device. */
const NO_GPU = [400, 401, 402];

const asyncDispose = Symbol.asyncDispose ?? Symbol.for('Symbol.asyncDispose');

/** What this page could use, and what of it this package does. */
async function capabilities() {
  const gpu = globalThis.navigator?.gpu;
  const adapter = await gpu?.requestAdapter().catch(() => null);
  const software = adapter?.info?.isFallbackAdapter ?? false;
  return {
    webgpu: Boolean(adapter),
    /** The adapter is software: used only where `backend: "gpu"` asks for it. */
    softwareAdapter: software,
    /** WebAssembly can be suspended, without which no GPU can be waited for. */
    suspends,
    shaderF16: adapter?.features.has('shader-f16') ?? false,
    subgroups: adapter?.features.has('subgroups') ?? false,
    crossOriginIsolated: globalThis.crossOriginIsolated === true,
    hardwareConcurrency: globalThis.navigator?.hardwareConcurrency ?? 1,
    fileSystem: typeof globalThis.navigator?.storage?.getDirectory === 'function',
    /** What `backend: "auto"` tries first; a model that it cannot run is run on the CPU. */
    backend: adapter && suspends && !software ? 'gpu' : globalThis.crossOriginIsolated && usualThreads() > 1 ? 'threads' : 'single',
  };
}

/** Processors of a page are often two to a core, and the slower cores of a phone hold up the faster. */
function usualThreads() {
  const processors = globalThis.navigator?.hardwareConcurrency ?? 1;
  return processors <= 4 ? processors : Math.min(MOST_THREADS, Math.ceil(processors / 2));
}

/**
 * The engine's name of a backend, and how many threads: WebGPU and threads are two builds, one of which is loaded.
 * @param {{ backend?: string, threads?: number }} asked
 * @param {{ again?: boolean }} [can] whether another worker can be taken if the GPU turns out to be unable
 */
async function chosen({ backend = 'auto', threads }, { again = true } = {}) {
  if (!BACKENDS.includes(backend)) throw invalid(`load: backend: one of ${BACKENDS.join(', ')}`);
  if (threads !== undefined && !(Number.isInteger(threads) && threads >= 1 && threads <= 64)) throw invalid('load: threads: 1 to 64');
  const isolated = globalThis.crossOriginIsolated === true;
  if (backend === 'threads' && !isolated) {
    const message = 'load: threads share memory, which only a cross-origin isolated page may do (its server sends COOP and COEP headers)';
    throw new LeanError(message, { code: 402, name: 'device', class: 'resource' });
  }
  const best = { auto: async () => (await capabilities()).backend, cpu: () => (isolated ? 'threads' : 'single') };
  const found = (await best[backend]?.()) ?? backend;
  if (found === 'threads') return { wire: 'cpu', threads: threads ?? usualThreads() };
  const auto = backend === 'auto' && found === 'gpu';
  // Without another worker the engine itself goes on with one thread.
  return { wire: auto && !again ? 'auto' : found === 'gpu' ? 'gpu' : 'cpu', threads: 1, auto };
}

/** What a source is for the worker. */
function described(source, { cache: useCache, digest }) {
  if (source instanceof URL || typeof source === 'string') {
    return { url: new URL(source, globalThis.location?.href).href, cache: useCache, digest };
  }
  if (typeof Blob === 'function' && source instanceof Blob) return { blob: source };
  if (source instanceof ArrayBuffer || ArrayBuffer.isView(source)) return { blob: new Blob([source]) };
  throw invalid('load: a model is a URL, a File or Blob, or bytes');
}

/** A worker with the engine in it, greeted. */
async function connect({ worker, box = mailbox(), wasm, threads, signal }) {
  const transport = new WorkerTransport(worker, box);
  const abort = () => transport.kill();
  signal?.addEventListener('abort', abort, { once: true });
  try {
    worker.postMessage({ box, threads, wasm: wasm === undefined ? undefined : new URL(wasm, globalThis.location?.href).href });
    const connection = new Connection(transport);
    const hello = await connection.ready;
    return { transport, connection, hello };
  } catch (e) {
    signal?.throwIfAborted();
    throw e;
  } finally {
    signal?.removeEventListener('abort', abort);
  }
}

/** The engines of a page. */
export const Lean = {
  /** What this page could use, and what `backend: "auto"` means. */
  capabilities,
  /** Cached models. */
  cache,

  /**
   * Loads a model into a worker of its own.
   * @param {string | URL | Blob | ArrayBuffer | ArrayBufferView} source
   */
  async load(source, options = {}) {
    const again = !options.worker && !isEcho(source);
    if (!again || !(await chosen(options)).auto) return load(source, options, { again: false });
    try {
      return await load(source, { ...options, backend: 'gpu' });
    } catch (e) {
      // The same errors after which the native build takes the CPU.
      if (!NO_GPU.includes(e?.code)) throw e;
      const engine = await load(source, { ...options, backend: 'cpu' });
      engine.info.fallback = e.message;
      return engine;
    }
  },
};

const isEcho = (source) => typeof source === 'string' && /^echo(\?|$)/.test(source);

/** Loads with the backend that was decided on. */
async function load(source, options, can) {
  const known = ['backend', 'threads', 'context', 'kv', 'precision', 'prefixCacheBytes', 'cache', 'digest', 'onProgress', 'signal', 'worker', 'wasm'];
  const { signal, onProgress, worker, wasm, ...how } = only(options, known, 'load');
  const { wire: backend, threads } = await chosen(how, can);
  const echo = isEcho(source);
  const given = echo ? null : described(source, how);
  signal?.throwIfAborted();
  const made = worker ?? new Worker(new URL('./worker.js', import.meta.url), { type: 'module', name: 'lean' });
  const { transport, connection, hello } = await connect({ worker: made, wasm, threads, signal });
  try {
    const { cache: _, digest, ...rest } = how;
    const from = given && (await transport.call('prepare', { as: MODEL, ...given }, { signal, onProgress }));
    const progress = onProgress && ((p) => onProgress({ stage: 'load', ...p }));
    const wire = { ...rest, backend, threads: undefined, onProgress: progress, signal };
    const engine = await loadModel(connection, echo ? source : MODEL, wire, Engine);
    await transport.call('release', { as: MODEL });
    engine.attach({ transport, connection, version: hello.engine, source: from, threads });
    return engine;
  } catch (e) {
    transport.kill();
    throw e;
  }
}

/** A loaded model and its worker. */
class Engine extends Model {
  #transport;
  #connection;

  /** For `Lean.load`. */
  attach({ transport, connection, version, source, threads }) {
    this.#transport = transport;
    this.#connection = connection;
    /** Name and version of the engine. */
    this.version = version;
    /** What it runs on; `info.fallback` says why not the GPU. */
    this.backend = this.info?.backend === 'gpu' ? 'gpu' : threads > 1 ? 'threads' : 'single';
    /** Threads of the CPU. */
    this.threads = threads;
    /** Where the bytes came from, how many, and their SHA-256 where it is known. */
    this.source = source;
    /** Resolves, never rejects, with the error that says how the instance ended: disposed of, or a panic. */
    this.ended = transport.ended;
    /** Resolves, never rejects, with the error `device_lost` (401) if the GPU is lost. Load the model again. */
    this.lost = transport.lost;
  }

  async #ask(question, about) {
    const said = JSON.parse(await this.#transport.call('ask', { question, about: { source: MODEL, ...about } }));
    if (said.error) throw engineError(said.error);
    return said.ok;
  }

  /** Frees the model now; the worker stays. */
  async unload() {
    await super.unload();
    await this.#ask('forget', {});
  }

  /** A conversation as the model's template writes it. */
  chatRender(messages, options = {}) {
    const { tools, addGenerationPrompt } = only(options, ['tools', 'addGenerationPrompt'], 'chatRender');
    const chat = { messages, ...(tools && { tools }), ...(addGenerationPrompt !== undefined && { add_generation_prompt: addGenerationPrompt }) };
    return this.#ask('chat_render', { chat });
  }

  /** A conversation without its oldest exchange; null if there is nothing to drop. */
  async chatTrimOldestExchange(messages) {
    const shorter = await this.#ask('chat_trim_oldest_exchange', { chat: { messages } });
    return shorter && shorter.messages;
  }

  /** The tokens of blocks: `{ ids, texts }`. */
  tokenize(blocks) {
    return this.#ask('tokenize', { blocks: wireBlocks(blocks) });
  }

  /** Throws what is wrong with a type, before any token is made of it. */
  async checkType(type) {
    if (!(type instanceof Type)) throw invalid('checkType: a type is needed');
    await this.#ask('check_type', { type: type.toJSON() });
  }

  /** Bytes of the instance's memory, which only grows. */
  memory() {
    return this.#transport.call('memory');
  }

  /** Ends the worker: what still runs is cancelled, and all memory is free. */
  async dispose() {
    this.#connection.cancelWaiting();
    this.#transport.kill();
    await this.#transport.ended;
  }

  async [asyncDispose]() {
    await this.dispose();
  }
}
