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

test('an unknown name is refused', async () => {
  await assert.rejects(lean.load(file, { kv: 'f17' }), /f17/);
});
