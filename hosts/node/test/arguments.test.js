// What JSON and the protocol cannot carry is an error that names its place, never another request.

import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { findBridge, Lean, LeanError, Type, type } from '../src/index.js';

let lean;
let echo;
before(async () => {
  lean = await Lean.spawn();
  echo = await lean.load('echo');
});
after(() => lean.close());

/** An `invalid_argument` whose message matches. */
const refusal = (pattern) => (e) => {
  assert.ok(e instanceof LeanError, e?.stack);
  assert.deepEqual([e.code, e.name, e.class], [100, 'invalid_argument', 'input']);
  assert.match(e.message, pattern);
  return true;
};

const loop = { a: {} };
loop.a.b = loop;
const deep = Array.from({ length: 100 }).reduce((inner) => ({ x: inner }), 'string');

for (const [name, make, pattern] of [
  ['nothing', () => type(), /an expression is needed/],
  ['a function', () => type({ a: () => 1 }), /^type\/a: JSON cannot carry a function/i],
  ['undefined', () => type({ a: { 'b/c': undefined } }), /^type\/a\/b~1c: .*undefined/],
  ['undefined in a tuple', () => type(['string', undefined]), /^type\/1: .*undefined/],
  ['a hole', () => type(['string', , 'string']), /^type\/1: .*undefined/],
  ['a symbol', () => type({ a: Symbol('s') }), /^type\/a: .*symbol/i],
  ['NaN', () => type({ a: NaN }), /^type\/a: JSON has no NaN/],
  ['Infinity', () => type([Infinity]), /^type\/0: JSON has no Infinity/],
  ['a BigInt', () => type({ a: 1n }), /^type\/a: .*BigInt \(1n\)/],
  ['a Date', () => type({ a: new Date(0) }), /^type\/a: a Date has no place/],
  ['a Map', () => type({ a: new Map() }), /^type\/a: .*Map/],
  ['a cycle', () => type(loop), /^type\/a\/b: a cycle/],
  ['too deep a nesting', () => type(deep), /nested more than 64/],
  ['half a character', () => type({ a: "'\ud800'" }), /^type\/a: half of a surrogate/],
  ['half a character in a key', () => type({ '\ud800': 'string' }), /^type: a key: half of a surrogate/],
  ['a pattern with flags', () => type({ a: /x/i }), /^type\/a: the flags i/],
  ['a text type as a part', () => type({ a: type.text() }), /^type\/a: .*type of text/],
  ['maxChars NaN', () => type.text({ maxChars: NaN }), /maxChars: .*NaN/],
  ['maxChars below zero', () => type.text({ maxChars: -1 }), /maxChars: .*-1/],
  ['maxChars a string', () => type.text({ maxChars: '3' }), /maxChars: .*a String/i],
  ['an unknown option', () => type.text({ max: 3 }), /^type\.text: unknown option max; known are maxChars/],
  ['a number for options', () => type.text(3), /options are an object/],
  ['no pattern', () => type.regex(), /^type\.regex: a string is needed, not undefined/],
  ['a pattern with flags alone', () => type.regex(/x/g), /^type\.regex: the flags g/],
  ['no choice', () => type.choice(), /at least one/],
  ['an empty choice', () => type.choice([]), /at least one/],
  ['a number as a choice', () => type.choice('a', 1), /^type\.choice: \/1: a string is needed, not 1/],
  ['arrays as choices', () => type.choice(['a'], ['b']), /^type\.choice: \/0: a string is needed, not an array/],
  ['no schema', () => type.schema(), /an object or a boolean, not undefined/],
  ['undefined in a schema', () => type.schema({ minLength: undefined }), /^type\.schema\/minLength: .*undefined/],
  ['a pattern object in a schema', () => type.schema({ pattern: /x/ }), /^type\.schema\/pattern: .*RegExp/],
  ['a schema that cannot say what it is', () => type.schema({ '~standard': { version: 1, vendor: 'valibot' } }), /of valibot cannot say .*toJsonSchema of @valibot/],
  ['a schema that fails to', () => type.schema({ '~standard': { vendor: 'v', jsonSchema: { input: () => { throw new Error('no dates'); } } } }), /^type\.schema: v: no dates/],
  ['a converter that is none', () => type.schema({}, { toJsonSchema: 1 }), /toJsonSchema: a function is needed/],
]) {
  test(`a type of ${name} is refused where it is made`, () => {
    assert.throws(make, refusal(pattern));
  });
}

