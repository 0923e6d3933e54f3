// Checkpoints: handles of states in the bridge, and their bytes.

import { CHUNK_BYTES, crc32 } from './frames.js';
import { only, text } from './check.js';
import { freed, LeanError, invalid } from './errors.js';
import { json } from './options.js';

/** Drops what nobody refers to any more. */
const forgotten = new FinalizationRegistry(({ connection, handle }) => connection.post('CHECKPOINT_DROP', { checkpoint: handle }));

/** A state to continue from; it outlives the session it came from. */
export class Checkpoint {
  #connection;
  #handle;

  constructor(connection, { checkpoint, tokens }, restored) {
    this.#connection = connection;
    this.#handle = checkpoint;
    /** Tokens it holds, if known. */
    this.tokens = tokens;
    /** What was done to it, where the call that read it said what may be done. */
    this.restored = restored;
    forgotten.register(this, { connection, handle: checkpoint }, this);
  }

  /** The handle, for this client's own requests on the same connection. */
  handleOn(connection) {
    if (this.#handle === null) throw invalid('the checkpoint was dropped');
    if (connection !== this.#connection) {
      throw invalid('the checkpoint lives in another bridge process: hand over its bytes()');
    }
    return this.#handle;
  }

  /** How it is written: the tail of a CHECKPOINT_SAVE. */
  #written({ compress, parent }) {
    if (compress !== undefined && typeof compress !== 'boolean') throw invalid('compress: true or false');
    return parentTail(this.#connection, parent, compress === undefined ? {} : { compress });
  }

  /** Its self-describing bytes. @returns {Promise<Uint8Array>} */
  async bytes(options = {}) {
    const { signal, ...how } = only(options, ['signal', 'compress', 'parent'], 'bytes');
    const pieces = [];
    let length = 0;
    const { head } = await this.#connection.request(
      'CHECKPOINT_SAVE',
      { checkpoint: this.handleOn(this.#connection) },
      {
        signal,
        tail: this.#written(how),
        owner: [this, how.parent],
        onEvent({ name, head: chunk, tail }) {
          if (name !== 'CHUNK') return;
          if (chunk.offset !== length) throw damaged(`a chunk at ${chunk.offset} where ${length} was due`);
          pieces.push(tail);
          length += tail.length;
        },
      },
    );
    const bytes = new Uint8Array(length);
    pieces.reduce((at, p) => (bytes.set(p, at), at + p.length), 0);
    if (length !== head.size || crc32(bytes) !== head.digest) throw damaged('size or digest do not match');
    return bytes;
  }

  /** Writes it to a file: to a temporary one that is flushed and renamed. @returns {Promise<{ size: number }>} */
  async save(path, options = {}) {
    const { signal, ...how } = only(options, ['signal', 'compress', 'parent'], 'save');
    const save = { checkpoint: this.handleOn(this.#connection), path: text(path, 'save') };
    const { head } = await this.#connection.request('CHECKPOINT_SAVE', save, { signal, tail: this.#written(how), owner: [this, how.parent] });
    return { size: head.size };
  }

  /** Frees it now instead of when it is collected. */
  async drop() {
    if (this.#handle === null) return;
    const checkpoint = this.#handle;
    this.#handle = null;
    forgotten.unregister(this);
    await freed(this.#connection.request('CHECKPOINT_DROP', { checkpoint }));
  }

  async [Symbol.asyncDispose ?? Symbol.for('Symbol.asyncDispose')]() {
    await this.drop();
  }
}

const damaged = (reason) =>
  new LeanError(`the checkpoint was damaged on its way: ${reason}`, { code: 300, name: 'bad_checkpoint', class: 'input' });

/** The tail that names a parent, or none. */
function parentTail(connection, parent, rest = {}) {
  if (parent !== undefined && !(parent instanceof Checkpoint)) throw invalid('parent: a checkpoint is needed');
  const document = parent === undefined ? rest : { ...rest, parent: parent.handleOn(connection) };
  return Object.keys(document).length === 0 ? undefined : json(document);
}

const POLICIES = ['exact', 'convert', 'reprefill'];

/** A checkpoint from the answer to the request that read it. */
function made(connection, { head, tail }) {
  return new Checkpoint(connection, head, tail?.length ? JSON.parse(new TextDecoder().decode(tail)).restored : undefined);
}

/** Reads a checkpoint for a model, from a file's path or from bytes. */
export async function loadCheckpoint(connection, model, source, { signal, cancel, owner, parent, policy } = {}) {
  if (policy !== undefined && !POLICIES.includes(policy)) throw invalid(`restore: policy: one of ${POLICIES.join(', ')}`);
  const tail = parentTail(connection, parent, policy === undefined ? {} : { restore: policy });
  if (typeof source === 'string') {
    return made(connection, await connection.request('CHECKPOINT_LOAD', { model, path: source }, { signal, tail, cancel, owner: [owner, parent] }));
  }
  if (!ArrayBuffer.isView(source)) throw invalid('a checkpoint is restored from a Uint8Array or from the path of a file');
  const bytes = new Uint8Array(source.buffer, source.byteOffset, source.byteLength);
  const answer = await connection.request(
    'CHECKPOINT_LOAD',
    { model },
    {
      signal,
      tail,
      cancel,
      owner: [owner, parent],
      async upload(send) {
        for (let offset = 0; ; offset += CHUNK_BYTES) {
          const last = offset + CHUNK_BYTES >= bytes.length;
          const chunk = { offset, digest: last ? crc32(bytes) : null };
          if (!(await send(chunk, bytes.subarray(offset, offset + CHUNK_BYTES), last)) || last) return;
        }
      },
    },
  );
  return made(connection, answer);
}
