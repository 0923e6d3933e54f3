// The package in headless Chromium.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { launch, page as opened, repository, server } from './browser.mjs';

const MODEL = 'llama-hd64-tied.s1.q4_1.gguf';
const file = path.join(repository, 'tests/fixtures/models', MODEL);
const bytes = readFileSync(file);
const digest = createHash('sha256').update(bytes).digest('hex');
const lean = path.join(repository, 'target/debug/lean');
/** What the native build says, with the kernels that give the same bits everywhere. */
const native = (...args) => execFileSync(lean, ['generate', '--model', file, '--portable', ...args], { encoding: 'utf8' });

let browser;
let site;
before(async () => {
  browser = await launch();
  site = await server();
});
after(async () => {
  await browser?.close();
  site?.close();
});

/** A page of its own for a test. */
async function fresh(t, origin = site.origin, context = undefined) {
  const page = await opened(browser, origin, context);
  t.after(() => (context ? page : page.context()).close());
  return page;
}

describe('loading', () => {
  test('by ranges into the cache, whose copy serves the next load', async (t) => {
    const page = await fresh(t);
    const first = await page.evaluate(async (url) => {
      const stages = {};
      const engine = await lean.Lean.load(url, { onProgress: ({ stage, done, total }) => (stages[stage] = { done, total }) });
      const { source, info, backend, version } = engine;
      await engine.dispose();
      return { stages, source, info, backend, version, cached: await lean.Lean.cache.list() };
    }, `/models/${MODEL}`);
    assert.deepEqual(first.source, { size: bytes.length, digest, from: 'network' });
    assert.deepEqual(first.stages.fetch, { done: bytes.length, total: bytes.length });
    assert.equal(first.stages.load.done, first.stages.load.total);
    assert.equal(first.info.architecture, 'llama');
      assert.match(first.version, /^lean .*WebAssembly/);
    assert.deepEqual(first.cached, [{ url: `${site.origin}/models/${MODEL}`, size: bytes.length, digest, complete: true }]);

    site.requests.length = 0;
    const second = await page.evaluate(async (url) => {
      const engine = await lean.Lean.load(url);
      await engine.dispose();
      await lean.Lean.cache.remove(url);
      return { source: engine.source, cached: await lean.Lean.cache.list() };
    }, `/models/${MODEL}`);
    assert.deepEqual(second, { source: { size: bytes.length, digest, from: 'cache' }, cached: [] });
    assert.deepEqual(site.requests, []);
  });

  test('a broken connection is taken up where it broke', async (t) => {
    const page = await fresh(t);
    site.requests.length = 0;
    const source = await page.evaluate(async (url) => {
      const engine = await lean.Lean.load(url);
      await engine.dispose();
      return engine.source;
    }, `/cut/${MODEL}`);
    assert.deepEqual(source, { size: bytes.length, digest, from: 'network' });
    const [whole, rest] = site.requests;
    assert.equal(whole.range, undefined);
    assert.match(rest.range, /^bytes=[1-9]\d*-$/);
  });

  test('without the cache each tensor is read when its turn comes', async (t) => {
    const page = await fresh(t);
    site.requests.length = 0;
    const from = await page.evaluate(async (url) => {
      const engine = await lean.Lean.load(url, { cache: false });
      const { text } = await engine.generate(lean.type.text(), { blocks: 'Once upon a time', maxTokens: 16 });
      await engine.dispose();
      return { ...engine.source, text };
    }, `/models/${MODEL}`);
    assert.equal(`${from.text}\n`, native('--prompt', 'Once upon a time', '-n', '16'));
    assert.deepEqual([from.from, from.size], ['network', bytes.length]);
    assert.ok(site.requests.length > 1 && site.requests.every((r) => /^bytes=\d+-\d+$/.test(r.range)), JSON.stringify(site.requests));
  });

  test('a model of another origin, whose server is asked nothing beforehand', async (t) => {
    const other = await server({ shared: true });
    t.after(() => other.close());
    const page = await fresh(t);
    const from = await page.evaluate(async (url) => {
      const said = [];
      for (const cache of [false, true]) {
        const engine = await lean.Lean.load(url, { cache });
        said.push(engine.source);
        await engine.dispose();
      }
      return said;
    }, `${other.origin}/models/${MODEL}`);
    assert.deepEqual(from.map((s) => [s.size, s.from]), [[bytes.length, 'network'], [bytes.length, 'network']]);
    assert.ok(other.requests.every((r) => r.method === 'GET'), JSON.stringify(other.requests));
    assert.ok(other.requests.filter((r) => r.range).length > 2);
  });

  test('what a GPU cannot run goes to the CPU, with all its threads', async (t) => {
    const page = await fresh(t);
    const made = await page.evaluate(async (url) => {
      // As if the adapter were hardware: `auto` takes it then.
      const request = navigator.gpu.requestAdapter.bind(navigator.gpu);
      navigator.gpu.requestAdapter = async () => {
        const adapter = await request();
        return adapter && new Proxy(adapter, { get: (a, name) => (name === 'info' ? {} : typeof a[name] === 'function' ? a[name].bind(a) : a[name]) });
      };
      const { backend } = await lean.Lean.capabilities();
      // Keys and values in half precision are the CPU's.
      const engine = await lean.Lean.load(url, { kv: 'f16' });
      const said = { first: backend, backend: engine.backend, fallback: engine.info.fallback };
      await engine.dispose();
      return said;
    }, `/models/${MODEL}`);
    if (made.first !== 'gpu') return t.skip('SKIPPED: this browser has no WebGPU, or cannot suspend WebAssembly');
    assert.equal(made.backend, 'threads');
    assert.match(made.fallback, /f16/);
  });

  test('from servers without ranges, without the cache, from a file and from bytes', async (t) => {
    const page = await fresh(t);
    const from = await page.evaluate(async ({ whole, ranged }) => {
      const body = await (await fetch(ranged)).arrayBuffer();
      const said = [];
      for (const [source, options] of [
        [whole, {}],
        [whole, { cache: false }],
        [ranged, { cache: false }],
        [new File([body], 'model.gguf'), {}],
        [new Uint8Array(body), {}],
      ]) {
        const engine = await lean.Lean.load(source, options);
        const { text } = await engine.generate(lean.type('string < 16'), { blocks: 'A name:' });
        said.push([engine.source.from, engine.source.size, text]);
        await engine.dispose();
      }
      return said;
    }, { whole: `/whole/${MODEL}`, ranged: `/models/${MODEL}` });
    assert.deepEqual(from.map(([where]) => where), ['network', 'network', 'network', 'file', 'file']);
    for (const [, size, text] of from) assert.deepEqual([size, text], [bytes.length, from[0][2]]);
  });

  for (const [what, url, options, code, message] of [
    ['a missing model', '/models/none.gguf', {}, 200, /none\.gguf: the server answered 404/],
    ['a server that breaks off', `/always-cut/${MODEL}`, {}, 200, /the connection|cannot be fetched/],
    ['a file without its end', `/short/${MODEL}`, { cache: false }, 201, /./],
    ['another digest', `/models/${MODEL}`, { digest: '0'.repeat(64) }, 201, /SHA-256 is [0-9a-f]{64}, not 0000/],
    ['what is no model', '/index.js', { cache: false }, 201, /./],
    ['an unknown backend', `/models/${MODEL}`, { backend: 'npu' }, 100, /auto, cpu, gpu/],
    ['no thread at all', `/models/${MODEL}`, { threads: 0 }, 100, /1 to 64/],
    ['an unknown option', `/models/${MODEL}`, { cach: false }, 100, /unknown option cach/],
  ]) {
    test(`${what} is an error that says so`, async (t) => {
      const page = await fresh(t);
      const error = await page.evaluate(({ url, options }) => failure(lean.Lean.load(url, options)), { url, options });
      assert.equal(error?.code, code, JSON.stringify(error));
      assert.match(error.message, message);
    });
  }

  test('a cache that is full says how much room there is', async (t) => {
    const page = await fresh(t);
    const session = await page.context().newCDPSession(page);
    await session.send('Storage.overrideQuotaForOrigin', { origin: site.origin, quotaSize: 100_000 });
    const error = await page.evaluate((url) => failure(lean.Lean.load(url)), `/models/${MODEL}`);
    assert.equal(error?.code, 410, JSON.stringify(error));
    assert.match(error.message, /free/);
  });

  test('an aborted load rejects with the reason', async (t) => {
    const page = await fresh(t);
    const reason = await page.evaluate(async (url) => {
      const abort = new AbortController();
      const loading = lean.Lean.load(url, { signal: abort.signal, onProgress: () => abort.abort('enough') });
      return loading.then(() => null, (e) => e);
    }, `/models/${MODEL}`);
    assert.equal(reason, 'enough');
  });
});

