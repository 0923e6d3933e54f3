// Compiled, never run: the same types for CommonJS.
import { type, Lean, Type } from 'lean-node';
import lean = require('lean-node');

const user: Type<{ id: number }> = type({ id: 'number' });
export const same: typeof type = lean.type;
export async function name(): Promise<number> {
  const model = await (await Lean.spawn()).load('echo');
  return (await model.generate(user)).value.id;
}
