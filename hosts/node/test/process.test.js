// How the process lives and dies.

import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { findBridge, Lean, type } from '../src/index.js';

const index = new URL('../src/index.js', import.meta.url).href;
let folder;
before(() => (folder = mkdtempSync(path.join(tmpdir(), 'lean-node-'))));
after(() => rmSync(folder, { recursive: true }));

/** An executable that stands in for the bridge: a Node script. */
function pretend(name, script) {
  const file = path.join(folder, name);
  writeFileSync(file, `#!${process.execPath}\n${script}`);
  chmodSync(file, 0o755);
  return file;
}

const alive = (pid) => {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
};

async function gone(pid) {
  for (let i = 0; i < 200 && alive(pid); i++) await sleep(10);
  return !alive(pid);
}

test('an idle bridge does not keep the host alive, and ends with it', async () => {
  const script = `
    import { Lean, type } from ${JSON.stringify(index)};
    const lean = await Lean.spawn();
    const model = await lean.load('echo?step_ms=20');
    console.log(lean.pid, (await model.generate(type.text(), { blocks: 'one two' })).value);`;
  const host = spawnSync(process.execPath, ['--input-type=module', '-e', script], { encoding: 'utf8', timeout: 30_000 });
  assert.equal(host.status, 0, host.stderr);
  assert.match(host.stdout, /^\d+ one two\n$/);
  assert.ok(await gone(parseInt(host.stdout)));
});

test('a host that is killed takes its bridge along', async () => {
  const script = `
    import { Lean, type } from ${JSON.stringify(index)};
    const lean = await Lean.spawn();
    const model = await lean.load('echo?step_ms=60000');
    console.log(lean.pid);
    await model.generate(type.text(), { blocks: 'one two' });`;
  const host = spawn(process.execPath, ['--input-type=module', '-e', script], { stdio: ['ignore', 'pipe', 'inherit'] });
  const [line] = await host.stdout.setEncoding('utf8').take(1).toArray();
  const pid = parseInt(line);
  assert.ok(alive(pid));
  host.kill('SIGKILL');
  assert.ok(await gone(pid), 'an orphan is left');
});

test('a killed bridge ends every pending call with an account of it', async () => {
  const lean = await Lean.spawn();
  const model = await lean.load('echo?step_ms=60000');
  const calls = [1, 2, 3].map((n) => model.generate(type.text(), { blocks: `call ${n}` }));
  const stream = model.stream(type.text(), { blocks: 'stream' });
  const iterated = (async () => {
    for await (const _ of stream);
  })();
  const ends = Promise.allSettled([...calls, iterated, stream.result]);
  process.kill(lean.pid, 'SIGKILL');
  for (const { status, reason } of await ends) {
    assert.equal(status, 'rejected');
    assert.deepEqual([reason.name, reason.signal, reason.retryable], ['bridge_exited', 'SIGKILL', true]);
    assert.match(reason.message, /killed by SIGKILL/);
  }
  await assert.rejects(model.generate(type.text()), { name: 'bridge_exited' });
  await assert.rejects(lean.load('echo'), { name: 'bridge_exited' });
  await lean.close();
});

test('last words on stderr are part of the error', async () => {
  const bridge = pretend('dies', `console.error('cannot map the frobnicator'); process.exit(7);`);
  await assert.rejects(Lean.spawn({ bridge }), (e) => {
    assert.deepEqual([e.name, e.exitCode], ['bridge_exited', 7]);
    assert.match(e.message, /status 7\nIts last words:\ncannot map the frobnicator/);
    return true;
  });
});

test('text on stdout is a protocol error, not a hang', async () => {
  const bridge = pretend('chatty', `console.log('Hello from a library'); setTimeout(() => {}, 60000);`);
  await assert.rejects(Lean.spawn({ bridge }), (e) => {
    assert.deepEqual([e.name, e.code, e.class], ['protocol', 600, 'protocol']);
    assert.match(e.message, /Hello from a library/);
    return true;
  });
});

const greeting = (hello) => `
  import { MAGIC, messageBytes } from ${JSON.stringify(new URL('../src/frames.js', import.meta.url).href)};
  process.stdout.write(MAGIC);
  process.stdout.write(messageBytes(0, 'HELLO', ${JSON.stringify({ major: 1, minor_min: 0, minor_max: 0, engine: 'pretender', max_frame: 1 << 20, ...hello })}));
  process.stdin.on('end', () => process.exit(0));`;

test('a bridge of another version is refused by naming both', async () => {
  const bridge = pretend('newer.mjs', `${greeting({ major: 2, minor_max: 5 })} process.stdin.resume();`);
  await assert.rejects(Lean.spawn({ bridge }), { name: 'version', message: /1\.0.*pretender.*2\.0 to 2\.5/ });
});

test('malformed frames end the connection and the bridge', async () => {
  const bridge = pretend('malformed.mjs', `${greeting({})} process.stdin.once('data', () => {
    setTimeout(() => process.stdout.write(new Uint8Array(16).fill(255)), 200); });`);
  const lean = await Lean.spawn({ bridge });
  await assert.rejects(lean.load('echo'), (e) => {
    assert.deepEqual([e.name, e.code], ['protocol', 600]);
    assert.ok('exitCode' in e && 'stderr' in e);
    return true;
  });
  assert.ok(await gone(lean.pid));
});

test('a missing bridge says what to do', async () => {
  await assert.rejects(Lean.spawn({ bridge: path.join(folder, 'nowhere') }), { name: 'bridge_not_found', message: /nowhere/ });
  const before = process.env.LEAN_BRIDGE;
  process.env.LEAN_BRIDGE = path.join(folder, 'nowhere');
  try {
    assert.throws(() => findBridge(), /LEAN_BRIDGE names/);
  } finally {
    if (before === undefined) delete process.env.LEAN_BRIDGE;
    else process.env.LEAN_BRIDGE = before;
  }
  const file = path.join(folder, 'plain.txt');
  writeFileSync(file, 'no program');
  await assert.rejects(Lean.spawn({ bridge: file }), { name: 'bridge_exited', message: /could not be started/ });
});

test('close cancels what runs and waits for the end', async () => {
  const lean = await Lean.spawn();
  const model = await lean.load('echo?step_ms=60000');
  const call = assert.rejects(model.generate(type.text(), { blocks: 'one' }), { name: 'cancelled' });
  await lean.close();
  await call;
  assert.ok(!alive(lean.pid));
  await lean.close();
});