describe('generating', () => {
  test('texts are those that are made natively', async (t) => {
    const page = await fresh(t);
    const prompts = ['Once upon a time', 'Zwölf Boxkämpfer jagen'];
    const texts = await page.evaluate(async ({ url, prompts }) => {
      const engine = await lean.Lean.load(url);
      const all = [];
      for (const blocks of prompts) all.push((await engine.generate(lean.type.text(), { blocks, maxTokens: 32 })).text);
      await engine.dispose();
      return all;
    }, { url: `/models/${MODEL}`, prompts });
    for (const [i, prompt] of prompts.entries()) assert.equal(`${texts[i]}\n`, native('--prompt', prompt, '-n', '32'), prompt);
  });

  test('a typed value, its partial values, and the same natively', async (t) => {
    const page = await fresh(t);
    const expression = { id: '0 <= number.integer <= 999', name: 'string < 16' };
    const made = await page.evaluate(async ({ url, expression }) => {
      const engine = await lean.Lean.load(url);
      const partials = [];
      const result = await engine.generate(lean.type(expression), { blocks: 'Invent a user.', onPartial: (e) => void partials.push(e.value) });
      await engine.dispose();
      return { value: result.value, text: result.text, partials };
    }, { url: `/models/${MODEL}`, expression });
    assert.deepEqual(made.partials.at(-1), made.value);
    assert.equal(`${made.text}\n`, native('--type', JSON.stringify(expression), '--prompt', 'Invent a user.'));
  });

  test('checkpoints go on in another tab, also those made natively', async (t) => {
    const context = await browser.newContext();
    t.after(() => context.close());
    const one = await opened(browser, site.origin, context);
    const first = await one.evaluate(async (url) => {
      const engine = await lean.Lean.load(url);
      const session = await engine.session();
      await session.append('Once upon a time');
      const checkpoint = await session.checkpoint();
      const fork = await session.fork();
      const { text } = await session.generate(lean.type.text({ maxChars: 40 }), { maxTokens: 12 });
      const { text: forked } = await fork.generate(lean.type.text({ maxChars: 40 }), { maxTokens: 12 });
      return { text, forked, bytes: [...(await checkpoint.bytes())] };
    }, `/models/${MODEL}`);
    assert.equal(first.forked, first.text);
    const other = await opened(browser, site.origin, context);
    const text = await other.evaluate(async ({ url, bytes }) => {
      const engine = await lean.Lean.load(url);
      const checkpoint = await engine.restore(Uint8Array.from(bytes));
      return (await engine.generate(lean.type.text({ maxChars: 40 }), { checkpoint, maxTokens: 12 })).text;
    }, { url: `/models/${MODEL}`, bytes: first.bytes });
    assert.equal(text, first.text);

    const folder = mkdtempSync(path.join(tmpdir(), 'lean-web-'));
    t.after(() => rmSync(folder, { recursive: true }));
    const saved = path.join(folder, 'a.lean');
    native('--prompt', 'Once upon a time', '-n', '8', '--save-checkpoint', saved);
    const on = await other.evaluate(async ({ url, bytes }) => {
      const engine = await lean.Lean.load(url);
      return (await engine.generate(lean.type.text(), { checkpoint: Uint8Array.from(bytes), blocks: ' And', maxTokens: 12 })).text;
    }, { url: `/models/${MODEL}`, bytes: [...readFileSync(saved)] });
    assert.equal(`${on}\n`, native('--checkpoint', saved, '--prompt', ' And', '-n', '12'));
  });

  test('conversations are rendered and shortened; types are checked with their places', async (t) => {
    const page = await fresh(t);
    const said = await page.evaluate(async () => {
      const engine = await lean.Lean.load('echo');
      const turn = (role, content) => ({ role, content });
      const shorter = await engine.chatTrimOldestExchange([turn('user', 'a'), turn('assistant', 'b'), turn('user', 'c')]);
      const error = await failure(engine.checkType(lean.type({ a: 'strin' })));
      return { shorter, error };
    });
    assert.deepEqual(said.shorter, [{ role: 'user', content: 'c' }]);
    assert.equal(said.error.code, 110);
    assert.ok('at' in said.error.details);
  });

  test('a panic ends the instance alone', async (t) => {
    const page = await fresh(t);
    const seen = await page.evaluate(async () => {
      const [bad, good] = [await lean.Lean.load('echo?panic_at=1'), await lean.Lean.load('echo')];
      const error = await failure(bad.generate(lean.type.text(), { blocks: 'one two three' }));
      const later = await failure(bad.generate(lean.type.text(), { blocks: 'again' }));
      const ended = await bad.ended;
      const { text } = await good.generate(lean.type.text(), { blocks: 'one two' });
      return { error, later, ended: ended.name, text };
    });
    assert.equal(seen.error.code, 901);
    assert.match(seen.error.message, /asked to panic at token 1/);
    assert.equal(seen.later.code, 901);
    assert.equal(seen.ended, 'panic');
    assert.equal(seen.text, 'one two');
  });
});

