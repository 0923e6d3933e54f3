// llama.cpp's speed and the cost of its states, through node-llama-cpp's prebuilt CPU library, to put beside `lean bench`.
//
//   npm install --prefix /tmp/peer node-llama-cpp
//   NODE_PATH=/tmp/peer/node_modules node tests/bench/node_llama.mjs MODEL.gguf [threads]
//
// Prints one line of JSON: tokens/s of a prefill of 512 and of a decode of 128, and for a context of 999 tokens the
// milliseconds of prefill, saving and loading, and the bytes of the file. Medians of 3 (speed) and 9 (states).
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const [, , modelPath, threads = '2'] = process.argv;
const peer = createRequire(path.join(process.env.NODE_PATH ?? '.', 'x.js')).resolve('node-llama-cpp');
const { getLlama } = await import(pathToFileURL(peer));
const llama = await getLlama({ gpu: false, build: 'never', logLevel: 'error' });
const model = await llama.loadModel({ modelPath });
const context = await model.createContext({ contextSize: 2048, threads: Number(threads), batchSize: 512, sequences: 2 });
const [sequence, other] = [context.getSequence(), context.getSequence()];

const now = () => Number(process.hrtime.bigint()) / 1e6;
const median = (values) => values.sort((a, b) => a - b)[values.length >> 1];
const timed = async (work) => {
  const start = now();
  await work();
  return now() - start;
};
const tokens = (n) => Array.from({ length: n }, (_, i) => 100 + ((i * 37) % 20000));

const prefill = [];
const decode = [];
for (let run = 0; run < 3; run++) {
  await sequence.clearHistory();
  prefill.push((512 / (await timed(() => sequence.evaluateWithoutGeneratingNewTokens(tokens(512))))) * 1000);
  await sequence.clearHistory();
  let [count, start] = [0, 0];
  for await (const _ of sequence.evaluate([1, 2, 3], { temperature: 0, yieldEogToken: true })) {
    if (count === 0) start = now();
    if (++count > 128) break;
  }
  decode.push((128 / (now() - start)) * 1000);
}

await sequence.clearHistory();
const whole = await timed(() => sequence.evaluateWithoutGeneratingNewTokens(tokens(999)));
const file = path.join(fs.mkdtempSync(path.join(os.tmpdir(), 'peer-')), 'state');
const save = [];
const load = [];
for (let run = 0; run < 9; run++) {
  save.push(await timed(() => sequence.saveStateToFile(file)));
  load.push(await timed(() => other.loadStateFromFile(file, { acceptRisk: true })));
}
console.log(
  JSON.stringify({
    threads: Number(threads),
    prefill_tokens_per_second: median(prefill),
    decode_tokens_per_second: median(decode),
    context: { tokens: 999, prefill_ms: whole, save_ms: median(save), load_ms: median(load), bytes: fs.statSync(file).size },
  }),
);
fs.rmSync(path.dirname(file), { recursive: true });
process.exit(0);