for (const [options, pattern] of [
  [{ maxTokens: NaN }, /^maxTokens: a finite number is needed, not NaN/],
  [{ maxTokens: Infinity }, /^maxTokens: .*Infinity/],
  [{ maxTokens: 3n }, /^maxTokens: .*BigInt/],
  [{ maxTokens: '3' }, /^maxTokens: .*a String/i],
  [{ temperature: null }, /^temperature: .*null/],
  [{ seed: 1n }, /^seed: .*BigInt/],
  [{ seed: 2 ** 60 }, /^seed: a safe integer/],
  [{ stop: ['a', 1] }, /^stop: a string is needed, not 1/],
  [{ temprature: 1 }, /unknown option temprature/],
  [{ signal: {} }, /signal: an AbortSignal is needed/],
  [{ onToken: 1 }, /onToken: a function is needed/],
  [{ blocks: 7 }, /^blocks\/0: .*not 7/],
  [{ blocks: ['a', undefined] }, /^blocks\/1: .*not undefined/],
  [{ blocks: ['a\ud800'] }, /^blocks\/0: half of a surrogate/],
  [{ blocks: { json: { a: [1, NaN] } } }, /^blocks\/0\/json\/a\/1: JSON has no NaN/],
  [{ blocks: { json: { a: 1n } } }, /^blocks\/0\/json\/a: .*BigInt/],
  [{ blocks: { json: [undefined] } }, /^blocks\/0\/json\/0: .*undefined/],
  [{ blocks: { json: { when: new Date(NaN) } } }, /^blocks\/0\/json\/when: an invalid Date/],
  [{ blocks: { json: new Map([[1, 2]]) } }, /^blocks\/0\/json: .*Map/],
  [{ blocks: { json: /x/ } }, /^blocks\/0\/json: .*RegExp/],
  [{ blocks: { json: { f() {} } } }, /^blocks\/0\/json\/f: .*function/i],
  [{ blocks: { json: loop } }, /^blocks\/0\/json\/a\/b: a cycle/],
  [{ blocks: { tokens: [1n] } }, /^blocks\/0\/tokens\/0: .*BigInt/],
  [null, /options are an object, not null/],
]) {
  test(`a call with ${pattern} is refused`, async () => {
    await assert.rejects(echo.generate(type.text(), options), refusal(pattern));
    assert.throws(() => echo.stream(type.text(), options), refusal(pattern));
  });
}

test('every other call refuses likewise', async () => {
  const session = await echo.session();
  for (const [call, pattern] of [
    [() => Lean.spawn({ credit: 0 }), /credit: an integer of at least 1/],
    [() => Lean.spawn({ bridge: 7 }), /the `bridge` option is a path, not 7/],
    [() => Lean.spawn({ transport: 'pigeon' }), /transport is 'process' or 'port', not a string/],
    [() => Lean.spawn({ library: 'liblean.so' }), /library belongs to the transport 'port'/],
    [() => Lean.spawn({ transport: 'port', cwd: '/' }), /cwd belongs to the transport 'process'/],
    [() => Lean.spawn({ transport: 'port', bridge: '/bin/true' }), /bridge belongs to the transport 'process'/],
    [() => Lean.spawn({ brige: 'x' }), /unknown option brige/],
    [() => lean.load('echo', { threads: -1 }), /^threads: an integer from 0 to 4294967295 is needed, not -1/],
    [() => lean.load('echo', { threads: 1.5 }), /^threads: .*1\.5/],
    [() => lean.load('echo', { context: 4n }), /^context: .*BigInt/],
    [() => lean.load('echo', { backend: 3 }), /^backend: a string is needed, not 3/],
    [() => lean.load('echo', { thread: 1 }), /unknown option thread/],
    [() => lean.load(7), /path of a model file: a string is needed, not 7/],
    [() => echo.session({ context: NaN }), /^context: .*NaN/],
    [() => echo.session({ contxt: 4 }), /unknown option contxt/],
    [() => echo.restore(7), /a Uint8Array or from the path/],
    [() => echo.resume(), /the checkpoint of a value in progress/],
    [() => session.append('x', { maxTokens: 1 }), /^append: unknown option maxTokens/],
    [() => session.append([null]), /^blocks\/0: .*not null/],
    [async () => (await session.checkpoint()).save(7), /^save: a string is needed/],
  ]) {
    await assert.rejects(call, refusal(pattern));
  }
});

