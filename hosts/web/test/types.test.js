// What TypeScript infers. It takes the compiler of the Node package.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { test } from 'node:test';

const tsc = fileURLToPath(new URL('../../node/node_modules/typescript/bin/tsc', import.meta.url));
const skip = existsSync(tsc) ? false : 'SKIPPED: typescript is not installed (npm install in hosts/node)';

test('the types compile', { skip }, () => {
  const project = fileURLToPath(new URL('types', import.meta.url));
  const run = spawnSync(process.execPath, [tsc, '-p', project], { encoding: 'utf8' });
  assert.equal(run.status, 0, run.stdout);
});
