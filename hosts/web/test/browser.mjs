// A server with the package and some ill-behaved models, and pages of headless Chromium.

import http from 'node:http';
import { createRequire } from 'node:module';
import { readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { files, ISOLATION } from '../serve.mjs';

export const repository = fileURLToPath(new URL('../../../', import.meta.url));
export const packages = process.env.LEAN_WEB_PACKAGES ?? path.join(repository, '.cache/web');
const { chromium } = createRequire(path.join(packages, 'package.json'))('playwright-core');

const fixtures = path.join(repository, 'tests/fixtures/models');
const models = process.env.LEAN_MODEL_DIR ?? path.join(repository, '.cache/models');
const folders = { '/': path.join(repository, 'hosts/web/dist'), '/models/': fixtures, '/real/': models };

/** Serves on a free port, `shared` to pages of other origins as well; `requests` are those for models: `{ url, range, status }`. */
export async function server({ isolated = true, shared = false } = {}) {
  const others = { 'access-control-allow-origin': '*', 'access-control-expose-headers': 'content-range, etag', 'cross-origin-resource-policy': 'cross-origin' };
  const headers = { ...(isolated && ISOLATION), ...(shared && others) };
  const usual = files({ folders, headers });
  const whole = files({ folders: { '/whole/': fixtures }, headers, ranges: false });
  const requests = [];
  let cut = new Set();
  const listening = http.createServer((request, response) => {
    const { pathname } = new URL(request.url, 'http://localhost');
    if (pathname.endsWith('.gguf')) requests.push({ method: request.method, url: pathname, range: request.headers.range });
    if (pathname === '/favicon.ico') return void response.writeHead(204).end();
    if (pathname === '/page') return void response.writeHead(200, { ...headers, 'content-type': 'text/html' }).end('<!doctype html><title>test</title>');
    if (pathname.startsWith('/whole/')) return whole(request, response);
    // The first connection breaks in the middle, or every one does.
    if (pathname.startsWith('/cut/') || pathname.startsWith('/always-cut/')) {
      const file = path.join(fixtures, path.basename(pathname));
      if (pathname.startsWith('/cut/') && cut.has(pathname)) {
        request.url = `/models/${path.basename(pathname)}`;
        return usual(request, response);
      }
      cut.add(pathname);
      const { size } = statSync(file);
      response.writeHead(200, { ...headers, 'content-length': size, 'accept-ranges': 'bytes' });
      const half = pathname.startsWith('/cut/') ? Math.floor(size / 2) : 0;
      return void response.write(readFileSync(file).subarray(0, half), () => setTimeout(() => response.destroy(), 50));
    }
    if (pathname.startsWith('/short/')) {
      const bytes = readFileSync(path.join(fixtures, path.basename(pathname)));
      return void response.writeHead(200, headers).end(bytes.subarray(0, bytes.length - 1000));
    }
    return usual(request, response);
  });
  await new Promise((resolve) => listening.listen(0, '127.0.0.1', resolve));
  const origin = `http://localhost:${listening.address().port}`;
  return {
    origin,
    requests,
    close: () => {
      listening.closeAllConnections();
      listening.close();
    },
  };
}

/** Headless Chromium. */
export async function launch() {
  const args = ['--no-sandbox', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync',
    // Software WebGPU (SwiftShader), where there is no other.
    '--enable-unsafe-webgpu'];
  return chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', headless: true, args });
}

/** A page of a fresh profile that has the package as `lean`. */
export async function page(browser, origin, context) {
  const own = context ?? (await browser.newContext());
  const made = await own.newPage();
  made.on('pageerror', (e) => console.error(`page: ${e}`));
  made.on('console', (m) => m.type() === 'error' && console.error(`console: ${m.text()}`));
  await made.goto(`${origin}/page`);
  await made.evaluate(async () => {
    window.lean = await import('/index.js');
    /** What an error says. */
    window.failure = (promise) =>
      promise.then(
        () => null,
        (e) => ({ code: e.code, name: e.name, class: e.class, message: e.message, details: e.details }),
      );
  });
  return made;
}
