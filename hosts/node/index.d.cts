// Types of lean-node. `type({...})` infers the type of the value from the expression.

/** White space around the parts of an expression means nothing. */
type Trim<S extends string> = S extends ` ${infer R}` | `${infer R} ` | `\n${infer R}` | `${infer R}\n` ? Trim<R> : S;

type Keywords = {
  string: string;
  number: number;
  integer: number;
  boolean: boolean;
  true: true;
  false: false;
  null: null;
  object: { [key: string]: unknown };
  unknown: unknown;
  any: unknown;
};

/** Splits at `|` outside quotes and brackets. */
type Split<S extends string, Part extends string = '', Open extends string = ''> =
  S extends `${infer C}${infer Rest}`
    ? Open extends '"' | "'" | '/'
      ? C extends '\\'
        ? Rest extends `${infer Escaped}${infer After}`
          ? Split<After, `${Part}${C}${Escaped}`, Open>
          : never
        : Split<Rest, `${Part}${C}`, C extends Open ? '' : Open>
      : C extends '"' | "'" | '/'
        ? Split<Rest, `${Part}${C}`, C>
        : C extends '('
          ? Split<Rest, `${Part}${C}`, `(${Open}`>
          : C extends ')'
            ? Split<Rest, `${Part}${C}`, Open extends `(${infer Outer}` ? Outer : ''>
            : C extends '|'
              ? Open extends ''
                ? Trim<Part> | Split<Rest, '', ''>
                : Split<Rest, `${Part}${C}`, Open>
              : Split<Rest, `${Part}${C}`, Open>
    : Trim<Part>;

/** The base of a constrained type: what is left without bounds such as `1 <= integer < 10` or `string < 64`. */
type Unbound<S extends string> =
  S extends `'${string}'` | `"${string}"` | `/${string}/`
    ? S
    : S extends `${infer A}<=${infer B}` | `${infer A}>=${infer B}` | `${infer A}==${infer B}`
      ? Side<Trim<A>, Trim<B>>
      : S extends `${infer A}<${infer B}` | `${infer A}>${infer B}`
        ? Side<Trim<A>, Trim<B>>
        : S extends `${infer A}%${string}`
          ? Trim<A>
          : S;
type Side<A extends string, B extends string> = A extends `${number}` ? Unbound<B> : Unbound<A>;

/** One alternative of a union. */
type Part<S extends string> =
  S extends `'${infer Literal}'` | `"${infer Literal}"`
    ? Literal extends `${string}\\${string}`
      ? string
      : Literal
    : S extends `/${string}/`
      ? string
      : S extends keyof Keywords
        ? Keywords[S]
        : S extends `${infer N extends number}`
          ? N
          : S extends `${infer Item}[]`
            ? Value<Trim<Item>>[]
            : S extends `(${infer Inner})`
              ? Value<Inner>
              : S extends `string.${string}`
                ? string
                : S extends `number.${string}`
                  ? number
                  : unknown;

type OfUnion<S> = S extends string ? Part<Trim<Unbound<S>>> : never;

type Flatten<T> = { [K in keyof T]: T[K] };

/** `name?` is optional; `name\\?` is a name that ends with a question mark; `[string]` are all other keys. */
type Required<K> = K extends '+' | '[string]' ? never : K extends `${infer N}\\?` ? `${N}?` : K extends `${string}?` ? never : K;
type Optional<K> = K extends `${string}\\?` ? never : K extends `${infer N}?` ? N : never;
type OfObject<E> = Flatten<
  { -readonly [K in keyof E as Required<K>]: Value<E[K]> } & {
    -readonly [K in keyof E as Optional<K>]?: Value<E[K]>;
  } & (E extends { readonly '[string]': infer Rest } ? { [key: string]: Value<Rest> } : unknown)
>;

/** `["string", "number?", "...", "boolean[]"]`. */
type OfTuple<E extends readonly unknown[]> = E extends readonly [infer First, ...infer Rest]
  ? First extends '...'
    ? Rest extends readonly [infer Items]
      ? Value<Items> extends readonly unknown[]
        ? Value<Items>
        : unknown[]
      : unknown[]
    : First extends `${infer Item}?`
      ? [Value<Item>?, ...OfTuple<Rest>]
      : [Value<First>, ...OfTuple<Rest>]
  : [];

/** The type of the values of an expression. What it cannot infer is `unknown`, never wrong. */
export type Value<E> = E extends string
  ? OfUnion<Split<E>>
  : E extends number | boolean | null
    ? E
    : E extends readonly unknown[]
      ? OfTuple<E>
      : E extends RegExp
        ? string
        : E extends Type<infer T>
          ? T
          : E extends object
            ? OfObject<E>
            : unknown;

