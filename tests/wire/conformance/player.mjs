// Plays the conformance scripts of tests/wire/conformance over any transport: see the README there.

import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { decodeHead, encodeHead, nameOf } from '../../../hosts/node/src/codec.js';
import { crc32, CRITICAL, frameBytes, FrameReader } from '../../../hosts/node/src/frames.js';
import { MESSAGES } from '../../../hosts/node/src/messages.js';

const repository = realpathSync(fileURLToPath(new URL('../../../', import.meta.url)));
const scripts = path.join(repository, 'tests', 'wire', 'conformance');
const smol = path.resolve(process.env.LEAN_MODEL_DIR ?? path.join(repository, '.cache', 'models'), 'SmolLM2-135M-Instruct.Q4_1.gguf');
/** How long a frame, or the bridge's end, may take. */
const PATIENCE_MS = 60_000;
const WITH_JSON = new Set(['LOADED', 'INFO', 'GENERATED', 'ADAPTER', 'ERROR']);
const WITH_TEXT = new Set(['TOKENS', 'PARTIAL']);
const TIMES = new Set(['first_token_seconds', 'total_seconds', 'tokens_per_second']);

const decoder = new TextDecoder('utf-8', { fatal: true });
const encoder = new TextEncoder();

/** Every string of a value, changed; its members too, by name. */
function mapped(value, string, named = (_, v) => v) {
  if (typeof value === 'string') return string(value);
  if (Array.isArray(value)) return value.map((v) => mapped(v, string, named));
  if (value === null || typeof value !== 'object') return value;
  return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, named(k, mapped(v, string, named))]));
}

/** Whether something is what was expected. */
function same(want, got) {
  if (want === '<any>') return true;
  if (Array.isArray(want)) return Array.isArray(got) && want.length === got.length && want.every((w, i) => same(w, got[i]));
  if (want === null || typeof want !== 'object') return want === got;
  if (got === null || typeof got !== 'object' || Array.isArray(got)) return false;
  const keys = Object.keys(want);
  return keys.length === Object.keys(got).length && keys.every((k) => k in got && same(want[k], got[k]));
}

/** One run of a script. */
class Player {
  kept = new Map();
  #open = new Map();
  #over = false;
  #wake = () => {};
  ended = false;

  constructor(head, folder, transport) {
    this.head = head;
    this.places = Object.entries({ '{dir}': folder, '{repo}': repository, '{smol}': smol });
    this.process = transport;
    this.process.hold();
    const reader = new FrameReader();
    this.process.onData((bytes) => {
      reader.push(bytes);
      for (let frame; (frame = reader.next()); ) {
        if (!this.#open.has(frame.request)) this.#open.set(frame.request, []);
        this.#open.get(frame.request).push(frame);
      }
      this.#wake();
    });
    this.process.ended.then((account) => {
      this.account = account;
      this.#over = true;
      this.#wake();
    });
  }

  #filled(value) {
    return mapped(value, (s) => this.places.reduce((t, [name, place]) => t.replaceAll(name, place), s));
  }

