// One error class for everything that lean reports.

const CLASSES = ['unknown', 'protocol', 'input', 'resource', 'cancelled', 'internal'];

/** An error of the engine, of the bridge, or of the way there. */
export class LeanError extends Error {
  /**
   * @param {string} message
   * @param {{ code: number, name: string, class: string, retryable?: boolean, details?: object, cause?: unknown,
   *   exitCode?: number | null, signal?: string | null, stderr?: string }} fields
   */
  constructor(message, { code, name, class: cls, retryable = false, details, cause, ...process }) {
    super(message, cause === undefined ? undefined : { cause });
    this.code = code;
    this.name = name;
    this.class = cls;
    this.retryable = retryable;
    if (details !== undefined) this.details = details;
    Object.assign(this, process);
  }

  /** From an ERROR frame. */
  static fromFrame(head, tail) {
    let details;
    try {
      details = tail.length > 0 ? JSON.parse(new TextDecoder().decode(tail)) : undefined;
    } catch {
      // The numbers are an extra: the error itself must arrive.
    }
    return new LeanError(head.message, {
      code: head.code,
      name: head.name,
      class: CLASSES[head.class] ?? CLASSES[0],
      retryable: head.retryable,
      details,
    });
  }
}

/** A wrong argument, noticed before anything was sent. */
export const invalid = (message) => new LeanError(message, { code: 100, name: 'invalid_argument', class: 'input' });

/** What was cancelled before the bridge heard of it. */
export const cancelled = () => new LeanError('cancelled', { code: 500, name: 'cancelled', class: 'cancelled' });

/** The bytes from the bridge were no frames. */
export const wireFailure = (cause) =>
  new LeanError(`the bridge does not speak the protocol: ${cause.message}`, { code: 600, name: 'protocol', class: 'protocol', cause });

/** The versions do not overlap. */
export const versionMismatch = (message) => new LeanError(message, { code: 601, name: 'version', class: 'protocol' });

/** No bridge binary. */
export const notFound = (message) => new LeanError(message, { code: 690, name: 'bridge_not_found', class: 'resource' });

/** The bridge ended, or never began. */
export function exited({ exitCode, signal, stderr, cause, inProcess = false }) {
  const how = inProcess ? 'in this process ended' : cause ? `could not be started: ${cause.message}` : signal ? `was killed by ${signal}` : `exited with status ${exitCode}`;
  const tail = stderr.trim() === '' ? '' : `\nIts last words:\n${stderr.trimEnd()}`;
  return new LeanError(`the bridge ${how}${tail}`, {
    code: 691,
    name: 'bridge_exited',
    class: 'resource',
    retryable: true,
    exitCode,
    signal,
    stderr,
    cause,
  });
}

/** Waits until something is freed: where the bridge is gone or about to go, so is everything in it. */
export async function freed(request) {
  try {
    await request;
  } catch (e) {
    if (e.name !== 'bridge_exited' && e.name !== 'cancelled') throw e;
  }
}
