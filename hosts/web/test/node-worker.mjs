// The worker of the Node tests: the same instance, with files in place of the browser's.

import { closeSync, fstatSync, openSync, readFileSync, readSync } from 'node:fs';
import { parentPort, workerData } from 'node:worker_threads';
import * as engine from '../dist/engine/lean_web.js';
import { serve } from '../dist/instance.js';

const exports = engine.initSync({ module: readFileSync(new URL('../dist/engine/lean_web_bg.wasm', import.meta.url)) });

/** A model's file; the conformance scripts name models by their paths. */
function reader(path) {
  let file;
  try {
    file = openSync(path, 'r');
  } catch (e) {
    throw e.code === 'ENOENT' ? new Error('no such file; check the path') : e;
  }
  return {
    size: fstatSync(file).size,
    read: (offset, into) => void readSync(file, into, 0, into.length, offset),
    close: () => closeSync(file),
  };
}

const instance = serve({
  engine,
  exports,
  box: workerData.box,
  post: (message, transfer) => parentPort.postMessage(message, transfer),
  soon: setImmediate,
  prepare: async ({ path }) => reader(path),
  find: reader,
});
parentPort.on('message', (message) => instance.receive(message));