/** A type: what is generated and nothing else. */
/** A reply of a type made by `type.tools`. */
export interface Reply {
  /** What was said before the calls, or instead of them. */
  text: string;
  calls: { name: string; arguments: Record<string, unknown> }[];
}

export interface ToolOptions {
  /** `auto` (the default): text or calls; `required`: one call or more; `{ tool }`: one call of that tool. */
  choice?: 'auto' | 'required' | { tool: string };
  /** Whether several calls may follow each other. Default true. */
  parallel?: boolean;
  /** How calls are written; the model's own way by default. */
  syntax?: 'hermes' | 'llama' | 'gemma' | 'pythonic' | null;
}

/** How sure the model was of a value. */
export interface Confidence {
  /** Natural logarithm of the value's probability among all values of its type. */
  logprob: number;
  /** Every scalar, in order, with the other values that the type allowed, if they are at most 64. */
  leaves: { path: string; logprob: number; alternatives?: { value: unknown; probability: number }[] }[];
}

export class Type<T = unknown> {
  private constructor();
  /** The wire form. */
  readonly source: object;
  /** Only for the compiler: the type of the values. */
  readonly infer: T;
  toJSON(): object;
}

/** A schema of another library, as the specifications Standard Schema and Standard JSON Schema describe it. */
export interface StandardSchema<Input = unknown> {
  readonly '~standard': {
    readonly version: 1;
    readonly vendor: string;
    readonly types?: { readonly input: Input; readonly output: unknown } | undefined;
  };
}

export interface SchemaOptions {
  /** Makes the JSON Schema where the library's schema cannot, such as Valibot's `toJsonSchema`. */
  toJsonSchema?: (schema: any) => object | boolean;
}

export interface TypeMaker {
  /**
   * A type expression: an object whose leaves are strings in ArkType's notation, or such a string. A `RegExp` without
   * flags (other than `u` and `v`) and a type made from an expression stand for their notation.
   */
  <const E>(expression: E): Type<Value<E>>;
  /** A schema of Zod 4, ArkType or another library: the values are its input. */
  schema<S extends StandardSchema>(schema: S, options?: SchemaOptions): Type<NonNullable<S['~standard']['types']>['input']>;
  /** A JSON Schema; say what its values are. */
  schema<T = unknown>(schema: object | boolean, options?: SchemaOptions): Type<T>;
  /** Unquoted text of at most `maxChars` characters, or as long as the budget lasts. */
  text(options?: { maxChars?: number }): Type<string>;
  /** Unquoted text that matches a regular expression as a whole. */
  regex(regex: RegExp | string): Type<string>;
  /** Unquoted text: one of these strings, given one by one or as one array. */
  choice<const C extends string>(...choices: C[]): Type<C>;
  choice<const C extends string>(choices: readonly C[]): Type<C>;
  /** A reply: text, or calls of these tools (OpenAI's form), in the model's own syntax. Tools that cannot be enforced are left out. */
  tools(tools: readonly object[], options?: ToolOptions): Type<Reply>;
}
export const type: TypeMaker;

/** A chat message; further keys reach the model's template. */
export interface Message {
  role: string;
  content: unknown;
  [key: string]: unknown;
}

/** A piece of context. A string is a `text` block: control tokens in it are never parsed. */
export type Block =
  | string
  | { text: string }
  | { raw: string }
  | { json: unknown }
  | { tokens: number[] | Uint32Array }
  | { chat: Message[]; tools?: object[]; add_generation_prompt?: boolean; trusted?: boolean }
  | { chat: { messages: Message[]; tools?: object[]; add_generation_prompt?: boolean; trusted?: boolean } };

export interface PrefillEvent {
  type: 'prefill';
  done: number;
  total: number;
}
export interface TokenEvent {
  type: 'token';
  ids: number[];
  /** Whole characters, possibly none yet. */
  text: string;
  /** Whether the type left no choice. */
  forced: boolean;
}
/** The value so far: strings as they grow, numbers and words once they are whole. */
export interface PartialEvent {
  type: 'partial';
  /** JSON pointer of the innermost value that is being written. */
  path: string;
  value: unknown;
  /** The text of `value`, whose first `finalBytes` bytes (of UTF-8) stay as they are. */
  json: string;
  finalBytes: number;
}
/** What the next token is chosen from. Tokens that the type forces have none; after that of the value's end no token follows. */
export interface CandidatesEvent {
  type: 'candidates';
  /** The likeliest tokens, likeliest first, and at the end the one taken if it is not among them. */
  candidates: Candidate[];
}
export interface Candidate {
  id: number;
  /** Empty for the end of the value. */
  text: string;
  /** Among all tokens of the vocabulary, at temperature 1. */
  probability: number;
  /** Whether the type allows it here. */
  allowed: boolean;
}
export type Event = PrefillEvent | TokenEvent | PartialEvent | CandidatesEvent;

