// Frames: a 16-byte little-endian header, a head, a tail; and a reader that takes bytes in any cuts.

import { WireError, encodeHead } from './codec.js';
import { MESSAGES } from './messages.js';

export const MAGIC = Uint8Array.from([0x89, 0x4c, 0x45, 0x41, 0x4e, 0x0d, 0x0a, 0x1a]);
export const HEADER_BYTES = 16;
export const MAX_FRAME_DEFAULT = 1 << 20;
export const CHUNK_BYTES = 256 << 10;
export const END = 1;
export const ERROR = 2;
export const CRITICAL = 4;

const NOTHING = new Uint8Array(0);

/** The bytes of a frame from raw parts. */
export function frameBytes(request, kind, flags, head, tail = NOTHING) {
  const bytes = new Uint8Array(HEADER_BYTES + head.length + tail.length);
  const v = new DataView(bytes.buffer);
  v.setUint32(0, head.length + tail.length, true);
  v.setUint32(4, request, true);
  v.setUint16(8, kind, true);
  v.setUint16(10, flags, true);
  v.setUint32(12, head.length, true);
  bytes.set(head, HEADER_BYTES);
  bytes.set(tail, HEADER_BYTES + head.length);
  return bytes;
}

/** The bytes of a frame from a message. */
export function messageBytes(request, name, fields, tail, flags = 0) {
  return frameBytes(request, MESSAGES[name].kind, flags, encodeHead(name, fields), tail);
}

/** Says whose a frame is that was made before its request had an id. */
export function setRequest(bytes, request) {
  new DataView(bytes.buffer, bytes.byteOffset).setUint32(4, request, true);
}

/**
 * Turns a byte stream, cut anywhere, into frames.
 * @typedef {{ request: number, kind: number, flags: number, head: Uint8Array, tail: Uint8Array }} Frame
 */
export class FrameReader {
  #pieces = [];
  #length = 0;
  #failed = null;

  constructor({ maxFrame = MAX_FRAME_DEFAULT, magic = true } = {}) {
    this.maxFrame = maxFrame;
    this.expectMagic = magic;
  }

  /** Hands over the next bytes. */
  push(bytes) {
    if (bytes.length === 0) return;
    this.#pieces.push(bytes);
    this.#length += bytes.length;
  }

  /** Bytes held. */
  get buffered() {
    return this.#length;
  }

  /** @returns {Frame | null} the next whole frame; throws a WireError, which is final. */
  next() {
    if (this.#failed) throw this.#failed;
    try {
      return this.#parse();
    } catch (e) {
      this.#failed = e;
      this.#pieces = [];
      this.#length = 0;
      throw e;
    }
  }

  #parse() {
    if (this.expectMagic && !this.#magic()) return null;
    if (this.#length < HEADER_BYTES) return null;
    const header = this.#peek(HEADER_BYTES);
    const v = new DataView(header.buffer, header.byteOffset, HEADER_BYTES);
    const bodyLength = v.getUint32(0, true);
    const headLength = v.getUint32(12, true);
    if (bodyLength > this.maxFrame) {
      throw new WireError('frame_too_large', `a frame of ${bodyLength} bytes; at most ${this.maxFrame} are allowed`);
    }
    if (headLength > bodyLength) {
      throw new WireError('bad_header', `a head of ${headLength} bytes in a body of ${bodyLength}`);
    }
    const total = HEADER_BYTES + bodyLength;
    if (this.#length < total) return null;
    const frame = this.#peek(total);
    this.#drop(total);
    return {
      request: v.getUint32(4, true),
      kind: v.getUint16(8, true),
      flags: v.getUint16(10, true),
      head: frame.subarray(HEADER_BYTES, HEADER_BYTES + headLength),
      tail: frame.subarray(HEADER_BYTES + headLength, total),
    };
  }

  /** Whether the magic is behind us; a wrong byte is noticed as soon as it arrives. */
  #magic() {
    const n = Math.min(this.#length, MAGIC.length);
    const found = n > 0 ? this.#peek(n) : NOTHING;
    if (!found.subarray(0, n).every((b, i) => b === MAGIC[i])) {
      const text = new TextDecoder('latin1').decode(found.subarray(0, 60));
      throw new WireError('bad_magic', `the stream does not begin with the lean magic but with ${JSON.stringify(text)}`);
    }
    if (n < MAGIC.length) return false;
    this.#drop(MAGIC.length);
    this.expectMagic = false;
    return true;
  }

  /** The first `n` bytes (or more) in one piece. */
  #peek(n) {
    if (this.#pieces[0].length < n) {
      const joined = new Uint8Array(this.#length);
      let at = 0;
      for (const p of this.#pieces) {
        joined.set(p, at);
        at += p.length;
      }
      this.#pieces = [joined];
    }
    return this.#pieces[0];
  }

  #drop(n) {
    this.#length -= n;
    if (this.#pieces[0].length === n) this.#pieces.shift();
    else this.#pieces[0] = this.#pieces[0].subarray(n);
  }

  /** To be called at the end of the stream: an unfinished frame throws. */
  finish() {
    if (this.#failed) throw this.#failed;
    if (this.#length > 0 || this.expectMagic) {
      throw new WireError('truncated', `the stream ended ${this.#length} bytes into a frame`);
    }
  }
}

const CRC_TABLE = Uint32Array.from({ length: 256 }, (_, i) => {
  let c = i;
  for (let k = 0; k < 8; k++) c = c & 1 ? 0xedb88320 ^ (c >>> 1) : c >>> 1;
  return c;
});

/** CRC-32 (IEEE 802.3) of bytes, continuing from `crc`. */
export function crc32(bytes, crc = 0) {
  let c = ~crc;
  for (let i = 0; i < bytes.length; i++) c = CRC_TABLE[(c ^ bytes[i]) & 0xff] ^ (c >>> 8);
  return ~c >>> 0;
}
