// JavaScript's names and shapes to the wire's.

import { invalid } from './errors.js';
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
};

/** Options that are not the engine's but this client's. */
const OWN = new Set(['blocks', 'checkpoint', 'keep', 'signal', 'onToken', 'onPrefill', 'onPartial']);

function wireOptions(given) {
  const options = {};
  for (const [name, value] of Object.entries(given)) {
    if (OWN.has(name) || value === undefined) continue;
    const wire = OPTIONS[name];
    if (!wire) throw invalid(`unknown option ${name}; known are ${[...OWN, ...Object.keys(OPTIONS)].join(', ')}`);
    options[wire] = name === 'stop' ? [value].flat() : value;
  }
  if (options.seed !== undefined && !Number.isSafeInteger(options.seed)) throw invalid('seed: a safe integer is needed');
  return options;
}

/** One block, or text in place of one, in its wire form. */
function wireBlock(block) {
  if (typeof block === 'string') return { text: block };
  if (Array.isArray(block?.chat)) {
    const { chat: messages, ...rest } = block;
    return { chat: { messages, ...rest } };
  }
  if (ArrayBuffer.isView(block?.tokens)) return { tokens: Array.from(block.tokens) };
  return block;
}

/** Blocks in their wire form. */
export const wireBlocks = (blocks) => (blocks === undefined ? [] : [blocks].flat().map(wireBlock));

const encoder = new TextEncoder();

/** A JSON tail. */
export const json = (document) => encoder.encode(JSON.stringify(document));

/** The tail of a GENERATE; without a type the value that the checkpoint was taken in goes on. */
export function generateTail(type, given) {
  if (type !== null && !(type instanceof Type)) {
    throw invalid('generate: the first argument is a type, such as type({ id: "number" }) or type.text()');
  }
  return json({ blocks: wireBlocks(given.blocks), type, options: wireOptions(given) });
}

/** `prompt_tokens` to `promptTokens`, and so on. */
export const camel = (object) =>
  Object.fromEntries(Object.entries(object ?? {}).map(([k, v]) => [k.replace(/_(\w)/g, (_, c) => c.toUpperCase()), v]));
