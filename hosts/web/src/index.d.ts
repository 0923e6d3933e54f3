// Types of lean-web. What it shares with the Node package is declared there.

import { CallOptions, Checkpoint, LeanError, Message, Block, Model, ModelInfo, Session, Stream, Type, type } from './client/types.js';

export { Checkpoint, LeanError, Model, Session, Stream, Type, type };
export type {
  Block, CallOptions, Confidence, Event, GenerateOptions, Message, ModelInfo, PartialEvent, PrefillEvent, Result, TokenEvent, Usage, Value,
} from './client/types.js';

/** `auto` is the best that this page can use; see `Lean.capabilities()`. */
export type Backend = 'auto' | 'cpu' | 'gpu' | 'threads' | 'single';

export interface Progress {
  /** `fetch`: bytes arrive; `load`: weights go into the engine's memory. */
  stage: 'fetch' | 'load';
  done: number;
  /** Null where the server does not say. */
  total: number | null;
}

export interface LoadOptions extends CallOptions {
  backend?: Backend;
  /** Threads of the CPU, where it is threads: by default as many as the page has cores, 8 at most. */
  threads?: number;
  /** Default tokens of context. */
  context?: number;
  /** How keys and values are stored; `f32` by default. */
  kv?: 'f32' | 'f24' | 'f16' | 'q8_0';
  /** How exactly it is computed; `exact` by default. */
  precision?: 'exact' | 'fast';
  prefixCacheBytes?: number;
  /** Keep what a URL gives in the browser's file system; true unless said. */
  cache?: boolean;
  /** The SHA-256 that a URL's file must have, in hexadecimal. */
  digest?: string;
  onProgress?: (progress: Progress) => unknown;
  /** A worker made of `worker.js` by the page itself, for bundlers that want to see it. */
  worker?: Worker;
  /** Where the WebAssembly file is, if not beside the worker. */
  wasm?: string | URL;
}

export interface Capabilities {
  webgpu: boolean;
  /** The adapter is software, which only `backend: 'gpu'` uses. */
  softwareAdapter: boolean;
  /** WebAssembly can be suspended (JSPI), without which no GPU can be waited for. */
  suspends: boolean;
  shaderF16: boolean;
  subgroups: boolean;
  crossOriginIsolated: boolean;
  hardwareConcurrency: number;
  fileSystem: boolean;
  /** What `backend: "auto"` tries first. */
  backend: 'gpu' | 'threads' | 'single';
}

export interface CachedModel {
  url: string;
  size?: number;
  digest?: string;
  complete: boolean;
}

export const Lean: {
  load(source: string | URL | Blob | ArrayBuffer | ArrayBufferView, options?: LoadOptions): Promise<Engine>;
  capabilities(): Promise<Capabilities>;
  cache: {
    list(): Promise<CachedModel[]>;
    remove(url: string | URL): Promise<void>;
    clear(): Promise<void>;
  };
};

/** A loaded model and its worker. */
export interface Engine extends Model {
  readonly info: ModelInfo;
  /** Name and version of the engine. */
  readonly version: string;
  /** `single` is one thread with SIMD; `info.fallback` says why it is not the GPU. */
  readonly backend: 'gpu' | 'threads' | 'single';
  readonly threads: number;
  readonly source: { size: number; digest?: string; from: 'cache' | 'network' | 'file' } | null;
  /** Resolves, never rejects, once the instance has ended: disposed of, or after a panic. */
  readonly ended: Promise<LeanError>;
  /**
   * Resolves, never rejects, if the GPU is lost: calls fail with `device_lost` (401) from then on. Load the model again and
   * restore a checkpoint that was saved, with the policy `convert` where the CPU takes over.
   */
  readonly lost: Promise<LeanError>;
  chatRender(messages: Message[], options?: { tools?: object[]; addGenerationPrompt?: boolean }): Promise<string>;
  /** Null if there is nothing to drop. */
  chatTrimOldestExchange(messages: Message[]): Promise<Message[] | null>;
  tokenize(blocks: Block | readonly Block[]): Promise<{ ids: number[]; texts: string[] }>;
  checkType(type: Type): Promise<void>;
  /** Bytes of the instance's memory, which only grows. */
  memory(): Promise<number>;
  /** Ends the worker: what still runs is cancelled, and all memory is free. */
  dispose(): Promise<void>;
}
