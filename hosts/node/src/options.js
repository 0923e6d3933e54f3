// JavaScript's names and shapes to the wire's.

import { described, finite, only, text } from './check.js';
import { invalid } from './errors.js';
import { plain } from './json.js';
import { Type } from './type.js';

/** The request options, by their names here and on the wire. */
const OPTIONS = {
  maxTokens: 'max_tokens',
  temperature: 'temperature',
  topK: 'top_k',
  topP: 'top_p',
  minP: 'min_p',
  repetitionPenalty: 'repetition_penalty',
  repetitionWindow: 'repetition_window',
  seed: 'seed',
  stop: 'stop',
  partials: 'partials',
  confidence: 'confidence',
  candidates: 'candidates',
};

/** Options that are not the engine's but this client's. */
const OWN = ['blocks', 'checkpoint', 'keep', 'signal', 'onToken', 'onPrefill', 'onPartial', 'onCandidates'];
const KNOWN = [...OWN, ...Object.keys(OPTIONS)];

function wireOptions(given) {
  const options = {};
  for (const [name, wire] of Object.entries(OPTIONS)) {
    // Who listens for partial values wants them sent.
    const value = name === 'partials' && given.onPartial ? (given[name] ?? true) : given[name];
    if (value === undefined) continue;
    if (name === 'stop') options[wire] = [value].flat().map((s) => text(s, 'stop'));
    else if (name === 'partials' || name === 'confidence') options[wire] = Boolean(value);
    else options[wire] = finite(value, name);
  }
  if (options.seed !== undefined && !Number.isSafeInteger(options.seed)) throw invalid('seed: a safe integer is needed');
  return options;
}

/** One block, or text in place of one, in its wire form. */
function wireBlock(block, i) {
  const at = `blocks/${i}`;
  if (typeof block === 'string') return { text: text(block, at) };
  if (typeof block !== 'object' || block === null) throw invalid(`${at}: a block is a string or an object, not ${described(block)}`);
  if (ArrayBuffer.isView(block.tokens)) return { tokens: plain(Array.from(block.tokens), `${at}/tokens`) };
  const wire = plain(block, at, { absent: true });
  if (!Array.isArray(wire.chat)) return wire;
  const { chat: messages, ...rest } = wire;
  return { chat: { messages, ...rest } };
}

/** Blocks in their wire form. */
export const wireBlocks = (blocks) => (blocks === undefined ? [] : [blocks].flat().map(wireBlock));

const encoder = new TextEncoder();

/** A JSON tail. */
export const json = (document) => encoder.encode(JSON.stringify(document));

/** The tail of a GENERATE; without a type the value that the checkpoint was taken in goes on. */
export function generateTail(type, given) {
  if (type !== null && !(type instanceof Type)) {
    throw invalid('generate: the first argument is a type, such as type({ id: "number" }), type.schema(schema) or type.text()');
  }
  only(given, KNOWN, 'generate');
  return json({ blocks: wireBlocks(given.blocks), type, options: wireOptions(given) });
}

/** `prompt_tokens` to `promptTokens`, and so on. */
export const camel = (object) =>
  Object.fromEntries(Object.entries(object ?? {}).map(([k, v]) => [k.replace(/_(\w)/g, (_, c) => c.toUpperCase()), v]));