export interface CallOptions {
  /** Cancels the call, also while it waits for its turn; its promise then rejects with the signal's reason. */
  signal?: AbortSignal;
}

export interface SamplingOptions {
  maxTokens?: number;
  /** 0, the default, is greedy. */
  temperature?: number;
  topK?: number;
  topP?: number;
  minP?: number;
  repetitionPenalty?: number;
  repetitionWindow?: number;
  seed?: number;
  /** Text ends before any of these (text types only). */
  stop?: string | string[];
}

export interface StreamOptions extends CallOptions, SamplingOptions {
  /** What follows the checkpoint, or the whole context. */
  blocks?: Block | readonly Block[];
  /** Where to continue from (models only). */
  checkpoint?: Checkpoint | Uint8Array | string;
  /** Keeps the end state: `result.checkpoint()`. */
  keep?: boolean;
  /** Sends the value so far as `partial` events (JSON types only). */
  partials?: boolean;
  /** Say how sure the model was: `Result.confidence`. */
  confidence?: boolean;
  /** Sends so many of the likeliest tokens before each that is chosen, as `candidates` events: 64 at most. */
  candidates?: number;
}

export interface GenerateOptions extends StreamOptions {
  /** Called for each token; a promise from it holds the bridge back. */
  onToken?: (event: TokenEvent) => unknown;
  onPrefill?: (event: PrefillEvent) => unknown;
  /** Called with the value so far; implies `partials`. */
  onPartial?: (event: PartialEvent) => unknown;
  /** Called before each token that is chosen, if `candidates` says how many. */
  onCandidates?: (event: CandidatesEvent) => unknown;
}

/** One of several values that continue the same context. */
export interface Branch<T> extends Omit<GenerateOptions, 'checkpoint'> {
  type: Type<T>;
}
export type Branches<Ts extends readonly unknown[]> = { [I in keyof Ts]: Branch<Ts[I]> };
export type Results<Ts extends readonly unknown[]> = { [I in keyof Ts]: Result<Ts[I]> };
export type Streams<Ts extends readonly unknown[]> = { [I in keyof Ts]: Stream<Ts[I]> };

export interface ManyOptions extends CallOptions {
  /** What all branches continue (models only). */
  checkpoint?: Checkpoint | Uint8Array | string;
}

/** What a model has done since it was loaded, and the memory it takes now. */
export interface Stats {
  /** Passes over the weights. */
  passes: number;
  /** Sequences in those passes. */
  slots: number;
  /** Tokens in those passes. */
  tokens: number;
  /** Pages of state copied because their writer shared them. */
  pagesCopied: number;
  memory: { weightBytes: number; stateBytes: number; prefixCacheBytes: number };
  /** Kept states of earlier contexts. */
  prefix: {
    lookups: number;
    hits: number;
    tokensReused: number;
    entries: number;
    bytes: number;
    budget: number;
    evictions: number;
  };
}

/** A value that goes on keeps its type and its sampling. */
export type ResumeOptions = Omit<GenerateOptions, 'checkpoint' | 'blocks' | keyof SamplingOptions>;

export interface Usage {
  promptTokens: number;
  reusedTokens: number;
  sampledTokens: number;
  forcedTokens: number;
  /** Forced tokens that ran together with another one, each of which saved a pass. */
  savedPasses?: number;
  passes?: number;
  firstTokenSeconds?: number;
  totalSeconds?: number;
}

export interface Result<T> {
  value: T;
  /** The value's text as generated. */
  text: string;
  finish: 'complete' | 'stop' | 'length';
  usage: Usage;
  /** How sure the model was, if `confidence` asked for it. */
  confidence?: Confidence;
  /** What was taken as an annotation of the type, and tools that were left out with the reason. */
  warnings: string[];
  /** The state after the value; throws unless `keep` was given. */
  checkpoint(): Checkpoint;
}

/**
 * A generation that is iterated. It begins with the first event (or with `result`), not before; `break` cancels it. One
 * that nobody can reach any more is cancelled, and one that nobody waits for does not keep the process alive.
 */
