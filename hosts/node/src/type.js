// Types: what is generated and nothing else. They travel as JSON; the engine parses and enforces them.

import { described, integer, only, text } from './check.js';
import { invalid } from './errors.js';
import { plain } from './json.js';
import { jsonSchemaOf } from './standard.js';

/** A type. Made by `type(...)` and its relatives. */
export class Type {
  /** @param {object} source the wire form: {expr}, {schema}, {text}, {regex}, {choice} or {tools} */
  constructor(source) {
    this.source = Object.freeze(source);
    Object.freeze(this);
  }
  toJSON() {
    return this.source;
  }
}

/** A pattern in the engine's notation; it has no flags, and works on code points as `u` and `v` do. */
function patternOf(regex, at) {
  if (regex.flags.replace(/[uv]/, '') !== '') throw invalid(`${at}: the flags ${regex.flags} have no meaning here`);
  return text(regex.source, at);
}

/** Regular expressions and types may stand in an expression for their notation. */
function inExpression(value, at) {
  if (value instanceof RegExp) return `/${patternOf(value, at)}/`;
  if (!(value instanceof Type)) return undefined;
  if (value.source.expr !== undefined) return value.source.expr;
  throw invalid(`${at}: of types, only those made by type(...) can be parts of another; this is a type of ${Object.keys(value.source)}`);
}

/** A type expression: an object whose leaves are strings in ArkType's notation, or such a string. */
export function type(expression) {
  if (expression === undefined) throw invalid('type: an expression is needed, such as type({ id: "number" })');
  return new Type({ expr: plain(expression, 'type', { replace: inExpression }) });
}

/** A JSON Schema, or a schema of another library that has one. */
type.schema = (schema, options = {}) => {
  const { toJsonSchema } = only(options, ['toJsonSchema'], 'type.schema');
  const document = jsonSchemaOf(schema, toJsonSchema);
  if (typeof document !== 'boolean' && (typeof document !== 'object' || document === null || Array.isArray(document))) {
    throw invalid(`type.schema: a JSON Schema is an object or a boolean, not ${described(document)}`);
  }
  return new Type({ schema: plain(document, 'type.schema') });
};

/** Unquoted text of at most `maxChars` characters, or as long as the budget lasts. */
type.text = (options = {}) => {
  const { maxChars } = only(options, ['maxChars'], 'type.text');
  return new Type({ text: { max_chars: maxChars === undefined ? null : integer(maxChars, 'type.text: maxChars') } });
};

/** Unquoted text that matches a regular expression as a whole. */
type.regex = (regex) => new Type({ regex: regex instanceof RegExp ? patternOf(regex, 'type.regex') : text(regex, 'type.regex') });

/** Unquoted text: one of these strings, given one by one or as one array. */
type.choice = (...choices) => {
  const all = choices.length === 1 && Array.isArray(choices[0]) ? Array.from(choices[0]) : choices;
  if (all.length === 0) throw invalid('type.choice: at least one string is needed');
  return new Type({ choice: all.map((c, i) => text(c, `type.choice: /${i}`)) });
};

/** A reply: text, or calls of these tools, in the model's own syntax; `{ text, calls: [{ name, arguments }] }`. */
type.tools = (tools, options = {}) => {
  const { choice = 'auto', parallel = true, syntax = null } = only(options, ['choice', 'parallel', 'syntax'], 'type.tools');
  if (!Array.isArray(tools)) throw invalid(`type.tools: an array of tools is needed, not ${described(tools)}`);
  return new Type({ tools: plain({ tools, choice, parallel: Boolean(parallel), syntax }, 'type.tools') });
};
