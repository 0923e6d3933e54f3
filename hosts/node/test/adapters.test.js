// LoRA adapters on the tiny llama of the fixtures.

import assert from 'node:assert/strict';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Lean, type } from '../src/index.js';

const fixtures = fileURLToPath(new URL('../../../tests/fixtures', import.meta.url));
const file = path.join(fixtures, 'models/llama-hd64-tied.s1.q4_1.gguf');
const lora = path.join(fixtures, 'adapters/llama-all-r4');
const text = { maxTokens: 12 };

let lean;
let model;
before(async () => {
  lean = await Lean.spawn();
  model = await lean.load(file, { threads: 1 });
});
after(() => lean?.close());

const say = async (session) => (await (await session.fork()).generate(type.text(), text)).text;

test('adapters come and go, and checkpoints need theirs', async () => {
  const session = await model.session();
  await session.append('Once upon a time');
  const plain = await say(session);
  const adapter = await model.loadAdapter(lora);
  assert.equal(adapter.info.name, 'llama-all-r4');
  assert.deepEqual(adapter.info.ranks, [4, 4]);
  await session.setAdapters([adapter]);
  const adapted = await say(session);
  assert.notEqual(adapted, plain);
  const same = await model.loadAdapter(`${lora}.gguf`);
  await session.setAdapters([{ adapter: same, scale: 1 }]);
  assert.equal(await say(session), adapted);
  const bytes = await (await session.checkpoint()).bytes();
  await session.setAdapters([]);
  assert.equal(await say(session), plain);

  const other = await lean.load(file, { threads: 1 });
  await assert.rejects(other.session({ checkpoint: bytes }), { code: 301, message: /llama-all-r4/ });
  const there = await other.loadAdapter(lora);
  assert.equal(await say(await other.session({ checkpoint: bytes })), adapted);
  await there.drop();
  await assert.rejects(async () => (await other.session()).setAdapters([there]), { code: 100 });
});

test('what does not fit is refused', async () => {
  await assert.rejects(model.loadAdapter(path.join(fixtures, 'adapters/qwen2-all-r4.gguf')), { code: 202 });
  await assert.rejects(model.loadAdapter(path.join(fixtures, 'adapters/none')), { code: 410 });
  const echo = await lean.load('echo');
  await assert.rejects(echo.loadAdapter(lora), { code: 202 });
  const session = await model.session();
  await assert.rejects(session.setAdapters(['adapter']), { code: 100 });
  await assert.rejects(session.setAdapters([{ adapter: await model.loadAdapter(lora), scale: NaN }]), { code: 100 });
});
