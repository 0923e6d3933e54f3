// The same client on the real SmolLM2, where it is present.

import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Lean, type } from '../src/index.js';

const folder = process.env.LEAN_MODEL_DIR ?? fileURLToPath(new URL('../../../.cache/models', import.meta.url));
const file = path.join(folder, 'SmolLM2-135M-Instruct.Q4_1.gguf');
const skip = existsSync(file) ? false : `SKIPPED: there is no ${file}`;

const user = type({ id: 'integer', name: 'string < 32', kind: "'bug' | 'feature'" });
const chat = [{ chat: [{ role: 'user', content: 'Invent a user as JSON.' }] }];
// Short: the development build on a loaded machine takes its time.
const text = { blocks: 'Once upon a time', maxTokens: 12 };

let lean;
let model;
before(async () => {
  if (skip) return;
  // Little credit: a stream that nobody reads waits, so that the middle of a value can be met on any machine.
  lean = await Lean.spawn({ credit: 4 });
  model = await lean.load(file);
});
after(() => lean?.close());

test('a typed value', { skip }, async () => {
  const tokens = [];
  const partials = [];
  const { value, text, finish, usage } = await model.generate(user, {
    blocks: chat,
    onToken: (t) => tokens.push(t.text),
    onPartial: (p) => partials.push(p),
  });
  assert.deepEqual(partials.at(-1).value, value);
  assert.ok(partials.every((p) => Buffer.from(text).indexOf(Buffer.from(p.json).subarray(0, p.finalBytes)) === 0));
  assert.ok(partials.some((p) => p.path === '/name'));
  assert.ok(Number.isInteger(value.id) && typeof value.name === 'string' && ['bug', 'feature'].includes(value.kind));
  assert.equal(finish, 'complete');
  assert.equal(tokens.join(''), text);
  assert.ok(usage.sampledTokens > 0 && usage.forcedTokens > 0, JSON.stringify(usage));
});

test('a checkpoint inside a value, as bytes, in another process: the same remaining text', { skip }, async () => {
  const whole = (await model.generate(type.text(), text)).text;
  const stream = model.stream(type.text(), text);
  const events = stream[Symbol.asyncIterator]();
  for (let n = 0; n < 5; ) if ((await events.next()).value.type === 'token') n++;
  const bytes = await (await stream.checkpoint()).bytes();
  await events.return();
  const other = await Lean.spawn();
  try {
    assert.equal((await (await other.load(file)).resume(bytes)).text, whole);
  } finally {
    await other.close();
  }
});

test('an abort during a long prefill ends it and leaves the session usable', { skip }, async () => {
  const session = await model.session();
  await session.append('Once upon a time');
  const before = session.tokens;
  const abort = new AbortController();
  const long = 'The quick brown fox jumps over the lazy dog. '.repeat(100);
  await assert.rejects(session.append(long, { signal: abort.signal, onPrefill: () => abort.abort() }), { name: 'AbortError' });
  await session.append(' there was');
  assert.ok(session.tokens > before && session.tokens < before + 10);
});

test('a checkpoint of another model is refused', { skip }, async () => {
  const echo = await lean.load('echo');
  const { checkpoint } = await model.generate(type.text(), { blocks: 'Hi', maxTokens: 1, keep: true });
  await assert.rejects(async () => echo.restore(await checkpoint().bytes()), { code: 300 });
  await assert.rejects(echo.generate(type.text(), { checkpoint: checkpoint() }), { code: 301, name: 'incompatible' });
});

test('compressed checkpoints, and a delta with its parent', { skip }, async () => {
  const session = await model.session();
  await session.append('It was a dark and stormy night, and the lamps along the harbour had gone out one after the other, so that nobody saw. '.repeat(3));
  const parent = await session.checkpoint();
  await session.append(' Then somebody knocked.');
  const child = await session.checkpoint();
  const options = { maxTokens: 6 };
  const { text: expected } = await model.generate(type.text(), { ...options, checkpoint: child });
  const whole = await child.bytes();
  const small = await child.bytes({ compress: true });
  const delta = await child.bytes({ parent });
  assert.ok(small.length < whole.length && delta.length < whole.length / 2);
  await assert.rejects(model.restore(delta), { code: 301 });
  for (const restored of [await model.restore(small), await model.restore(delta, { parent })]) {
    const { text } = await model.generate(type.text(), { ...options, checkpoint: restored });
    assert.equal(text, expected);
  }
});
