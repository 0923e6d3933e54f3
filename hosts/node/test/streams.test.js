// Streams that nobody reads, calls beyond the bridge's limit, answers that cross a cancel.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { after, before, test } from 'node:test';
import { Lean, type } from '../src/index.js';

const index = new URL('../src/index.js', import.meta.url).href;
const words = (n) => Array.from({ length: n }, (_, i) => `w${i}`).join(' ');

let lean;
let echo;
before(async () => {
  lean = await Lean.spawn();
  echo = await lean.load('echo');
});
after(() => lean.close());

/** What another process prints; it must end by itself. */
function printed(script, ...flags) {
  const whole = `import { Lean, type } from ${JSON.stringify(index)};
    const words = ${words};
    const lean = await Lean.spawn();
    const model = await lean.load('echo');
    ${script}`;
  const host = spawnSync(process.execPath, [...flags, '--input-type=module', '-e', whole], { encoding: 'utf8', timeout: 300_000 });
  assert.equal(host.status, 0, `${host.signal ?? ''} ${host.stderr}`);
  return host.stdout;
}

/** A stream of which one token was read: far from its end. */
async function begun(model) {
  const stream = model.stream(type.text(), { blocks: words(500) });
  const events = stream[Symbol.asyncIterator]();
  while ((await events.next()).value.type !== 'token');
  return { stream, events };
}

test('a stream that is never read begins nothing', async () => {
  for (let i = 0; i < 200; i++) echo.stream(type.text(), { blocks: words(500), maxTokens: 500 });
  assert.equal((await echo.generate(type.text(), { blocks: 'fine' })).value, 'fine');
});

test('a stream says what it was told when it was made', async () => {
  const blocks = ['one', ' two'];
  const stream = echo.stream(type.text(), { blocks });
  blocks.push(' three');
  assert.equal((await stream.result).value, 'one two');
});

test('a stream cancelled before it begins fails without beginning', async () => {
  const stream = echo.stream(type.text(), { blocks: 'one' });
  stream.cancel();
  await assert.rejects(stream.checkpoint(), { name: 'invalid_argument', message: /begins when it is iterated/ });
  await assert.rejects(stream.result, { name: 'cancelled', code: 500 });
  await assert.rejects(async () => {
    for await (const _ of stream);
  }, { name: 'cancelled' });
});

test('a stream keeps its model until it is read', () => {
  const out = printed(
    `const stream = (await lean.load('echo')).stream(type.text(), { blocks: 'kept' });
     for (let i = 0; i < 3; i++) { gc(); await new Promise((r) => setTimeout(r, 20)); }
     await lean.load('echo'); // after what the collection sent
     for await (const e of stream) if (e.type === 'token') console.log(e.text);`,
    '--expose-gc',
  );
  assert.equal(out, 'kept\n');
});

test('streams that are not read on do not keep the process alive', () => {
  const out = printed(
    `globalThis.unread = model.stream(type.text(), { blocks: words(500), maxTokens: 500 });
     globalThis.begun = model.stream(type.text(), { blocks: words(500) })[Symbol.asyncIterator]();
     console.log((await begun.next()).value.type);`,
  );
  assert.equal(out, 'prefill\n');
});

test('a stream that somebody waits for keeps the process alive', () => {
  const out = printed(
    `const slow = await lean.load('echo?step_ms=30');
     slow.stream(type.text(), { blocks: 'one two' }).result.then((r) => console.log(r.value));
     const read = slow.stream(type.text(), { blocks: 'three four' });
     for await (const e of read) if (e.type === 'token') console.log(e.text);`,
  );
  assert.deepEqual(out.trim().split('\n').map((s) => s.trim()).toSorted(), ['four', 'one two', 'three']);
});

