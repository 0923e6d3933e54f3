// Lets WebAssembly wait for what arrives as an event, a GPU's answers: the whole call is suspended meanwhile (JavaScript
// promise integration). Where the browser has no such thing, nothing can be waited for, and the engine uses the CPU.

/** Whether calls can be suspended here. */
export const suspends = typeof WebAssembly.Suspending === 'function' && typeof WebAssembly.promising === 'function';

/** The engine looks for cancels this often while it waits. */
const PATIENCE_MS = 20;

let resume = null;

/** The engine's import: an event came that it may wait for. */
export function wake() {
  resume?.();
}

function untilWoken() {
  return new Promise((resolve) => {
    const timer = setTimeout(() => resume(), PATIENCE_MS);
    resume = () => {
      clearTimeout(timer);
      resume = null;
      resolve();
    };
  });
}

/** The engine's import: returns after other events were handled. Called only where `gpu` says 1. */
export const turn = suspends ? new WebAssembly.Suspending(untilWoken) : () => {};

const inWorker = typeof WorkerGlobalScope === 'function' && globalThis instanceof WorkerGlobalScope;

/** The engine's import: 1 where there is WebGPU that can be waited for. */
export const gpu = () => Number(suspends && inWorker && Boolean(globalThis.navigator?.gpu));
