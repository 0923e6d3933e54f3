// Serves folders as the package needs it: types of content, ranges, and the headers that isolate a page, without which it
// cannot share memory with its workers.
//
//   node hosts/web/serve.mjs [PORT] [FOLDER] [MODELS]      8080, hosts/web/dist, .cache/models; models are at /models/

import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import http from 'node:http';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const TYPES = {
  '.css': 'text/css; charset=utf-8',
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.json': 'application/json',
  '.mjs': 'text/javascript; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.wasm': 'application/wasm',
};

/** The headers of a page that may share memory with its workers. */
export const ISOLATION = {
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-embedder-policy': 'require-corp',
  'cross-origin-resource-policy': 'same-origin',
};

/** The part of a file that a request asks for: [begin, end), or null for all of it. */
function rangeOf(header, size) {
  const range = /^bytes=(\d+)-(\d*)$/.exec(header ?? '');
  if (!range) return null;
  const begin = Number(range[1]);
  const end = range[2] === '' ? size : Math.min(size, Number(range[2]) + 1);
  return { begin, end, satisfiable: begin < end };
}

/**
 * Answers requests with files.
 * @param {{ folders: Record<string, string>, headers?: Record<string, string>, ranges?: boolean }} options folders by the
 *   prefixes of their paths
 */
export function files({ folders, headers = {}, ranges = true }) {
  const prefixes = Object.keys(folders).sort((a, b) => b.length - a.length);
  return async (request, response) => {
    let url;
    try {
      url = decodeURIComponent(new URL(request.url, 'http://localhost').pathname);
    } catch {
      return void response.writeHead(400, headers).end('not a path');
    }
    const prefix = prefixes.find((p) => url.startsWith(p));
    const file = prefix && path.join(folders[prefix], path.normalize(`/${url.slice(prefix.length)}`));
    let about = file && (await stat(file).catch(() => null));
    const at = about?.isDirectory() ? path.join(file, 'index.html') : file;
    if (about?.isDirectory() && !url.endsWith('/')) return void response.writeHead(301, { location: `${url}/` }).end();
    if (about?.isDirectory()) about = await stat(at).catch(() => null);
    if (!about?.isFile()) return void response.writeHead(404, headers).end('not found');
    const range = ranges ? rangeOf(request.headers.range, about.size) : null;
    const common = {
      ...headers,
      'content-type': TYPES[path.extname(at)] ?? 'application/octet-stream',
      'cache-control': 'no-cache',
      etag: `"${about.size}-${Math.floor(about.mtimeMs)}"`,
      ...(ranges && { 'accept-ranges': 'bytes' }),
    };
    if (range && !range.satisfiable) return void response.writeHead(416, { ...common, 'content-range': `bytes */${about.size}` }).end();
    const { begin, end } = range ?? { begin: 0, end: about.size };
    response.writeHead(range ? 206 : 200, {
      ...common,
      'content-length': end - begin,
      ...(range && { 'content-range': `bytes ${begin}-${end - 1}/${about.size}` }),
    });
    if (request.method === 'HEAD' || begin === end) return void response.end();
    createReadStream(at, { start: begin, end: end - 1 }).on('error', () => response.destroy()).pipe(response);
  };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const here = path.dirname(fileURLToPath(import.meta.url));
  const [port = 8080, folder = path.join(here, 'dist'), models = path.join(here, '../../.cache/models')] = process.argv.slice(2);
  http.createServer(files({ folders: { '/': folder, '/models/': models }, headers: ISOLATION })).listen(Number(port), '127.0.0.1', () => {
    console.log(`http://localhost:${port}/studio/`);
  });
}
