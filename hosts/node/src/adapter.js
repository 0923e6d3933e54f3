// LoRA adapters: handles in the bridge.

import { freed, invalid } from './errors.js';

/** Drops what nobody refers to any more. */
const forgotten = new FinalizationRegistry(({ connection, handle }) => connection.post('ADAPTER_DROP', { adapter: handle }));

/** A LoRA adapter of a model; sessions that use it keep it. */
export class Adapter {
  #connection;
  #handle;

  constructor(connection, handle, info) {
    this.#connection = connection;
    this.#handle = handle;
    /** What it says about itself. */
    this.info = info;
    forgotten.register(this, { connection, handle }, this);
  }

  /** The handle, for this client's own requests on the same connection. */
  handleOn(connection) {
    if (this.#handle === null) throw invalid('the adapter was dropped');
    if (connection !== this.#connection) throw invalid('the adapter lives in another bridge process: load it there');
    return this.#handle;
  }

  /** Frees it now instead of when it is collected. */
  async drop() {
    if (this.#handle === null) return;
    const adapter = this.#handle;
    this.#handle = null;
    forgotten.unregister(this);
    await freed(this.#connection.request('ADAPTER_DROP', { adapter }));
  }

  async [Symbol.asyncDispose ?? Symbol.for('Symbol.asyncDispose')]() {
    await this.drop();
  }
}

/** The head of SESSION_ADAPT from what a caller lists: adapters, or `{ adapter, scale }`. */
export function adaptHead(connection, session, adapters) {
  if (!Array.isArray(adapters)) throw invalid('setAdapters: an array of adapters is needed');
  const head = { session, adapters: [], scales: [] };
  for (const item of adapters) {
    const { adapter, scale = 1 } = item instanceof Adapter ? { adapter: item } : (item ?? {});
    if (!(adapter instanceof Adapter)) throw invalid('setAdapters: each is an Adapter or { adapter, scale }');
    if (!Number.isFinite(scale)) throw invalid('setAdapters: a scale is a finite number');
    head.adapters.push(adapter.handleOn(connection));
    head.scales.push(scale);
  }
  return head;
}
