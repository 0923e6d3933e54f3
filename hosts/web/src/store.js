// Models in the browser's own file system (OPFS): `lean-models/KEY.gguf`, and `KEY.json` about it.

import { noRoom } from './errors.js';

const FOLDER = 'lean-models';
/** What is read back at a time. */
const PIECE_BYTES = 8 << 20;

const hex = (buffer) => [...new Uint8Array(buffer)].map((b) => b.toString(16).padStart(2, '0')).join('');

/** The folder, or null where there is none. */
async function folder() {
  try {
    const root = await navigator.storage.getDirectory();
    return await root.getDirectoryHandle(FOLDER, { create: true });
  } catch {
    return null;
  }
}

const keyOf = async (url) => hex(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(url))).slice(0, 32);

async function note(dir, key) {
  try {
    return JSON.parse(await (await (await dir.getFileHandle(`${key}.json`)).getFile()).text());
  } catch {
    return null;
  }
}

async function writeNote(dir, key, about) {
  const file = await dir.getFileHandle(`${key}.json`, { create: true });
  const access = await file.createSyncAccessHandle();
  try {
    access.truncate(0);
    access.write(new TextEncoder().encode(JSON.stringify(about)));
    access.flush();
  } finally {
    access.close();
  }
}

async function forget(dir, key) {
  for (const name of [`${key}.gguf`, `${key}.json`]) await dir.removeEntry(name).catch(() => {});
}

const isFull = (e) => e?.name === 'QuotaExceededError';

/** A model's place in the cache; null where the browser has no file system for this page. */
export async function place(url) {
  const dir = globalThis.navigator?.storage?.getDirectory && globalThis.crypto?.subtle ? await folder() : null;
  return dir && new Place(dir, url, await keyOf(url));
}

class Place {
  constructor(dir, url, key) {
    Object.assign(this, { dir, url, key });
  }

  /** Runs alone among all tabs: a file is written by one of them. */
  alone(signal, run) {
    if (!navigator.locks) return run();
    return navigator.locks.request(`lean-model-${this.key}`, { signal }, run);
  }

  /** The whole file, or null. */
  async file() {
    const about = await note(this.dir, this.key);
    if (!about?.complete) return null;
    const file = await (await this.dir.getFileHandle(`${this.key}.gguf`)).getFile().catch(() => null);
    return file?.size === about.size ? { file, digest: about.digest } : null;
  }

  forget() {
    return forget(this.dir, this.key);
  }

  /** Something to download into; goes on where an earlier download ended. */
  async sink(newDigest) {
    const { dir, key, url } = this;
    const handle = await dir.getFileHandle(`${key}.gguf`, { create: true });
    const access = await handle.createSyncAccessHandle();
    const about = await note(dir, key);
    let digest = newDigest();
    const sink = {
      have: 0,
      total: about?.size,
      tag: about?.tag ?? null,
      async begin({ total, tag }) {
        Object.assign(this, { total, tag });
        const room = await navigator.storage.estimate().catch(() => ({}));
        if (total !== undefined && room.quota !== undefined && total - this.have > room.quota - room.usage) throw noRoom(total, room);
        await this.note(false);
      },
      note(complete) {
        access.flush();
        const digested = complete ? digest.hex() : undefined;
        return writeNote(dir, key, { url, size: this.total ?? (complete ? this.have : undefined), tag: this.tag, complete, digest: digested });
      },
      async write(bytes) {
        let written = 0;
        try {
          written = access.write(bytes, { at: this.have });
        } catch (e) {
          if (!isFull(e)) throw e;
        }
        if (written !== bytes.length) throw noRoom(this.total, await navigator.storage.estimate().catch(() => ({})));
        digest.update(bytes);
        this.have += bytes.length;
      },
      restart() {
        access.truncate(0);
        digest = newDigest();
        Object.assign(this, { have: 0, total: undefined, tag: null });
      },
      close() {
        access.close();
      },
      /** @returns {Promise<string>} the digest */
      async finish() {
        await this.note(true);
        return digest.hex();
      },
    };
    // The beginning of an earlier download counts, read back for the digest.
    const size = about && !about.complete ? access.getSize() : 0;
    if (size === 0) access.truncate(0);
    const piece = new Uint8Array(Math.min(size, PIECE_BYTES));
    while (sink.have < size) {
      const n = access.read(piece, { at: sink.have });
      if (n === 0) break;
      digest.update(piece.subarray(0, n));
      sink.have += n;
    }
    return sink;
  }
}

/** What is cached; callable from the page as well. */
export const cache = {
  /** @returns {Promise<{ url: string, size: number, digest?: string, complete: boolean }[]>} */
  async list() {
    const dir = await folder();
    const all = [];
    if (!dir) return all;
    for await (const name of dir.keys()) {
      if (!name.endsWith('.json')) continue;
      const about = await note(dir, name.slice(0, -5));
      if (about) all.push({ url: about.url, size: about.size, digest: about.digest, complete: about.complete });
    }
    return all;
  },
  /** Removes a model. */
  async remove(url) {
    const dir = await folder();
    if (dir) await forget(dir, await keyOf(new URL(url, globalThis.location?.href).href));
  },
  /** Removes all models. */
  async clear() {
    const root = await navigator.storage.getDirectory().catch(() => null);
    await root?.removeEntry(FOLDER, { recursive: true }).catch(() => {});
  },
};
