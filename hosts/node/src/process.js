// The spawned bridge as a transport: bytes in, bytes out, and an account of how it ended.

import { spawn } from 'node:child_process';
import { exited } from './errors.js';

/** Characters of stderr that an error carries. */
const STDERR_TAIL = 4096;

/** A bridge process. While nothing is pending it does not keep the host alive. */
export class BridgeProcess {
  #child;
  #stderr = '';
  #holds = 0;
  /** Resolves once a full pipe wants more. */
  #drained = null;

  /**
   * @param {string} file
   * @param {{ args?: string[], env?: NodeJS.ProcessEnv, cwd?: string, onStderr?: (text: string) => void }} options
   */
  constructor(file, { args = [], env, cwd, onStderr } = {}) {
    const child = spawn(file, ['--parent-pid', String(process.pid), ...args], {
      stdio: ['pipe', 'pipe', 'pipe'],
      env: env ?? process.env,
      cwd,
      windowsHide: true,
    });
    this.#child = child;
    /** Resolves, never rejects, with the error that says how the process ended. */
    this.ended = new Promise((resolve) => {
      let cause;
      child.once('error', (e) => {
        cause = e;
        if (child.pid === undefined) resolve(exited({ exitCode: null, signal: null, stderr: this.#stderr, cause }));
      });
      // 'close' and not 'exit': by then stdout and stderr have been read to their ends.
      child.once('close', (exitCode, signal) => resolve(exited({ exitCode, signal, stderr: this.#stderr, cause })));
    });
    child.stderr.setEncoding('utf8');
    child.stderr.on('data', (text) => {
      this.#stderr = (this.#stderr + text).slice(-STDERR_TAIL);
      onStderr?.(text);
    });
    // A dead child shows as EPIPE here; the account of it comes with 'close'.
    child.stdin.on('error', () => {});
    this.#apply();
  }

  get pid() {
    return this.#child.pid;
  }

  /** @param {(bytes: Uint8Array) => void} listener */
  onData(listener) {
    this.#child.stdout.on('data', listener);
  }

  /** Sends bytes; the promise resolves once the pipe wants more. */
  async write(bytes) {
    const { stdin } = this.#child;
    if (stdin.writable && !stdin.write(bytes)) {
      // One for all who wait, or as many listeners as there are frames would look like a leak.
      await (this.#drained ??= new Promise((resolve) => {
        const done = () => {
          stdin.off('drain', done);
          stdin.off('close', done);
          this.#drained = null;
          resolve();
        };
        stdin.once('drain', done);
        stdin.once('close', done);
      }));
    }
  }

  /** Keeps the host alive until the same number of releases. */
  hold() {
    if (this.#holds++ === 0) this.#apply();
  }

  release() {
    if (--this.#holds === 0) this.#apply();
  }

  #apply() {
    const action = this.#holds > 0 ? 'ref' : 'unref';
    const { stdin, stdout, stderr } = this.#child;
    for (const x of [this.#child, stdin, stdout, stderr]) x?.[action]?.();
  }

  /** Says that nothing more will be sent: the bridge then ends. */
  end() {
    this.#child.stdin.end();
  }

  kill(signal = 'SIGKILL') {
    this.#child.kill(signal);
  }
}
