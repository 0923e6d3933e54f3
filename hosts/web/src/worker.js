// The worker of a page: starts the engine and hands messages over.

import { serve } from './instance.js';
import { prepare } from './sources.js';

/** Runs a function after the messages that wait by now, without the pause that timers make. */
function queue() {
  const { port1, port2 } = new MessageChannel();
  const waiting = [];
  port1.onmessage = () => waiting.shift()();
  return (f) => {
    waiting.push(f);
    port2.postMessage(null);
  };
}

const early = [];
self.onmessage = ({ data }) => early.push(data);

/** How long the page's workers may take to become threads. */
const HELPERS_MS = 20_000;

async function compiled(url) {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url}: the server answered ${response.status}`);
  // Servers that do not know the type of the file are none the worse for it.
  return WebAssembly.compile(await response.arrayBuffer());
}

/** The engine's package: the one for threads, whose memory other workers share, or the one with WebGPU. */
async function instantiate(threads, wasm) {
  if (threads > 1) {
    const engine = await import('./engine-threads/lean_web.js');
    const module = await compiled(wasm ?? new URL('./engine-threads/lean_web_bg.wasm', import.meta.url));
    const exports = await engine.default({ module_or_path: module });
    // Only the page can start workers that begin while this one computes.
    self.postMessage({ helpers: { module, memory: exports.memory, count: threads - 1 } });
    for (const began = performance.now(); engine.helpers() < threads - 1; ) {
      if (performance.now() - began > HELPERS_MS) throw new Error(`${engine.helpers()} of ${threads - 1} threads started`);
      await new Promise((resolve) => setTimeout(resolve, 2));
    }
    return { engine, exports };
  }
  const engine = await import('./engine/lean_web.js');
  return { engine, exports: await engine.default({ module_or_path: wasm ?? new URL('./engine/lean_web_bg.wasm', import.meta.url) }) };
}

async function start({ box, wasm, threads }) {
  const { engine, exports } = await instantiate(threads, wasm);
  const post = (message, transfer = []) => self.postMessage(message, transfer);
  const instance = serve({ engine, exports, box, post, soon: queue(), prepare });
  self.onmessage = ({ data }) => instance.receive(data);
  early.splice(0).forEach((message) => instance.receive(message));
}

addEventListener(
  'message',
  ({ data }) => {
    early.length = 0;
    start(data).catch((e) => self.postMessage({ ended: { start: String(e?.message ?? e) } }));
  },
  { once: true },
);
