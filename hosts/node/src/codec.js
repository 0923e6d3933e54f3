// The postcard subset of message heads: see bridge/PROTOCOL.md. Strict: one message has one encoding.

import { described } from './check.js';
import { invalid } from './errors.js';
import { MESSAGES } from './messages.js';

/** Bytes that do not decode as what they should be; fatal for the connection. */
export class WireError extends Error {
  /**
   * @param {'bad_magic'|'frame_too_large'|'bad_header'|'truncated'|'bad_head'|'bad_json'} name
   * @param {string} message
   */
  constructor(name, message) {
    super(message);
    this.name = name;
  }
}

const bad = (reason) => new WireError('bad_head', reason);
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
const encoder = new TextEncoder();

class Writer {
  bytes = [];
  varint(value) {
    let v = BigInt(value);
    if (v < 0n || v > 0xffff_ffff_ffff_ffffn) throw new RangeError(`${value} is no integer from 0 to 2^64-1`);
    while (v >= 0x80n) {
      this.bytes.push(Number(v & 0x7fn) | 0x80);
      v >>= 7n;
    }
    this.bytes.push(Number(v));
  }
  raw(bytes) {
    for (const b of bytes) this.bytes.push(b);
  }
}

class Reader {
  constructor(head) {
    this.head = head;
    this.at = 0;
  }
  get left() {
    return this.head.length - this.at;
  }
  take(n, what) {
    if (n > this.left) throw bad(`the head ends inside ${what} at byte ${this.at}`);
    this.at += n;
    return this.head.subarray(this.at - n, this.at);
  }
  /** A varint of at most `bits` bits: a number while it is exact, else a bigint. */
  varint(bits) {
    let v = 0n;
    for (let shift = 0; ; shift += 7) {
      const b = this.take(1, 'a number')[0];
      const group = b & 0x7f;
      if (shift >= bits || (shift + 7 > bits && group >> (bits - shift) !== 0)) {
        throw bad(`a number of more than ${bits} bits at byte ${this.at}`);
      }
      v |= BigInt(group) << BigInt(shift);
      if (b < 0x80) {
        if (b === 0 && shift > 0) throw bad(`an overlong number at byte ${this.at}`);
        return v <= Number.MAX_SAFE_INTEGER ? Number(v) : v;
      }
    }
  }
  blob(what) {
    return this.take(Number(this.varint(64)), what);
  }
}

const view = (bytes) => new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);

function float(size, get, set) {
  return {
    put(w, v) {
      const b = new Uint8Array(size);
      view(b)[set](0, v, true);
      w.raw(b);
    },
    get: (r) => view(r.take(size, 'a float'))[get](0, true),
  };
}

/** @type {Record<string, { put(w: Writer, v: any): void, get(r: Reader): any }>} */
const TYPES = {
  bool: {
    put: (w, v) => w.raw([v ? 1 : 0]),
    get(r) {
      const b = r.take(1, 'a bool')[0];
      if (b > 1) throw bad(`a bool of ${b} at byte ${r.at}`);
      return b === 1;
    },
  },
  u32: {
    put(w, v) {
      if (!Number.isInteger(v) || v < 0 || v > 0xffff_ffff) {
        throw new RangeError(`an integer from 0 to 4294967295 is needed, not ${described(v)}`);
      }
      w.varint(v);
    },
    get: (r) => r.varint(32),
  },
  u64: { put: (w, v) => w.varint(v), get: (r) => r.varint(64) },
  i64: {
    put(w, v) {
      const n = BigInt.asIntN(64, BigInt(v));
      w.varint(BigInt.asUintN(64, (n << 1n) ^ (n >> 63n)));
    },
    get(r) {
      const z = BigInt(r.varint(64));
      const n = BigInt.asIntN(64, (z >> 1n) ^ -(z & 1n));
      return n >= Number.MIN_SAFE_INTEGER && n <= Number.MAX_SAFE_INTEGER ? Number(n) : n;
    },
  },
  f32: float(4, 'getFloat32', 'setFloat32'),
  f64: float(8, 'getFloat64', 'setFloat64'),
  string: {
    put(w, v) {
      if (typeof v !== 'string') throw new RangeError(`a string is needed, not ${described(v)}`);
      const b = encoder.encode(v);
      w.varint(b.length);
      w.raw(b);
    },
    get(r) {
      const b = r.blob('a string');
      try {
        return utf8.decode(b);
      } catch {
        throw bad(`a string that is not UTF-8 before byte ${r.at}`);
      }
    },
  },
  bytes: {
    put(w, v) {
      w.varint(v.length);
      w.raw(v);
    },
    get: (r) => r.blob('bytes').slice(),
  },
};

