import Foundation

/// A state to continue from, bit for bit; it outlives the session it came from. It is freed when it is forgotten, or with `drop`.
public final class Checkpoint: Sendable {
    /// What may be done to a state of another exactness class, such as another backend's.
    public enum Policy: String, Sendable {
        /// Nothing: it is refused.
        case exact
        /// It is taken over as it is; what follows is close, not identical.
        case convert
        /// Its tokens are taken, and the state is computed again.
        case reprefill
    }

    /// Tokens that it holds, if that is known.
    public let tokens: Int?
    /// What was done to it, where a policy said what may be done: `imported`, `converted` or `reprefilled`.
    public let restored: String?
    private let handle: Handle

    init(_ engine: Engine, _ id: UInt32, tokens: Int?, restored: String? = nil) {
        self.tokens = tokens
        self.restored = restored
        handle = Handle(engine, id, "checkpoint", freedBy: "CHECKPOINT_DROP")
    }

    convenience init(_ engine: Engine, _ answer: Message) {
        let restored = (try? JSON(parsing: answer.tail))?["restored"]?.string
        self.init(engine, answer.head.u32("checkpoint"), tokens: Int(answer.head.u32("tokens")), restored: restored)
    }

    static func take(_ engine: Engine, _ head: [String: JSON], keeping kept: [(any Sendable)?]) async throws -> Checkpoint {
        Checkpoint(engine, try await engine.connection.call("CHECKPOINT_TAKE", head, keeping: kept))
    }

    func number(on engine: Engine) throws -> JSON { JSON(try handle.on(engine)) }

    /// Its self-describing bytes, for `Model.restore` in any process with the same model. `compress` makes them smaller (zstd); `parent`
    /// leaves out what that checkpoint has too, and must be given again.
    public func data(compress: Bool = false, parent: Checkpoint? = nil) async throws -> Data {
        var bytes = Data()
        let head = ["checkpoint": try handle.number(), "path": .null]
        let saved = try await handle.engine.connection.call("CHECKPOINT_SAVE", head, options(compress, parent), keeping: [self, parent]) { event in
            if event.name == "CHUNK" { bytes.append(contentsOf: event.tail) }
        }
        guard saved.head.u64("size") == bytes.count, saved.head.u32("digest") == CRC32.of(bytes) else {
            throw LeanError.damaged("size or digest do not match")
        }
        return bytes
    }

    /// Writes it to a file, which is always either the old one or the whole new one, and answers its size in bytes.
    @discardableResult
    public func save(to file: URL, compress: Bool = false, parent: Checkpoint? = nil) async throws -> UInt64 {
        let head = ["checkpoint": try handle.number(), "path": .string(absolute(file.path))]
        return try await handle.engine.connection.call("CHECKPOINT_SAVE", head, options(compress, parent), keeping: [self, parent]).head.u64("size")
    }

    private func options(_ compress: Bool, _ parent: Checkpoint?) throws -> [UInt8] {
        guard compress || parent != nil else { return [] }
        let given = try parent.map { [JSON.Member("parent", try $0.number(on: handle.engine))] } ?? []
        return JSON.object([JSON.Member("compress", .bool(compress))] + given).bytes
    }

    /// Frees it now. A second time it does nothing.
    public func drop() async throws { try await handle.drop() }
}

extension Model {
    private func options(_ policy: Checkpoint.Policy?, _ parent: Checkpoint?) throws -> [UInt8] {
        var members: [JSON.Member] = []
        if let parent { members.append(JSON.Member("parent", try parent.number(on: engine))) }
        if let policy { members.append(JSON.Member("restore", .string(policy.rawValue))) }
        return members.isEmpty ? [] : JSON.object(members).bytes
    }

    /// A checkpoint from a file, checked against this model. The policy says what may be done to a state of another exactness class;
    /// `Checkpoint.restored` then says what was.
    public func restore(from file: URL, policy: Checkpoint.Policy? = nil, parent: Checkpoint? = nil) async throws -> Checkpoint {
        let head = ["model": try number(), "path": .string(absolute(file.path))]
        return Checkpoint(engine, try await engine.connection.call("CHECKPOINT_LOAD", head, options(policy, parent), keeping: [self, parent]))
    }

    /// A checkpoint from its bytes.
    public func restore(_ data: Data, policy: Checkpoint.Policy? = nil, parent: Checkpoint? = nil) async throws -> Checkpoint {
        let connection = engine.connection
        let request = try await connection.open("CHECKPOINT_LOAD", ["model": try number(), "path": .null], options(policy, parent), keeping: [self, parent])
        let bytes = [UInt8](data)
        let digest = CRC32.of(bytes)
        var at = 0
        repeat {
            let next = min(bytes.count, at + chunkBytes)
            let isLast = next == bytes.count
            let head = ["offset": JSON(at), "digest": isLast ? JSON(digest) : .null]
            let flags = Flag.critical | (isLast ? Flag.end : 0)
            await connection.sendNow(messageFrame(request.id, "CHUNK", head, Array(bytes[at..<next]), flags: flags))
            at = next
        } while at < bytes.count && !request.hasEnded && !Task.isCancelled
        while await request.next() != nil {}
        return Checkpoint(engine, try request.answer())
    }
}
