/*
 * lean: language models with typed results and exact state, in your process.
 *
 * Generated from the crate lean-ffi; do not edit (UPDATE_GOLDEN=1 cargo test -p lean-ffi --test header).
 *
 * THE RULES, which hold for every function
 *
 * Answers. A function that can fail returns a lean_status: LEAN_OK; LEAN_PENDING or LEAN_END from a
 *   stream or a port, which are no errors; or the code of an error, 100 or more. Its last argument may be
 *   NULL; otherwise, after an error and only then, it receives a new lean_error, which the caller frees (what
 *   was there before is not). Other outputs are written on success only. There is no "last error".
 * Ownership. Who receives a handle through an output frees it, with the _free function of its type. Freeing
 *   NULL does nothing. Handles may be freed in any order: a session keeps its model, a stream its session. A
 *   pointer described as borrowed is valid until what it names. Inputs are only used during the call, unless
 *   the function says otherwise; no function keeps a pointer to them.
 * Threads. A handle passed as const may be used from many threads at once, any other by one thread at a time.
 *   (Where two threads collide on one anyway, one gets LEAN_BUSY.) No handle belongs to a thread. Sessions of
 *   one model that work at the same time, each in its thread, share passes over the weights. lean_cancel_trigger
 *   alone is safe in a signal handler. Freeing is use, and comes last.
 * Strings. In: pointer and length, UTF-8, checked. NULL with length 0 is the empty string; the length LEAN_CSTR
 *   says that the string ends at its first NUL byte. Out: pointer and length as well, and a NUL byte follows.
 * Structs. Options begin with struct_size and are prepared by lean_<x>_options_init(&x, sizeof x). Structs grow
 *   only at the end, so a program built with an older header works with a newer library. A set option that
 *   the library is too old to know is an error. Numbers that may be absent are then LEAN_NONE.
 * Callbacks. They must not throw, unwind or longjmp, nor use a handle that is not const and in use by the call
 *   they come from.
 * Transactions. A call that fails or is cancelled leaves a session as it was before.
 * Bugs. Bytes from outside (models, checkpoints, JSON, text) never do worse than an error, and a handle of the
 *   wrong type is one too; a freed or invented pointer is not detected. A panic inside the library is caught:
 *   LEAN_PANIC, and the handles of the call answer only that from then on, until freed. The library does not
 *   abort, exit, or print (lean_log_set hears what it has to say), and installs no signal handler.
 */

#ifndef LEAN_H
#define LEAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
/** As the length of a string: it ends at its first NUL byte. */
#define LEAN_CSTR SIZE_MAX
/** As an option that is a number of 64 bits: not given. */
#define LEAN_NONE UINT64_MAX

/// A bug that was caught.
#define LEAN_LOG_ERROR 1

/// Something that the caller probably did not mean, such as an unknown keyword in a schema.
#define LEAN_LOG_WARNING 2

/// What was loaded and where it runs.
#define LEAN_LOG_INFO 3

/// The best that can run the model here.
#define LEAN_BACKEND_AUTO 0

/// CPU threads.
#define LEAN_BACKEND_CPU 1

/// A GPU.
#define LEAN_BACKEND_GPU 2

/// Kernels whose results are the same on every machine.
#define LEAN_LOAD_PORTABLE 1

/// Map the file instead of reading it. The caller promises that nobody shortens it meanwhile: the operating
/// system would kill the process.
#define LEAN_LOAD_MMAP 2

/// Accept GPU adapters that are software.
#define LEAN_LOAD_SOFTWARE_GPU 4

/// Keys and values as they were computed.
#define LEAN_KV_F32 0

/// The upper 24 bits of each; within the same gate as `LEAN_KV_F32`.
#define LEAN_KV_F24 1

/// Half precision.
#define LEAN_KV_F16 2

/// Bytes with a scale for each block of 32.
#define LEAN_KV_Q8_0 3

/// Logits within 1e-3 of float32 arithmetic on the same weights: the default.
#define LEAN_PRECISION_EXACT 0

/// Faster and less exact, in an exactness class of its own (docs/precision.md).
#define LEAN_PRECISION_FAST 1

/// After a failure or a cancellation keep what was generated, instead of the session as it was before.
#define LEAN_GENERATE_KEEP_PARTIAL 1

/// Report the value so far with `LEAN_EVENT_PARTIAL` (streams of JSON types).
#define LEAN_GENERATE_PARTIALS 2

/// Say how sure the model was of the value (`lean_output_confidence`).
#define LEAN_GENERATE_CONFIDENCE 4

/// Events of progress through the context.
#define LEAN_EVENTS_PREFILL 1

/// Events of every token.
#define LEAN_EVENTS_TOKEN 2

/// Events that carry text.
#define LEAN_EVENTS_TEXT 4

/// Events of the value so far.
#define LEAN_EVENTS_PARTIAL 8

/// Events of what a token is chosen from.
#define LEAN_EVENTS_CANDIDATES 16

/// All events, those of newer libraries included.
#define LEAN_EVENTS_ALL 4294967295

/// The value is complete, or the model ended its text.
#define LEAN_FINISH_COMPLETE 0

/// A stop string was met, which is not part of the text (text only).
#define LEAN_FINISH_STOP 1

/// The token budget was reached (text only).
#define LEAN_FINISH_LENGTH 2

/// `null`.
#define LEAN_KIND_NULL 0

/// `true` or `false`.
#define LEAN_KIND_BOOLEAN 1

/// A number.
#define LEAN_KIND_NUMBER 2

/// A string.
#define LEAN_KIND_STRING 3

/// An array.
#define LEAN_KIND_ARRAY 4

/// An object.
#define LEAN_KIND_OBJECT 5

/// The port is in use.
#define LEAN_PORT_OPEN 0

/// It was closed by lean_port_close before it ended by itself. A bridge process exits with status 0 then.
#define LEAN_PORT_CLOSED 1

/// SHUTDOWN was asked for and answered. A bridge process exits with status 0 then.
#define LEAN_PORT_SHUTDOWN 2

/// What was sent was not the protocol; the last frame says why. A bridge process exits with status 2 then.
#define LEAN_PORT_PROTOCOL 3

/// The state is taken over bit for bit, or the restore is `LEAN_INCOMPATIBLE`.
#define LEAN_RESTORE_EXACT 0

/// A state made by another backend or version is taken over too; what follows is close, not identical.
#define LEAN_RESTORE_CONVERT 1

/// Only the tokens are taken over; the state is computed again.
#define LEAN_RESTORE_REPREFILL 2

/// The session did not come from a checkpoint.
#define LEAN_RESTORED_NONE 0