/** The codec of a type by its name in the specification, such as `option<u32>`. */
export function typeOf(name) {
  if (TYPES[name]) return TYPES[name];
  const [, outer, inner] = /^(option|seq)<(.+)>$/.exec(name) ?? [];
  if (!outer) throw new TypeError(`unknown wire type ${name}`);
  const t = typeOf(inner);
  return (TYPES[name] = outer === 'option' ? option(t) : sequence(t));
}

function option(t) {
  return {
    put(w, v) {
      w.raw([v === null || v === undefined ? 0 : 1]);
      if (v !== null && v !== undefined) t.put(w, v);
    },
    get(r) {
      const b = r.take(1, 'an option')[0];
      if (b > 1) throw bad(`an option of ${b} at byte ${r.at}`);
      return b === 1 ? t.get(r) : null;
    },
  };
}

function sequence(t) {
  return {
    put(w, v) {
      w.varint(v.length);
      for (const x of v) t.put(w, x);
    },
    get(r) {
      const n = r.varint(64);
      // Every element takes at least one byte, so a count beyond the rest of the head is a lie.
      if (n > r.left) throw bad(`a sequence of ${n} in ${r.left} bytes at byte ${r.at}`);
      return Array.from({ length: Number(n) }, () => t.get(r));
    },
  };
}

/** Encodes a single value; for tests and for nothing else. */
export function encodeValue(type, value) {
  const w = new Writer();
  typeOf(type).put(w, value);
  return Uint8Array.from(w.bytes);
}

/** Decodes a single value that takes all of `bytes`; for tests and for nothing else. */
export function decodeValue(type, bytes) {
  const r = new Reader(bytes);
  const v = typeOf(type).get(r);
  if (r.left > 0) throw bad(`${r.left} bytes too many`);
  return v;
}

const byKind = new Map(Object.entries(MESSAGES).map(([name, m]) => [m.kind, { name, ...m }]));

/** The name of a kind, or undefined for one this client does not know. */
export const nameOf = (kind) => byKind.get(kind)?.name;

/** Encodes a message's head. Absent fields are absent options, false, zero, or empty; wrong ones are the caller's. */
export function encodeHead(name, fields = {}) {
  const w = new Writer();
  for (const [field, type] of MESSAGES[name].fields) {
    const empty = type === 'bool' ? false : type === 'string' ? '' : type.startsWith('seq') ? [] : type.startsWith('option') ? null : 0;
    try {
      typeOf(type).put(w, fields[field] ?? empty);
    } catch (e) {
      throw e instanceof RangeError ? invalid(`${field}: ${e.message}`) : e;
    }
  }
  return Uint8Array.from(w.bytes);
}

/** Decodes a head of a known kind. HELLO may be longer than known here: newer bridges append fields. */
export function decodeHead(kind, head) {
  const message = byKind.get(kind);
  const r = new Reader(head);
  const fields = {};
  try {
    for (const [field, type] of message.fields) fields[field] = typeOf(type).get(r);
  } catch (e) {
    if (e instanceof WireError) e.message = `${message.name}: ${e.message}`;
    throw e;
  }
  if (r.left > 0 && message.name !== 'HELLO') throw bad(`${message.name}: ${r.left} bytes too many`);
  return fields;
}
