// The worker of a page: starts the engine and hands messages over.

import * as engine from './engine/lean_web.js';
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

async function start({ box, wasm }) {
  const exports = await engine.default({ module_or_path: wasm ?? new URL('./engine/lean_web_bg.wasm', import.meta.url) });
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