test('threads: what one thread makes, and checkpoints that go from one to the other', async (t) => {
  const page = await fresh(t);
  const made = await page.evaluate(async (url) => {
    const said = [];
    let bytes;
    for (const options of [{ backend: 'threads', threads: 2 }, { backend: 'single' }, {}]) {
      const engine = await lean.Lean.load(url, options);
      const session = await engine.session();
      await session.append('Once upon a time in a land far away');
      bytes ??= await (await session.checkpoint()).bytes();
      const { text } = await session.generate(lean.type.text(), { maxTokens: 24 });
      const { text: continued } = await engine.generate(lean.type.text(), { checkpoint: bytes, maxTokens: 24 });
      said.push({ backend: engine.backend, threads: engine.threads, text, continued, exactness: engine.info.exactnessClass });
      await engine.dispose();
    }
    return said;
  }, `/models/${MODEL}`);
  const [two, one, auto] = made;
  t.diagnostic(JSON.stringify(made.map(({ backend, threads, exactness }) => ({ backend, threads, exactness }))));
  assert.deepEqual([two.backend, two.threads, one.backend, one.threads], ['threads', 2, 'single', 1]);
  for (const each of made) assert.deepEqual([each.text, each.continued, each.exactness], [one.text, one.text, one.exactness]);
  assert.equal(auto.backend, auto.threads > 1 ? 'threads' : 'single');
  assert.equal(`${one.text}\n`, native('--prompt', 'Once upon a time in a land far away', '-n', '24'));
});

