// Plain JSON out of JavaScript values. `JSON.stringify` leaves out or replaces what JSON cannot carry; a request
// that says something else than its caller wrote is worse than an error.

import { described, text } from './check.js';
import { invalid } from './errors.js';

/** The protocol's bound on nesting. */
const DEPTH_MAX = 64;

/** Objects whose content `JSON.stringify` would lose without a word. */
const OPAQUE = new Set(['Map', 'Set', 'WeakMap', 'WeakSet', 'WeakRef', 'RegExp', 'Promise', 'Error', 'ArrayBuffer', 'SharedArrayBuffer']);

const opaque = (value) => ArrayBuffer.isView(value) || OPAQUE.has(Object.prototype.toString.call(value).slice(8, -1));

/**
 * A copy of a value that is JSON and nothing else.
 * @param {unknown} value
 * @param {string} at its place, for errors: a name, then a JSON pointer
 * @param {{ absent?: boolean, replace?: (value: object, at: string) => unknown }} [options]
 *   `absent`: properties that are undefined, and values with a `toJSON`, are treated as `JSON.stringify` does.
 *   `replace`: what stands for an object, or undefined if it stands for itself.
 */
export function plain(value, at, { absent = false, replace } = {}) {
  const open = [];
  const copy = (v, where, key) => {
    switch (typeof v) {
      case 'string':
        return text(v, where);
      case 'boolean':
        return v;
      case 'number':
        if (Number.isFinite(v)) return v;
        throw invalid(`${where}: JSON has no ${v}`);
      case 'object':
        return v === null ? null : object(v, where, key);
      default:
        throw invalid(`${where}: JSON cannot carry ${described(v)}`);
    }
  };
  const object = (v, where, key) => {
    const instead = replace?.(v, where);
    if (instead !== undefined) return instead;
    if (v instanceof Number || v instanceof String || v instanceof Boolean) return copy(v.valueOf(), where, key);
    if (v instanceof Date && Number.isNaN(v.getTime())) throw invalid(`${where}: an invalid Date`);
    if (typeof v.toJSON === 'function' && absent) {
      const said = v.toJSON(key);
      if (said !== v) return copy(said, where, key);
    } else if (typeof v.toJSON === 'function' || opaque(v)) {
      throw invalid(`${where}: ${described(v)} has no place here`);
    }
    if (opaque(v)) throw invalid(`${where}: JSON cannot carry ${described(v)}`);
    if (open.includes(v)) throw invalid(`${where}: a cycle: this object contains itself`);
    if (open.length >= DEPTH_MAX) throw invalid(`${where}: nested more than ${DEPTH_MAX} levels deep`);
    open.push(v);
    const copied = Array.isArray(v) ? Array.from(v, (x, i) => copy(x, `${where}/${i}`, String(i))) : properties(v, where);
    open.pop();
    return copied;
  };
  const properties = (v, where) => {
    const entries = Object.entries(v).filter(([, x]) => !(absent && x === undefined));
    return Object.fromEntries(entries.map(([k, x]) => [text(k, `${where}: a key`), copy(x, `${where}/${pointed(k)}`, k)]));
  };
  return copy(value, at, '');
}

/** A key as a part of a JSON pointer. */
const pointed = (key) => key.replaceAll('~', '~0').replaceAll('/', '~1');
