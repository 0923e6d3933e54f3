// Compiled, never run: what `type({...})` infers.
import { type, StandardSchema, Value, Model } from '../../index.js';

type Equal<A, B> = (<X>() => X extends A ? 1 : 2) extends <X>() => X extends B ? 1 : 2 ? true : false;
function is<A, B>(_: Equal<A, B>) {}

const user = type({
  id: 'number',
  name: 'string < 64',
  'tags?': 'string[] <= 5',
  kind: "'bug' | 'feature'",
  nested: { on: 'boolean', 'note?': 'string | null' },
});
is<typeof user.infer, {
  id: number;
  name: string;
  kind: 'bug' | 'feature';
  nested: { on: boolean; note?: string | null };
  tags?: string[];
}>(true);

is<Value<'1 <= integer < 10'>, number>(true);
is<Value<'number % 2'>, number>(true);
is<Value<'number.integer > 0'>, number>(true);
is<Value<'string.email'>, string>(true);
is<Value<'/^[a-z]+$/'>, string>(true);
is<Value<'(string | number)[]'>, (string | number)[]>(true);
is<Value<'1 | 2 | true'>, 1 | 2 | true>(true);
is<Value<"'a|b' | 'c<d'">, 'a|b' | 'c<d'>(true);
is<Value<"'it\\'s | x' | null">, string | null>(true);
is<Value<'string[][]'>, string[][]>(true);
is<Value<['string', 'number']>, [string, number]>(true);
is<Value<['string', 'number?', '...', 'boolean[]']>, [string, number?, ...boolean[]]>(true);
is<Value<{ 'a\\?': 'string'; '+': 'reject'; n: 3; z: null }>, { 'a?': string; n: 3; z: null }>(true);
is<Value<{ '[string]': 'number' }>, { [key: string]: number }>(true);
is<Value<'string & /^a/'>, unknown>(true);
is<Value<'something.else'>, unknown>(true);

// A pattern and another type as parts.
const order = type({ code: /^[A-Z]{3}$/, user, 'notes?': ['string', 'number'] });
is<typeof order.infer, { code: string; user: typeof user.infer; notes?: [string, number] }>(true);

is<ReturnType<typeof type.choice<'a' | 'b'>>['infer'], 'a' | 'b'>(true);
const listed = type.choice(['a', 'b']);
is<typeof listed.infer, 'a' | 'b'>(true);

declare const foreign: StandardSchema<{ id: number }> & { parse(x: unknown): { id: string } };
const standard = type.schema(foreign);
is<typeof standard.infer, { id: number }>(true);
const schema = type.schema<{ id: number }>({ type: 'object' }, { toJsonSchema: (s) => s });
is<typeof schema.infer, { id: number }>(true);
const unknown = type.schema({ type: 'object' });
is<typeof unknown.infer, unknown>(true);

// @ts-expect-error there is no such option
type.text({ max: 3 });
// @ts-expect-error a choice is of strings
type.choice(1);

export async function results(model: Model) {
  const { value } = await model.generate(user, { blocks: ['Invent a user.', { json: { x: 1 } }] });
  const name: string = value.name;
  const choice = (await model.generate(type.choice('yes', 'no'))).value;
  is<typeof choice, 'yes' | 'no'>(true);
  const text = (await model.stream(type.text()).result).value;
  is<typeof text, string>(true);
  // @ts-expect-error there is no such option
  await model.generate(user, { temprature: 1 });
  return name;
}

/** Branches keep their own types, in order. */
export async function many(model: Model) {
  const [a, b] = await model.generateMany([
    { type: user, blocks: 'Invent one.' },
    { type: type.choice('yes', 'no'), temperature: 1, seed: 2 },
  ]);
  is<typeof a.value, typeof user.infer>(true);
  is<typeof b.value, 'yes' | 'no'>(true);
  const drafts = await model.generateMany([1, 2, 3].map((seed) => ({ type: type.text(), seed })));
  is<(typeof drafts)[number]['value'], string>(true);
  const streams = await model.streamMany([{ type: type.text() }]);
  is<Awaited<(typeof streams)[0]['result']>['value'], string>(true);
  // @ts-expect-error the checkpoint is passed beside the branches
  await model.generateMany([{ type: type.text(), checkpoint: 'file' }]);
}
