// How keys and values are stored is part of what a checkpoint is; on the tiny llama of the fixtures.

import assert from 'node:assert/strict';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Lean, type } from '../src/index.js';

const file = path.join(
  fileURLToPath(new URL('../../../tests/fixtures/models', import.meta.url)),
  'llama-hd64-tied.s1.q4_1.gguf',
);

let lean;
before(async () => {
  lean = await Lean.spawn();
});
after(() => lean?.close());

test('a checkpoint goes on where keys and values are stored alike', async () => {
  const sizes = [];
  for (const [kv, other] of [['f32', 'f16'], ['f24', 'f32'], ['f16', 'q8_0'], ['q8_0', 'f24']]) {
    const model = await lean.load(file, { threads: 1, kv });
    const session = await model.session();
    await session.append('Once upon a time');
    const bytes = await (await session.checkpoint()).bytes();
    sizes.push(bytes.length);
    const text = (await session.generate(type.text(), { maxTokens: 6 })).text;
    const again = await model.restore(bytes);
    assert.equal((await model.generate(type.text(), { checkpoint: again, maxTokens: 6 })).text, text);
    const unlike = await lean.load(file, { threads: 1, kv: other });
    await assert.rejects(unlike.generate(type.text(), { checkpoint: bytes, maxTokens: 6 }), { name: 'incompatible', code: 301 });
  }
  assert.ok(sizes.every((size, i) => i === 0 || size < sizes[i - 1]), `each is smaller: ${sizes}`);
});

test('what may be done to a checkpoint of another class is said, and what was done is heard', async () => {
  const half = await lean.load(file, { threads: 1, kv: 'f16' });
  const session = await half.session();
  await session.append('Once upon a time');
  const bytes = await (await session.checkpoint()).bytes();
  const whole = await lean.load(file, { threads: 1 });
  const text = async (model, start) => (await model.generate(type.text(), { ...start, maxTokens: 6 })).text;
  const there = await text(half, { blocks: 'Once upon a time' });
  const here = await text(whole, { blocks: 'Once upon a time' });
  for (const [model, policy, restored, continued] of [
    [half, 'exact', 'imported', there],
    [half, 'convert', 'imported', there],
    [whole, 'convert', 'converted', null],
    [whole, 'reprefill', 'reprefilled', here],
  ]) {
    const checkpoint = await model.restore(bytes, { policy });
    assert.deepEqual([checkpoint.restored, checkpoint.tokens], [restored, session.tokens], policy);
    const made = await text(model, { checkpoint });
    if (continued !== null) assert.equal(made, continued, policy);
  }
  assert.equal((await half.restore(bytes)).restored, undefined);
  await assert.rejects(whole.restore(bytes, { policy: 'exact' }), { code: 301 });
  await assert.rejects(whole.restore(bytes, { policy: 'about' }), /exact, convert, reprefill/);
});

test('an unknown name is refused', async () => {
  await assert.rejects(lean.load(file, { kv: 'f17' }), /f17/);
  await assert.rejects(lean.load(file, { precision: 'rough' }), /rough/);
});