test('a page that is not isolated has no threads, and is told', async (t) => {
  const own = await server({ isolated: false });
  t.after(() => own.close());
  const page = await fresh(t, own.origin);
  const seen = await page.evaluate(async () => {
    const error = await failure(lean.Lean.load('echo', { backend: 'threads' }));
    const engine = await lean.Lean.load('echo', { backend: 'cpu' });
    await engine.dispose();
    return { error, backend: engine.backend };
  });
  assert.equal(seen.error.code, 402);
  assert.match(seen.error.message, /COOP and COEP/);
  assert.equal(seen.backend, 'single');
});

test('on the GPU: texts and values of the CPU, checkpoints from one to the other, a prefill cancelled', async (t) => {
  const page = await fresh(t);
  const expression = { id: '0 <= number.integer <= 999', name: 'string < 16' };
  const made = await page.evaluate(async ({ url, expression }) => {
    // One load each: software GPUs take seconds to compile the kernels.
    const began = performance.now();
    const engines = { gpu: await lean.Lean.load(url, { backend: 'gpu' }) };
    const load = performance.now() - began;
    engines.single = await lean.Lean.load(url, { backend: 'single' });
    const [said, bytes] = [{}, {}];
    for (const [backend, engine] of Object.entries(engines)) {
      const session = await engine.session();
      await session.append('Once upon a time');
      bytes[backend] = await (await session.checkpoint()).bytes();
      const { text } = await session.generate(lean.type.text(), { maxTokens: 16 });
      const { text: value } = await engine.generate(lean.type(expression), { blocks: 'Invent a user.' });
      const together = await Promise.all(['Oslo', 'Rome'].map((blocks) => engine.generate(lean.type.text(), { blocks, maxTokens: 4 })));
      said[backend] = { text, value, together: together.map((result) => result.text), info: engine.info, backend: engine.backend };
    }
    const moved = [];
    for (const [to, from] of [['gpu', 'single'], ['single', 'gpu']]) {
      const refused = (await failure(engines[to].restore(bytes[from])))?.code;
      const checkpoint = await engines[to].restore(bytes[from], { policy: 'convert' });
      const { text } = await engines[to].generate(lean.type.text(), { checkpoint, maxTokens: 16 });
      moved.push([refused, checkpoint.restored, text]);
    }
    const session = await engines.gpu.session();
    const abort = new AbortController();
    const appending = session.append('word '.repeat(900), { signal: abort.signal, onPrefill: () => abort.abort('enough') });
    const reason = await appending.then(() => null, (e) => e);
    const { text: after } = await session.generate(lean.type.text(), { blocks: 'Once upon a time', maxTokens: 16 });
    const can = await lean.Lean.capabilities();
    window.kept = { engine: engines.gpu, session, other: engines.single };
    return { can, said, moved, reason, after, load };
  }, { url: `/models/${MODEL}`, expression });

  // The loss of a device: what was saved goes on elsewhere.
  const saved = page.evaluate(async () => {
    const { engine, session, other } = window.kept;
    const bytes = await (await session.checkpoint()).bytes();
    window.going = failure(session.generate(lean.type.text(), { maxTokens: 900 }));
    window.bytes = bytes;
    return other.backend;
  });
  assert.equal(await saved, 'single');
  await (await browser.newBrowserCDPSession()).send('Browser.crashGpuProcess').catch(() => {});
  const lost = await page.evaluate(async () => {
    const { engine, session, other } = window.kept;
    const said = await engine.lost;
    const [during, later] = [await window.going, await failure(session.generate(lean.type.text(), { maxTokens: 4 }))];
    const checkpoint = await other.restore(window.bytes, { policy: 'convert' });
    const { text } = await other.generate(lean.type.text(), { checkpoint, maxTokens: 4 });
    await engine.dispose();
    await other.dispose();
    return { codes: [said.code, during?.code, later?.code], message: later?.message, text: text.length > 0 };
  });
  assert.deepEqual(lost.codes, [401, 401, 401], JSON.stringify(lost));
  assert.ok(lost.text);
  const { gpu, single } = made.said;
  t.diagnostic(`${gpu.info.device}, ${gpu.info.exactnessClass}, loaded in ${(made.load / 1000).toFixed(1)} s; ${JSON.stringify(made.can)}`);
  assert.deepEqual([gpu.backend, single.backend], ['gpu', 'single']);
  for (const what of ['text', 'value', 'together']) assert.deepEqual(gpu[what], single[what], what);
  assert.equal(`${single.text}\n`, native('--prompt', 'Once upon a time', '-n', '16'));
  assert.deepEqual(made.moved, [[301, 'converted', single.text], [301, 'converted', single.text]]);
  assert.deepEqual([made.reason, made.after], ['enough', single.text]);
});

