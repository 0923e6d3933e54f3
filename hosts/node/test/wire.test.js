// The golden vectors of tests/wire, and the reader on arbitrary cuts.

import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { decodeHead, decodeValue, encodeHead, encodeValue, nameOf, WireError } from '../src/codec.js';
import { crc32, frameBytes, FrameReader } from '../src/frames.js';
import { MESSAGES } from '../src/messages.js';

const wire = new URL('../../../tests/wire/', import.meta.url);
const read = (name) => readFileSync(new URL(name, wire));
const names = readdirSync(wire).filter((n) => n.endsWith('.bin')).map((n) => n.slice(0, -4));
const tables = ['messages', 'primitives'];

const hex = (bytes) => Buffer.from(bytes).toString('hex');
/** Integers beyond 2^53 are strings in the twins. */
const readable = (v) => (typeof v === 'bigint' ? String(v) : v);

/** What the twin says about a frame. */
function describe(frame) {
  const name = nameOf(frame.kind) ?? null;
  const described = { request: frame.request, kind: frame.kind, name, flags: frame.flags };
  if (name === null) described.head_hex = hex(frame.head);
  else described.head = Object.fromEntries(Object.entries(decodeHead(frame.kind, frame.head)).map(([k, v]) => [k, readable(v)]));
  try {
    described.tail = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(frame.tail);
  } catch {
    described.tail_hex = hex(frame.tail);
  }
  return described;
}

/** All frames, then the error's name if there is one; bytes arrive in pieces of `step`. */
function readAll(bytes, twin, step) {
  const reader = new FrameReader({ maxFrame: twin.max_frame, magic: twin.magic });
  const frames = [];
  try {
    for (let at = 0; at < bytes.length; at += step) {
      reader.push(bytes.subarray(at, at + step));
      for (let f; (f = reader.next()); ) frames.push(describe(f));
    }
    reader.finish();
  } catch (e) {
    if (!(e instanceof WireError)) throw e;
    return { frames, error: e.name };
  }
  return { frames, error: null };
}

test('there are vectors, each with its twin', () => {
  assert.ok(names.length > 40);
  const twins = readdirSync(wire).filter((n) => n.endsWith('.json')).map((n) => n.slice(0, -5));
  assert.deepEqual(twins.filter((n) => !tables.includes(n)).sort(), names.toSorted());
});

for (const name of names) {
  test(`vector ${name}`, () => {
    const bytes = read(`${name}.bin`);
    const twin = JSON.parse(read(`${name}.json`));
    for (const step of [Math.max(1, bytes.length), 7, 1]) {
      assert.deepEqual(readAll(bytes, twin, step), { frames: twin.frames, error: twin.error });
    }
    if (twin.error !== null || name === 'hello_newer') return;
    // And back: what this client writes is the same to the byte.
    const written = twin.frames.map((f) => {
      const head = f.name === null ? Buffer.from(f.head_hex, 'hex') : encodeHead(f.name, f.head);
      return frameBytes(f.request, f.kind, f.flags, head, f.tail_hex ? Buffer.from(f.tail_hex, 'hex') : Buffer.from(f.tail));
    });
    assert.equal(hex(Buffer.concat(written)), hex(twin.magic ? bytes.subarray(8) : bytes));
  });
}

test('the message table is the protocol\'s', () => {
  const table = JSON.parse(read('messages.json')).map(({ kind, name, fields }) => [name, { kind, fields: fields.map((f) => [f.name, f.type]) }]);
  assert.deepEqual(MESSAGES, Object.fromEntries(table));
});

test('primitives are postcard\'s', () => {
  for (const { type, value, hex: bytes, error } of JSON.parse(read('primitives.json'))) {
    const raw = Buffer.from(bytes, 'hex');
    if (error) {
      assert.throws(() => decodeValue(type, raw), WireError, `${type} ${bytes}`);
      continue;
    }
    const decoded = decodeValue(type, raw);
    assert.deepEqual(type === 'bytes' ? hex(decoded) : readable(decoded), value, type);
    assert.equal(hex(encodeValue(type, decoded)), bytes, type);
  }
});

test('any bytes give frames or an error, in bounded memory', () => {
  let seed = 1;
  const random = (n) => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    return Math.floor((seed / 2 ** 32) * n);
  };
  for (let round = 0; round < 500; round++) {
    const reader = new FrameReader({ maxFrame: 4096, magic: false });
    try {
      for (let i = 0; i < 20; i++) {
        reader.push(Uint8Array.from({ length: random(600) }, () => (random(4) > 0 ? 0 : random(round % 2 ? 8 : 256))));
        for (let f; (f = reader.next()); ) if (nameOf(f.kind)) decodeHead(f.kind, f.head);
        assert.ok(reader.buffered < 4096 + 16);
      }
    } catch (e) {
      assert.ok(e instanceof WireError, e.stack);
    }
  }
});

test('crc32 agrees with the published check value', () => {
  assert.equal(crc32(Buffer.from('123456789')), 0xcbf43926);
});
