// Compiled, never run: what the package's types say.
import { Lean, LeanError, type } from '../../dist/index.js';

type Equal<A, B> = (<X>() => X extends A ? 1 : 2) extends <X>() => X extends B ? 1 : 2 ? true : false;
function is<A, B>(_: Equal<A, B>) {}

export async function use() {
  const engine = await Lean.load('model.gguf', { backend: 'auto', onProgress: ({ stage, done, total }) => `${stage} ${done} ${total ?? 0}` });
  const { value } = await engine.generate(type({ id: 'number', name: 'string < 64' }), { blocks: 'Invent a user.' });
  is<typeof value, { id: number; name: string }>(true);
  const session = await engine.session();
  const fork = await session.fork();
  const bytes: Uint8Array = await (await fork.checkpoint()).bytes();
  await engine.restore(bytes);
  const ended: LeanError = await engine.ended;
  // @ts-expect-error there is no such backend
  await Lean.load('model.gguf', { backend: 'abacus' });
  return ended;
}
