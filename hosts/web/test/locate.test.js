// Where errors are underlined.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { locate, rangeOf } from '../studio/locate.js';

const text = '{ "a": "string", "b?": { "c": [1, "numbr", {"d/e": true}] } }';
const cut = (range) => range && text.slice(...range);

test('pointers', () => {
  for (const [pointer, value] of [
    ['', text],
    ['/a', '"string"'],
    ['/b', '{ "c": [1, "numbr", {"d/e": true}] }'],
    ['/b?/c/1', '"numbr"'],
    ['/b/c/2/d~1e', 'true'],
    ['/x', null],
    ['/a/b', null],
  ]) {
    assert.equal(cut(locate(text, pointer)), value, pointer);
  }
  assert.equal(locate('{ "a": ', '/a'), null);
});

test('places of errors', () => {
  assert.equal(cut(rangeOf(text, '/b/c/1')), '"numbr"');
  assert.deepEqual(rangeOf('string | nmber', 'character 10'), [9, 14]);
  assert.equal(cut(rangeOf(text, 'character 1 of /b/c/1')), 'numbr');
  assert.equal(rangeOf(text, '/nowhere'), null);
  assert.equal(rangeOf(text, undefined), null);
});
