// What callers hand over: wrong names and values are errors here that name their place, before anything is sent.

import { invalid } from './errors.js';

/** What a value is, in words. */
export function described(value) {
  if (value === null || value === undefined) return String(value);
  if (Array.isArray(value)) return 'an array';
  if (typeof value === 'number') return String(value);
  if (typeof value === 'bigint') return `a BigInt (${value}n)`;
  const name = typeof value === 'object' ? (value.constructor?.name ?? 'object') : typeof value;
  return `${/^[aeiou]/i.test(name) ? 'an' : 'a'} ${name}`;
}

/** Options that are an object with no other names than these. */
export function only(given, known, where) {
  if (typeof given !== 'object' || given === null || Array.isArray(given)) {
    throw invalid(`${where}: options are an object, not ${described(given)}`);
  }
  for (const [name, value] of Object.entries(given)) {
    if (value !== undefined && !known.includes(name)) throw invalid(`${where}: unknown option ${name}; known are ${known.join(', ')}`);
  }
  if (given.signal !== undefined && given.signal !== null && !(given.signal instanceof AbortSignal)) {
    throw invalid(`${where}: signal: an AbortSignal is needed, not ${described(given.signal)}`);
  }
  for (const [name, value] of Object.entries(given)) {
    if (/^on[A-Z]/.test(name) && value !== undefined && typeof value !== 'function') {
      throw invalid(`${where}: ${name}: a function is needed, not ${described(value)}`);
    }
  }
  return given;
}

/** A string that UTF-8 can carry. */
export function text(value, where) {
  if (typeof value !== 'string') throw invalid(`${where}: a string is needed, not ${described(value)}`);
  if (!value.isWellFormed()) throw invalid(`${where}: half of a surrogate pair, which is no character`);
  return value;
}

/** A number that JSON can carry. */
export function finite(value, where) {
  if (typeof value !== 'number' || !Number.isFinite(value)) {
    throw invalid(`${where}: a finite number is needed, not ${described(value)}`);
  }
  return value;
}

/** An integer of at least `least`. */
export function integer(value, where, least = 0) {
  if (!Number.isSafeInteger(value) || value < least) {
    throw invalid(`${where}: an integer of at least ${least} is needed, not ${described(value)}`);
  }
  return value;
}
