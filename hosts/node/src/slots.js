// How many requests are open at once. The bridge refuses more than 64; here the next ones wait for their turn.

/** The bridge's own limit, which only the end may take up fully. */
const OPEN_MAX = 64;

/**
 * Requests whose events are the caller's to take may stay open for as long as the caller likes: they leave a few
 * places to those that always end, such as the checkpoint of a stream that is not read on.
 */
const PLACES = { GENERATE: OPEN_MAX - 8, SESSION_APPEND: OPEN_MAX - 8, LOAD: OPEN_MAX - 8, SHUTDOWN: OPEN_MAX };

/** The open requests' places, and the queue for them. */
export class Slots {
  #open = 0;
  #waiting = [];

  /** Calls `start` now, or once there is a place. @returns {{ start: () => void, places: number }} the ticket */
  enter(name, start) {
    const ticket = { start, places: PLACES[name] ?? OPEN_MAX - 1 };
    this.#waiting.push(ticket);
    this.#admit();
    return ticket;
  }

  /** A request has ended. */
  leave() {
    this.#open -= 1;
    this.#admit();
  }

  /** Gives up waiting. */
  forget(ticket) {
    this.#waiting = this.#waiting.filter((t) => t !== ticket);
  }

  #admit() {
    for (let i = 0; i < this.#waiting.length; ) {
      if (this.#open >= this.#waiting[i].places) i += 1;
      else {
        const [ticket] = this.#waiting.splice(i, 1);
        this.#open += 1;
        ticket.start();
      }
    }
  }
}