export class Stream<T> implements AsyncIterable<Event> {
  private constructor();
  /** The result. Asking for it before iterating begins the generation, and lets events come without waiting for the iterator. */
  readonly result: Promise<Result<T>>;
  /** Ends the generation early: the iterator and `result` fail with the error `cancelled`, unless the value was there already. */
  cancel(): void;
  /** Resolves, never rejects, once the generation has ended, however it did. */
  readonly ended: Promise<void>;
  /** A checkpoint between two tokens; it holds at least the events iterated so far. */
  checkpoint(options?: CallOptions): Promise<Checkpoint>;
  [Symbol.asyncIterator](): AsyncIterator<Event>;
}

/** How a checkpoint is written. */
export interface SaveOptions extends CallOptions {
  /** Compresses the state, by about a tenth. */
  compress?: boolean;
  /** Leaves out what this checkpoint has too; it is needed again to restore. */
  parent?: Checkpoint;
}

/** A state to continue from; it outlives the session it came from. */
export interface RestoreOptions extends CallOptions {
  /** The one that it was written with. */
  parent?: Checkpoint;
  /**
   * What may be done to a state of another exactness class, such as another backend's: nothing (`exact`, the default: it is
   * refused), take it over as it is (`convert`), or take its tokens and compute the state again (`reprefill`).
   */
  policy?: 'exact' | 'convert' | 'reprefill';
}

export class Checkpoint {
  private constructor();
  /** Tokens it holds, if known. */
  readonly tokens?: number;
  /** What was done to it, where `policy` said what may be done. */
  readonly restored?: 'imported' | 'converted' | 'reprefilled';
  /** Its self-describing bytes. */
  bytes(options?: SaveOptions): Promise<Uint8Array>;
  /** Writes it to a file: to a temporary one that is flushed and renamed. */
  save(path: string, options?: SaveOptions): Promise<{ size: number }>;
  /** Frees it now instead of when it is collected. */
  drop(): Promise<void>;
}

/** What an adapter says about itself. */
export interface AdapterInfo {
  name: string;
  format: 'peft' | 'gguf';
  /** Matrices it updates. */
  matrices: number;
  /** The smallest and the largest rank. */
  ranks: [number, number];
  bytes: number;
  /** Content-derived; checkpoints name it. */
  fingerprint: string;
}

/** A LoRA adapter of a model; sessions that use it keep it. */
export class Adapter {
  private constructor();
  readonly info: AdapterInfo;
  /** Frees it now instead of when it is collected. */
  drop(): Promise<void>;
}

export interface AppendOptions extends CallOptions {
  onPrefill?: (event: PrefillEvent) => unknown;
}

/** One sequence. A call that fails or is aborted leaves it as it was. */
export class Session {
  private constructor();
  /** Tokens it held after the last append. */
  readonly tokens: number;
  append(blocks: Block | readonly Block[], options?: AppendOptions): Promise<void>;
  /** Makes blocks the whole context; what is equal so far is kept. */
  setContext(blocks: Block | readonly Block[], options?: AppendOptions): Promise<void>;
  /** Runs with these adapters and no others from now on; its tokens are run again. The default scale is 1. */
  setAdapters(
    adapters: readonly (Adapter | { adapter: Adapter; scale?: number })[],
    options?: AppendOptions,
  ): Promise<void>;
  generate<T>(type: Type<T>, options?: Omit<GenerateOptions, 'checkpoint'>): Promise<Result<T>>;
  stream<T>(type: Type<T>, options?: Omit<StreamOptions, 'checkpoint'>): Stream<T>;
  /** Goes on with the value that the session's checkpoint was taken in. */
  resume<T = unknown>(options?: ResumeOptions): Promise<Result<T>>;
  /** Several values that continue the session, which stays as it is; they are decoded together. */
  generateMany<const Ts extends readonly unknown[]>(branches: readonly [...Branches<Ts>], options?: CallOptions): Promise<Results<Ts>>;
  /** The same, each iterated by itself. */
  streamMany<const Ts extends readonly unknown[]>(branches: readonly [...Branches<Ts>], options?: CallOptions): Promise<Streams<Ts>>;
  /** Keeps the first `length` tokens. */
  truncate(length: number, options?: AppendOptions): Promise<void>;
  /** Removes tokens from `begin` up to, but not including, `end`; what follows them is computed again. */
  dropRange(begin: number, end: number, options?: AppendOptions): Promise<void>;
  checkpoint(): Promise<Checkpoint>;
  fork(): Promise<Session>;
  /** Frees it now instead of when it is collected. A second time does nothing. */
  close(): Promise<void>;
}

