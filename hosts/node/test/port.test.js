// The engine inside this process: the same client over a port.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, cpSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Lean, LeanError, findLibrary, type } from '../src/index.js';

const port = (options) => Lean.spawn({ transport: 'port', ...options });

test('it runs in this process', async () => {
  const lean = await port();
  assert.equal(lean.pid, process.pid);
  const model = await lean.load('echo');
  assert.equal((await model.generate(type.text(), { blocks: 'one two three' })).value, 'one two three');
  await lean.close();
  await assert.rejects(lean.load('echo'), (e) => e instanceof LeanError);
});

test('both transports give the same events', async () => {
  const seen = [];
  for (const transport of ['process', 'port']) {
    const lean = await Lean.spawn({ transport });
    const model = await lean.load('echo');
    const events = [];
    for await (const event of model.stream(type.text(), { blocks: 'one two three four' })) events.push(event);
    seen.push(events);
    await lean.close();
  }
  assert.ok(seen[0].length > 3);
  assert.deepEqual(seen[1], seen[0]);
});

test('errors keep their codes', async () => {
  const lean = await port();
  await assert.rejects(lean.load('/nowhere/model.gguf'), { name: 'model_io', code: 200 });
  await lean.close();
});

test('an abort ends a call, and closing ends what runs', async () => {
  const lean = await port();
  const model = await lean.load('echo?step_ms=60000');
  const controller = new AbortController();
  const waiting = model.generate(type.text(), { blocks: 'a b c', signal: controller.signal });
  controller.abort(new Error('enough'));
  await assert.rejects(waiting, /enough/);
  const calls = [1, 2].map(() => model.generate(type.text(), { blocks: 'a b c' }));
  const ends = Promise.allSettled(calls);
  await lean.close();
  for (const { status, reason } of await ends) {
    assert.equal(status, 'rejected');
    assert.ok(['cancelled', 'bridge_exited'].includes(reason.name), String(reason));
  }
});

test('several at once', async () => {
  // More than Node has threads for such calls.
  const all = await Promise.all(Array.from({ length: 6 }, () => port()));
  const models = await Promise.all(all.map((lean) => lean.load('echo')));
  const values = await Promise.all(models.map((m, i) => m.generate(type.text(), { blocks: `number ${i}` })));
  assert.deepEqual(values.map((v) => v.value), [0, 1, 2, 3, 4, 5].map((i) => `number ${i}`));
  await Promise.all(all.map((lean) => lean.close()));
});

test('a library that is missing or none is named', async () => {
  for (const library of ['/nowhere/liblean.so', fileURLToPath(import.meta.url)]) {
    await assert.rejects(port({ library }), (e) => e.name === 'bridge_not_found' && e.message.includes(library));
  }
});

/** A program with this client. */
function run(program, folder) {
  const env = { ...process.env, LEAN_LIBRARY: findLibrary() };
  const { status, signal, stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', program], { cwd: folder, env, encoding: 'utf8', timeout: 60_000 });
  return { status, signal, stdout, stderr };
}

const here = fileURLToPath(new URL('../', import.meta.url));

test('an idle port does not keep a program alive, and one in use ends with it', () => {
  const begin = `import { Lean, type } from './src/index.js'; const lean = await Lean.spawn({ transport: 'port' });`;
  const cases = [
    `${begin} await lean.load('echo'); console.log('end');`,
    `${begin} const m = await lean.load('echo?step_ms=60000'); m.generate(type.text(), { blocks: 'a b' }).catch(() => {}); console.log('end'); process.exit(0);`,
  ];
  for (const program of cases) assert.deepEqual(run(program, here), { status: 0, signal: null, stdout: 'end\n', stderr: '' });
});

test('without koffi the error says what to install', () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'lean-port-'));
  try {
    cpSync(path.join(here, 'src'), path.join(folder, 'src'), { recursive: true });
    cpSync(path.join(here, 'package.json'), path.join(folder, 'package.json'));
    const program = `import { Lean } from './src/index.js'; await Lean.spawn({ transport: 'port' }).catch((e) => console.log(e.name, e.message));`;
    const { stdout } = run(program, folder);
    assert.match(stdout, /^bridge_not_found .*npm install koffi@3/);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test('the versions that package.json names are the ones tested', () => {
  const { peerDependencies, devDependencies } = JSON.parse(readFileSync(path.join(here, 'package.json'), 'utf8'));
  assert.equal(peerDependencies.koffi, devDependencies.koffi);
});
