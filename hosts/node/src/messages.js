// Every message of the protocol: kind and fields in order. tests/wire/messages.json is the same table, and a
// test compares the two.

export const MAJOR = 1;
export const MINOR = 0;

/** @type {Record<string, { kind: number, fields: [string, string][] }>} */
export const MESSAGES = {
  HELLO_ACK: { kind: 1, fields: [['minor', 'u32'], ['credit', 'u32'], ['max_frame', 'option<u32>']] },
  LOAD: {
    kind: 2,
    fields: [
      ['path', 'string'],
      ['backend', 'option<string>'],
      ['threads', 'option<u32>'],
      ['context', 'option<u32>'],
      ['progress', 'bool'],
    ],
  },
  UNLOAD: { kind: 3, fields: [['model', 'u32']] },
  MODEL_INFO: { kind: 4, fields: [['model', 'u32']] },
  GENERATE: {
    kind: 5,
    fields: [
      ['model', 'option<u32>'],
      ['session', 'option<u32>'],
      ['checkpoint', 'option<u32>'],
      ['keep', 'bool'],
      ['events', 'bool'],
    ],
  },
  SESSION_OPEN: { kind: 6, fields: [['model', 'u32'], ['checkpoint', 'option<u32>'], ['context', 'option<u32>']] },
  SESSION_APPEND: { kind: 7, fields: [['session', 'u32'], ['replace', 'bool']] },
  SESSION_FORK: { kind: 8, fields: [['session', 'u32']] },
  SESSION_CLOSE: { kind: 9, fields: [['session', 'u32']] },
  CHECKPOINT_TAKE: { kind: 10, fields: [['session', 'option<u32>'], ['generation', 'option<u32>']] },
  CHECKPOINT_SAVE: { kind: 11, fields: [['checkpoint', 'u32'], ['path', 'option<string>']] },
  CHECKPOINT_LOAD: { kind: 12, fields: [['model', 'u32'], ['path', 'option<string>']] },
  CHECKPOINT_DROP: { kind: 13, fields: [['checkpoint', 'u32']] },
  CANCEL: { kind: 14, fields: [] },
  CREDIT: { kind: 15, fields: [['events', 'u32']] },
  SHUTDOWN: { kind: 16, fields: [] },
  CHUNK: { kind: 17, fields: [['offset', 'u64'], ['digest', 'option<u32>']] },
  GENERATE_BRANCH: {
    kind: 18,
    fields: [
      ['group', 'u32'],
      ['members', 'u32'],
      ['model', 'option<u32>'],
      ['session', 'option<u32>'],
      ['checkpoint', 'option<u32>'],
      ['keep', 'bool'],
      ['events', 'bool'],
    ],
  },
  MODEL_STATS: { kind: 19, fields: [['model', 'u32']] },
  MODEL_PREFIX_CACHE: { kind: 20, fields: [['model', 'u32'], ['bytes', 'u64']] },
  SESSION_CUT: { kind: 21, fields: [['session', 'u32'], ['begin', 'u32'], ['end', 'option<u32>']] },
  ADAPTER_LOAD: { kind: 24, fields: [['model', 'u32'], ['path', 'string']] },
  ADAPTER_DROP: { kind: 25, fields: [['adapter', 'u32']] },
  SESSION_ADAPT: { kind: 26, fields: [['session', 'u32'], ['adapters', 'seq<u32>'], ['scales', 'seq<f32>']] },

  HELLO: {
    kind: 0x8001,
    fields: [
      ['major', 'u32'],
      ['minor_min', 'u32'],
      ['minor_max', 'u32'],
      ['engine', 'string'],
      ['max_frame', 'u32'],
      ['capabilities', 'seq<string>'],
    ],
  },
  PROGRESS: { kind: 0x8002, fields: [['done', 'u64'], ['total', 'u64']] },
  PREFILL: { kind: 0x8003, fields: [['done', 'u32'], ['total', 'u32']] },
  TOKENS: { kind: 0x8004, fields: [['ids', 'seq<u32>'], ['forced', 'bool']] },
  PARTIAL: { kind: 0x8005, fields: [['path', 'string'], ['final_bytes', 'u32']] },
  CANDIDATES: { kind: 0x8006, fields: [] },
  LOADED: { kind: 0x8010, fields: [['model', 'u32']] },
  INFO: { kind: 0x8011, fields: [] },
  GENERATED: { kind: 0x8012, fields: [['checkpoint', 'option<u32>']] },
  SESSION: { kind: 0x8013, fields: [['session', 'u32'], ['tokens', 'u32']] },
  CHECKPOINT: { kind: 0x8014, fields: [['checkpoint', 'u32'], ['tokens', 'u32']] },
  SAVED: { kind: 0x8015, fields: [['size', 'u64'], ['digest', 'u32']] },
  OK: { kind: 0x8016, fields: [] },
  ADAPTER: { kind: 0x8018, fields: [['adapter', 'u32']] },
  ERROR: {
    kind: 0x80ff,
    fields: [
      ['code', 'u32'],
      ['class', 'u32'],
      ['retryable', 'bool'],
      ['name', 'string'],
      ['message', 'string'],
    ],
  },
};
