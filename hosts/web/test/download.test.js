// Fetching in pieces, with servers of a few lines.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { download } from '../dist/download.js';

const FILE = Uint8Array.from({ length: 1000 }, (_, i) => i % 251);

function sink(more = {}) {
  return {
    have: 0,
    tag: null,
    bytes: new Uint8Array(2000),
    restarts: 0,
    begin(about) {
      Object.assign(this, about);
    },
    write(piece) {
      this.bytes.set(piece, this.have);
      this.have += piece.length;
    },
    restart() {
      this.restarts += 1;
      this.have = 0;
      this.total = undefined;
      this.tag = null;
    },
    ...more,
  };
}

/** A body in pieces of 100 bytes that breaks after `good` of them. */
function body(bytes, good = Infinity) {
  let at = 0;
  return new ReadableStream({
    pull(controller) {
      if (at >= bytes.length) return controller.close();
      if (at >= good) return controller.error(new TypeError('network error'));
      controller.enqueue(bytes.slice(at, at + 100));
      at += 100;
    },
  });
}

const rangeOf = (headers) => (headers.range ? Number(/\d+/.exec(headers.range)[0]) : 0);

/** A server that answers with ranges, and breaks each connection after `good` bytes. */
const ranged = ({ good = Infinity, tag = () => '"a"', asked = [] } = {}) =>
  async (_, { headers }) => {
    const from = rangeOf(headers);
    asked.push(from);
    const common = { etag: tag(asked.length), 'content-length': String(FILE.length - from) };
    const range = { 'content-range': `bytes ${from}-999/1000` };
    return new Response(body(FILE.slice(from), good), { status: from > 0 ? 206 : 200, headers: from > 0 ? { ...common, ...range } : common });
  };

const run = (into, fetch, more = {}) =>
  download('http://x/m.gguf', into, { signal: new AbortController().signal, onProgress: () => {}, fetch, ...more });
const whole = (s) => assert.deepEqual([s.have, Buffer.compare(Buffer.from(s.bytes.subarray(0, 1000)), Buffer.from(FILE))], [1000, 0]);

test('in one piece, with progress', async () => {
  const [s, seen] = [sink(), []];
  await run(s, ranged(), { onProgress: (p) => seen.push(p) });
  whole(s);
  assert.deepEqual(seen.at(-1), { stage: 'fetch', done: 1000, total: 1000 });
});

test('goes on where the connection broke', async () => {
  const [s, asked] = [sink(), []];
  await run(s, ranged({ good: 300, asked }));
  whole(s);
  assert.deepEqual(asked, [0, 300, 600, 900]);
});

test('begins again when the file has changed meanwhile', async () => {
  const [s, asked] = [sink(), []];
  await run(s, ranged({ good: 500, asked, tag: (n) => (n === 1 ? '"a"' : '"b"') }));
  whole(s);
  assert.equal(s.restarts, 1);
});

test('a server without ranges begins again', async () => {
  const s = sink();
  let times = 0;
  await run(s, async () => new Response(body(FILE, ++times === 1 ? 400 : Infinity), { headers: { 'content-length': '1000' } }));
  whole(s);
  assert.equal(s.restarts, 1);
});

test('what it cannot repair, it says', async () => {
  const status = (code) => async () => new Response('', { status: code });
  await assert.rejects(run(sink(), status(404)), { code: 200, message: /answered 404/ });
  await assert.rejects(run(sink(), status(503)), { code: 200, message: /answered 503/ });
  await assert.rejects(run(sink(), ranged(), { limit: 999 }), { code: 200, message: /at most/ });
  const unknown = async () => new Response(body(FILE));
  await assert.rejects(run(sink(), unknown, { limit: 999 }), { code: 200, message: /more than/ });
  await assert.rejects(run(sink(), async () => new Response('')), { code: 201 });
});

test('a signal ends it', async () => {
  const abort = new AbortController();
  const ended = run(sink(), ranged(), { signal: abort.signal, onProgress: () => abort.abort() });
  // A body of our own does not hear the signal; the next connection or the end would.
  await ended.then(
    () => {},
    (e) => assert.equal(e.code, 500),
  );
  await assert.rejects(run(sink(), async (_, { signal }) => signal.throwIfAborted(), { signal: abort.signal }), { code: 500 });
});
