// The client over the bridge's echo model: no weights needed.

import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Lean, LeanError, type } from '../src/index.js';

let lean;
let echo;
before(async () => {
  lean = await Lean.spawn();
  echo = await lean.load('echo');
});
after(() => lean.close());

const words = (n) => Array.from({ length: n }, (_, i) => `w${i}`).join(' ');

test('handshake tells what the bridge is', () => {
  assert.match(lean.engine, /^lean \d/);
  assert.ok(lean.capabilities.includes('echo'));
  assert.ok(lean.pid > 0);
});

test('load reports progress and info', async () => {
  const seen = [];
  const model = await lean.load('echo?load_steps=3', { onProgress: (p) => seen.push(p), context: 77 });
  assert.deepEqual(seen, [0, 1, 2, 3].map((done) => ({ done, total: 3 })));
  assert.equal(model.info.contextLength, 77);
  await model.unload();
  await assert.rejects(model.generate(type.text()), { code: 100 });
});

test('a load can be aborted', async () => {
  const abort = new AbortController();
  const slow = lean.load('echo?load_steps=1000&load_ms=20', { signal: abort.signal, onProgress: () => abort.abort() });
  await assert.rejects(slow, { name: 'AbortError' });
});

test('generate gives a typed value', async () => {
  const tokens = [];
  const user = { id: 7, name: 'Ada', tags: ['x'] };
  const result = await echo.generate(type({ id: 'number', name: 'string < 64', 'tags?': 'string[] <= 5' }), {
    blocks: ['Invent a user.', { json: user }],
    onToken: (t) => tokens.push(t.text),
    maxTokens: 50,
    seed: 0,
    temperature: 0,
  });
  assert.deepEqual(result.value, user);
  assert.equal(result.finish, 'complete');
  assert.equal(tokens.join(''), result.text);
  assert.equal(result.usage.promptTokens, 5);
  assert.throws(() => result.checkpoint(), /keep: true/);
});

test('every form of a block arrives', async () => {
  const blocks = [{ chat: [{ role: 'user', content: 'a' }] }, ' b', { text: ' c' }, { raw: ' d' }, { tokens: Uint32Array.of(5) }, { json: { x: 1 } }];
  assert.equal((await echo.generate(type.text(), { blocks })).value, 'a b c d 5{"x":1}');
});

test('text types', async () => {
  const said = async (t, options) => {
    const { value, finish } = await echo.generate(t, { blocks: 'one two three', ...options });
    return [value, finish];
  };
  assert.deepEqual(await said(type.text({ maxChars: 5 })), ['one t', 'complete']);
  assert.deepEqual(await said(type.text(), { stop: ' th' }), ['one two', 'stop']);
  assert.deepEqual(await said(type.text(), { maxTokens: 2 }), ['one two', 'length']);
  assert.deepEqual(await said(type.choice('three', 'four')), ['three', 'complete']);
  assert.deepEqual(await said(type.regex(/[a-z ]+/)), ['one two three', 'complete']);
});

test('for await, and the result after it', async () => {
  const stream = echo.stream(type.text(), { blocks: 'naïve 日本 words' });
  const events = [];
  for await (const e of stream) events.push(e);
  assert.deepEqual(events.map((e) => e.type), ['prefill', 'token', 'token', 'token']);
  assert.equal(events.slice(1).map((e) => e.text).join(''), 'naïve 日本 words');
  assert.equal((await stream.result).value, 'naïve 日本 words');
});

test('the result alone, without iterating, of a long stream', async () => {
  const { value } = await echo.stream(type.text(), { blocks: words(500) }).result;
  assert.equal(value, words(500));
});

test('a consumer that stops reading stops the bridge, and nobody else', async () => {
  const stream = echo.stream(type.text(), { blocks: words(500) });
  const events = stream[Symbol.asyncIterator]();
  while ((await events.next()).value.type !== 'token');
  await sleep(100);
  const before = await stream.checkpoint();
  await sleep(100);
  const later = await stream.checkpoint();
  assert.equal(later.tokens, before.tokens, 'it went on without credit');
  assert.ok(before.tokens < 500 + 64, `${before.tokens} tokens for a consumer that has read one token`);
  assert.equal((await echo.generate(type.text(), { blocks: 'meanwhile' })).value, 'meanwhile');
  await events.return();
  await assert.rejects(stream.result, { name: 'cancelled', code: 500, class: 'cancelled' });
});

test('an async onToken holds the bridge back and keeps the order', async () => {
  const seen = [];
  let open = 0;
  await echo.generate(type.text(), {
    blocks: words(80),
    async onToken({ text }) {
      assert.equal(open++, 0);
      await sleep(1);
      open--;
      seen.push(text);
    },
  });
  assert.equal(seen.join(''), words(80));
});

test('an error thrown by onToken is the call\'s error', async () => {
  const failure = new Error('mine');
  await assert.rejects(
    echo.generate(type.text(), {
      blocks: words(400),
      onToken() {
        throw failure;
      },
    }),
    failure,
  );
});

test('abort: before, during prefill, during decode; quick, with the signal\'s reason, session intact', async () => {
  const slow = await lean.load('echo?step_ms=30');
  const session = await slow.session();
  const told = words(60);
  await session.append(told);
  await assert.rejects(session.generate(type.text(), { signal: AbortSignal.abort() }), { name: 'AbortError' });

  const prefill = new AbortController();
  const reason = new Error('enough');
  await assert.rejects(session.append(words(300), { signal: prefill.signal, onPrefill: () => prefill.abort(reason) }), reason);

  const decode = new AbortController();
  await assert.rejects(session.generate(type.text(), { signal: decode.signal, onToken: () => decode.abort() }), { name: 'AbortError' });
  await session.append(' more');
  assert.equal(session.tokens, 61);
  assert.equal((await session.generate(type.text())).value, `${told} more`);
});