/// The state is shared with the checkpoint; nothing was copied.
#define LEAN_RESTORED_SHARED 1

/// The state was copied.
#define LEAN_RESTORED_IMPORTED 2

/// The state of another backend or version was copied.
#define LEAN_RESTORED_CONVERTED 3

/// The tokens will run again with the next step.
#define LEAN_RESTORED_REPREFILLED 4

/// Version of this interface. It grows with every addition; nothing is ever removed or changed.
#define LEAN_ABI_VERSION 1

/// `timeout_ms` of `lean_stream_next`: until there is an event.
#define LEAN_WAIT_FOREVER 4294967295

/// Context tokens ran: `done` of `total`.
#define LEAN_EVENT_PREFILL 1

/// A token was added to the value: `token`, `forced`, and the `text` that became complete with it, if any.
#define LEAN_EVENT_TOKEN 2

/// `text` became final without a further token. Only at the end.
#define LEAN_EVENT_TEXT 3

/// The value so far, if `LEAN_GENERATE_PARTIALS` asked for it: `text` is JSON that parses, of which the first
/// `done` bytes are final, and `path` the JSON pointer of the innermost value that is being written.
#define LEAN_EVENT_PARTIAL 4

/// What the next token is chosen from, if `candidates` of the options asked for it: `text` is a JSON array of `{"id", "text",
/// "probability", "allowed"}`, likeliest first, and at the end the one taken if it is not among them. Probabilities are those
/// among all tokens at temperature 1, `allowed` says whether the type allows it, `text` is empty for the end.
#define LEAN_EVENT_CANDIDATES 5

/// A loaded LoRA adapter of one model: immutable, usable from many threads at once.
typedef struct lean_adapter lean_adapter;

/// Bytes or text that a call returned. Immutable.
typedef struct lean_bytes lean_bytes;

/// A flag that cancels the calls it is given to. Once triggered it stays so.
typedef struct lean_cancel lean_cancel;

/// A point to continue from, exactly: the tokens, the state that they filled, and a value in progress, if it
/// was taken inside one. Immutable, usable from many threads at once; outlives what it was taken from.
typedef struct lean_checkpoint lean_checkpoint;

/// A list of blocks to run. Blocks are tokenised one after the other; the end of each is a natural point to
/// reuse. Calls that use a context do not change or keep it, so that one serves many sessions.
typedef struct lean_context lean_context;

/// Why a call failed. Owned by whoever received it; immutable.
typedef struct lean_error lean_error;

/// A loaded model: immutable, usable from many threads at once.
typedef struct lean_model lean_model;

/// A finished value with its text and counts. Immutable, usable from many threads at once.
typedef struct lean_output lean_output;

/// A bridge inside this process, for clients that speak the protocol of `lean-bridge` (bridge/PROTOCOL.md): the
/// bytes that one would write to its stdin and read from its stdout, and nothing else differs. It has models, sessions
/// and checkpoints of its own, which the other functions of this header do not see.
///
/// Typically one thread receives and others send. All functions but lean_port_free may be called from any threads at
/// once. A port does not survive a fork of the process.
typedef struct lean_port lean_port;

/// One sequence, used by one thread at a time. A call that fails or is cancelled leaves it as it was before.
/// While a stream has it, every other call on it is `LEAN_BUSY`.
typedef struct lean_session lean_session;

/// A generation under way. It has the session until it is finished or freed. Used by one thread at a time,
/// but for `lean_stream_cancel`.
typedef struct lean_stream lean_stream;

/// What is generated and nothing else. Immutable, usable from many threads at once, and with every model.
typedef struct lean_type lean_type;

/// What a function answers: `LEAN_OK`, one of the two other answers that are no errors (`LEAN_PENDING`,
/// `LEAN_END`), or the code of an error, 100 or more.
typedef int32_t lean_status;

/// Called in the calling thread with work done and work in total (bytes while loading, tokens in a context).
/// Returning false cancels. It must not throw, unwind, longjmp, or use a handle of the call it reports on.
typedef bool (*lean_progress_fn)(void *user, uint64_t done, uint64_t total);

/// How to run a context.
typedef struct lean_prefill_options {
  /// `sizeof` of this struct.
  uint32_t struct_size;
  /// Must be 0.
  uint32_t reserved;
  /// Progress, or NULL (default).
  lean_progress_fn progress;
  /// Passed to `progress`.
  void *progress_user;
  /// Cancels; the session is then as it was before. NULL (default) for none.
  const struct lean_cancel *cancel;
} lean_prefill_options;

/// Receives a message: user data, level, text (NUL-terminated, borrowed for the call), length. Called from
/// any thread that is inside the library, or from its own. It must not throw, unwind or longjmp.
typedef void (*lean_log_fn)(void *user, int32_t level, const char *message, size_t length);

/// Frees user data, once nothing uses it any more.
typedef void (*lean_destroy_fn)(void *user);

/// How to generate. The same context, type, options and class of machine give the same bytes.
typedef struct lean_generate_options {
  /// `sizeof` of this struct.
  uint32_t struct_size;
  /// `LEAN_GENERATE_*`. Default 0.
  uint32_t flags;
  /// Most tokens to generate; `LEAN_NONE` (default) is what the context still holds.
  uint64_t max_tokens;
  /// 0 (default) takes the likeliest token.
  float temperature;
  /// Sample among the likeliest that together reach this probability; 1 (default) is off.
  float top_p;
  /// Drop tokens below this share of the likeliest one's probability; 0 (default) is off.
  float min_p;
  /// Makes recent tokens less likely; 1 (default) is off.
  float repetition_penalty;
  /// Tokens that the penalty looks at.
  uint32_t repetition_window;
  /// Sample among this many of the likeliest; 0 (default) is off.
  uint32_t top_k;
  /// Seed of the sampler. Default 0.
  uint64_t seed;
  /// Text ends before any of these strings (text types only); NULL (default) for none.
  const char *const *stop;
  /// Their lengths; NULL if all are NUL-terminated.
  const size_t *stop_lengths;
  /// Their number.
  size_t stop_count;
  /// Cancels; the session is then as it was before. NULL (default) for none.
  const struct lean_cancel *cancel;
  /// Give up with `LEAN_TIMEOUT` after this many milliseconds; `LEAN_NONE` (default) is never.
  uint64_t timeout_ms;
  /// `LEAN_EVENTS_*` that a stream reports. Default all.
  uint32_t events;
  /// So many of the likeliest tokens are reported before each that is chosen from logits, as `LEAN_EVENT_CANDIDATES`: at
  /// most 64, by default 0.
  uint32_t candidates;
} lean_generate_options;

