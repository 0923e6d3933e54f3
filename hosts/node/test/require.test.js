// The package as an installed one, from both kinds of module.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, cpSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { findBridge } from '../src/index.js';

const root = fileURLToPath(new URL('..', import.meta.url));

test('what the package ships works by import and by require, without warnings, and is the same module', () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'lean-node-'));
  try {
    const installed = path.join(folder, 'node_modules', 'lean-node');
    mkdirSync(installed, { recursive: true });
    const { files } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'));
    for (const name of ['package.json', ...files]) cpSync(path.join(root, name), path.join(installed, name), { recursive: true });
    const script = path.join(folder, 'main.cjs');
    writeFileSync(
      script,
      `const { Lean, LeanError, type } = require('lean-node');
       (async () => {
         const imported = await import('lean-node');
         const lean = await Lean.spawn();
         const model = await lean.load('echo');
         console.log((await model.generate(type({ id: 'number' }), { blocks: { json: { id: 7 } } })).value.id, imported.LeanError === LeanError);
       })();`,
    );
    const env = { ...process.env, LEAN_BRIDGE: findBridge() };
    const run = spawnSync(process.execPath, [script], { encoding: 'utf8', env, timeout: 300_000 });
    assert.deepEqual([run.status, run.stdout, run.stderr], [0, '7 true\n', '']);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
