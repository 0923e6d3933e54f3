// The static site, written and published from a repository of its own.

import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';

const script = fileURLToPath(new URL('../site.sh', import.meta.url));
const folder = mkdtempSync(path.join(tmpdir(), 'lean-site-'));
after(() => rmSync(folder, { recursive: true }));
const repository = path.join(folder, 'repository');
const identity = { GIT_AUTHOR_NAME: 'a', GIT_AUTHOR_EMAIL: 'a@b', GIT_COMMITTER_NAME: 'a', GIT_COMMITTER_EMAIL: 'a@b' };
const env = { ...process.env, ...identity, LEAN_SITE_REPOSITORY: repository };
const site = (...args) => spawnSync(script, args, { encoding: 'utf8', env });
const git = (...args) => execFileSync('git', ['-C', repository, ...args], { encoding: 'utf8', env }).trim();

test('a site below a path, with models of its own', () => {
  const out = path.join(folder, 'out');
  for (const url of ['https://example.org/a.gguf', 'https://example.org/b.gguf']) {
    const { status, stderr } = site('--out', out, '--base', '/lean/', '--model', url);
    assert.equal(status, 0, stderr);
    assert.deepEqual(JSON.parse(readFileSync(path.join(out, 'studio/models.json'), 'utf8')), [{ url }]);
  }
  assert.match(readFileSync(path.join(out, 'index.html'), 'utf8'), /url=\/lean\/studio\//);
  for (const part of ['index.js', 'engine/lean_web_bg.wasm', 'studio/index.html', '.nojekyll']) assert.ok(existsSync(path.join(out, part)), part);
  assert.ok(!existsSync(`${out}.new`));
});

test('a branch holds the site and nothing else; the checkout stays as it is', () => {
  execFileSync('git', ['init', '--quiet', repository]);
  git('commit', '--quiet', '--allow-empty', '-m', 'first');
  const [head, branch] = [git('rev-parse', 'HEAD'), git('symbolic-ref', 'HEAD')];
  const dry = site('--publish', 'pages', '--dry-run');
  assert.match(dry.stdout, /^studio\/index\.html$/m);
  assert.match(dry.stdout, /nothing was written/);
  assert.equal(git('branch', '--list', 'pages'), '');
  assert.match(site('--publish', 'pages').stdout, /committed to pages/);
  assert.match(git('ls-tree', '-r', '--name-only', 'pages'), /^engine\/lean_web_bg\.wasm$/m);
  assert.match(site('--publish', 'pages').stdout, /already/);
  assert.match(site('--publish', 'pages', '--base', '/x/').stdout, /committed/);
  assert.equal(git('rev-list', '--count', 'pages'), '2');
  assert.deepEqual([git('rev-parse', 'HEAD'), git('symbolic-ref', 'HEAD'), git('status', '--short')], [head, branch, '']);
  assert.equal(git('worktree', 'list').split('\n').length, 1);
});

test('what cannot be is said', () => {
  for (const [args, said] of [[['--base', 'lean'], /begins and ends/], [['--base', '/a"b/'], /letters/], [['--nothing'], /unknown option/]]) {
    const { status, stderr } = site(...args);
    assert.equal(status, 2);
    assert.match(stderr, said);
  }
});
