// Several values out of one context: on echo, and on the tiny model of the repository, where passes are counted.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Lean, type } from '../src/index.js';

const fixture = fileURLToPath(new URL('../../../tests/fixtures/models/llama-hd64-tied.s1.q4_1.gguf', import.meta.url));

let lean;
let echo;
let tiny;
before(async () => {
  lean = await Lean.spawn();
  echo = await lean.load('echo');
  tiny = await lean.load(fixture, { prefixCacheBytes: 0 });
});
after(() => lean.close());

const story = 'Once upon a time a small machine learned to speak.';
const branch = (seed, more) => ({ type: type.text(), maxTokens: 16, temperature: 0.8, seed, ...more });

test('each branch has its own blocks, type and options', async () => {
  const results = await echo.generateMany([
    { type: type.text(), blocks: 'one two' },
    { type: type({ id: 'number' }), blocks: [{ json: { id: 7 } }] },
    { type: type.choice('yes', 'no'), blocks: 'I say no' },
    { type: type.text(), blocks: 'a b c', maxTokens: 2 },
  ]);
  assert.deepEqual(results.map((r) => r.value), ['one two', { id: 7 }, 'no', 'a b']);
  assert.deepEqual(results.map((r) => r.finish), ['complete', 'complete', 'complete', 'length']);
});

test('a pass over the weights serves all branches, and each says what it says alone', async () => {
  const session = await tiny.session();
  await session.append(story);
  const checkpoint = await session.checkpoint();
  const alone = [];
  let steps = [];
  for (let seed = 0; seed < 6; seed++) {
    const before = (await tiny.stats()).tokens;
    const { type: ty, ...options } = branch(seed);
    alone.push((await tiny.generate(ty, { ...options, checkpoint })).text);
    steps.push((await tiny.stats()).tokens - before);
  }
  const branches = alone.map((_, seed) => branch(seed));
  for (const run of [(b) => tiny.generateMany(b, { checkpoint }), (b) => session.generateMany(b)]) {
    const before = await tiny.stats();
    const tokens = session.tokens;
    assert.deepEqual((await run(branches)).map((r) => r.text), alone);
    const now = await tiny.stats();
    assert.equal(now.tokens - before.tokens, steps.reduce((a, b) => a + b));
    // Each branch is its own thread in the bridge, and pulls the others along.
    assert.ok(now.passes - before.passes < (now.tokens - before.tokens) / 2, `${now.passes - before.passes} passes`);
    assert.equal(session.tokens, tokens);
  }
});

test('branches are streamed, cancelled and checkpointed one by one', async (t) => {
  // Little credit: a branch that nobody reads waits after two events, so that the middle of it can be met on any machine.
  const paced = await Lean.spawn({ credit: 2 });
  t.after(() => paced.close());
  const tiny = await paced.load(fixture);
  const whole = (await tiny.generate(type.text(), { ...branch(2), type: undefined, blocks: story })).text;
  const streams = await tiny.streamMany([branch(1, { blocks: story }), branch(2, { blocks: story }), branch(3, { blocks: story })]);
  const events = streams[1][Symbol.asyncIterator]();
  // An event: all have begun. A branch that is cancelled before that takes the others with it.
  await events.next();
  streams[0].cancel();
  await assert.rejects(streams[0].result, { name: 'cancelled' });
  for (let n = 0; n < 3; ) if ((await events.next()).value.type === 'token') n++;
  const middle = await streams[1].checkpoint();
  await events.return();
  assert.equal((await tiny.resume(middle)).text, whole);
  assert.ok((await streams[2].result).text.length > 0);
});

test('what cannot be started starts none, and nobody waits', async () => {
  await assert.rejects(tiny.generateMany([]), /1 to 63/);
  await assert.rejects(tiny.generateMany([branch(1), { type: 'text' }]), { code: 100 });
  await assert.rejects(tiny.generateMany([branch(1), branch(2, { unknown: 1 })]), /unknown option/);
  const overflow = [branch(1, { blocks: story }), branch(2, { blocks: story, maxTokens: 1_000_000 })];
  await assert.rejects(tiny.generateMany(overflow), { name: 'context_overflow' });
  const abort = new AbortController();
  abort.abort(new Error('not any more'));
  await assert.rejects(tiny.generateMany([branch(1), branch(2, { signal: abort.signal })]));
});

test('a context that begins like an earlier one is not computed again', async () => {
  await tiny.setPrefixCache(64 * 1024 * 1024);
  const first = await tiny.session();
  await first.append(story);
  const before = await tiny.stats();
  const second = await tiny.session();
  await second.append(story);
  const now = await tiny.stats();
  assert.equal(now.tokens, before.tokens);
  assert.ok(now.prefix.hits > before.prefix.hits && now.prefix.bytes > 0);
  await tiny.setPrefixCache(0);
  assert.equal((await tiny.stats()).prefix.entries, 0);
});

test('a session is cut', async () => {
  const session = await tiny.session();
  await session.append(story);
  const all = session.tokens;
  await session.dropRange(2, 5);
  assert.equal(session.tokens, all - 3);
  await session.truncate(4);
  assert.equal(session.tokens, 4);
  await assert.rejects(session.truncate(5), /4 tokens/);
  await assert.rejects(session.dropRange(3, 9), /4 tokens/);
  assert.equal(session.tokens, 4);
});
