// The package beside @wllama/wllama (llama.cpp as WebAssembly) in the same Chromium, and beside the native build: ratios of one run.
//
//   hosts/web/build.sh && cargo build --release -p lean-cli
//   node hosts/web/bench.mjs MODEL.gguf... [--rounds 2] [--json]
//
// Needs what hosts/web/test.sh installs, and fetches wllama with npm. Per model and number of threads the two take turns, A B B A; each
// loads anew and makes 128 tokens after a context of about 500. Close everything else: timings of a busy machine say nothing.

import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { launch, packages, repository } from './test/browser.mjs';
import { files, ISOLATION } from './serve.mjs';

const PEER = '@wllama/wllama@3.13.0';
const CONTEXT = 'The lighthouse keeper wrote down what he saw each evening, and read it again in the morning. '.repeat(25);
const TOKENS = 128;

const args = process.argv.slice(2);
const flag = (name, usual) => (args.includes(name) ? Number(args.splice(args.indexOf(name), 2)[1]) : usual);
const rounds = flag('--rounds', 2);
const asJson = args.includes('--json');
const models = args.filter((a) => !a.startsWith('--')).map((file) => path.resolve(file));
if (models.length === 0) throw new Error('which models? node hosts/web/bench.mjs MODEL.gguf...');
for (const file of models) if (!existsSync(file)) throw new Error(`${file}: no such file`);

// In a folder of its own: npm removes from one what it was not told to install.
const prefix = path.join(packages, 'peer');
const peer = path.join(prefix, 'node_modules/@wllama/wllama/esm');
if (!existsSync(peer)) execFileSync('npm', ['install', '--silent', '--no-audit', '--no-fund', '--no-save', '--prefix', prefix, PEER], { stdio: 'inherit' });

/** One measurement of ours, in the page. */
async function ours({ url, threads, context, tokens }) {
  const { Lean, type } = await import('/index.js');
  const begin = performance.now();
  const engine = await Lean.load(url, { backend: threads > 1 ? 'threads' : 'single', threads, context: 2048, prefixCacheBytes: 0 });
  const load = performance.now() - begin;
  let first;
  const { usage } = await engine.generate(type.text(), { blocks: context, maxTokens: tokens, onToken: () => void (first ??= performance.now() - begin) });
  const prompt = usage.promptTokens;
  // The engine's own times begin behind the context.
  const prefill = prompt / ((first - load) / 1000);
  const made = usage.sampledTokens;
  const decode = (made - 1) / (usage.totalSeconds - usage.firstTokenSeconds);
  const session = await engine.session();
  const abort = new AbortController();
  let at;
  // Not a number if the context was computed before the abort.
  const ended = session.append(context.repeat(3), { signal: abort.signal }).then(
    () => NaN,
    () => performance.now() - at,
  );
  await new Promise((resolve) => setTimeout(resolve, 500));
  at = performance.now();
  abort.abort();
  const aborted = await ended;
  const memory = await engine.memory();
  await engine.dispose();
  return { load, first, prompt, made, prefill, decode, aborted, memory };
}

/** One measurement of the other. */
async function theirs({ url, threads, context, tokens }) {
  const { Wllama, LoggerWithoutDebug } = await import('/peer/index.js');
  const blob = await (await fetch(url)).blob();
  const begin = performance.now();
  const silent = { ...LoggerWithoutDebug, log() {}, warn() {} };
  const engine = new Wllama({ default: '/peer/wasm/wllama.wasm' }, { logger: silent, suppressNativeLog: true });
  engine.setCompat(null);
  await engine.loadModel([blob], { n_threads: threads, n_ctx: 2048, n_gpu_layers: 0, warmup: false });
  const load = performance.now() - begin;
  const common = { prompt: context, temperature: 0, cache_prompt: false };
  const { timings } = await engine.createCompletion({ ...common, max_tokens: tokens, ignore_eos: true });
  const abort = new AbortController();
  const ended = engine.createCompletion({ ...common, prompt: context.repeat(3), max_tokens: 1, abortSignal: abort.signal }).then(
    () => performance.now(),
    () => performance.now(),
  );
  await new Promise((resolve) => setTimeout(resolve, 500));
  const at = performance.now();
  abort.abort();
  const aborted = (await ended) - at;
  await engine.exit();
  return { load, prompt: timings.prompt_n, made: timings.predicted_n, prefill: timings.prompt_per_second, decode: timings.predicted_per_second, aborted };
}

