// Types: what is generated and nothing else. They travel as JSON; the engine parses and enforces them.

import { invalid } from './errors.js';

/** A type. Made by `type(...)` and its relatives. */
export class Type {
  /** @param {object} source the wire form: {expr}, {schema}, {text}, {regex} or {choice} */
  constructor(source) {
    this.source = Object.freeze(source);
    Object.freeze(this);
  }
  toJSON() {
    return this.source;
  }
}

/** A type expression: an object whose leaves are strings in ArkType's notation, or such a string. */
export function type(expression) {
  if (expression === undefined) throw invalid('type: an expression is needed, such as type({ id: "number" })');
  return new Type({ expr: expression });
}

/** A JSON Schema. */
type.schema = (schema) => new Type({ schema });

/** Unquoted text of at most `maxChars` characters, or as long as the budget lasts. */
type.text = ({ maxChars } = {}) => new Type({ text: { max_chars: maxChars ?? null } });

/** Unquoted text that matches a regular expression as a whole. */
type.regex = (regex) => {
  if (regex instanceof RegExp && regex.flags.replace(/[uv]/, '') !== '') {
    throw invalid(`type.regex: the flags ${regex.flags} have no meaning here`);
  }
  return new Type({ regex: regex instanceof RegExp ? regex.source : String(regex) });
};

/** Unquoted text: one of these strings. */
type.choice = (...choices) => new Type({ choice: choices.flat() });