/// How to load a model.
typedef struct lean_load_options {
  /// `sizeof` of this struct.
  uint32_t struct_size;
  /// `LEAN_BACKEND_*`. Default auto.
  int32_t backend;
  /// CPU threads; 0 (default) is the number of cores that the process may use.
  uint32_t threads;
  /// `LEAN_LOAD_*`. Default 0.
  uint32_t flags;
  /// Part of a GPU adapter's name; NULL (default) takes the best.
  const char *adapter;
  /// Its length.
  size_t adapter_length;
  /// Progress, or NULL (default).
  lean_progress_fn progress;
  /// Passed to `progress`.
  void *progress_user;
  /// Cancels the load between tensors; NULL (default) for none.
  const struct lean_cancel *cancel;
  /// Bytes of state that the model keeps of earlier contexts, so that one that begins alike is not computed
  /// again from its beginning; `LEAN_NONE` (default) is a few hundred MB, 0 turns it off.
  uint64_t prefix_cache_bytes;
  /// `LEAN_KV_*`: how keys and values are stored. Default f32; others on the CPU only.
  uint32_t kv;
  /// `LEAN_PRECISION_*`: how exactly it is computed. Default exact.
  uint32_t precision;
} lean_load_options;

/// How to open or restore a session.
typedef struct lean_session_options {
  /// `sizeof` of this struct.
  uint32_t struct_size;
  /// Must be 0.
  uint32_t reserved;
  /// Most tokens that the session may hold; `LEAN_NONE` (default) is the model's own length, or the
  /// checkpoint's. Memory is taken as it fills.
  uint64_t context;
} lean_session_options;

/// How to continue a value.
typedef struct lean_resume_options {
  /// `sizeof` of this struct.
  uint32_t struct_size;
  /// `LEAN_EVENTS_*` that the stream reports. Default all.
  uint32_t events;
  /// Cancels; the session is then as it was before. NULL (default) for none.
  const struct lean_cancel *cancel;
} lean_resume_options;

/// Counts and times of one generation.
typedef struct lean_usage {
  /// `sizeof` of this struct.
  uint32_t struct_size;
  /// 0.
  uint32_t reserved;
  /// Tokens of the context when the generation began.
  uint64_t prompt_tokens;
  /// Of those, tokens whose state was already there.
  uint64_t reused_tokens;
  /// Tokens chosen by the model.
  uint64_t sampled_tokens;
  /// Tokens that the type left no choice about.
  uint64_t forced_tokens;
  /// Passes over the weights.
  uint64_t passes;
  /// Seconds from the call to the first chosen token.
  double first_token_seconds;
  /// Seconds from the call to the end.
  double total_seconds;
  /// Value tokens per second after the first; 0 where there is nothing to measure.
  double tokens_per_second;
  /// Passes over the weights that forced tokens saved, since each ran together with another token.
  uint64_t saved_passes;
} lean_usage;

/// Counts since the model was loaded, and memory now.
typedef struct lean_stats {
  /// `sizeof` of this struct.
  uint32_t struct_size;
  /// 0.
  uint32_t reserved;
  /// Passes over the weights.
  uint64_t passes;
  /// Sequences in those passes; more of them than passes means that work shared passes.
  uint64_t slots;
  /// Tokens in those passes.
  uint64_t tokens;
  /// Pages of state that were copied because a session wrote to one that it shared. Forking copies none.
  uint64_t pages_copied;
  /// Bytes of weights.
  uint64_t weight_bytes;
  /// Bytes of all states (sessions, checkpoints in memory, kept prefixes), shared pages counted once.
  uint64_t state_bytes;
  /// Contexts that were looked up among the kept states of earlier ones.
  uint64_t prefix_lookups;
  /// Of those, contexts that found more than their session had.
  uint64_t prefix_hits;
  /// Tokens that did not have to run because of them.
  uint64_t prefix_tokens_reused;
  /// States kept now.
  uint64_t prefix_entries;
  /// Their bytes, shared pages counted once.
  uint64_t prefix_bytes;
  /// Bytes that they may take; 0 is off.
  uint64_t prefix_budget;
  /// States that were dropped to stay within that.
  uint64_t prefix_evictions;
} lean_stats;

/// What happened. Kinds that a program does not know are to be skipped.
typedef struct lean_event {
  /// `sizeof` of this struct.
  uint32_t struct_size;
  /// `LEAN_EVENT_*`.
  int32_t kind;
  /// Work done.
  uint64_t done;
  /// Work in total.
  uint64_t total;
  /// Whole UTF-8 characters, possibly none, NUL-terminated. Borrowed until the next call on the stream.
  const char *text;
  /// Its length.
  size_t text_length;
  /// Token id.
  uint32_t token;
  /// 1 if the type left no choice about the token.
  uint32_t forced;
  /// JSON pointer, NUL-terminated, or NULL. Borrowed until the next call on the stream.
  const char *path;
  /// Its length.
  size_t path_length;
} lean_event;

/// Done.
#define LEAN_OK 0

/// Nothing within the timeout; ask again. No error.
#define LEAN_PENDING 1

/// Nothing will follow. No error.
#define LEAN_END 2

/// An argument is unusable: NULL, out of range, not UTF-8, a handle of another kind.
#define LEAN_INVALID_ARGUMENT 100

/// A type expression or JSON Schema that is malformed or cannot be enforced exactly.
#define LEAN_TYPE 110

/// The chat template failed or raised an error of its own.
#define LEAN_TEMPLATE 120

/// The context cannot hold what was asked for (numbers `needed`, `available`); nothing was changed.
#define LEAN_CONTEXT_OVERFLOW 130

/// The token budget cannot hold even the shortest value of the type (number `needed`).
#define LEAN_BUDGET_TOO_SMALL 131

/// Reserved: never returned. A value is steered to its end within the budget, or `LEAN_BUDGET_TOO_SMALL` says so
/// before it begins.
#define LEAN_TRUNCATED 132

/// The model cannot be read (strings `path`, `reason`).
#define LEAN_MODEL_IO 200

/// The model file is damaged, truncated or malformed (strings `what`, `reason`).
#define LEAN_BAD_MODEL 201

/// The model file is well-formed, but this library cannot run it (strings `what`, `reason`).
#define LEAN_UNSUPPORTED_MODEL 202

/// The checkpoint is damaged, truncated or malformed (strings `what`, `reason`).
#define LEAN_BAD_CHECKPOINT 300

/// The checkpoint belongs to something else (strings `what`, `expected`, `found`).
#define LEAN_INCOMPATIBLE 301

