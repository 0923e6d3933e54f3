// A worker with an engine as a transport of the protocol, and the calls beside it.

import { LeanError } from './client/errors.js';
import { MESSAGES } from './client/messages.js';
import { Canceller } from './cancels.js';

const CANCEL = MESSAGES.CANCEL.kind;
const CREDIT = MESSAGES.CREDIT.kind;
const CHUNK = MESSAGES.CHUNK.kind;
const HEADER_BYTES = 16;
const END = 1;

const CLASSES = ['unknown', 'protocol', 'input', 'resource', 'cancelled', 'internal'];

/** How an instance ended. */
function ended({ exitCode = null, panic, start }) {
  if (panic !== undefined) {
    return new LeanError(`the engine panicked, and its instance was discarded: ${panic}`, {
      code: 901,
      name: 'panic',
      class: 'internal',
      retryable: true,
    });
  }
  const how = start === undefined ? 'was disposed of' : `could not be started: ${start}`;
  return new LeanError(`the engine ${how}`, { code: 691, name: 'bridge_exited', class: 'resource', retryable: true, exitCode, signal: null, stderr: '' });
}

const lost = (reason) => new LeanError(`the GPU was lost: ${reason}`, { code: 401, name: 'device_lost', class: 'resource', retryable: true });

/** An error of the engine from its description. */
export const engineError = ({ code, class: cls, name, message, details }) =>
  new LeanError(message, { code, name, class: CLASSES[cls] ?? CLASSES[0], ...(details && { details }) });

/**
 * The worker. It is anything with `postMessage`, `terminate`, `onmessage` and `onerror`.
 */
export class WorkerTransport {
  #worker;
  #canceller;
  #listener = () => {};
  #calls = new Map();
  #helpers = [];
  #nextCall = 1;
  #end;
  #lose;

  constructor(worker, box) {
    this.#worker = worker;
    this.#canceller = new Canceller(box);
    /** Resolves, never rejects, with the error that says how the instance ended. */
    this.ended = new Promise((resolve) => (this.#end = resolve));
    /** Resolves, never rejects, with the error that says why the GPU is gone. */
    this.lost = new Promise((resolve) => (this.#lose = resolve));
    worker.onmessage = ({ data }) => this.#receive(data);
    worker.onerror = (e) => {
      e.preventDefault?.();
      this.#over({ start: e.message ?? 'its script could not be loaded' });
    };
  }

  #receive(message) {
    if (message.bytes) {
      const { bytes } = message;
      const head = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
      if (bytes.length >= HEADER_BYTES && head.getUint16(10, true) & END) this.#canceller.end(head.getUint32(4, true));
      this.#listener(bytes);
    } else if (message.ended) this.#over(message.ended);
    else if (message.helpers) this.#startHelpers(message.helpers);
    else if (message.lost !== undefined) this.#lose(lost(message.lost));
    else if (message.progress) this.#calls.get(message.call)?.onProgress?.(message.progress);
    else if (message.call !== undefined) this.#answered(message);
  }

  /** Threads of the engine. */
  #startHelpers({ module, memory, count }) {
    for (let n = 1; n <= count; n++) {
      const helper = new Worker(new URL('./helper.js', import.meta.url), { type: 'module', name: `lean thread ${n}` });
      helper.onmessage = ({ data }) => this.#over({ panic: data.panic });
      helper.onerror = (e) => {
        e.preventDefault?.();
        this.#over({ start: `a thread: ${e.message ?? 'its script could not be loaded'}` });
      };
      helper.postMessage({ module, memory });
      this.#helpers.push(helper);
    }
  }

  #answered({ call, ok, error }) {
    const waiting = this.#calls.get(call);
    this.#calls.delete(call);
    if (!error) return waiting?.resolve(ok);
    const { message, name, class: cls = 'internal', code = 900, details } = error;
    waiting?.reject(new LeanError(message, { code, name, class: cls, details }));
  }

  /** The instance is gone: its memory goes with the worker. */
  #over(how) {
    const error = ended(how);
    for (const worker of [this.#worker, ...this.#helpers]) worker.terminate();
    this.#end(error);
    for (const { reject } of this.#calls.values()) reject(error);
    this.#calls.clear();
    this.#gone = error;
  }

  #gone = null;

  /** @param {(bytes: Uint8Array) => void} listener */
  onData(listener) {
    this.#listener = listener;
  }

  /** Sends bytes; a worker takes as many as there are. */
  async write(bytes) {
    if (this.#gone) return;
    const own = bytes.byteLength === bytes.buffer.byteLength ? bytes : bytes.slice();
    const message = { bytes: own };
    if (own.length >= HEADER_BYTES) {
      const head = new DataView(own.buffer);
      const [id, kind] = [head.getUint32(4, true), head.getUint16(8, true)];
      if (kind === CANCEL) this.#canceller.cancel(id);
      else if (id !== 0 && kind !== CREDIT && kind !== CHUNK) Object.assign(message, { id, url: this.#canceller.begin(id) });
    }
    this.#worker.postMessage(message, [own.buffer]);
  }

  /**
   * Calls the worker beside the protocol.
   * @param {{ signal?: AbortSignal, onProgress?: (p: object) => void }} [options]
   */
  async call(name, given = {}, { signal, onProgress } = {}) {
    signal?.throwIfAborted();
    if (this.#gone) throw this.#gone;
    const call = this.#nextCall++;
    const abort = () => this.#worker.postMessage({ abort: call });
    signal?.addEventListener('abort', abort, { once: true });
    try {
      return await new Promise((resolve, reject) => {
        this.#calls.set(call, { resolve, reject, onProgress });
        this.#worker.postMessage({ call, name, ...given });
      });
    } catch (e) {
      if (signal?.aborted && e?.code === 500) throw signal.reason;
      throw e;
    } finally {
      signal?.removeEventListener('abort', abort);
    }
  }

  /** A worker keeps no page alive. */
  hold() {}

  release() {}

  /** Nothing more will be sent. */
  end() {
    if (!this.#gone) this.#worker.postMessage({ end: true });
  }

  kill() {
    if (!this.#gone) this.#over({ exitCode: 0 });
  }
}