const median = (all) => all.slice().sort((a, b) => a - b)[Math.floor(all.length / 2)];
const mid = (runs) => Object.fromEntries(Object.keys(runs[0]).map((key) => [key, median(runs.map((r) => r[key]))]));

const folders = { '/': path.join(repository, 'hosts/web/dist'), '/peer/': `${peer}/` };
for (const [i, file] of models.entries()) folders[`/model${i}/`] = `${path.dirname(file)}/`;
const serve = files({ folders, headers: ISOLATION });
const server = http.createServer((request, response) => {
  if (request.url === '/page') return void response.writeHead(200, { ...ISOLATION, 'content-type': 'text/html' }).end('<!doctype html><title>bench</title>');
  return serve(request, response);
});
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
const origin = `http://localhost:${server.address().port}`;
const browser = await launch();
const context = await browser.newContext();

async function measure(run, given) {
  const page = await context.newPage();
  page.on('pageerror', (e) => console.error(`page: ${e}`));
  try {
    await page.goto(`${origin}/page`);
    return await page.evaluate(run, given);
  } finally {
    await page.close();
  }
}

/** Tokens a second of the native build with one thread: prefill and decode. */
function native(file) {
  const lean = path.join(repository, 'target/release/lean');
  if (!existsSync(lean)) return null;
  const said = execFileSync(lean, ['bench', '--model', file, '--threads', '1', '--runs', '1', '--json'], { encoding: 'utf8' });
  return JSON.parse(said);
}

const rows = [];
for (const [i, file] of models.entries()) {
  const url = `/model${i}/${path.basename(file)}`;
  const alone = native(file);
  for (const threads of [1, 2]) {
    const given = { url, threads, context: CONTEXT, tokens: TOKENS };
    const [a, b] = [[], []];
    // The first fills the cache.
    await measure(ours, { ...given, tokens: 2 });
    for (let round = 0; round < rounds; round++) {
      const order = round % 2 === 0 ? [[ours, a], [theirs, b]] : [[theirs, b], [ours, a]];
      for (const [run, into] of order) {
        into.push(await measure(run, given));
        console.error(`${path.basename(file)}, ${threads} threads, ${run.name}: ${JSON.stringify(into.at(-1))}`);
      }
    }
    rows.push({ model: path.basename(file), threads, ours: mid(a), theirs: mid(b), native: alone });
  }
}
await browser.close();
server.close();

if (asJson) console.log(JSON.stringify(rows, null, 2));
else {
  const n = (x, digits = 1) => (x === undefined ? '' : x.toFixed(digits));
  console.log('| model | threads | | prefill t/s | decode t/s | load ms | first token after ms | abort ms | memory MB |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- |');
  for (const { model, threads, ours: a, theirs: b } of rows) {
    console.log(`| ${model} | ${threads} | lean | ${n(a.prefill)} | ${n(a.decode)} | ${n(a.load, 0)} | ${n(a.first, 0)} | ${n(a.aborted, 0)} | ${n(a.memory / 1e6, 0)} |`);
    console.log(`| | | wllama | ${n(b.prefill)} | ${n(b.decode)} | ${n(b.load, 0)} | | ${n(b.aborted, 0)} | |`);
    console.log(`| | | **ratio** | ${n(a.prefill / b.prefill, 2)}x | ${n(a.decode / b.decode, 2)}x | ${n(a.load / b.load, 2)}x | | | |`);
  }
  for (const { model, threads, ours: a, native: alone } of rows) {
    if (alone) console.log(`${model}, ${threads} threads: native one thread ${JSON.stringify(alone).slice(0, 300)}; in the page prefill ${n(a.prefill)}, decode ${n(a.decode)}`);
  }
}
