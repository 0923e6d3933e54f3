// Errors of the way to a model's bytes, in the codes that every interface of lean has.

import { LeanError } from './client/errors.js';

/** A model's source that cannot be read. */
export const modelIo = (message, details) => new LeanError(message, { code: 200, name: 'model_io', class: 'input', details });

/** A model's source that is not what was asked for. */
export const badModel = (message, details) => new LeanError(message, { code: 201, name: 'bad_model', class: 'input', details });

/** Sizes as people read them. */
export const megabytes = (n) => `${(n / 1e6).toFixed(n < 1e7 ? 1 : 0)} MB`;

/** No room for a model, in the words of who has to make some. */
export function noRoom(needed, { quota, usage } = {}) {
  const known = quota === undefined ? '' : `: ${megabytes(Math.max(0, quota - usage))} of ${megabytes(quota)} are free`;
  const message =
    `this browser keeps no ${needed ? megabytes(needed) : 'more'} for this site${known}. ` +
    'Remove cached models (Lean.cache.remove), free disk space, or load with cache: false';
  return new LeanError(message, { code: 410, name: 'io', class: 'resource', details: { needed, quota, usage } });
}
