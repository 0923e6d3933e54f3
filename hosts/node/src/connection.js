// Handshake, requests, events with credit, cancellation: the protocol over some transport.

import { decodeHead, nameOf, WireError } from './codec.js';
import { CRITICAL, END, ERROR, FrameReader, HEADER_BYTES, MAX_FRAME_DEFAULT, messageBytes, setRequest } from './frames.js';
import { MAJOR, MINOR } from './messages.js';
import { cancelled, invalid, LeanError, versionMismatch, wireFailure } from './errors.js';
import { Slots } from './slots.js';

/** Events that a request may have on the way: the bridge waits for a consumer that is this far behind. */
const CREDIT = 32;
/** How long a bridge that broke the protocol may take to end by itself. */
const EXIT_MS = 1000;

/**
 * @typedef {{ name: string, head: any, tail: Uint8Array }} Message
 * @typedef {{ hold(): void, release(): void, write(b: Uint8Array): Promise<void>, onData(f: (b: Uint8Array) => void): void,
 *   end(): void, kill(signal?: string): void, ended: Promise<LeanError>, pid?: number }} Transport
 */

/** One request, open or waiting for its turn. */
class Request {
  /** Null while it waits for its turn. */
  id = null;
  /** Events not handled yet. */
  queue = [];
  consumed = 0;
  pumping = false;
  aborted = false;

  constructor(onEvent, owner) {
    this.onEvent = onEvent;
    this.owner = owner;
    this.sent = new Promise((resolve) => (this.send = resolve));
    this.promise = new Promise((resolve, reject) => Object.assign(this, { resolve, reject }));
    // It may fail while an upload is still being sent, before anybody awaits it: no unhandled rejection then.
    this.promise.catch(() => {});
    this.released = new Promise((resolve) => (this.release = resolve));
  }
}

/** A connection to a bridge. */
export class Connection {
  #transport;
  #reader = new FrameReader();
  #requests = new Map();
  /** Requests that wait for their turn, with their tickets. */
  #waiting = new Map();
  #slots = new Slots();
  #nextId = 1;
  /** Set once the connection is over. */
  #over = null;
  #closing = false;
  #hello;
  #credit;

