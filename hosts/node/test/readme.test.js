// The README's example runs as it stands there.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

const readme = readFileSync(new URL('../README.md', import.meta.url), 'utf8');

test('the first example', () => {
  const example = /```js\n([\s\S]*?)```/.exec(readme)[1];
  assert.ok(example.trim().split('\n').length <= 11, 'a ten-line example');
  const here = new URL('../src/index.js', import.meta.url).href;
  const script = example.replace("'lean-node'", JSON.stringify(here));
  const env = { ...process.env, MODEL: 'echo' };
  const run = spawnSync(process.execPath, ['--input-type=module', '-e', script], { encoding: 'utf8', env, timeout: 30_000 });
  assert.equal(run.status, 0, run.stderr);
  assert.equal(run.stdout, 'Ada complete\n');
});
