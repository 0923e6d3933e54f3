// How a worker in the middle of a computation hears that a request was cancelled, while no message reaches it.
//
// Where memory can be shared (cross-origin isolated pages, Node), ids go through it. Elsewhere every request has a
// `blob:` URL that is revoked to cancel it, which a synchronous request notices; that costs a millisecond, so it is
// looked for a few times a second.

/** Ids that may be on their way at once; the protocol has at most 64 requests open. */
const PLACES = 128;
/** How often revoked URLs are looked for. */
const LOOK_MS = 40;

/** Memory for ids, or null where none can be shared. */
export function mailbox() {
  const shared = typeof SharedArrayBuffer === 'function' && (globalThis.crossOriginIsolated ?? true);
  return shared ? new Int32Array(new SharedArrayBuffer(4 * (PLACES + 1))) : null;
}

/** The page's end. */
export class Canceller {
  #box;
  #urls = new Map();

  constructor(box) {
    this.#box = box;
  }

  /** What a request takes along, so that it can be cancelled. */
  begin(id) {
    if (this.#box) return undefined;
    const url = URL.createObjectURL(new Blob([]));
    this.#urls.set(id, url);
    return url;
  }

  cancel(id) {
    if (!this.#box) return this.end(id);
    const count = Atomics.load(this.#box, 0);
    Atomics.store(this.#box, 1 + (count % PLACES), id);
    Atomics.store(this.#box, 0, (count + 1) & 0x7fff_ffff);
  }

  end(id) {
    const url = this.#urls.get(id);
    if (url) URL.revokeObjectURL(url);
    this.#urls.delete(id);
  }
}

/** The worker's end. */
export class Cancels {
  #box;
  #seen = 0;
  #urls = new Map();
  #looked = 0;

  constructor(box) {
    this.#box = box;
  }

  begin(id, url) {
    if (url) this.#urls.set(id, url);
  }

  end(id) {
    this.#urls.delete(id);
  }

  /** Ids cancelled since the last time. */
  take() {
    return this.#box ? this.#posted() : this.#revoked();
  }

  #posted() {
    const count = Atomics.load(this.#box, 0);
    const ids = [];
    for (; this.#seen !== count; this.#seen = (this.#seen + 1) & 0x7fff_ffff) ids.push(Atomics.load(this.#box, 1 + (this.#seen % PLACES)));
    return ids;
  }

  #revoked() {
    const now = performance.now();
    if (now - this.#looked < LOOK_MS) return [];
    const ids = [...this.#urls].filter(([, url]) => revoked(url)).map(([id]) => id);
    ids.forEach((id) => this.#urls.delete(id));
    this.#looked = performance.now();
    return ids;
  }
}

function revoked(url) {
  const request = new XMLHttpRequest();
  try {
    request.open('GET', url, false);
    request.send();
    return request.status !== 200;
  } catch {
    return true;
  }
}
