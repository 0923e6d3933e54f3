// A port of liblean as a transport: the bridge inside this process, through koffi.
//
// It needs the shared library and no process; a crash of the engine is then a crash of this program.

import { exited, LeanError, notFound } from './errors.js';
import { findLibrary } from './bridge-path.js';

/** Values of lean.h. */
const [OK, PENDING, END] = [0, 1, 2];
const STATE_PROTOCOL = 3;
/** How long a call that receives may take: it occupies one of Node's few threads, which others need too. */
const SLICE_MS = 100;
/** How soon bytes are offered again that the port had no room for. */
const AGAIN_MS = 5;

/** Ports that the end of this process has to close, or their threads would run while it is taken apart. */
const open = new Set();
process.on('exit', () => {
  for (const port of open) port.closeNow();
});

async function loadKoffi() {
  try {
    const { default: koffi } = await import('koffi');
    return koffi;
  } catch (cause) {
    const message = "the transport 'port' calls liblean through the package koffi: `npm install koffi@3`, or use the transport 'process', which needs no package";
    throw Object.assign(notFound(message), { cause });
  }
}

/** The functions of a library; each throws what it fails with. */
function declared(koffi, file) {
  let library;
  try {
    library = koffi.load(file);
    const handle = 'void *';
    const handleOut = koffi.out(koffi.pointer('void *'));
    const declare = (name, ...types) => library.func(name, 'int', [...types, handleOut]);
    const code = library.func('lean_error_code', 'int', [handle]);
    const name = library.func('lean_error_name', 'str', [handle]);
    const message = library.func('lean_error_message', 'str', [handle, handle]);
    const freeError = library.func('lean_error_free', 'void', [handle]);
    /** The status, or what the call failed with. */
    const checked = (status, [error]) => {
      if (error === null) return status;
      const fields = { code: code(error), name: name(error), class: 'internal' };
      const failure = new LeanError(message(error, null), fields);
      freeError(error);
      throw failure;
    };
    const call = (f) => (...args) => {
      const error = [null];
      return checked(f(...args, error), error);
    };
    const callAsync = (f) => (...args) => {
      const error = [null];
      return new Promise((resolve, reject) => {
        f.async(...args, error, (failure, status) => {
          try {
            if (failure) throw failure;
            resolve(checked(status, error));
          } catch (e) {
            reject(e);
          }
        });
      });
    };
    const close = declare('lean_port_close', handle);
    const data = call(declare('lean_bytes_data', handle, handleOut, koffi.out(koffi.pointer('size_t'))));
    const freeBytes = library.func('lean_bytes_free', 'void', [handle]);
    return {
      open: call(declare('lean_port_open', handleOut)),
      send: call(declare('lean_port_send', handle, koffi.pointer('uint8_t'), 'size_t', 'uint32_t')),
      recv: callAsync(declare('lean_port_recv', handle, 'uint32_t', handleOut)),
      state: call(declare('lean_port_state', handle, koffi.out(koffi.pointer('int32_t')))),
      close: callAsync(close),
      closeNow: call(close),
      free: library.func('lean_port_free', 'void', [handle]),
      /** What `recv` gave, copied; it is freed. */
      take: (bytes) => {
        const [at, length] = [[null], [0]];
        data(bytes, at, length);
        const copy = new Uint8Array(koffi.view(at[0], Number(length[0]))).slice();
        freeBytes(bytes);
        return copy;
      },
    };
  } catch (cause) {
    if (cause instanceof LeanError) throw cause;
    throw Object.assign(notFound(`${file} is no liblean that this client can use: ${cause.message}`), { cause });
  }
}

/** A bridge in this process. While nothing is pending it does not keep the process alive. */
export class BridgePort {
  #library;
  #port;
  #listener = null;
  #holds = 0;
  /** Whether a call is receiving; what ends the port waits for it. */
  #receiving = false;
  #closing = null;
  #over = false;
  /** Bytes that the port had no room for, whether they are being offered, and the promise that they are sent. */
  #unsent = [];
  #busy = false;
  #sending = null;

  /** @param {{ library?: string }} [options] */
  static async open({ library } = {}) {
    return new BridgePort(declared(await loadKoffi(), findLibrary(library)));
  }

  /** @private */
  constructor(library) {
    const out = [null];
    library.open(out);
    this.#library = library;
    this.#port = out[0];
    /** Resolves, never rejects, with the error that says how the port ended. */
    this.ended = new Promise((resolve) => (this.resolveEnded = resolve));
    open.add(this);
  }

  get pid() {
    return process.pid;
  }

  /** @param {(bytes: Uint8Array) => void} listener */
  onData(listener) {
    this.#listener = listener;
    void this.#receive();
  }

  hold() {
    this.#holds++;
    void this.#receive();
  }

  release() {
    this.#holds--;
  }

  /** Sends bytes; the promise resolves once the port wants more. */
  async write(bytes) {
    if (this.#closing) return;
    this.#unsent.push(bytes);
    if (!this.#busy) this.#sending = this.#send();
    await this.#sending;
  }

  end() {
    void this.#close();
  }

  kill() {
    void this.#close();
  }

  /** For the end of the process, when nothing asynchronous runs any more. */
  closeNow() {
    if (!this.#over) this.#library.closeNow(this.#port);
  }

  async #send() {
    this.#busy = true;
    while (this.#unsent.length > 0 && !this.#closing) {
      const bytes = this.#unsent[0];
      if (this.#library.send(this.#port, bytes, bytes.length, 0) === PENDING) {
        await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
      } else {
        this.#unsent.shift();
      }
    }
    this.#unsent.length = 0;
    this.#busy = false;
  }

  /** Receives while anything is pending, in slices. */
  async #receive() {
    if (this.#receiving) return;
    this.#receiving = true;
    let status = OK;
    while (status !== END && this.#listener && (this.#holds > 0 || this.#closing)) {
      const out = [null];
      // What fails here is a bug in lean, which has reported it as a log message: nothing more will come.
      status = await this.#library.recv(this.#port, SLICE_MS, out).catch(() => END);
      if (status === OK) this.#listener(this.#library.take(out[0]));
    }
    this.#receiving = false;
    if (status === END) await this.#close();
  }

  #close() {
    this.#closing ??= this.#finish();
    return this.#closing;
  }

  async #finish() {
    await this.#library.close(this.#port);
    // A call that was receiving ends by itself now.
    while (this.#receiving) await new Promise((resolve) => setTimeout(resolve, 1));
    const state = [0];
    this.#library.state(this.#port, state);
    this.#over = true;
    open.delete(this);
    this.#library.free(this.#port);
    this.resolveEnded(exited({ exitCode: state[0] === STATE_PROTOCOL ? 2 : 0, signal: null, stderr: '', inProcess: true }));
  }
}
