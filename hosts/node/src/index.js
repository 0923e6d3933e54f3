// lean for Node: typed values out of local language models, through a bridge process.

import { Adapter } from './adapter.js';
import { findBridge, findLibrary } from './bridge-path.js';
import { Checkpoint } from './checkpoint.js';
import { Connection } from './connection.js';
import { described, integer, only, text } from './check.js';
import { exited, invalid, LeanError } from './errors.js';
import { Stream } from './generation.js';
import { loadModel, Model, Session } from './model.js';
import { BridgePort } from './port.js';
import { BridgeProcess } from './process.js';
import { Type, type } from './type.js';

export { Adapter, Checkpoint, LeanError, Model, Session, Stream, Type, findBridge, findLibrary, type };

/** How long a greeting may take: long enough for a cold disk and a virus scanner. */
const GREETING_MS = 20_000;
/** How long a bridge may take to end after it was asked to. */
const CLOSE_MS = 3_000;

const asyncDispose = Symbol.asyncDispose ?? Symbol.for('Symbol.asyncDispose');

/** Starts the bridge, in a process or in this one; also says what to call it in an error. */
async function start({ transport = 'process', library, bridge, ...options }) {
  if (transport === 'port') {
    const others = ['args', 'env', 'cwd', 'onStderr'].filter((name) => options[name] !== undefined);
    if (bridge !== undefined) others.push('bridge');
    if (others.length > 0) throw invalid(`spawn: ${others[0]} belongs to the transport 'process'`);
    return { process: await BridgePort.open({ library }), file: 'the port' };
  }
  if (transport !== 'process') throw invalid(`spawn: transport is 'process' or 'port', not ${described(transport)}`);
  if (library !== undefined) throw invalid("spawn: library belongs to the transport 'port'");
  const file = findBridge(bridge);
  return { process: new BridgeProcess(file, options), file };
}

/** An engine: a bridge process, or a port in this one. */
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

  /**
   * Starts a bridge, in a process of its own or, with the transport `port`, in this one. While it has nothing to do it
   * does not keep this process alive.
   */
  static async spawn(options = {}) {
    const known = ['transport', 'library', 'bridge', 'args', 'env', 'cwd', 'onStderr', 'credit'];
    const { credit, ...how } = only(options, known, 'spawn');
    if (credit !== undefined) integer(credit, 'spawn: credit', 1);
    const { process, file } = await start(how);
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
    const known = ['backend', 'threads', 'context', 'kv', 'precision', 'prefixCacheBytes', 'onProgress', 'signal'];
    only(options, known, 'load');
    return loadModel(this.#connection, text(path, 'load: the path of a model file'), options);
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