test('what JSON.stringify treats well in data still arrives', async () => {
  class Point {
    x = 1;
    y = undefined;
  }
  const data = { when: new Date(0), p: new Point(), n: null, ['__proto__']: 2, boxed: new Number(3) };
  const { value } = await echo.generate(type.text(), { blocks: { json: data } });
  assert.equal(value, JSON.stringify(data));
});

test('patterns and types are parts of types', async () => {
  const user = type({ name: /^[a-z/]+\/\d$/u });
  assert.deepEqual(user.toJSON(), { expr: { name: '/^[a-z/]+\\/\\d$/' } });
  const order = type({ user, 'more?': [user, '...', 'string[]'] });
  assert.deepEqual(order.toJSON().expr, { user: { name: '/^[a-z/]+\\/\\d$/' }, 'more?': [{ name: '/^[a-z/]+\\/\\d$/' }, '...', 'string[]'] });
  const told = { user: { name: 'a/b/7' } };
  assert.deepEqual((await echo.generate(order, { blocks: { json: told } })).value, told);
  await assert.rejects(echo.generate(order, { blocks: { json: { user: { name: 'A' } } } }), LeanError);
});

test('a type is what its expression was when it was made', () => {
  const expression = { a: ['string'] };
  const made = type(expression);
  expression.a.push('number');
  assert.deepEqual(made.toJSON(), { expr: { a: ['string'] } });
});

test('choices as an array', async () => {
  assert.deepEqual(type.choice(['a', 'b']).toJSON(), type.choice('a', 'b').toJSON());
  assert.equal((await echo.generate(type.choice(['three', 'four']), { blocks: 'one three' })).value, 'three');
});

test('schemas of other libraries', async () => {
  const schema = { type: 'object', properties: { id: { type: 'integer' } }, required: ['id'] };
  const asked = [];
  const standard = { version: 1, vendor: 'some', jsonSchema: { input: (o) => (asked.push(o), schema), output: () => assert.fail() } };
  assert.deepEqual(type.schema({ '~standard': standard }).toJSON(), { schema });
  assert.deepEqual(asked, [{ target: 'draft-2020-12' }]);
  // ArkType's are functions.
  const callable = Object.assign(() => {}, { '~standard': standard });
  assert.deepEqual((await echo.generate(type.schema(callable), { blocks: { json: { id: 1 } } })).value, { id: 1 });
  // A converter comes before what the schema says of itself.
  const foreign = { '~standard': standard, n: 1 };
  const converted = type.schema(foreign, { toJsonSchema: (s) => ({ const: s.n }) });
  assert.deepEqual(converted.toJSON(), { schema: { const: 1 } });
  // A JSON Schema made by Zod carries a hidden `~standard`.
  const document = Object.defineProperty({ ...schema, title: 'mine' }, '~standard', { value: standard });
  assert.deepEqual(type.schema(document).toJSON(), { schema: { ...schema, title: 'mine' } });
  assert.ok(type.schema(true) instanceof Type);
});

test('closing and unloading twice are no errors, nor is either after the end', async () => {
  const other = await Lean.spawn();
  const model = await other.load('echo');
  const session = await model.session();
  const kept = await session.checkpoint();
  await Promise.all([session.close(), session.close()]);
  await session.close();
  await kept.drop();
  await kept.drop();
  await model.unload();
  await model.unload();
  const late = await other.load('echo');
  const lateSession = await late.session();
  await other.close();
  await lateSession.close();
  await late.unload();
  await other.close();
});

test('a bridge inside an Electron archive is started from beside it', () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'lean-node-'));
  try {
    const inside = path.join(folder, 'app.asar', 'bin', 'lean-bridge');
    const beside = path.join(folder, 'app.asar.unpacked', 'bin', 'lean-bridge');
    mkdirSync(path.dirname(inside), { recursive: true });
    writeFileSync(inside, '');
    assert.throws(() => findBridge(inside), { name: 'bridge_not_found', message: /asarUnpack/ });
    mkdirSync(path.dirname(beside), { recursive: true });
    writeFileSync(beside, '');
    assert.equal(findBridge(inside), beside);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