/// An allocation was refused (number `wanted` in bytes, string `what`).
#define LEAN_OUT_OF_MEMORY 400

/// The device went away; states on it are gone, saved checkpoints are not.
#define LEAN_DEVICE_LOST 401

/// The device or backend cannot do this.
#define LEAN_DEVICE 402

/// A file other than a model cannot be read or written (strings `path`, `reason`).
#define LEAN_IO 410

/// The handle is in use: by a stream, or by a call on another thread.
#define LEAN_BUSY 420

/// Cancelled; the session is as it was before the call.
#define LEAN_CANCELLED 500

/// The time limit passed; the session is as it was before the call.
#define LEAN_TIMEOUT 501

/// A bug in lean.
#define LEAN_INTERNAL 900

/// A bug in lean: a panic was caught. The handles of the call answer every further call with this.
#define LEAN_PANIC 901

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/// Reads an adapter for a model: a .gguf file as llama.cpp writes them, or PEFT's folder with adapter_config.json
/// and adapter_model.safetensors. Free `adapter` with `lean_adapter_free`; sessions that use it keep it alive, and
/// while it is alive, checkpoints that were made with it can be restored.
lean_status lean_adapter_load(const struct lean_model *model,
                              const char *path,
                              size_t path_length,
                              struct lean_adapter **adapter,
                              struct lean_error **error);

/// What the adapter says about itself: a JSON object with name, format, matrices, ranks, bytes, fingerprint.
/// NUL-terminated; `length` may be NULL. Borrowed until the adapter is freed.
lean_status lean_adapter_info(const struct lean_adapter *adapter,
                              const char **json,
                              size_t *length,
                              struct lean_error **error);

/// Makes the session run with these adapters, each multiplied with its scale (NULL is 1 for all), and with no
/// others; none at all with `count` 0. Its tokens are run again. `options` may be NULL.
lean_status lean_session_set_adapters(struct lean_session *session,
                                      const struct lean_adapter *const *adapters,
                                      const float *scales,
                                      size_t count,
                                      const struct lean_prefill_options *options,
                                      struct lean_error **error);

/// Frees the adapter. NULL does nothing. Sessions that use it keep it alive.
void lean_adapter_free(struct lean_adapter *adapter);

/// Where the bytes are, and how many. Borrowed until `bytes` is freed. Text is followed by a NUL byte that
/// the length does not count; a checkpoint is not.
lean_status lean_bytes_data(const struct lean_bytes *bytes,
                            const uint8_t **data,
                            size_t *length,
                            struct lean_error **error);

/// Frees the bytes. NULL does nothing.
void lean_bytes_free(struct lean_bytes *bytes);

/// A new flag, not triggered. Free it with `lean_cancel_free`.
lean_status lean_cancel_new(struct lean_cancel **cancel, struct lean_error **error);

/// Triggers the flag. From any thread and from a signal handler, as often as one likes; NULL does nothing.
/// Work that looks at the flag ends with `LEAN_CANCELLED` within 50 ms on common models.
void lean_cancel_trigger(const struct lean_cancel *cancel);

/// Whether the flag was triggered; false for NULL.
bool lean_cancel_is_triggered(const struct lean_cancel *cancel);

/// Frees the flag. NULL does nothing. Calls and streams that were given it go on, and can no longer be
/// cancelled by it.
void lean_cancel_free(struct lean_cancel *cancel);

/// A self-contained copy. Free `bytes` with `lean_bytes_free`.
lean_status lean_checkpoint_to_bytes(const struct lean_checkpoint *checkpoint,
                                     struct lean_bytes **bytes,
                                     struct lean_error **error);

/// A checkpoint from a copy. Damage of a single bit is `LEAN_BAD_CHECKPOINT`; whether it belongs to a model
/// is found out when it is restored. The bytes are only used during the call. Free `checkpoint` with
/// `lean_checkpoint_free`.
lean_status lean_checkpoint_from_bytes(const uint8_t *data,
                                       size_t length,
                                       struct lean_checkpoint **checkpoint,
                                       struct lean_error **error);

/// Writes the copy to a file, which is always either the old one or the whole new one. The number of bytes
/// goes to `written`, which may be NULL.
lean_status lean_checkpoint_save(const struct lean_checkpoint *checkpoint,
                                 const char *path,
                                 size_t path_length,
                                 uint64_t *written,
                                 struct lean_error **error);

/// Reads a file written by `lean_checkpoint_save`. Free `checkpoint` with `lean_checkpoint_free`.
lean_status lean_checkpoint_load(const char *path,
                                 size_t path_length,
                                 struct lean_checkpoint **checkpoint,
                                 struct lean_error **error);

/// A copy that is compressed (`compress` not 0: zstd, where it makes the state smaller), or, with `parent` not NULL,
/// holds only what differs from that checkpoint, which is then needed to read it. `LEAN_INCOMPATIBLE` if the parent is
/// of another model or exactness class. Free `bytes` with `lean_bytes_free`.
lean_status lean_checkpoint_to_bytes_with(const struct lean_checkpoint *checkpoint,
                                          int32_t compress,
                                          const struct lean_checkpoint *parent,
                                          struct lean_bytes **bytes,
                                          struct lean_error **error);

/// A checkpoint from a copy that was made with a parent. `LEAN_INCOMPATIBLE` if this is not the parent it was made
/// with. A copy that was made without one needs none and ignores it. Free `checkpoint` with `lean_checkpoint_free`.
lean_status lean_checkpoint_from_delta(const uint8_t *data,
                                       size_t length,
                                       const struct lean_checkpoint *parent,
                                       struct lean_checkpoint **checkpoint,
                                       struct lean_error **error);

/// Checks every byte of a copy and says what is in it, as a JSON object: what `lean_checkpoint_info` says, and version,
/// file_bytes, stored_state_bytes, compression, parent_pages, page_tokens, attention_layers, window_layers, capacity.
/// No model and no parent is needed. Free `json` with `lean_bytes_free`.
lean_status lean_checkpoint_inspect(const uint8_t *data,
                                    size_t length,
                                    struct lean_bytes **json,
                                    struct lean_error **error);

/// What the checkpoint is, as a JSON object: fingerprint, exactness_class, tokens, filled, in_value,
/// state_bytes. Free `json` with `lean_bytes_free`.
lean_status lean_checkpoint_info(const struct lean_checkpoint *checkpoint,
                                 struct lean_bytes **json,
                                 struct lean_error **error);

/// Token ids of the sequence. Borrowed until the checkpoint is freed.
lean_status lean_checkpoint_tokens(const struct lean_checkpoint *checkpoint,
                                   const uint32_t **ids,
                                   size_t *count,
                                   struct lean_error **error);