export interface ModelInfo {
  architecture: string;
  name: string;
  backend: string;
  contextLength: number;
  exactnessClass: string;
  /** Why it runs on the CPU although a GPU would have been preferred. */
  fallback?: string;
  [key: string]: unknown;
}

/** A loaded model. */
export class Model {
  private constructor();
  readonly info: ModelInfo;
  generate<T>(type: Type<T>, options?: GenerateOptions): Promise<Result<T>>;
  stream<T>(type: Type<T>, options?: StreamOptions): Stream<T>;
  /** Several values that continue one checkpoint, or an empty context; they are decoded together. */
  generateMany<const Ts extends readonly unknown[]>(branches: readonly [...Branches<Ts>], options?: ManyOptions): Promise<Results<Ts>>;
  /** The same, each iterated by itself. */
  streamMany<const Ts extends readonly unknown[]>(branches: readonly [...Branches<Ts>], options?: ManyOptions): Promise<Streams<Ts>>;
  stats(): Promise<Stats>;
  /** Bytes of state kept of earlier contexts, so that one that begins alike is not computed again; 0 is off. */
  setPrefixCache(bytes: number): Promise<void>;
  /** Goes on with the value that a checkpoint was taken in. */
  resume<T = unknown>(checkpoint: Checkpoint | Uint8Array | string, options?: ResumeOptions): Promise<Result<T>>;
  session(options?: CallOptions & { checkpoint?: Checkpoint | Uint8Array | string; context?: number }): Promise<Session>;
  /** A checkpoint from its bytes or from a file, checked against this model. */
  restore(source: Uint8Array | string, options?: RestoreOptions): Promise<Checkpoint>;
  /** A LoRA adapter: a .gguf file, or PEFT's folder. */
  loadAdapter(path: string, options?: CallOptions): Promise<Adapter>;
  /** Frees it now instead of when it is collected. A second time does nothing. */
  unload(): Promise<void>;
}

export interface LoadOptions extends CallOptions {
  backend?: 'auto' | 'cpu' | 'gpu';
  threads?: number;
  /** How keys and values are stored; `f32` by default. */
  kv?: 'f32' | 'f24' | 'f16' | 'q8_0';
  /** How exactly it is computed; `exact` by default. */
  precision?: 'exact' | 'fast';
  /** Default tokens of context. */
  context?: number;
  /** See `Model.setPrefixCache`. */
  prefixCacheBytes?: number;
  onProgress?: (progress: { done: number; total: number }) => unknown;
}

export interface SpawnOptions {
  /** Where the engine runs: in a process of its own (the default), or in this one, through liblean and the package koffi. */
  transport?: 'process' | 'port';
  /** For `port`: the library; otherwise `LEAN_LIBRARY`, otherwise the repository's build. */
  library?: string;
  /** The bridge binary; otherwise `LEAN_BRIDGE`, otherwise the repository's build. */
  bridge?: string;
  args?: string[];
  env?: Record<string, string | undefined>;
  cwd?: string;
  /** Events a request may have on the way before the bridge waits. */
  credit?: number;
  onStderr?: (text: string) => void;
}

/** An engine: a bridge process, or a port in this one. While it has nothing to do it does not keep this process alive. */
export class Lean {
  private constructor();
  static spawn(options?: SpawnOptions): Promise<Lean>;
  readonly engine: string;
  readonly capabilities: string[];
  readonly pid: number | undefined;
  /** Loads a model file, or `echo`, the model without weights. */
  load(path: string, options?: LoadOptions): Promise<Model>;
  /** Ends the bridge; what still runs is cancelled. */
  close(): Promise<void>;
}

/** An error of the engine, of the bridge, or of the way there. */
export class LeanError extends Error {
  /** Stable number, the same in every interface of lean. */
  code: number;
  /** Short name of the code, such as `context_overflow`. */
  name: string;
  class: 'protocol' | 'input' | 'resource' | 'cancelled' | 'internal' | 'unknown';
  /** Whether the same call may succeed later. */
  retryable: boolean;
  /** The error's own numbers, such as `{ needed, available }`. */
  details?: Record<string, unknown>;
  /** How the bridge ended, where that is why. */
  exitCode?: number | null;
  signal?: string | null;
  /** Its last words. */
  stderr?: string;
}

/** The bridge binary that `Lean.spawn` would start. */
export function findBridge(given?: string): string;
