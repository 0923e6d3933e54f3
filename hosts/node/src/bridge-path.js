// Where the bridge binary is.

import { statSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import path from 'node:path';
import { notFound } from './errors.js';

const BINARY = process.platform === 'win32' ? 'lean-bridge.exe' : 'lean-bridge';

const modified = (file) => statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? 0;

/** The repository's build folders, for whoever works on lean itself. */
function developed() {
  const repository = fileURLToPath(new URL('../../../', import.meta.url));
  if (!statSync(path.join(repository, 'bridge', 'Cargo.toml'), { throwIfNoEntry: false })) return [];
  const target = process.env.CARGO_TARGET_DIR ?? path.join(repository, 'target');
  return ['release', 'debug'].map((profile) => path.join(target, profile, BINARY));
}

/**
 * The binary: the caller's, else `LEAN_BRIDGE`, else the newest build of the repository this file lies in.
 * @param {string} [given]
 */
export function findBridge(given) {
  for (const [file, from] of [
    [given, 'the `bridge` option'],
    [process.env.LEAN_BRIDGE, 'LEAN_BRIDGE'],
  ]) {
    if (!file) continue;
    if (modified(file) > 0) return file;
    throw notFound(`${from} names ${file}, where there is no file`);
  }
  const candidates = developed();
  const newest = candidates.filter((f) => modified(f) > 0).sort((a, b) => modified(b) - modified(a))[0];
  if (newest) return newest;
  const looked = candidates.length > 0 ? ` (looked for ${candidates.join(', ')})` : '';
  throw notFound(
    `no lean-bridge was found${looked}. Build it with \`cargo build --release -p lean-bridge\`, or set LEAN_BRIDGE ` +
      'or the `bridge` option to where it is.',
  );
}
