//! Every message of the protocol. Kinds and field orders never change; fields are appended with a new minor.

use crate::message::{messages, Message};
use crate::wire::Reader;
use crate::WireError;

messages! {
    /// The host accepts the connection. First frame from the host, on request 0.
    HelloAck = 1, "HELLO_ACK", ToBridge {
        /// The minor both sides will speak, from the bridge's range.
        minor: u32,
        /// Events that each new request may send before it waits for [`Credit`].
        credit: u32,
        /// A lower maximum for frame bodies, in both directions.
        max_frame: Option<u32>,
    }
    /// Loads a model. Events: [`Progress`]. Answer: [`Loaded`].
    Load = 2, "LOAD", ToBridge {
        /// A model file, or `echo` for the built-in model without weights.
        path: String,
        /// `cpu`, `gpu` or `auto`.
        backend: Option<String>,
        /// Threads that the CPU backend may use.
        threads: Option<u32>,
        /// Default tokens of context of the model's sessions.
        context: Option<u32>,
        /// Whether progress events are wanted.
        progress: bool,
    }
    /// Forgets a model; running requests, sessions and checkpoints keep it alive until they end. Answer: [`Ok`].
    Unload = 3, "UNLOAD", ToBridge {
        /// The model.
        model: u32,
    }
    /// Asks what a model is. Answer: [`Info`].
    ModelInfo = 4, "MODEL_INFO", ToBridge {
        /// The model.
        model: u32,
    }
    /// Generates one value. The tail is JSON: `{"blocks": [..], "type": .., "options": {..}}`, each optional.
    /// Exactly one of `model` and `session` is given. Events: [`Prefill`], [`Tokens`]. Answer: [`Generated`].
    Generate = 5, "GENERATE", ToBridge {
        /// Generates apart from any session, after `checkpoint` if there is one.
        model: Option<u32>,
        /// Generates as the continuation of a session; a failed call leaves it as it was.
        session: Option<u32>,
        /// The checkpoint that the context begins with (with `model` only).
        checkpoint: Option<u32>,
        /// Keeps a checkpoint of the end state and answers its handle.
        keep: bool,
        /// Whether [`Prefill`] and [`Tokens`] events are wanted; without them only the answer is sent.
        events: bool,
    }
    /// Opens a session. Answer: [`Session`].
    SessionOpen = 6, "SESSION_OPEN", ToBridge {
        /// The model.
        model: u32,
        /// Begins where this checkpoint was taken.
        checkpoint: Option<u32>,
        /// Tokens of context, if not the model's default.
        context: Option<u32>,
    }
    /// Appends blocks to a session. The tail is JSON: `{"blocks": [..]}`. Events: [`Prefill`]. Answer: [`Session`].
    SessionAppend = 7, "SESSION_APPEND", ToBridge {
        /// The session.
        session: u32,
        /// The blocks become the whole context, of which the longest common prefix is kept.
        replace: bool,
    }
    /// Copies a session; pages are shared until one of them writes. Answer: [`Session`], with the new handle.
    SessionFork = 8, "SESSION_FORK", ToBridge {
        /// The session.
        session: u32,
    }
    /// Forgets a session. Answer: [`Ok`].
    SessionClose = 9, "SESSION_CLOSE", ToBridge {
        /// The session.
        session: u32,
    }
    /// Takes a checkpoint of a session, or of a running generation between two tokens: it then holds exactly
    /// the tokens whose events were sent before the answer. Exactly one is given. Answer: [`Checkpoint`].
    CheckpointTake = 10, "CHECKPOINT_TAKE", ToBridge {
        /// The session.
        session: Option<u32>,
        /// The request id of a running [`Generate`].
        generation: Option<u32>,
    }
    /// Writes a checkpoint to a file (temporary file, rename), or, without a path, sends it as [`Chunk`] events. The
    /// tail may be a JSON object: `compress`, and `parent`, a checkpoint whose pages are left out. Answer: [`Saved`].
    CheckpointSave = 11, "CHECKPOINT_SAVE", ToBridge {
        /// The checkpoint.
        checkpoint: u32,
        /// Where to.
        path: Option<String>,
    }
    /// Reads a checkpoint from a file, or, without a path, from the [`Chunk`]s that follow on the same request. The
    /// tail may be a JSON object that names the `parent` it was saved with.
    /// Answer: [`Checkpoint`].
    CheckpointLoad = 12, "CHECKPOINT_LOAD", ToBridge {
        /// The model it must belong to.
        model: u32,
        /// Where from.
        path: Option<String>,
    }
    /// Forgets a checkpoint. Answer: [`Ok`].
    CheckpointDrop = 13, "CHECKPOINT_DROP", ToBridge {
        /// The checkpoint.
        checkpoint: u32,
    }
    /// Cancels the request whose id the frame carries. No answer of its own; idempotent; ignored once it ended.
    Cancel = 14, "CANCEL", ToBridge {}
    /// Lets the request whose id the frame carries send more events. No answer.
    Credit = 15, "CREDIT", ToBridge {
        /// How many more.
        events: u32,
    }
    /// Cancels everything else, answers [`Ok`] and ends the connection.
    Shutdown = 16, "SHUTDOWN", ToBridge {}
    /// A piece of a blob in the tail: an event of [`CheckpointSave`], or an upload that follows
    /// [`CheckpointLoad`], whose last frame has the END flag.
    Chunk = 17, "CHUNK", Both {
        /// Where the piece belongs; pieces come in order and without gaps.
        offset: u64,
        /// On the last chunk of an upload: CRC-32 of the whole blob.
        digest: Option<u32>,
    }
    /// Generates one of several values that continue the same context and are decoded together. Its members are
    /// requests of their own, which start once all of them have arrived, and name the same target, of which
    /// exactly one of `model` and `session` is given. The tail is that of [`Generate`]; a type is needed. A
    /// session stays as it is. Events: [`Prefill`], [`Tokens`]. Answer: [`Generated`].
    GenerateBranch = 18, "GENERATE_BRANCH", ToBridge {
        /// The host's number for the group, free again once it has started.
        group: u32,
        /// How many its members are.
        members: u32,
        /// Continues `checkpoint`, or an empty context.
        model: Option<u32>,
        /// Continues a copy of a session.
        session: Option<u32>,
        /// The checkpoint that the context begins with (with `model` only).
        checkpoint: Option<u32>,
        /// Keeps a checkpoint of the end state and answers its handle.
        keep: bool,
        /// Whether [`Prefill`] and [`Tokens`] events are wanted; without them only the answer is sent.
        events: bool,
    }
    /// Asks what a model has done and what memory it takes. Answer: [`Info`].
    ModelStats = 19, "MODEL_STATS", ToBridge {
        /// The model.
        model: u32,
    }
    /// Sets how many bytes of state a model keeps of earlier contexts, so that one that begins alike is not
    /// computed again from its beginning; 0 turns it off. Answer: [`Ok`].
    ModelPrefixCache = 20, "MODEL_PREFIX_CACHE", ToBridge {
        /// The model.
        model: u32,
        /// Bytes.
        bytes: u64,
    }
    /// Removes tokens from a session; what follows them is computed again. Events: [`Prefill`]. Answer: [`Session`].
    SessionCut = 21, "SESSION_CUT", ToBridge {
        /// The session.
        session: u32,
        /// The first token that goes.
        begin: u32,
        /// The first after it that stays; none cuts to the end.
        end: Option<u32>,
    }
    /// Reads a LoRA adapter for a model. Answer: [`Adapter`].
    AdapterLoad = 24, "ADAPTER_LOAD", ToBridge {
        /// The model.
        model: u32,
        /// A GGUF adapter, or PEFT's folder.
        path: String,
    }
    /// Forgets an adapter; sessions that use it keep it. Answer: [`Ok`].
    AdapterDrop = 25, "ADAPTER_DROP", ToBridge {
        /// The adapter.
        adapter: u32,
    }
    /// Makes a session run with these adapters and no others; its tokens are run again. Events: [`Prefill`].
    /// Answer: [`Session`].
    SessionAdapt = 26, "SESSION_ADAPT", ToBridge {
        /// The session.
        session: u32,
        /// The adapters, in the order in which they are added.
        adapters: Vec<u32>,
        /// What each is multiplied with; none is 1 for all.
        scales: Vec<f32>,
    }

    /// What the bridge is. First frame from the bridge, on request 0. A host reads the fields it knows and
    /// ignores bytes after them.
    Hello = 0x8001, "HELLO", ToHost {
        /// Must equal the host's.
        major: u32,
        /// Oldest minor that the bridge speaks.
        minor_min: u32,
        /// Newest minor that the bridge speaks.
        minor_max: u32,
        /// The engine's name and version, for people.
        engine: String,
        /// Largest body of a frame in either direction.
        max_frame: u32,
        /// What this build can do, such as `cpu`, `gpu`, `echo`.
        capabilities: Vec<String>,
    }
    /// Event: work done on a load.
    Progress = 0x8002, "PROGRESS", ToHost {
        /// Bytes done.
        done: u64,
        /// Bytes in all.
        total: u64,
    }
    /// Event: context tokens computed.
    Prefill = 0x8003, "PREFILL", ToHost {
        /// Tokens done.
        done: u32,
        /// Tokens in all.
        total: u32,
    }
    /// Event: tokens of the value. The tail is their text: whole UTF-8 characters, possibly none yet.
    Tokens = 0x8004, "TOKENS", ToHost {
        /// Their ids; none where text that had been held back became final at the end.
        ids: Vec<u32>,
        /// Whether the type left no choice.
        forced: bool,
    }
    /// Event, if the options asked for `partials`: the value so far. The tail is JSON that parses.
    Partial = 0x8005, "PARTIAL", ToHost {
        /// JSON pointer of the innermost value that is being written.
        path: String,
        /// Bytes at the start of the tail that stay as they are; the rest closes it.
        final_bytes: u32,
    }
    /// Event, if the options asked for `candidates`: what the next token is chosen from. The tail is a JSON array of
    /// `{"id", "text", "probability", "allowed"}`.
    Candidates = 0x8006, "CANDIDATES", ToHost {}
    /// Answer of [`Load`]. The tail is the JSON of [`Info`].
    Loaded = 0x8010, "LOADED", ToHost {
        /// The handle.
        model: u32,
    }
    /// Answer of [`ModelInfo`]. The tail is a JSON object that describes the model.
    Info = 0x8011, "INFO", ToHost {}
    /// Answer of [`Generate`]. The tail is JSON: `{"value", "text", "finish", "usage"}`.
    Generated = 0x8012, "GENERATED", ToHost {
        /// The checkpoint of the end state, if it was asked for.
        checkpoint: Option<u32>,
    }
    /// Answer of the session requests.
    Session = 0x8013, "SESSION", ToHost {
        /// The handle.
        session: u32,
        /// Tokens it holds.
        tokens: u32,
    }
    /// Answer of [`CheckpointTake`] and [`CheckpointLoad`].
    Checkpoint = 0x8014, "CHECKPOINT", ToHost {
        /// The handle.
        checkpoint: u32,
        /// Tokens it holds.
        tokens: u32,
    }
    /// Answer of [`CheckpointSave`].
    Saved = 0x8015, "SAVED", ToHost {
        /// Bytes in all.
        size: u64,
        /// CRC-32 of the whole blob.
        digest: u32,
    }
    /// Answer of requests that have nothing to say.
    Ok = 0x8016, "OK", ToHost {}
    /// Answer of [`AdapterLoad`]. The tail is a JSON object that describes the adapter.
    Adapter = 0x8018, "ADAPTER", ToHost {
        /// The handle.
        adapter: u32,
    }
    /// The end of a request that failed, or, on request 0, of the connection. The tail is empty or a JSON
    /// object with the error's numbers, such as `{"needed": 5000, "available": 4096}`.
    Failed = 0x80ff, "ERROR", ToHost {
        /// The engine's stable code, or one of [`crate::Codes`].
        code: u32,
        /// A [`crate::Class`].
        class: u32,
        /// Whether the same request may succeed later.
        retryable: bool,
        /// The code's short name.
        name: String,
        /// For people.
        message: String,
    }
}