/// Frees the checkpoint. NULL does nothing.
void lean_checkpoint_free(struct lean_checkpoint *checkpoint);

/// An empty context. Free it with `lean_context_free`.
lean_status lean_context_new(struct lean_context **context, struct lean_error **error);

/// Adds plain text. Control tokens in it are never parsed: nobody injects a role through data. The text is
/// copied.
lean_status lean_context_add_text(struct lean_context *context,
                                  const char *text,
                                  size_t length,
                                  struct lean_error **error);

/// Adds trusted text, in which control tokens are parsed. The text is copied.
lean_status lean_context_add_raw(struct lean_context *context,
                                 const char *text,
                                 size_t length,
                                 struct lean_error **error);

/// Adds token ids. They are copied, and checked against the model when they are used.
lean_status lean_context_add_tokens(struct lean_context *context,
                                    const uint32_t *ids,
                                    size_t count,
                                    struct lean_error **error);

/// Adds a JSON value, which the model sees in compact form.
lean_status lean_context_add_json(struct lean_context *context,
                                  const char *json,
                                  size_t length,
                                  struct lean_error **error);

/// Adds a whole conversation: a JSON array of messages (`[{"role": "user", "content": "..."}]`), or an object
/// with `messages` and optionally `tools`, `add_generation_prompt`, `trusted` and `variables`. It is rendered
/// with the model's chat template, and can only be the first block of a context.
lean_status lean_context_add_chat(struct lean_context *context,
                                  const char *json,
                                  size_t length,
                                  struct lean_error **error);

/// Adds one message to the conversation at the end of the context, or begins one. The strings are copied.
lean_status lean_context_add_message(struct lean_context *context,
                                     const char *role,
                                     size_t role_length,
                                     const char *content,
                                     size_t content_length,
                                     struct lean_error **error);

/// Adds blocks as they travel between programs: a JSON array of `{"text": "..."}`, `{"raw": "..."}`,
/// `{"tokens": [1, 2]}`, `{"json": ...}` and `{"chat": {"messages": [...]}}`. All of them or, after an error,
/// none.
lean_status lean_context_add_blocks(struct lean_context *context,
                                    const char *json,
                                    size_t length,
                                    struct lean_error **error);

/// Makes the context begin at a checkpoint, for `lean_generate`. NULL removes it. The context keeps what it
/// needs, so the checkpoint may be freed.
lean_status lean_context_set_checkpoint(struct lean_context *context,
                                        const struct lean_checkpoint *checkpoint,
                                        struct lean_error **error);

/// Empties the context.
lean_status lean_context_clear(struct lean_context *context, struct lean_error **error);

/// Frees the context. NULL does nothing.
void lean_context_free(struct lean_context *context);

/// Frees an error. NULL does nothing.
void lean_error_free(struct lean_error *error);

/// The status that the failed call returned; `LEAN_OK` for NULL.
lean_status lean_error_code(const struct lean_error *error);

/// The status as a word, such as "context_overflow"; "ok" for NULL. Static; never freed.
const char *lean_error_name(const struct lean_error *error);

/// What went wrong and where, for a person. NULL only if `error` is NULL.
/// `length` may be NULL. Borrowed until the error is freed.
const char *lean_error_message(const struct lean_error *error, size_t *length);

/// All of it as a JSON object: code, name, message, and the strings and numbers below. NULL only if `error`
/// is NULL. `length` may be NULL. Borrowed until the error is freed.
const char *lean_error_json(const struct lean_error *error, size_t *length);

/// A string of the error by its name: `what`, `reason`, `at`, `keyword`, `path`, `expected`, `found`,
/// `partial` (the text generated so far). NULL if this error has none of that name; the statuses say which
/// they have. `length` may be NULL. Borrowed until the error is freed.
const char *lean_error_string(const struct lean_error *error,
                              const char *name,
                              size_t name_length,
                              size_t *length);

/// A number of the error by its name: `needed`, `available`, `tokens` (all in tokens), `wanted` (bytes).
/// Returns whether this error has one of that name, and only then writes it.
bool lean_error_number(const struct lean_error *error,
                       const char *name,
                       size_t name_length,
                       uint64_t *number);

/// Sets the one receiver of messages of the process, up to a level; a NULL callback removes it.
/// The library takes `user` and, when the receiver is replaced or removed and no call into it is in progress,
/// passes it to `destroy`, which may be NULL. After an error `user` remains the caller's.
lean_status lean_log_set(lean_log_fn log,
                         int32_t level,
                         void *user,
                         lean_destroy_fn destroy,
                         struct lean_error **error);

/// Starts `count` values that continue one checkpoint (NULL: an empty context) side by side: a pass over the
/// weights serves all of them, and each is bit for bit what it would be alone. `contexts` holds what each
/// branch adds first (the array or its elements may be NULL), `types` what each generates, `options` how
/// (the array or its elements may be NULL). `streams` receives a stream for each branch, which is pulled,
/// cancelled, checkpointed, finished and freed like any other, from any thread; pulling one takes a step in all,
/// and the others keep their events. `sessions`, unless NULL, receives the session of each branch, which its
/// stream has until it is finished or freed. What all contexts begin with is computed once, in this call. After
/// an error nothing was started.
lean_status lean_generate_many(const struct lean_model *model,
                               const struct lean_checkpoint *checkpoint,
                               size_t count,
                               const struct lean_context *const *contexts,
                               const struct lean_type *const *types,
                               const struct lean_generate_options *const *options,
                               struct lean_stream **streams,
                               struct lean_session **sessions,
                               struct lean_error **error);

/// The same after a session's content. The session itself stays as it is.
lean_status lean_session_generate_many(struct lean_session *session,
                                       size_t count,
                                       const struct lean_context *const *contexts,
                                       const struct lean_type *const *types,
                                       const struct lean_generate_options *const *options,
                                       struct lean_stream **streams,
                                       struct lean_session **sessions,
                                       struct lean_error **error);

/// Loads a GGUF file. `options` may be NULL. Free the model with `lean_model_free`.
lean_status lean_model_load(const char *path,
                            size_t path_length,
                            const struct lean_load_options *options,
                            struct lean_model **model,
                            struct lean_error **error);

/// Loads a GGUF file that is in memory. The bytes are only used during the call. `options` may be NULL. Free
/// the model with `lean_model_free`.
lean_status lean_model_load_bytes(const uint8_t *data,
                                  size_t length,
                                  const struct lean_load_options *options,
                                  struct lean_model **model,
                                  struct lean_error **error);

