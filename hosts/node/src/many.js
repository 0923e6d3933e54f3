// Several values that continue one context, decoded together: a pass over the weights serves all of them.

import { Checkpoint, loadCheckpoint } from './checkpoint.js';
import { invalid } from './errors.js';
import { Stream } from './generation.js';
import { generateTail } from './options.js';

/** Requests that a bridge has open at once, less one to cancel or to take a checkpoint with. */
const MOST = 63;

let groups = 0;

function checked(branches) {
  if (!Array.isArray(branches) || branches.length < 1 || branches.length > MOST) {
    throw invalid(`an array of 1 to ${MOST} branches is needed, each { type, ...options }`);
  }
  for (const { type, checkpoint, ...options } of branches) {
    if (checkpoint !== undefined) throw invalid('branches share one checkpoint: pass it beside them');
    // Refused here, for the others would wait for one that is never sent.
    generateTail(type ?? null, options);
    if (type == null) throw invalid('every branch needs a type');
  }
}

/**
 * Starts the branches.
 * @param {import('./connection.js').Connection} connection
 * @param {{ model?: number, session?: number }} on
 */
export async function streamMany(connection, on, branches, { checkpoint, signal } = {}, owner) {
  checked(branches);
  if (checkpoint !== undefined && on.model === undefined) {
    throw invalid('a session goes on where it is: open one from the checkpoint instead');
  }
  const given = checkpoint === undefined || checkpoint instanceof Checkpoint;
  const start = given ? checkpoint : await loadCheckpoint(connection, on.model, checkpoint, { signal });
  groups = groups >= 0x7fff_ffff ? 1 : groups + 1;
  const target = { ...on, group: groups, members: branches.length };
  const streams = [];
  const unsent = () => streams.forEach((stream) => stream.cancel());
  for (const { type, ...options } of branches) {
    const signals = [options.signal, signal].filter(Boolean);
    const both = signals.length > 1 ? AbortSignal.any(signals) : signals[0];
    // All of them now: each waits in the bridge until the last has arrived.
    const hooks = { now: true, onUnsent: unsent };
    streams.push(new Stream(connection, target, type, { ...options, checkpoint: start, signal: both }, owner, hooks));
  }
  if (!given) void Promise.allSettled(streams.map((stream) => stream.ended)).then(() => start.drop().catch(() => {}));
  return streams;
}

/** The results of all branches, in their order. If one fails, the others are cancelled and its error is thrown. */
export async function generateMany(connection, on, branches, options, owner) {
  const streams = await streamMany(connection, on, branches, options, owner);
  const results = streams.map((stream) => stream.result);
  try {
    return await Promise.all(results);
  } catch (e) {
    streams.forEach((stream) => stream.cancel());
    await Promise.allSettled(results);
    throw e;
  }
}
