// JSON Schema out of the schemas of other libraries: Zod, Valibot, ArkType and whatever else has `~standard`.

import { described } from './check.js';
import { invalid, LeanError } from './errors.js';

/** A property of functions too: ArkType's types are such. */
const standardOf = (schema) =>
  (typeof schema === 'object' || typeof schema === 'function') && schema !== null ? schema['~standard'] : undefined;

/** Zod hides a `~standard` in the JSON Schemas that it makes; those are taken as they are. */
const isDocument = (schema) =>
  Object.getPrototypeOf(schema) === Object.prototype && !Object.prototype.propertyIsEnumerable.call(schema, '~standard');

/**
 * The JSON Schema of what a library's schema takes as input: that is what a model writes.
 * @param {unknown} schema a JSON Schema, or an object of the specifications Standard Schema and Standard JSON Schema
 * @param {((schema: any) => unknown) | undefined} convert the caller's own converter
 */
export function jsonSchemaOf(schema, convert) {
  if (convert !== undefined) {
    if (typeof convert !== 'function') throw invalid(`type.schema: toJsonSchema: a function is needed, not ${described(convert)}`);
    return converted(() => convert(schema), 'toJsonSchema');
  }
  const standard = standardOf(schema);
  if (standard === undefined || isDocument(schema)) return schema;
  const { vendor, jsonSchema } = standard;
  if (typeof jsonSchema?.input !== 'function') {
    throw invalid(
      `type.schema: this schema of ${vendor} cannot say what it is as JSON Schema (it has no \`~standard\`.jsonSchema): ` +
        'convert it yourself, or pass a converter, as in type.schema(schema, { toJsonSchema })' +
        (vendor === 'valibot' ? '; for Valibot that is toJsonSchema of @valibot/to-json-schema' : '') +
        (vendor === 'zod' ? '; for Zod 4 that is z.toJSONSchema' : ''),
    );
  }
  return converted(() => jsonSchema.input({ target: 'draft-2020-12' }), vendor);
}

function converted(make, who) {
  let schema;
  try {
    schema = make();
  } catch (cause) {
    const { code, name, class: cls } = invalid('');
    throw new LeanError(`type.schema: ${who}: ${cause?.message ?? cause}`, { code, name, class: cls, cause });
  }
  if (typeof schema?.then === 'function') throw invalid(`type.schema: ${who}: the JSON Schema is needed, not a promise of it`);
  return schema;
}
