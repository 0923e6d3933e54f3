// The engine's instance in its worker: messages of the page in, messages for the page out. It knows neither browsers
// nor Node; `environment` brings what differs.
//
// From the page: {bytes, id?, url?} frames of the protocol (with a request's id and its URL to cancel); {end}; and calls
// {call, name, ...}, which are answered with {call, ok} or {call, error}. To the page: {bytes}, {progress, call},
// {lost}; {ended: {exitCode} | {panic}}.

import { Cancels } from './cancels.js';
import { suspends } from './suspend.js';

const END = 1;
const HEADER_BYTES = 16;

/** Frames begin after the greeting's eight bytes of magic. */
const MAGIC_BYTES = 8;

/**
 * Serves one engine.
 * @param {{ engine: any, exports: WebAssembly.Exports, box: Int32Array | null, post: (message: object, transfer?: ArrayBuffer[]) => void,
 *   soon: (f: () => void) => void, prepare: (given: object, tools: object) => Promise<object>,
 *   find?: (name: string) => object }} environment
 *   `engine`: the wasm package, `exports` what it was made of; `soon` runs a function after the messages that wait by now; `prepare`
 *   makes a reader { size, read(offset, into) } of what the page named; `find`, if there is one, of a name that it did not.
 */
export function serve({ engine, exports, box, post, soon, prepare, find }) {
  const cancels = new Cancels(box);
  const readers = new Map();
  const aborts = new Map();
  let panic = null;
  let over = false;
  let running = false;
  let greeted = false;
  /** What the page said while the engine's call was suspended: no other may begin then. */
  let held = null;

  const worker = {
    write(bytes) {
      const copy = bytes.slice();
      if (greeted) {
        const head = new DataView(copy.buffer);
        if (copy.length >= HEADER_BYTES && head.getUint16(10, true) & END) cancels.end(head.getUint32(4, true));
      }
      greeted ||= copy.length === MAGIC_BYTES;
      post({ bytes: copy }, [copy.buffer]);
    },
    size(name) {
      return reader(name).size;
    },
    read(name, offset, into) {
      reader(name).read(offset, into);
    },
    cancelled: () => Uint32Array.from(cancels.take()),
    lost(reason) {
      post({ lost: reason });
    },
    panicked(message) {
      panic = message;
    },
  };

  function reader(name) {
    if (!readers.has(name) && find) readers.set(name, find(name));
    const found = readers.get(name);
    if (!found) throw new Error('no such model; load it from a URL, a File or bytes');
    return found;
  }

  function end(how) {
    if (over) return;
    over = true;
    post({ ended: how });
  }

  /** Calls the engine. What it throws is the end of the instance: its memory may be in any state. */
  function guarded(call) {
    if (over) return undefined;
    try {
      return call();
    } catch (e) {
      end({ panic: panic ?? String(e?.message ?? e) });
      return undefined;
    }
  }

  /** Lets requests have their turns. The call may be suspended, until a GPU has answered. */
  async function run() {
    held = [];
    const more = await compute().catch((e) => end({ panic: panic ?? String(e?.message ?? e) }));
    const meanwhile = held;
    held = null;
    running = false;
    if (over) return;
    meanwhile.forEach(receive);
    const exitCode = server.ended();
    if (exitCode !== undefined) end({ exitCode });
    else if (more) awake();
  }

  function awake() {
    if (running || over) return;
    running = true;
    soon(run);
  }

  async function answer({ call, name, ...given }) {
    try {
      post({ call, ok: await calls[name]({ call, ...given }) });
    } catch (e) {
      const { message, name: kind, class: cls, code, details } = e ?? {};
      post({ call, error: { message: String(message ?? e), name: kind, class: cls, code, details } });
    }
  }

  const calls = {
    /** Makes a source readable under a name. */
    async prepare({ call, as, ...given }) {
      const abort = new AbortController();
      aborts.set(call, abort);
      try {
        const onProgress = (progress) => post({ progress, call });
        const made = await prepare(given, { onProgress, signal: abort.signal, digest: () => new engine.Digest() });
        readers.set(as, made);
        return { size: made.size, digest: made.digest, from: made.from };
      } finally {
        aborts.delete(call);
      }
    },
    /** The weights are in the engine: their source is not needed any more. */
    async release({ as }) {
      await readers.get(as)?.close?.();
      readers.delete(as);
    },
    async ask({ question, about }) {
      return guarded(() => server.ask(question, JSON.stringify(about)));
    },
    async memory() {
      return guarded(() => server.memory_bytes());
    },
  };

  /** Takes a message of the page. */
  function receive(message) {
    if (message.abort !== undefined) return void aborts.get(message.abort)?.abort();
    if (message.url) cancels.begin(message.id, message.url);
    if (held) return void held.push({ ...message, url: undefined });
    if (message.bytes) {
      guarded(() => server.receive(message.bytes));
      awake();
    } else if (message.end) {
      guarded(() => server.close());
      end({ exitCode: 0 });
    } else if (message.call !== undefined) {
      void answer(message);
    }
  }

  const server = new engine.Server(worker);
  // The package's own field; another version of its generator might call it otherwise.
  if (!Number.isInteger(server.__wbg_ptr) || typeof exports.server_run !== 'function') throw new Error('this package was built with another wasm-bindgen');
  // A suspended call must have nothing but WebAssembly between its ends: the export itself, not the package's method.
  const suspended = suspends && WebAssembly.promising(exports.server_run);
  const compute = async () => (suspended ? (await suspended(server.__wbg_ptr)) !== 0 : server.run());
  return { receive };
}
