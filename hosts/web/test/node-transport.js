// The engine in a worker of Node, as the browser's worker looks from the page.

import { Worker } from 'node:worker_threads';
import { mailbox } from '../dist/cancels.js';
import { WorkerTransport } from '../dist/transport.js';

/** A started worker behind a transport. */
export function open() {
  const box = mailbox();
  const worker = new Worker(new URL('./node-worker.mjs', import.meta.url), { workerData: { box } });
  const page = {
    postMessage: (message, transfer) => worker.postMessage(message, transfer),
    terminate: () => worker.terminate(),
    onmessage: null,
    onerror: null,
  };
  worker.on('message', (data) => page.onmessage?.({ data }));
  worker.on('error', (e) => page.onerror?.(e));
  return new WorkerTransport(page, box);
}