/// What a GGUF file asks for, without loading it: a JSON object with architecture, name, parameters,
/// file_bytes, weight_bytes, state_bytes_per_token, state_bytes_fixed, context_length (also a session's default), vocab_size, layers,
/// max_memory_bytes (an estimate for a session of context_length tokens). Free `json` with `lean_bytes_free`.
lean_status lean_model_plan(const char *path,
                            size_t path_length,
                            struct lean_bytes **json,
                            struct lean_error **error);

/// What the model says about itself: a JSON object with what `lean_model_plan` has and backend, device,
/// exactness_class, fingerprint, bos, eos, has_chat_template. NUL-terminated; `length` may be NULL.
/// Borrowed until the model is freed.
lean_status lean_model_info(const struct lean_model *model,
                            const char **json,
                            size_t *length,
                            struct lean_error **error);

/// Estimate of the memory that the model takes with one session of `context` tokens: weights, state in whole
/// pages, and a row of logits. What is kept of earlier contexts comes on top (`lean_model_set_prefix_cache`).
lean_status lean_model_memory_bytes(const struct lean_model *model,
                                    size_t context,
                                    uint64_t *bytes,
                                    struct lean_error **error);

/// Ids of a context as they would start a session. Writes at most `capacity` of them to `ids` (NULL with
/// capacity 0, which counts them) and their number to `count`, which may be more.
lean_status lean_model_tokenize(const struct lean_model *model,
                                const struct lean_context *context,
                                uint32_t *ids,
                                size_t capacity,
                                size_t *count,
                                struct lean_error **error);

/// Text of ids, control tokens left out unless `keep_control`; bytes that are no UTF-8 become U+FFFD. Free
/// `text` with `lean_bytes_free`.
lean_status lean_model_detokenize(const struct lean_model *model,
                                  const uint32_t *ids,
                                  size_t count,
                                  bool keep_control,
                                  struct lean_bytes **text,
                                  struct lean_error **error);

/// A conversation as text, by the model's chat template. The JSON is that of `lean_context_add_chat`. Free
/// `text` with `lean_bytes_free`.
lean_status lean_model_render_chat(const struct lean_model *model,
                                   const char *json,
                                   size_t length,
                                   struct lean_bytes **text,
                                   struct lean_error **error);

/// An ordered context in, a value out, in one call. Nothing is kept. `context` may be NULL (empty);
/// `options` may be NULL; its `events` play no part. Free `output` with `lean_output_free`.
lean_status lean_generate(const struct lean_model *model,
                          const struct lean_context *context,
                          const struct lean_type *type,
                          const struct lean_generate_options *options,
                          struct lean_output **output,
                          struct lean_error **error);

/// Frees the model. NULL does nothing. Its sessions, streams and checkpoints stay usable; the memory goes
/// with the last of them.
void lean_model_free(struct lean_model *model);

/// Fills in defaults. `size` is `sizeof *options`, so that an older program and a newer library agree.
void lean_load_options_init(struct lean_load_options *options, size_t size);

/// Fills in defaults. `size` is `sizeof *options`.
void lean_session_options_init(struct lean_session_options *options, size_t size);

/// Fills in defaults. `size` is `sizeof *options`.
void lean_prefill_options_init(struct lean_prefill_options *options, size_t size);

/// Fills in defaults. `size` is `sizeof *options`.
void lean_generate_options_init(struct lean_generate_options *options, size_t size);

/// Fills in defaults. `size` is `sizeof *options`.
void lean_resume_options_init(struct lean_resume_options *options, size_t size);

/// The text as it was generated: compact JSON, or the plain text of a text type. NUL-terminated; `length` may
/// be NULL. Borrowed until the output is freed.
lean_status lean_output_text(const struct lean_output *output,
                             const char **text,
                             size_t *length,
                             struct lean_error **error);

/// The value as JSON; for text types a JSON string. NUL-terminated; `length` may be NULL. Borrowed until the
/// output is freed.
lean_status lean_output_json(const struct lean_output *output,
                             const char **json,
                             size_t *length,
                             struct lean_error **error);

/// How sure the model was, if `LEAN_GENERATE_CONFIDENCE` asked for it, as JSON (otherwise `null`):
/// `{"logprob": ..., "leaves": [{"path": "/kind", "logprob": ..., "alternatives": [{"value": ..., "probability": ...}]}]}`.
/// Logarithms are natural; alternatives are given where the type allows at most 64 values. NUL-terminated; `length` may
/// be NULL. Borrowed until the output is freed.
lean_status lean_output_confidence(const struct lean_output *output,
                                   const char **json,
                                   size_t *length,
                                   struct lean_error **error);

/// Why it ended: `LEAN_FINISH_*`.
lean_status lean_output_finish(const struct lean_output *output, int32_t *finish, struct lean_error **error);

/// Token ids of the value. Borrowed until the output is freed.
lean_status lean_output_tokens(const struct lean_output *output,
                               const uint32_t **ids,
                               size_t *count,
                               struct lean_error **error);

/// Counts and times. Call `lean_usage_init` on `usage` first.
lean_status lean_output_usage(const struct lean_output *output,
                              struct lean_usage *usage,
                              struct lean_error **error);

/// Prepares the struct. `size` is `sizeof *usage`.
void lean_usage_init(struct lean_usage *usage, size_t size);

/// The kind of the part of the value at a JSON pointer, such as "/tags/0"; "" is the whole: `LEAN_KIND_*`.
lean_status lean_output_kind(const struct lean_output *output,
                             const char *pointer,
                             size_t pointer_length,
                             int32_t *kind,
                             struct lean_error **error);

/// The string at a JSON pointer. NUL-terminated (it may hold further NUL characters); `length` may be NULL.
/// Borrowed until the output is freed.
lean_status lean_output_string(const struct lean_output *output,
                               const char *pointer,
                               size_t pointer_length,
                               const char **text,
                               size_t *length,
                               struct lean_error **error);

/// The number at a JSON pointer, as the nearest double.
lean_status lean_output_number(const struct lean_output *output,
                               const char *pointer,
                               size_t pointer_length,
                               double *number,
                               struct lean_error **error);

/// The integer at a JSON pointer. A number with a fraction, or one beyond 64 bits, is an error.
lean_status lean_output_integer(const struct lean_output *output,
                                const char *pointer,
                                size_t pointer_length,
                                int64_t *integer,
                                struct lean_error **error);

/// The boolean at a JSON pointer.
lean_status lean_output_boolean(const struct lean_output *output,
                                const char *pointer,
                                size_t pointer_length,
                                bool *boolean,
                                struct lean_error **error);

