// Where the bridge binary is.

import { statSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import path from 'node:path';
import { described } from './check.js';
import { invalid, notFound } from './errors.js';

const BINARY = process.platform === 'win32' ? 'lean-bridge.exe' : 'lean-bridge';

const modified = (file) => statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? 0;

/** A program inside an Electron archive cannot be started: its unpacked copy beside the archive can. */
function outsideArchive(file) {
  const unpacked = file.replace(/\.asar(?=[\\/])/, '.asar.unpacked');
  if (unpacked === file || modified(unpacked) > 0) return unpacked;
  throw notFound(`${file} lies inside an Electron archive, where nothing can be started: list it in \`asarUnpack\``);
}

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
    if (typeof file !== 'string') throw invalid(`${from} is the path of the bridge, not ${described(file)}`);
    if (modified(file) > 0) return outsideArchive(file);
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