  #unfilled(value) {
    const string = (s) => this.places.reduce((t, [name, place]) => t.replaceAll(place, name), s);
    return mapped(value, string, (k, v) => (TIMES.has(k) ? 0 : v));
  }

  send({ request, name, kind, flags, head = {}, json, text = '', kept, flip, from, to }) {
    const quiet = ['HELLO_ACK', 'CANCEL', 'CREDIT'].includes(name);
    let tail = encoder.encode(json === undefined ? text : JSON.stringify(this.#filled(json)));
    const fields = this.#filled(head);
    if (kept !== undefined) {
      tail = Uint8Array.from(this.kept.get(kept));
      if (fields.digest === 'DIGEST') fields.digest = crc32(tail);
      if (flip !== undefined) tail[flip] ^= 1;
      tail = tail.subarray(from ?? 0, to ?? tail.length);
    }
    const encoded = name === undefined ? new Uint8Array(0) : encodeHead(name, fields);
    this.write(frameBytes(request, name === undefined ? kind : MESSAGES[name].kind, flags ?? (quiet ? 0 : CRITICAL), encoded, tail));
  }

  write(bytes) {
    // What is written to a bridge that has ended is nobody's: the script says what must come back.
    this.process.write(bytes).catch(() => {});
  }

  async #until(condition, what) {
    const late = Date.now() + PATIENCE_MS;
    while (!condition()) {
      let timer;
      const left = late - Date.now();
      assert.ok(left > 0, `${what}: not within ${PATIENCE_MS} ms`);
      await new Promise((resolve) => {
        this.#wake = resolve;
        timer = setTimeout(resolve, left);
      });
      clearTimeout(timer);
    }
  }

  /** The next frame of a request; those of others wait for their turn. */
  async next(request) {
    await this.#until(() => this.#open.get(request)?.length > 0 || this.#over, `a frame of request ${request}`);
    const frame = this.#open.get(request)?.shift();
    assert.ok(frame, `the stream ended before a frame of request ${request}: ${this.account}`);
    return frame;
  }

  described({ request, kind, flags, head, tail }) {
    const name = nameOf(kind);
    const told = { request, ...(name === undefined ? { kind } : { name }) };
    if (flags !== 0) told.flags = flags;
    const fields = name === undefined ? {} : decodeHead(kind, head);
    if (Object.keys(fields).length > 0) told.head = this.#unfilled(fields);
    if (tail.length === 0) return told;
    if (WITH_JSON.has(name)) told.json = this.#unfilled(JSON.parse(decoder.decode(tail)));
    else if (WITH_TEXT.has(name)) told.text = decoder.decode(tail);
    else told.bytes = { size: tail.length, crc32: crc32(tail) };
    return told;
  }

  async handshake() {
    assert.equal(nameOf((await this.next(0)).kind), 'HELLO');
    const { credit = 32, max_frame = null } = this.head;
    this.send({ request: 0, name: 'HELLO_ACK', head: { minor: 0, credit, max_frame } });
  }

  async step(step, at) {
    if (step.send) this.send(step.send);
    else if (step.send_hex) this.write(Uint8Array.from(Buffer.from(step.send_hex, 'hex')));
    else if (step.expect) await this.expect(step.expect, at);
    else if (step.close) this.process.end();
    else if ('end' in step) await this.end(step.end);
    else assert.fail(`${at}: a step of no kind`);
  }

  async expect({ keep, ...want }, at) {
    const frame = await this.next(want.request);
    if (keep !== undefined) this.kept.set(keep, Buffer.concat([this.kept.get(keep) ?? Buffer.alloc(0), frame.tail]));
    const got = this.described(frame);
    if (!same(want, got)) assert.deepEqual(got, want, at);
  }

  async end(status) {
    this.ended = true;
    await this.#until(() => this.#over, 'the end');
    const left = [...this.#open.values()].flat().map((frame) => this.described(frame));
    assert.deepEqual(left, [], 'not expected');
    assert.equal(this.account.exitCode, status, this.account.message);
  }

  async finish() {
    if (this.ended) return;
    const last = 0x7fff_ffff;
    this.send({ request: last, name: 'SHUTDOWN' });
    assert.equal(this.described(await this.next(last)).name, 'OK');
    await this.end(0);
  }

  async stop() {
    this.process.kill();
    await this.process.ended;
    this.process.release();
  }
}

/**
 * Makes a test of every script.
 * @param {() => import('../../../hosts/node/src/connection.js').Transport | Promise<import('../../../hosts/node/src/connection.js').Transport>} open
 * @param {(file: string) => string | undefined} [skipped] why a script cannot be played here
 */
export function playAll(open, skipped = () => undefined, over = '') {
  const files = readdirSync(scripts).filter((f) => f.endsWith('.jsonl'));
  test('there are scripts', () => assert.ok(files.length > 25));
  for (const file of files) {
    const [first, ...lines] = readFileSync(path.join(scripts, file), 'utf8').trimEnd().split('\n');
    const head = JSON.parse(first);
    const absent = head.model === 'smol' && !existsSync(smol) && `SKIPPED: there is no ${smol}`;
    test(`${file}${over}: ${head.about}`, { skip: absent || skipped(file) }, async (t) => {
      const folder = realpathSync(mkdtempSync(path.join(tmpdir(), 'lean-conformance-')));
      const player = new Player(head, folder, await open());
      t.after(async () => {
        await player.stop();
        rmSync(folder, { recursive: true });
      });
      if (head.handshake ?? true) await player.handshake();
      for (const [i, line] of lines.entries()) {
        if (line.trim() !== '' && !line.startsWith('#')) await player.step(JSON.parse(line), `${file}:${i + 2}`);
      }
      await player.finish();
    });
  }
}
