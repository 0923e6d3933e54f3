// A model read where it is needed, range by range, for pages without a file system: no copy of the file is anywhere.

import { cancelled } from './client/errors.js';
import { modelIo } from './errors.js';

/** What one request brings at most, and at least: small reads are served from a piece. */
const MOST_BYTES = 8 << 20;
const PIECE_BYTES = 1 << 20;
/** Requests that may fail in a row; the second of them waits so long, each further one twice as long. */
const TRIES = 4;
const PAUSE_MS = 250;

/** Reads are synchronous, since the engine asks in the middle of a call; a worker may wait. */
function wait(ms) {
  if (typeof SharedArrayBuffer === 'function') Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
  else for (const end = performance.now() + ms; performance.now() < end; );
}

/**
 * One request. No header but `range`, which other sites' servers allow without being asked first.
 * @returns {{ status: number, bytes: Uint8Array, tag: string | null, total?: number }}
 */
function ask(url, from, to) {
  const request = new XMLHttpRequest();
  request.open('GET', url, false);
  request.responseType = 'arraybuffer';
  request.setRequestHeader('range', `bytes=${from}-${to - 1}`);
  request.send();
  const range = /\/(\d+)$/.exec(request.getResponseHeader('content-range') ?? '');
  return { status: request.status, bytes: new Uint8Array(request.response ?? []), tag: request.getResponseHeader('etag'), total: range ? Number(range[1]) : undefined };
}

/** Whether a server answers ranges, and of how large a file; null where it does not or does not say. */
async function probe(url, signal) {
  // Cross-origin, the answer's size can be read only if the server exposes it.
  const response = await fetch(url, { headers: { range: 'bytes=0-0' }, signal });
  await response.body?.cancel();
  const range = /^bytes 0-0\/(\d+)$/.exec(response.headers.get('content-range') ?? '');
  return response.status === 206 && range ? { size: Number(range[1]), tag: response.headers.get('etag') } : null;
}

/**
 * A reader of a URL; null where its server has no ranges.
 * @param {AbortSignal} signal ends the look at the server, not later reads
 */
export async function rangeReader(url, signal) {
  const about = await probe(url, signal).catch((e) => {
    if (signal.aborted) throw cancelled();
    // The download will say what is wrong, and tries again.
    return null;
  });
  if (!about) return null;
  const { size, tag } = about;

  function fetched(from, to) {
    for (let tries = 1; ; tries++) {
      let answer;
      try {
        answer = ask(url, from, to);
      } catch (e) {
        answer = { status: 0, why: e.message };
      }
      const { status, bytes, total = size } = answer;
      // Some servers answer with the whole file now and then.
      if (status === 200 && bytes.length === size) return bytes.subarray(from, to);
      if (status === 206 && (total !== size || (tag && answer.tag && answer.tag !== tag))) throw new Error(`${url}: the file has changed while it was read`);
      if (status === 206 && bytes.length === to - from) return bytes;
      const passing = status === 0 || status === 206 || status === 429 || status >= 500;
      if (!passing || tries === TRIES) throw modelIo(`${url}: bytes ${from} to ${to - 1} cannot be fetched: ${answer.why ?? `the server answered ${status}`}`);
      wait(PAUSE_MS * 2 ** (tries - 1));
    }
  }

  let piece = { from: 0, bytes: new Uint8Array() };
  return {
    size,
    from: 'network',
    read(offset, into) {
      if (into.length >= PIECE_BYTES) {
        for (let at = 0; at < into.length; at += MOST_BYTES) {
          const end = Math.min(into.length, at + MOST_BYTES);
          into.set(fetched(offset + at, offset + end), at);
        }
        return;
      }
      if (offset < piece.from || offset + into.length > piece.from + piece.bytes.length) {
        piece = { from: offset, bytes: fetched(offset, Math.min(size, offset + PIECE_BYTES)) };
      }
      const at = offset - piece.from;
      into.set(piece.bytes.subarray(at, at + into.length));
    },
  };
}