/// The description of a kind, if it is known.
pub fn spec(kind: u16) -> Option<&'static crate::MessageSpec> {
    ALL.iter().find(|s| s.kind == kind)
}

/// Decodes [`HelloAck`], whose first field says at which minor the rest is written. Of a minor that is not
/// spoken here only that number is known, and is enough to refuse it by name.
pub fn decode_hello_ack(head: &[u8]) -> Result<HelloAck, WireError> {
    let bad = |reason| WireError::BadHead { message: HelloAck::NAME, reason: format!("minor: {reason}") };
    let minor = Reader::new(head).varint(32).map_err(bad)? as u32;
    if (crate::MINOR_MIN..=crate::MINOR_MAX).contains(&minor) {
        crate::decode_head(head, minor)
    } else {
        Ok(HelloAck { minor, ..HelloAck::default() })
    }
}

/// Decodes [`Hello`] leniently: a newer bridge may have appended fields.
pub fn decode_hello(head: &[u8]) -> Result<Hello, WireError> {
    Hello::get(&mut Reader::new(head), crate::MINOR_MAX)
        .map_err(|reason| WireError::BadHead { message: Hello::NAME, reason })
}

/// Decodes a head of any known kind into its readable form; `None` for an unknown kind.
pub fn decode_any(kind: u16, head: &[u8], minor: u32) -> Result<Option<serde_json::Value>, WireError> {
    match kind {
        Hello::KIND => decode_hello(head).map(|m| Some(m.to_json())),
        HelloAck::KIND => decode_hello_ack(head).map(|m| Some(m.to_json())),
        _ => spec(kind).map(|s| (s.decode)(head, minor)).transpose(),
    }
}
