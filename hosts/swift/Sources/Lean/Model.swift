/// A loaded model. It is freed when it is forgotten, or with `unload`; what runs on it keeps what it needs.
public final class Model: Generator {
    /// What it is and where it runs: `name`, `backend`, `context_length` and so on.
    public let info: JSON
    public let engine: Engine
    private let handle: Handle

    init(_ engine: Engine, _ id: UInt32, _ info: JSON) {
        self.engine = engine
        self.info = info
        handle = Handle(engine, id, "model", freedBy: "UNLOAD")
    }

    public func target(from checkpoint: Checkpoint?) throws -> [String: JSON] {
        ["model": try handle.number(), "checkpoint": try checkpoint?.number(on: engine) ?? .null]
    }

    /// A sequence that is appended to and generated from: an empty one, or one that goes on where a checkpoint was taken, of at most
    /// `context` tokens.
    public func session(from checkpoint: Checkpoint? = nil, context: UInt32? = nil) async throws -> Session {
        let head: [String: JSON] = ["model": try handle.number(), "checkpoint": try checkpoint?.number(on: engine) ?? .null, "context": .some(context)]
        return Session(engine, try await engine.connection.call("SESSION_OPEN", head, keeping: [self, checkpoint]).head)
    }

    /// What it has done since it was loaded, and the memory it takes.
    public func stats() async throws -> JSON {
        try JSON(parsing: try await engine.connection.call("MODEL_STATS", ["model": try handle.number()], keeping: [self]).tail)
    }

    /// How many bytes of state are kept of earlier contexts, so that one that begins alike is not computed again; 0 is off.
    public func setPrefixCache(bytes: UInt64) async throws {
        _ = try await engine.connection.call("MODEL_PREFIX_CACHE", ["model": try handle.number(), "bytes": JSON(bytes)], keeping: [self])
    }

    /// A LoRA adapter: a .gguf file, or PEFT's folder.
    public func loadAdapter(_ path: String) async throws -> Adapter {
        let head: [String: JSON] = ["model": try handle.number(), "path": .string(absolute(path))]
        let answer = try await engine.connection.call("ADAPTER_LOAD", head, keeping: [self])
        return Adapter(engine, answer.head.u32("adapter"), try JSON(parsing: answer.tail))
    }

    /// Frees it now. A second time it does nothing.
    public func unload() async throws { try await handle.drop() }

    func number() throws -> JSON { try handle.number() }
}

/// A LoRA adapter of a model; sessions that use it keep it.
public final class Adapter: Sendable {
    /// What it says about itself.
    public let info: JSON
    private let handle: Handle

    init(_ engine: Engine, _ id: UInt32, _ info: JSON) {
        self.info = info
        handle = Handle(engine, id, "adapter", freedBy: "ADAPTER_DROP")
    }

    func number(on engine: Engine) throws -> JSON { JSON(try handle.on(engine)) }

    /// Frees it now. A second time it does nothing.
    public func drop() async throws { try await handle.drop() }
}

/// One sequence. A call that fails or is cancelled leaves it as it was. It takes one call at a time; another is the error `busy`.
public actor Session: Generator {
    public nonisolated let engine: Engine
    private nonisolated let handle: Handle
    /// Tokens that it held after the last `append`, `setContext` or cut.
    public private(set) var tokens: Int

    init(_ engine: Engine, _ opened: Head) {
        self.engine = engine
        tokens = Int(opened.u32("tokens"))
        handle = Handle(engine, opened.u32("session"), "session", freedBy: "SESSION_CLOSE")
    }

    public nonisolated func target(from checkpoint: Checkpoint?) throws -> [String: JSON] {
        guard checkpoint == nil else { throw LeanError.invalid("from: a session goes on where it is: open one from the checkpoint instead") }
        return ["session": try handle.number()]
    }

    private func change(
        _ name: String, _ fields: [String: JSON], _ tail: [UInt8] = [], keeping kept: [Adapter] = [], _ onPrefill: (@Sendable (Int, Int) -> Void)? = nil
    ) async throws {
        let head = try fields.merging(["session": handle.number()]) { $1 }
        let answer = try await engine.connection.call(name, head, tail, keeping: [self, kept]) { @Sendable event in
            if event.name == "PREFILL" { onPrefill?(Int(event.head.u32("done")), Int(event.head.u32("total"))) }
        }
        tokens = Int(answer.head.u32("tokens"))
    }

    /// Appends blocks. `onPrefill` is told tokens done and tokens in total.
    public func append(_ blocks: Block..., onPrefill: (@Sendable (Int, Int) -> Void)? = nil) async throws {
        try await change("SESSION_APPEND", ["replace": false], (["blocks": try Block.wire(blocks)] as JSON).bytes, onPrefill)
    }

    /// Makes blocks the whole context; what is equal so far is kept.
    public func setContext(_ blocks: Block..., onPrefill: (@Sendable (Int, Int) -> Void)? = nil) async throws {
        try await change("SESSION_APPEND", ["replace": true], (["blocks": try Block.wire(blocks)] as JSON).bytes, onPrefill)
    }

    /// Keeps the first tokens.
    public func truncate(to tokens: UInt32) async throws { try await change("SESSION_CUT", ["begin": JSON(tokens)]) }

    /// Removes a range of tokens; what follows is computed again.
    public func drop(_ range: Range<UInt32>) async throws {
        try await change("SESSION_CUT", ["begin": JSON(range.lowerBound), "end": JSON(range.upperBound)])
    }

    /// Makes it run with these adapters, each with what it is multiplied with, and no others from now on; its tokens are run again.
    public func setAdapters(_ adapters: [(adapter: Adapter, scale: Float)]) async throws {
        let head: [String: JSON] = [
            "adapters": .array(try adapters.map { try $0.adapter.number(on: engine) }),
            "scales": .array(try adapters.map { pair in
                guard let scale = JSON(Double(pair.scale)) else { throw LeanError.invalid("scale: \(pair.scale) is no number") }
                return scale
            }),
        ]
        try await change("SESSION_ADAPT", head, keeping: adapters.map(\.adapter))
    }

    /// A copy that goes its own way.
    public func fork() async throws -> Session {
        Session(engine, try await engine.connection.call("SESSION_FORK", ["session": try handle.number()], keeping: [self]).head)
    }

    /// Its state now.
    public func checkpoint() async throws -> Checkpoint { try await Checkpoint.take(engine, ["session": try handle.number()], keeping: [self]) }

    /// Frees it now. A second time it does nothing.
    public func close() async throws { try await handle.drop() }
}