test('break out of for await cancels', async () => {
  const slow = await lean.load('echo?step_ms=20');
  const stream = slow.stream(type.text(), { blocks: words(100) });
  for await (const e of stream) if (e.type === 'token') break;
  await assert.rejects(stream.result, { name: 'cancelled' });
});

test('two requests interleave', async () => {
  // Each waits for the other's next token: neither can finish unless both go on.
  const seen = { a: 0, b: 0 };
  let moved = () => {};
  const run = (name, other) =>
    echo.generate(type.text(), {
      blocks: words(80),
      async onToken() {
        seen[name] += 1;
        moved();
        while (seen[other] < seen[name] - 1) await new Promise((resolve) => (moved = resolve));
      },
    });
  const results = await Promise.all([run('a', 'b'), run('b', 'a')]);
  assert.deepEqual(results.map((r) => r.value), [words(80), words(80)]);
});

test('sessions append, fork, generate, set their context', async () => {
  const s = await echo.session();
  await s.append(['one', ' two']);
  const branch = await s.fork();
  assert.equal((await s.generate(type.text())).value, 'one two');
  await branch.append(' 3');
  assert.equal((await branch.generate(type.text())).value, 'one two 3');
  await branch.setContext(['one', ' zwei']);
  assert.equal(branch.tokens, 2);
  await s.close();
  await assert.rejects(s.append('x'), { name: 'invalid_argument' });
});

test('checkpoints as bytes, as files, in the middle of a value, in another process', async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'lean-node-'));
  const other = await Lean.spawn();
  try {
    const elsewhere = await other.load('echo');
    const stream = echo.stream(type.text(), { blocks: words(100) });
    const events = stream[Symbol.asyncIterator]();
    for (let i = 0; i < 20; i++) await events.next();
    const inside = await stream.checkpoint();
    await events.return();

    const bytes = await inside.bytes();
    assert.ok(bytes instanceof Uint8Array);
    const file = path.join(folder, 'inside.lean');
    assert.equal((await inside.save(file)).size, bytes.length);
    assert.deepEqual(readdirSync(folder), ['inside.lean']);
    for (const from of [bytes, file]) assert.equal((await elsewhere.resume(from)).value, words(100));
    await assert.rejects(elsewhere.resume(inside), /another bridge process/);
    const session = await elsewhere.session({ checkpoint: bytes });
    assert.equal((await session.resume()).value, words(100));
    await assert.rejects(session.resume(), /no value is in progress/);

    // Larger than one chunk.
    const big = await elsewhere.generate(type.text({ maxChars: 1 }), { blocks: [{ text: 'x'.repeat(100_000) }], keep: true });
    const bigBytes = await big.checkpoint().bytes();
    assert.ok(bigBytes.length > 100_000);
    const restored = await echo.restore(bigBytes);
    assert.deepEqual(await restored.bytes(), bigBytes);
    await restored.drop();
    await assert.rejects(restored.bytes(), /dropped/);

    const damaged = bytes.slice();
    damaged[20] ^= 1;
    await assert.rejects(echo.restore(damaged), { code: 300, name: 'bad_checkpoint', class: 'input' });
  } finally {
    await other.close();
    rmSync(folder, { recursive: true });
  }
});

test('errors carry code, name, class, details', async () => {
  const small = await lean.load('echo', { context: 4 });
  await assert.rejects(small.generate(type.text(), { blocks: 'a b c d e' }), (e) => {
    assert.ok(e instanceof LeanError);
    assert.deepEqual([e.code, e.name, e.class, e.retryable], [130, 'context_overflow', 'input', false]);
    assert.deepEqual(e.details, { needed: 5, available: 4 });
    return true;
  });
  await assert.rejects(lean.load('no/such.gguf'), { code: 200, name: 'model_io' });
  await assert.rejects(echo.generate(type.text(), { temprature: 1 }), /unknown option temprature/);
  await assert.rejects(echo.generate({ id: 'number' }), /first argument is a type/);
  await assert.rejects(echo.generate(type({ id: 'number' }), { blocks: { json: { id: 1 } }, maxTokens: 0.5 }), { code: 100 });
  await assert.rejects(echo.generate(type.text(), { blocks: 'x'.repeat(2_000_000) }), /fit a frame/);
});

test('a type that cannot be enforced is refused before the first token, and says where', async () => {
  const told = { blocks: { json: { id: 1 } } };
  await assert.rejects(echo.generate(type({ id: 'nmber' }), told), (e) => {
    assert.deepEqual([e.code, e.name, e.class], [110, 'type', 'input']);
    assert.match(e.details.at, /character 1 of \/id/);
    return true;
  });
  const { value } = await echo.generate(type.schema({ type: 'object', properties: { id: { type: 'integer' } } }), told);
  assert.deepEqual(value, { id: 1 });
});

test('a panic in the bridge is an error of one call', async () => {
  const bad = await lean.load('echo?panic_at=1');
  await assert.rejects(bad.generate(type.text(), { blocks: 'one two' }), { code: 901, class: 'internal' });
  assert.equal((await echo.generate(type.text(), { blocks: 'fine' })).value, 'fine');
});
