// Fetching a model, piece by piece, again from where the connection broke.

import { cancelled } from './client/errors.js';
import { badModel, megabytes, modelIo } from './errors.js';

/** Connections that may break in a row without a byte in between. */
const TRIES = 4;
/** Before the second of them; doubled each time. */
const PAUSE_MS = 250;

const pause = (ms, signal) =>
  new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener('abort', () => (clearTimeout(timer), reject(cancelled())), { once: true });
  });

/**
 * Fetches a URL into a sink.
 * @param {string} url
 * @param {{ have: number, total?: number, tag?: string | null, begin(o: { total?: number, tag: string | null }): Promise<void>,
 *   write(bytes: Uint8Array): Promise<void> | void, restart(): Promise<void> | void }} sink
 *   `have` bytes are there already, of a file of this size and this tag. `begin` is called once the size is known.
 * @param {{ signal: AbortSignal, onProgress: (p: object) => void, limit?: number, fetch?: typeof fetch }} options
 *   `limit`: most bytes that the sink can take.
 */
export async function download(url, sink, { signal, onProgress, limit = Infinity, fetch = globalThis.fetch }) {
  let tries = 0;
  for (;;) {
    const before = sink.have;
    try {
      if (await once(url, sink, { signal, onProgress, limit, fetch })) return;
      throw modelIo(`${url}: the connection ended after ${megabytes(sink.have)}`);
    } catch (e) {
      if (signal.aborted) throw cancelled();
      if (e.final) throw e.error;
      if (e.code === 410) throw e;
      tries = sink.have > before ? 1 : tries + 1;
      if (tries >= TRIES) throw e.code ? e : modelIo(`${url}: cannot be fetched: ${e.message ?? e}`);
      await pause(PAUSE_MS * 2 ** (tries - 1), signal);
    }
  }
}

/** Not worth another try. */
const final = (error) => ({ final: true, error });

/** One connection. Says whether the file is whole by now. */
async function once(url, sink, { signal, onProgress, limit, fetch }) {
  const headers = sink.have > 0 ? { range: `bytes=${sink.have}-` } : {};
  const response = await fetch(url, { headers, signal, cache: 'no-store' });
  const tag = response.headers.get('etag');
  if (response.status === 416 || (response.status === 206 && !continues(response, sink, tag))) {
    // What is there belongs to another version of the file.
    await response.body?.cancel();
    if (sink.have === 0) throw final(modelIo(`${url}: the server answered ${response.status} to a request for all of it`, { status: response.status }));
    await sink.restart();
    return once(url, sink, { signal, onProgress, limit, fetch });
  }
  if (!response.ok) {
    const error = modelIo(`${url}: the server answered ${response.status}${response.statusText ? ` ${response.statusText}` : ''}`, { status: response.status });
    if (response.status >= 500 || response.status === 429) throw error;
    throw final(error);
  }
  // A server without ranges begins again.
  if (response.status === 200 && sink.have > 0) await sink.restart();
  const rest = Number(response.headers.get('content-length') ?? NaN);
  // The length of a compressed body says nothing about the file.
  const known = Number.isFinite(rest) && !response.headers.get('content-encoding');
  const total = known ? sink.have + rest : undefined;
  if (total > limit) throw final(modelIo(`${url}: ${megabytes(total)}; without a cache at most ${megabytes(limit)} can be loaded`));
  await sink.begin({ total, tag });
  const reader = response.body.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    if (sink.have + value.length > limit) {
      await reader.cancel();
      throw final(modelIo(`${url}: more than ${megabytes(limit)}, which is the most without a cache`));
    }
    await sink.write(value);
    onProgress({ stage: 'fetch', done: sink.have, total: total ?? null });
  }
  if (total === undefined && sink.have === 0) throw final(badModel(`${url}: the file is empty`));
  return total === undefined || sink.have === total;
}

/** Whether a partial answer is the rest of what is there. */
function continues(response, sink, tag) {
  const range = /^bytes (\d+)-\d+\/(\d+|\*)$/.exec(response.headers.get('content-range') ?? '');
  if (sink.tag && tag && sink.tag !== tag) return false;
  // Not every server lets other sites read this header; then its word is taken.
  if (!range) return true;
  if (Number(range[1]) !== sink.have) return false;
  return range[2] === '*' || sink.total === undefined || Number(range[2]) === sink.total;
}
