// Readers of models in a worker: of files, of bytes, and of URLs by way of the browser's file system.

import { cancelled } from './client/errors.js';
import { download } from './download.js';
import { badModel } from './errors.js';
import { rangeReader } from './ranges.js';
import { place } from './store.js';

/** Small reads are served from a piece of this size. */
const PIECE_BYTES = 1 << 20;
/** What a download without a cache and without ranges may hold; the browser keeps it, on disk where it likes. */
const UNCACHED_BYTES = 2 ** 31;

/** A reader of a Blob, which a File is too. Reads are synchronous: the engine asks in the middle of a call. */
export function blobReader(blob, more = {}) {
  const files = new FileReaderSync();
  const bytes = (from, to) => new Uint8Array(files.readAsArrayBuffer(blob.slice(from, to)));
  let piece = null;
  return {
    size: blob.size,
    ...more,
    read(offset, into) {
      if (into.length >= PIECE_BYTES / 4) {
        // In pieces too, so that a large tensor is not there twice.
        for (let at = 0; at < into.length; at += 4 * PIECE_BYTES) {
          const end = Math.min(into.length, at + 4 * PIECE_BYTES);
          into.set(exactly(bytes(offset + at, offset + end), end - at), at);
        }
        return;
      }
      if (!piece || offset < piece.from || offset + into.length > piece.from + piece.bytes.length) {
        piece = { from: offset, bytes: bytes(offset, Math.min(blob.size, offset + PIECE_BYTES)) };
      }
      const at = offset - piece.from;
      into.set(exactly(piece.bytes.subarray(at, at + into.length), into.length));
    },
  };
}

function exactly(bytes, length) {
  if (bytes.length !== length) throw new Error('the file became shorter while it was read');
  return bytes;
}

/**
 * Makes a reader of what the page named: { blob } or { url, cache, digest }.
 * @param {{ onProgress: (p: object) => void, signal: AbortSignal, digest: () => any }} tools
 */
export async function prepare({ blob, url, cache = true, digest: wanted }, tools) {
  if (blob) return blobReader(blob, { from: 'file' });
  const at = cache ? await place(url) : null;
  try {
    // A digest is of the whole file, in order.
    const ranges = at || wanted !== undefined ? null : await rangeReader(url, tools.signal);
    const made = ranges ?? (at ? await cached(at, url, tools) : await uncached(url, tools));
    if (wanted !== undefined && made.digest !== wanted.toLowerCase()) {
      await at?.forget();
      throw badModel(`${url}: its SHA-256 is ${made.digest}, not ${wanted}`);
    }
    return made;
  } catch (e) {
    throw e?.name === 'AbortError' ? cancelled() : e;
  }
}

/** From the cache, fetched into it before if need be. */
function cached(at, url, tools) {
  return at.alone(tools.signal, async () => {
    const there = await at.file();
    if (there) return blobReader(there.file, { digest: there.digest, from: 'cache' });
    const sink = await at.sink(tools.digest);
    let digest;
    try {
      await download(url, sink, tools);
      digest = await sink.finish();
    } catch (e) {
      // What has arrived stays for the next time.
      if (sink.have > 0) await sink.note(false).catch(() => {});
      throw e;
    } finally {
      sink.close();
      if (sink.have === 0) await at.forget();
    }
    const { file } = await at.file();
    return blobReader(file, { digest, from: 'network' });
  });
}

/** Without the cache, and without ranges: pieces that the browser holds for as long as the load takes. */
async function uncached(url, tools) {
  let digest = tools.digest();
  const sink = {
    have: 0,
    parts: [],
    begin({ total, tag }) {
      Object.assign(this, { total, tag });
    },
    write(bytes) {
      this.parts.push(new Blob([bytes]));
      digest.update(bytes);
      this.have += bytes.length;
    },
    restart() {
      digest = tools.digest();
      Object.assign(this, { have: 0, parts: [], total: undefined, tag: null });
    },
  };
  await download(url, sink, { ...tools, limit: UNCACHED_BYTES });
  return blobReader(new Blob(sink.parts), { digest: digest.hex(), from: 'network' });
}