describe('cancelling in the middle of a computation', () => {
  for (const isolated of [true, false]) {
    test(isolated ? 'an isolated page' : 'a page that cannot share memory', async (t) => {
      const own = isolated ? site : await server({ isolated });
      if (!isolated) t.after(() => own.close());
      const page = await fresh(t, own.origin);
      assert.equal(await page.evaluate(() => crossOriginIsolated), isolated);
      const seen = await page.evaluate(async () => {
        // A prefill of one hour: nothing but a cancel can end it.
        const engine = await lean.Lean.load('echo?step_ms=3600000');
        const session = await engine.session();
        const abort = new AbortController();
        const appending = session.append('one two', { signal: abort.signal });
        setTimeout(() => abort.abort('enough'), 100);
        const reason = await appending.then(() => null, (e) => e);
        await engine.dispose();
        return { reason, tokens: session.tokens };
      });
      assert.deepEqual(seen, { reason: 'enough', tokens: 0 });
    });
  }
});

test('the page is not held up while a value is generated', async (t) => {
  const page = await fresh(t);
  const gaps = await page.evaluate(async (url) => {
    const engine = await lean.Lean.load(url);
    const gaps = [];
    let last = null;
    let going = true;
    const frame = (now) => {
      if (last !== null) gaps.push(now - last);
      last = now;
      if (going) requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
    await engine.generate(lean.type.text({ maxChars: 400 }), { blocks: 'Once upon a time', maxTokens: 200 });
    going = false;
    await engine.dispose();
    return gaps.sort((a, b) => a - b);
  }, `/models/${MODEL}`);
  // Reported, and not asserted: what else this machine does shows in it.
  const at = (q) => gaps[Math.min(gaps.length - 1, Math.floor(gaps.length * q))]?.toFixed(1);
  t.diagnostic(`${gaps.length} frames; between two: median ${at(0.5)} ms, 95% ${at(0.95)} ms, longest ${at(1)} ms`);
});

const smol = path.join(process.env.LEAN_MODEL_DIR ?? path.join(repository, '.cache/models'), 'SmolLM2-135M-Instruct.Q4_1.gguf');
describe('SmolLM2: the value that is made natively, and what it takes', { skip: existsSync(smol) ? false : 'SKIPPED: no SmolLM2 (scripts/fetch-model.sh)' }, () => {
  const expression = { adult: 'boolean', age: '18 <= number.integer <= 99' };
  const url = `/real/${path.basename(smol)}`;
  let context;
  let there;
  before(async () => {
    context = await browser.newContext();
    there = execFileSync(lean, ['generate', '--model', smol, '--type', JSON.stringify(expression), '--prompt', 'Invent a user.', '--portable'], { encoding: 'utf8' });
  });
  after(() => context?.close());

  // The first fetches it, the others find it in the cache.
  for (const backend of ['single', 'threads', 'gpu']) {
    test(backend, async (t) => {
      const page = await fresh(t, site.origin, context);
      const { webgpu, suspends } = await page.evaluate(() => lean.Lean.capabilities());
      if (backend === 'gpu' && !(webgpu && suspends)) return t.skip('SKIPPED: this browser has no WebGPU, or cannot suspend WebAssembly');
      const made = await page.evaluate(async ({ url, expression, backend }) => {
        const before = performance.now();
        const engine = await lean.Lean.load(url, { backend });
        const loaded = performance.now();
        let first;
        const options = { blocks: 'Invent a user.', onToken: () => void (first ??= performance.now()) };
        const { text, usage } = await engine.generate(lean.type(expression), options);
        const all = performance.now() - loaded;
        const memory = await engine.memory();
        // A pass that a device has been given is not taken back, and software takes seconds for one.
        if (backend === 'gpu') return { text, usage, load: loaded - before, first: first - loaded, page: first, all, memory, from: engine.source.from, backend: engine.backend };
        const abort = new AbortController();
        const session = await engine.session();
        let at;
        const appending = session.append('word '.repeat(1000), { signal: abort.signal }).then(() => null, () => performance.now() - at);
        setTimeout(() => ((at = performance.now()), abort.abort()), 1000);
        const aborted = await appending;
        await engine.dispose();
        return { text, usage, load: loaded - before, first: first - loaded, page: first, all, memory, aborted, from: engine.source.from, backend: engine.backend };
      }, { url, expression, backend });
      const seconds = (ms) => `${(ms / 1000).toFixed(2)} s`;
      const tokens = made.usage.sampledTokens + made.usage.forcedTokens;
      assert.deepEqual([made.backend, made.from], [backend, backend === 'single' ? 'network' : 'cache']);
      t.diagnostic(`${backend}, from the ${made.from}: load ${seconds(made.load)}, first token ${seconds(made.first)} later (${seconds(made.page)} after the page began), ${tokens} tokens ${seconds(made.all)}`);
      t.diagnostic(`${backend}: memory of the instance at its most ${(made.memory / 1e6).toFixed(0)} MB${typeof made.aborted !== 'number' ? '' : `, abort of a prefill ${made.aborted.toFixed(0)} ms`}`);
      assert.equal(`${made.text}\n`, there);
      if (backend !== 'gpu') assert.equal(typeof made.aborted, 'number', 'the context was computed to its end');
    });
  }
});
