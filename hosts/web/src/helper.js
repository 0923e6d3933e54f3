// A worker of the page that is a thread of the engine: it has the engine's module and memory, and never comes back.

import { help, initSync } from './engine-threads/lean_web.js';

addEventListener(
  'message',
  ({ data: { module, memory } }) => {
    try {
      initSync({ module, memory });
      help();
    } catch (e) {
      // A kernel that panicked: what shares this memory cannot go on.
      self.postMessage({ panic: String(e?.message ?? e) });
    }
  },
  { once: true },
);
