// Runs fixtures through the engine in WebAssembly and compares with the native build and with the reference.
//
//   node compare.mjs PACKAGE.js NATIVE_BINARY MODEL.gguf...      (each fixture lies beside its model)
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { basename, resolve } from 'node:path';

const [packagePath, native, ...models] = process.argv.slice(2);
const wasm = createRequire(import.meta.url)(resolve(packagePath));

let passed = 0;
let failed = 0;
const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

function check(what, holds, detail) {
  if (holds) passed += 1;
  else failed += 1;
  if (!holds) console.log(`FAILED ${what}${detail ? `: ${detail}` : ''}`);
}

for (const model of models) {
  const name = basename(model, '.gguf');
  const fixturePath = model.replace(/\.gguf$/, '.json');
  const fixtureText = readFileSync(fixturePath, 'utf8');
  const reference = JSON.parse(fixtureText).cases;
  const start = performance.now();
  const here = JSON.parse(wasm.run(new Uint8Array(readFileSync(model)), fixtureText));
  const seconds = ((performance.now() - start) / 1000).toFixed(1);
  const there = JSON.parse(execFileSync(native, [model, fixturePath], { encoding: 'utf8', maxBuffer: 1 << 28 }));

  check(`${name}: exactness class`, same(here.class, there.class), `${here.class}, natively ${there.class}`);
  check(`${name}: every case ran`, here.cases.length === reference.length);
  for (const [i, case_] of here.cases.entries()) {
    const { input_ids, greedy_ids } = reference[i];
    const at = `${name}: ${case_.name}`;
    check(`${at}: ids`, same(case_.input_ids, input_ids), JSON.stringify(case_.input_ids));
    check(`${at}: greedy tokens`, same(case_.greedy_ids, greedy_ids), JSON.stringify(case_.greedy_ids));
    check(`${at}: logits bit-identical to native`, case_.logits === there.cases[i].logits);
  }
  check(`${name}: typed value parses`, Number.isFinite(JSON.parse(here.typed.value).id), here.typed.value);
  check(`${name}: typed value as native`, here.typed.value === there.typed.value, `${here.typed.value}, natively ${there.typed.value}`);
  check(`${name}: same value after a restore`, here.typed.value === here.typed.restored, here.typed.restored);
  check(`${name}: checkpoint bytes as native`, here.typed.checkpoint === there.typed.checkpoint);
  console.log(`${name}: ${here.cases.length} cases in ${seconds} s, class ${here.class}, ${here.typed.value}`);
}
console.log(`${passed} passed, ${failed} failed, 0 skipped`);
process.exitCode = failed ? 1 : 0;