/// The number of items of the array, or of properties of the object, at a JSON pointer.
lean_status lean_output_count(const struct lean_output *output,
                              const char *pointer,
                              size_t pointer_length,
                              size_t *count,
                              struct lean_error **error);

/// Frees the output. NULL does nothing.
void lean_output_free(struct lean_output *output);

/// Opens a port; close it when it is not needed any more, and free it. It has a thread of its own, and one for each
/// request that runs. `LEAN_BUSY` if the system gives it none.
lean_status lean_port_open(struct lean_port **port,
                           struct lean_error **error);

/// Sends bytes of the host's stream: frames, cut anywhere, with no magic before them. They are copied. What is no
/// frame is no error here: an ERROR frame tells of it, as from a process.
///
/// Either all bytes are taken, or none: `LEAN_PENDING` if for `timeout_ms` milliseconds (0: do not wait;
/// `LEAN_WAIT_FOREVER`) too many were waiting to be handled, which is 256 KiB, and happens while nobody receives
/// what the port has to say; `LEAN_END` if the port has ended or is closed. Bytes of which the port has no need any
/// more, since it ended while they were waiting, are thrown away.
lean_status lean_port_send(const struct lean_port *port,
                           const uint8_t *data,
                           size_t length,
                           uint32_t timeout_ms,
                           struct lean_error **error);

/// Receives the next bytes of the bridge's stream: one or several whole frames, the first time with the 8 bytes of the
/// magic before them. The caller frees them with lean_bytes_free.
///
/// `LEAN_PENDING` if nothing came within `timeout_ms` milliseconds (0: what is there already; `LEAN_WAIT_FOREVER`);
/// `LEAN_END` once nothing will come any more: the port has ended and all of it was received, or it is closed. A call
/// that waits gets `LEAN_END` at once when another thread closes the port. Of several threads that receive, each gets
/// different frames.
lean_status lean_port_recv(const struct lean_port *port,
                           uint32_t timeout_ms,
                           struct lean_bytes **bytes,
                           struct lean_error **error);

/// How far the port is: `LEAN_PORT_*`. One that has ended by itself may still have frames to receive.
lean_status lean_port_state(const struct lean_port *port, int32_t *state, struct lean_error **error);

/// Ends the port as the end of stdin ends a process, and may be called while other threads send and receive: what
/// runs is cancelled, what was not received is thrown away, models and checkpoints are freed, and calls that wait get
/// `LEAN_END`. Returns when no thread of the port runs any more, which takes a step of the engine or a layer of a
/// prefill. Again, it waits for the same and does nothing else. Not from a log callback, whose thread it may wait for.
lean_status lean_port_close(const struct lean_port *port,
                            struct lean_error **error);

/// Closes the port, if that was not done, and frees it. NULL does nothing. No other call on it may be under way: close
/// it first, and wait for those that it wakes.
void lean_port_free(struct lean_port *port);

/// An empty session. `options` may be NULL. Free it with `lean_session_free`; it keeps the model alive.
lean_status lean_session_new(const struct lean_model *model,
                             const struct lean_session_options *options,
                             struct lean_session **session,
                             struct lean_error **error);

/// A session that continues from a checkpoint, by a policy `LEAN_RESTORE_*`. `options` may be NULL. Free it
/// with `lean_session_free`; the checkpoint stays usable and may be freed.
lean_status lean_session_restore(const struct lean_model *model,
                                 const struct lean_checkpoint *checkpoint,
                                 int32_t policy,
                                 const struct lean_session_options *options,
                                 struct lean_session **session,
                                 struct lean_error **error);

/// Adds a context and runs it, up to its last token, which runs with the next step. `options` may be NULL.
lean_status lean_session_append(struct lean_session *session,
                                const struct lean_context *context,
                                const struct lean_prefill_options *options,
                                struct lean_error **error);

/// Makes the session's content exactly a context. What the two have in common at their start keeps its state;
/// the number of tokens that did not have to run again goes to `reused`, which may be NULL. `options` may be
/// NULL.
lean_status lean_session_set_context(struct lean_session *session,
                                     const struct lean_context *context,
                                     const struct lean_prefill_options *options,
                                     size_t *reused,
                                     struct lean_error **error);

/// Keeps the first `length` tokens.
lean_status lean_session_truncate(struct lean_session *session, size_t length, struct lean_error **error);

/// Removes the tokens from `begin` up to, but not including, `end`, and runs what follows them again, at its
/// new place; the number of tokens that ran goes to `ran`, which may be NULL. `options` may be NULL. A range
/// beyond the session's tokens is an error that says how many there are.
lean_status lean_session_drop_range(struct lean_session *session,
                                    size_t begin,
                                    size_t end,
                                    const struct lean_prefill_options *options,
                                    size_t *ran,
                                    struct lean_error **error);

/// A second session with the same content. Takes microseconds; memory is shared until one of them writes.
/// Free it with `lean_session_free`.
lean_status lean_session_fork(struct lean_session *session,
                              struct lean_session **fork,
                              struct lean_error **error);

/// A point to continue from. Takes microseconds at any length. Free it with `lean_checkpoint_free`.
lean_status lean_session_checkpoint(struct lean_session *session,
                                    struct lean_checkpoint **checkpoint,
                                    struct lean_error **error);

/// Ids of the sequence. Writes at most `capacity` of them to `ids` (NULL with capacity 0) and their number to
/// `count`, which may be more.
lean_status lean_session_tokens(struct lean_session *session,
                                uint32_t *ids,
                                size_t capacity,
                                size_t *count,
                                struct lean_error **error);

/// Most tokens that the session may hold.
lean_status lean_session_capacity(struct lean_session *session, size_t *tokens, struct lean_error **error);

/// What the restore did that the session came from: `LEAN_RESTORED_*`.
lean_status lean_session_restored(struct lean_session *session, int32_t *how, struct lean_error **error);

/// Whether the session came from a checkpoint inside a value, so that `lean_session_resume` continues it.
lean_status lean_session_can_resume(struct lean_session *session, bool *can, struct lean_error **error);

/// The token-level door: adds ids, runs all that is pending and writes the last token's logits, as many as
/// the model's vocab_size. At most `capacity` of them are written to `logits` (NULL with capacity 0) and their
/// number to `written`, which may be NULL.
lean_status lean_session_forward(struct lean_session *session,
                                 const uint32_t *ids,
                                 size_t count,
                                 float *logits,
                                 size_t capacity,
                                 size_t *written,
                                 struct lean_error **error);

/// Frees the session. NULL does nothing. A stream that has it goes on.
void lean_session_free(struct lean_session *session);

