// Where the bridge binary is, and the library.

import { readFileSync, statSync } from 'node:fs';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import path from 'node:path';
import { described } from './check.js';
import { invalid, notFound } from './errors.js';

const LIBRARY = process.platform === 'win32' ? 'lean.dll' : process.platform === 'darwin' ? 'liblean.dylib' : 'liblean.so';
const BINARY = process.platform === 'win32' ? 'lean-bridge.exe' : 'lean-bridge';

const modified = (file) => statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? 0;

/** What lies inside an Electron archive cannot be started or loaded: its unpacked copy beside the archive can. */
function outsideArchive(file) {
  const unpacked = file.replace(/\.asar(?=[\\/])/, '.asar.unpacked');
  if (unpacked === file || modified(unpacked) > 0) return unpacked;
  throw notFound(`${file} lies inside an Electron archive, where nothing can be started or loaded: list it in \`asarUnpack\``);
}

/** The repository's build folders, for whoever works on lean itself. */
function developed(name) {
  const repository = fileURLToPath(new URL('../../../', import.meta.url));
  if (!statSync(path.join(repository, 'bridge', 'Cargo.toml'), { throwIfNoEntry: false })) return [];
  const target = process.env.CARGO_TARGET_DIR ?? path.join(repository, 'target');
  return ['release', 'debug'].map((profile) => path.join(target, profile, name));
}

const PLATFORM = `lean-node-${process.platform}-${process.arch}`;

/** The binary of the package for this platform, which is installed with this one as an optional dependency. */
function installed() {
  let manifest;
  try {
    manifest = createRequire(import.meta.url).resolve(`${PLATFORM}/package.json`);
  } catch {
    return undefined;
  }
  const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'));
  const other = JSON.parse(readFileSync(manifest, 'utf8')).version;
  if (other !== version) throw notFound(`${PLATFORM} ${other} does not belong to lean-node ${version}: install both anew`);
  return outsideArchive(path.join(path.dirname(manifest), 'bin', BINARY));
}

/** The caller's file, else the one that a variable names. */
function named(given, option, variable) {
  for (const [file, from] of [
    [given, `the \`${option}\` option`],
    [process.env[variable], variable],
  ]) {
    if (!file) continue;
    if (typeof file !== 'string') throw invalid(`${from} is a path, not ${described(file)}`);
    if (modified(file) > 0) return outsideArchive(file);
    throw notFound(`${from} names ${file}, where there is no file`);
  }
}

/** The newest of some files that are there. */
const newest = (files) => files.filter((f) => modified(f) > 0).sort((a, b) => modified(b) - modified(a))[0];

const lookedIn = (files) => (files.length > 0 ? ` (looked for ${files.join(', ')})` : '');

/**
 * The binary: the caller's, else `LEAN_BRIDGE`, else that of the installed package for this platform, else the newest build of
 * the repository this file lies in.
 * @param {string} [given]
 */
export function findBridge(given) {
  const candidates = developed(BINARY);
  const found = named(given, 'bridge', 'LEAN_BRIDGE') ?? installed() ?? newest(candidates);
  if (found) return found;
  throw notFound(
    `no lean-bridge was found: ${PLATFORM} is not installed${lookedIn(candidates)}. Install it, or build the bridge ` +
      'with `cargo build --release -p lean-bridge` and set LEAN_BRIDGE or the `bridge` option to where it is.',
  );
}

/**
 * The library: the caller's, else `LEAN_LIBRARY`, else the newest build of the repository this file lies in.
 * @param {string} [given]
 */
export function findLibrary(given) {
  const candidates = developed(LIBRARY);
  const found = named(given, 'library', 'LEAN_LIBRARY') ?? newest(candidates);
  if (found) return found;
  throw notFound(
    `no ${LIBRARY} was found${lookedIn(candidates)}. Build it with \`cargo build --release -p lean-ffi\`, or set ` +
      'LEAN_LIBRARY or the `library` option to where it is.',
  );
}