  /** @param {Transport} transport @param {{ credit?: number }} [options] */
  constructor(transport, { credit = CREDIT } = {}) {
    this.#transport = transport;
    this.#credit = credit;
    this.#hello = new Request(null);
    this.#hello.promise.catch(() => {});
    transport.hold();
    transport.onData((bytes) => this.#receive(bytes));
    transport.ended.then((error) => this.#fail(error));
  }

  /** Resolves with HELLO once the bridge has greeted and was accepted. */
  get ready() {
    return this.#hello.promise;
  }

  get maxFrame() {
    return this.#reader.maxFrame;
  }

  get transport() {
    return this.#transport;
  }

  /**
   * Sends a request, once there is a place for it. Resolves with its answer, rejects with its error.
   * @param {string} name
   * @param {object} head
   * @param {{ tail?: Uint8Array, onEvent?: (m: Message) => unknown, signal?: AbortSignal, cancel?: AbortSignal, hold?: boolean,
   *   owner?: unknown, onId?: (id: number) => void,
   *   upload?: (send: (head: object, tail: Uint8Array, last: boolean) => Promise<boolean>) => Promise<void> }} [options]
   *   A promise from `onEvent` holds later events back, and with them the bridge. `cancel` ends the request like
   *   `signal`, but with the error `cancelled`. Without `hold` the request does not keep this process alive. `owner` is
   *   kept from being collected, and its handle in the bridge from being freed, until the request has ended.
   * @returns {Promise<Message>}
   */
  async request(name, head, { tail, onEvent, signal, cancel, hold = true, owner, onId, upload } = {}) {
    signal?.throwIfAborted();
    if (cancel?.aborted) throw cancelled();
    if (this.#over) throw copyOf(this.#over);
    const bytes = messageBytes(0, name, head, tail, CRITICAL);
    if (bytes.length - HEADER_BYTES > this.maxFrame) throw this.#tooLarge(bytes.length - HEADER_BYTES);
    const request = new Request(onEvent, owner);
    if (hold) this.#transport.hold();
    const abort = () => this.#abort(request);
    for (const s of [signal, cancel]) s?.addEventListener('abort', abort, { once: true });
    try {
      this.#enter(request, name, bytes, onId);
      if (upload) {
        await Promise.race([request.sent, request.promise]);
        await upload((h, t, last) => this.#chunk(request, h, t, last));
      }
      return await request.promise;
    } catch (e) {
      // The caller's own reason, as everywhere in JavaScript.
      if (signal?.aborted && e?.name === 'cancelled') throw signal.reason;
      throw e;
    } finally {
      for (const s of [signal, cancel]) s?.removeEventListener('abort', abort);
      if (hold) this.#transport.release();
    }
  }

  #tooLarge(length) {
    const advice = 'a long context can be appended to a session in parts';
    return invalid(`the request has ${length} bytes; at most ${this.maxFrame} fit a frame: ${advice}`);
  }

  /** Sends a request now, or in its turn. */
  #enter(request, name, bytes, onId) {
    const start = () => {
      this.#waiting.delete(request);
      request.id = this.#freeId();
      this.#requests.set(request.id, request);
      setRequest(bytes, request.id);
      onId?.(request.id);
      void this.#transport.write(bytes);
      request.send();
    };
    const ticket = this.#slots.enter(name, start);
    if (request.id === null) this.#waiting.set(request, ticket);
  }

  /** Ends what waits for its turn. */
  cancelWaiting() {
    this.#closing = true;
    for (const request of [...this.#waiting.keys()]) this.#abort(request);
  }

  /** Sends something nobody waits for; nothing if the connection is over. */
  post(name, head) {
    if (!this.#over) this.request(name, head).catch(() => {});
  }

  #freeId() {
    do this.#nextId = this.#nextId >= 0x7fff_ffff ? 1 : this.#nextId + 1;
    while (this.#requests.has(this.#nextId));
    return this.#nextId;
  }

  async #chunk(request, head, tail, last) {
    if (!this.#requests.has(request.id) || request.aborted) return false;
    await this.#transport.write(messageBytes(request.id, 'CHUNK', head, tail, CRITICAL | (last ? END : 0)));
    return true;
  }

  #abort(request) {
    const ticket = this.#waiting.get(request);
    if (ticket) {
      this.#waiting.delete(request);
      this.#slots.forget(ticket);
      return request.reject(cancelled());
    }
    if (request.aborted || !this.#requests.has(request.id)) return;
    request.aborted = true;
    // An answer that has arrived stays: no other will come.
    request.queue = request.queue.filter((message) => message.flags & END);
    request.release();
    void this.#transport.write(messageBytes(request.id, 'CANCEL', {}));
  }

  #receive(bytes) {
    if (this.#over) return;
    this.#reader.push(bytes);
    try {
      for (let frame; (frame = this.#reader.next()); ) this.#frame(frame);
    } catch (e) {
      if (!(e instanceof WireError)) throw e;
      this.#doom(wireFailure(e));
    }
  }

  #frame(frame) {
    const name = nameOf(frame.kind);
    if (name === undefined && !(frame.flags & END)) return;
    const head = name === undefined ? {} : decodeHead(frame.kind, frame.head);
    const message = { name, head, tail: frame.tail, flags: frame.flags };
    if (frame.request === 0) return this.#control(message);
    const request = this.#requests.get(frame.request);
    // Frames of a request that is not open any more have crossed its end.
    if (!request) return;
    if (!(frame.flags & END) && request.aborted) return;
    request.queue.push(message);
    void this.#pump(request);
    // For the bridge it has ended, however long its last events wait here.
    if (frame.flags & END) this.#slots.leave();
  }

  #control({ name, head, tail }) {
    if (name === 'HELLO') return this.#greet(head);
    if (name === 'ERROR') this.#doom(LeanError.fromFrame(head, tail));
  }

  #greet(hello) {
    const range = `${hello.major}.${hello.minor_min} to ${hello.major}.${hello.minor_max}`;
    if (hello.major !== MAJOR || hello.minor_min > MINOR || hello.minor_max < MINOR) {
      return this.#doom(versionMismatch(`this client speaks protocol ${MAJOR}.${MINOR}, the bridge (${hello.engine}) ${range}`));
    }
    this.#reader.maxFrame = Math.min(hello.max_frame, MAX_FRAME_DEFAULT);
    const max_frame = hello.max_frame > MAX_FRAME_DEFAULT ? MAX_FRAME_DEFAULT : null;
    void this.#transport.write(messageBytes(0, 'HELLO_ACK', { minor: MINOR, credit: this.#credit, max_frame }));
    this.#hello.resolve(hello);
    this.#transport.release();
  }

  /** Handles a request's messages one by one, in order; its answer comes last. */
  async #pump(request) {
    if (request.pumping) return;
    request.pumping = true;
    while (request.queue.length > 0) {
      const message = request.queue.shift();
      if (message.flags & END) {
        this.#requests.delete(request.id);
        this.#settle(request, message);
        break;
      }
      try {
        const handled = request.onEvent?.(message);
        if (typeof handled?.then === 'function') await Promise.race([handled, request.released]);
      } catch (e) {
        request.thrown ??= { error: e };
        this.#abort(request);
      }
      this.#consume(request);
    }
    request.pumping = false;
  }

  /** Gives credit back in halves of what there was, so that a token does not cost a frame each way. */
  #consume(request) {
    request.consumed += 1;
    if (request.aborted || request.consumed < Math.max(1, this.#credit >> 1)) return;
    void this.#transport.write(messageBytes(request.id, 'CREDIT', { events: request.consumed }));
    request.consumed = 0;
  }

  #settle(request, message) {
    if (request.thrown) return request.reject(request.thrown.error);
    if (message.flags & ERROR || message.name === undefined) {
      const head = message.name === 'ERROR' ? message.head : { code: 602, class: 1, name: 'unknown_kind', message: 'the bridge answered with a kind unknown here' };
      return request.reject(LeanError.fromFrame(head, message.tail));
    }
    request.resolve(message);
  }

  /** No more can be understood: the bridge has to go, and its account of itself joins the error. */
  #doom(error) {
    if (this.#over) return;
    this.#over = error;
    this.#transport.hold();
    this.#transport.end();
    const patience = setTimeout(() => this.#transport.kill(), EXIT_MS);
    this.#transport.ended.then(({ exitCode, signal, stderr }) => {
      clearTimeout(patience);
      Object.assign(error, { exitCode, signal, stderr });
      this.#rejectAll(error);
      this.#transport.release();
    });
  }

  /** The process is gone: so is everything that waits for it. */
  #fail(error) {
    if (this.#over) return;
    this.#over = error;
    // It was asked to go: what it had no time to answer was cancelled, and no accident.
    this.#rejectAll(this.#closing && error.exitCode === 0 ? cancelled() : error);
  }

  #rejectAll(error) {
    this.#hello.reject(copyOf(error));
    for (const request of [...this.#requests.values(), ...this.#waiting.keys()]) {
      request.queue.length = 0;
      request.release();
      request.reject(request.thrown?.error ?? copyOf(error));
    }
    this.#requests.clear();
    for (const ticket of this.#waiting.values()) this.#slots.forget(ticket);
    this.#waiting.clear();
  }
}

/** Every pending call gets an error object of its own, with its own stack. */
function copyOf(error) {
  const { ...fields } = error;
  return new LeanError(error.message, { ...fields, name: error.name, cause: error.cause });
}
