// The packages as they are installed: the client, and the bridge in a package for the platform.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { findBridge } from '../src/bridge-path.js';

const here = fileURLToPath(new URL('..', import.meta.url));
const { version } = JSON.parse(readFileSync(path.join(here, 'package.json'), 'utf8'));
const platform = `lean-node-${process.platform}-${process.arch}`;
const binary = process.platform === 'win32' ? 'lean-bridge.exe' : 'lean-bridge';
let folder;
before(() => (folder = realpathSync(mkdtempSync(path.join(tmpdir(), 'lean-node-')))));
after(() => rmSync(folder, { recursive: true }));

/** Installs both under a folder, by hand. */
function install(under, bridgeVersion = version) {
  const modules = path.join(under, 'node_modules');
  mkdirSync(path.join(modules, platform, 'bin'), { recursive: true });
  for (const part of ['src', 'index.cjs', 'package.json']) cpSync(path.join(here, part), path.join(modules, 'lean-node', part), { recursive: true });
  writeFileSync(path.join(modules, platform, 'package.json'), JSON.stringify({ name: platform, version: bridgeVersion }));
  symlinkSync(findBridge(), path.join(modules, platform, 'bin', binary));
  return modules;
}

/** What a program there prints. */
function run(under, script) {
  const env = { ...process.env };
  delete env.LEAN_BRIDGE;
  const ran = spawnSync(process.execPath, ['--input-type=module', '-e', script], { cwd: under, env, encoding: 'utf8', timeout: 30_000 });
  assert.equal(ran.stderr, '');
  return ran.stdout;
}

test('the bridge of the package for the platform is found and runs', () => {
  const app = path.join(folder, 'app');
  install(app);
  const script = `
    import { findBridge, Lean, type } from 'lean-node';
    const lean = await Lean.spawn();
    const model = await lean.load('echo');
    const { value } = await model.generate(type.text(), { blocks: 'it runs' });
    await lean.close();
    console.log(findBridge(), value);`;
  assert.equal(run(app, script), `${path.join(app, 'node_modules', platform, 'bin', binary)} it runs\n`);
});

test('one of another version is refused by name', () => {
  const app = path.join(folder, 'other');
  install(app, '0.0.9');
  const script = `import { findBridge } from 'lean-node'; try { findBridge(); } catch (e) { console.log(e.name, e.message); }`;
  assert.match(run(app, script), new RegExp(`^bridge_not_found ${platform} 0.0.9 does not belong to lean-node ${version}`));
});

test('in an Electron archive it is started from the unpacked copy, or said to be missing there', () => {
  // Electron reads app.asar as a folder; that what is in it cannot be started is what counts here.
  const archive = path.join(folder, 'resources', 'app.asar');
  const modules = install(archive);
  const script = `import { findBridge } from 'lean-node'; try { console.log(findBridge()); } catch (e) { console.log(e.name, e.message); }`;
  assert.match(run(archive, script), /^bridge_not_found .*app\.asar.*asarUnpack/);
  const unpacked = path.join(`${archive}.unpacked`, 'node_modules', platform);
  mkdirSync(path.dirname(unpacked), { recursive: true });
  renameSync(path.join(modules, platform), unpacked);
  mkdirSync(path.join(modules, platform));
  writeFileSync(path.join(modules, platform, 'package.json'), JSON.stringify({ name: platform, version }));
  assert.equal(run(archive, script), `${path.join(unpacked, 'bin', binary)}\n`);
});