test('streams out of reach are cancelled, and the calls that waited for their places run', () => {
  const out = printed(
    `await (async () => {
       for (let i = 0; i < 70; i++) {
         const events = model.stream(type.text(), { blocks: words(500) })[Symbol.asyncIterator]();
         const first = events.next();
         if (i < 56) await first; // the others wait for a place, and somebody waits for them
         else first.catch(() => {});
       }
     })();
     const late = model.generate(type.text(), { blocks: 'late' });
     const timer = setInterval(gc, 20);
     console.log((await late).value);
     clearInterval(timer);
     process.exit(0);`,
    '--expose-gc',
  );
  assert.equal(out, 'late\n');
});

test('200 calls at once all come through', async () => {
  const told = Array.from({ length: 200 }, (_, i) => `call ${i}`);
  const results = await Promise.all(told.map((blocks) => echo.generate(type.text(), { blocks })));
  assert.deepEqual(results.map((r) => r.value), told);
  const sessions = await Promise.all(told.map(() => echo.session()));
  await Promise.all(sessions.map((s, i) => s.append(told[i])));
  await Promise.all(sessions.map((s) => s.close()));
});

test('a call that waits for its turn can be aborted; checkpoints of streams that fill the bridge can be taken', async () => {
  const open = [];
  for (let i = 0; i < 56; i++) open.push(await begun(echo));
  const abort = new AbortController();
  const aborted = assert.rejects(echo.generate(type.text(), { blocks: 'x', signal: abort.signal }), { name: 'AbortError' });
  const cancelled = echo.stream(type.text(), { blocks: 'x' });
  const ends = assert.rejects(cancelled.result, { name: 'cancelled', code: 500 });
  const waiting = echo.generate(type.text(), { blocks: 'in its turn' });
  abort.abort();
  cancelled.cancel();
  await aborted;
  await ends;

  const checkpoint = await open[0].stream.checkpoint();
  assert.ok(checkpoint.tokens > 500);
  await checkpoint.drop();

  await open[0].events.return();
  assert.equal((await waiting).value, 'in its turn');
  await Promise.all(open.map(({ events }) => events.return()));
});

test('close ends what runs and what waits for its turn', async () => {
  const other = await Lean.spawn();
  const slow = await other.load('echo?step_ms=60000');
  const calls = Array.from({ length: 100 }, () => slow.generate(type.text(), { blocks: 'one' }));
  const ends = Promise.allSettled(calls);
  await other.close();
  assert.deepEqual(new Set((await ends).map((e) => e.reason?.name)), new Set(['cancelled']));
});

test('a bridge that dies ends what waits for its turn', async () => {
  const other = await Lean.spawn();
  const slow = await other.load('echo?step_ms=60000');
  const ends = Promise.allSettled(Array.from({ length: 100 }, () => slow.generate(type.text(), { blocks: 'one' })));
  process.kill(other.pid, 'SIGKILL');
  assert.deepEqual(new Set((await ends).map((e) => e.reason?.name)), new Set(['bridge_exited']));
});

test('an answer that has arrived survives a cancel: nothing waits for ever', async () => {
  const stream = echo.stream(type.text(), { blocks: 'one two three' });
  for await (const e of stream) {
    if (e.type !== 'token') continue;
    // On the same connection: by now the whole answer lies in the queue behind this event.
    await echo.generate(type.text(), { blocks: words(100) });
    break;
  }
  assert.equal((await stream.result).value, 'one two three');

  const failure = new Error('mine');
  await assert.rejects(
    echo.generate(type.text(), {
      blocks: 'one two three',
      async onToken() {
        await echo.generate(type.text(), { blocks: words(100) });
        throw failure;
      },
    }),
    failure,
  );
});

test('a prompt over the limit of a frame is refused; a session takes it in parts', async () => {
  const text = 'x'.repeat(600_000);
  await assert.rejects(echo.generate(type.text(), { blocks: [text, text] }), { name: 'invalid_argument', message: /1048576 fit a frame.*session in parts/ });
  const roomy = await lean.load('echo', { context: 40_000 });
  const session = await roomy.session();
  await session.append(text);
  await session.append(` ${text}`);
  assert.equal((await session.generate(type.text({ maxChars: 3 }))).value, 'xxx');
});