/// Prepares the struct. `size` is `sizeof *stats`.
void lean_stats_init(struct lean_stats *stats, size_t size);

/// What the model has done since it was loaded, and the memory it takes. Call `lean_stats_init` on `stats`
/// first, once.
lean_status lean_model_stats(const struct lean_model *model,
                             struct lean_stats *stats,
                             struct lean_error **error);

/// Sets how many bytes of state the model keeps of earlier contexts, so that one that begins alike is not
/// computed again from its beginning. 0 drops what is kept and turns it off. Results are the same either way.
lean_status lean_model_set_prefix_cache(const struct lean_model *model,
                                        uint64_t bytes,
                                        struct lean_error **error);

/// The `LEAN_ABI_VERSION` of the library itself, which may be newer than the header's.
uint32_t lean_abi_version(void);

/// The library's version, such as "0.1.0". Static; never freed.
const char *lean_version(void);

/// A status as a word, such as "context_overflow"; "unknown" for a number that this library does not know.
/// Static; never freed.
const char *lean_status_name(lean_status status);

/// Starts a value after the session's content. `options` may be NULL. The stream has the session until it is
/// finished or freed; nothing of the value is part of the session before it is finished. Free it with
/// `lean_stream_free`.
lean_status lean_session_generate(struct lean_session *session,
                                  const struct lean_type *type,
                                  const struct lean_generate_options *options,
                                  struct lean_stream **stream,
                                  struct lean_error **error);

/// Continues the value that the session's checkpoint was taken in: the remaining events, and at the end the
/// whole value. `options` may be NULL. As for `lean_session_generate`, free the stream with
/// `lean_stream_free`.
lean_status lean_session_resume(struct lean_session *session,
                                const struct lean_resume_options *options,
                                struct lean_stream **stream,
                                struct lean_error **error);

/// Prepares the struct. `size` is `sizeof *event`.
void lean_event_init(struct lean_event *event, size_t size);

/// Works until there is an event that was asked for, and writes it: `LEAN_OK`. `LEAN_END` when none will
/// follow; `lean_stream_finish` then returns the value at once. The work is done in the calling thread, in
/// passes over the weights: once `timeout_ms` have passed, and at least one pass was done, without such an
/// event, the answer is `LEAN_PENDING`. After an error every call answers the same error. Call
/// `lean_event_init` on `event` first, once.
lean_status lean_stream_next(struct lean_stream *stream,
                             uint32_t timeout_ms,
                             struct lean_event *event,
                             struct lean_error **error);

/// The text so far, which may be ahead of the events that were delivered. NUL-terminated; `length` may be
/// NULL. Borrowed until the next call on the stream.
lean_status lean_stream_partial(struct lean_stream *stream,
                                const char **text,
                                size_t *length,
                                struct lean_error **error);

/// A point inside the value: a session restored from it delivers, by `lean_session_resume`, the events that
/// this stream has not delivered yet. Free it with `lean_checkpoint_free`.
lean_status lean_stream_checkpoint(struct lean_stream *stream,
                                   struct lean_checkpoint **checkpoint,
                                   struct lean_error **error);

/// Cancels the stream: what it is doing, on whichever thread, ends with `LEAN_CANCELLED`. From any thread
/// while the stream is not being freed; not from a signal handler (see `lean_cancel_trigger`).
lean_status lean_stream_cancel(const struct lean_stream *stream, struct lean_error **error);

/// Works to the end, makes the value part of the session, gives the session back and returns the value. After
/// an error or a cancellation the session is given back as it was before the stream. Free `output` with
/// `lean_output_free`. The stream itself remains to be freed, and no other call on it succeeds any more.
lean_status lean_stream_finish(struct lean_stream *stream,
                               struct lean_output **output,
                               struct lean_error **error);

/// Frees the stream and, if it was not finished, gives the session back as it was before. NULL does nothing.
void lean_stream_free(struct lean_stream *stream);

/// A type expression: JSON whose leaves are strings such as "number", "string < 64", "'bug' | 'feature'",
/// "string[] <= 5" (a property whose name ends with "?" may be absent), or a bare leaf. Free `type` with
/// `lean_type_free`.
lean_status lean_type_expr(const char *json,
                           size_t length,
                           struct lean_type **type,
                           struct lean_error **error);

/// A JSON Schema. Free `type` with `lean_type_free`.
lean_status lean_type_schema(const char *json,
                             size_t length,
                             struct lean_type **type,
                             struct lean_error **error);

/// Plain text of at most `max_chars` characters; `LEAN_NONE` is as long as the token budget lasts. Free
/// `type` with `lean_type_free`.
lean_status lean_type_text(uint64_t max_chars, struct lean_type **type, struct lean_error **error);

/// Plain text that matches a regular expression as a whole. Free `type` with `lean_type_free`.
lean_status lean_type_regex(const char *pattern,
                            size_t length,
                            struct lean_type **type,
                            struct lean_error **error);

/// Plain text: one of `count` strings. `lengths` is NULL if all are NUL-terminated. Free `type` with
/// `lean_type_free`.
lean_status lean_type_choice(const char *const *choices,
                             const size_t *lengths,
                             size_t count,
                             struct lean_type **type,
                             struct lean_error **error);

/// A type as it travels between programs: `{"expr": ...}`, `{"schema": ...}`, `{"text": {"max_chars": 9}}`,
/// `{"regex": "..."}`, `{"choice": ["...", ...]}`, or
/// `{"tools": {"tools": [...], "choice": "auto"}}`, whose value is `{"text": "...", "calls": [{"name", "arguments"}]}`:
/// text, or calls of tools in the model's own syntax (`choice` may also be `"required"` or `{"tool": "name"}`). Free `type` with `lean_type_free`.
lean_status lean_type_json(const char *json,
                           size_t length,
                           struct lean_type **type,
                           struct lean_error **error);

/// The JSON Schema that values satisfy; for text types that of the string. NUL-terminated; `length` may be
/// NULL. Borrowed until the type is freed.
lean_status lean_type_get_schema(const struct lean_type *type,
                                 const char **json,
                                 size_t *length,
                                 struct lean_error **error);

/// Unknown keywords and formats that were taken as annotations, as a JSON array of strings. NUL-terminated;
/// `length` may be NULL. Borrowed until the type is freed.
lean_status lean_type_get_warnings(const struct lean_type *type,
                                   const char **json,
                                   size_t *length,
                                   struct lean_error **error);

/// Frees the type. NULL does nothing. Streams that use it go on.
void lean_type_free(struct lean_type *type);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* LEAN_H */
