import Foundation

/// How long a greeting may take: long enough for a cold disk and a virus scanner.
private let greetingPatience = 20.0
/// How long an engine may take to end after it was asked to.
private let closePatience = 3.0

/// An engine, in a process of its own unless told otherwise. It ends with `close`, at the latest when it, its models, sessions and
/// checkpoints are forgotten. Everything here may be used from many tasks at once.
public final class Engine: Sendable {
    /// Name and version of the engine.
    public let version: String
    /// What this build can do, such as `cpu`, `gpu`, `echo`.
    public let capabilities: [String]
    let connection: Connection

    private init(_ connection: Connection, _ hello: Head) {
        self.connection = connection
        version = hello.string("engine")
        capabilities = hello.fields["capabilities"]?.array?.compactMap(\.string) ?? []
    }

    deinit { connection.hangUp() }

    /// Starts an engine and waits for its greeting. `credit` is how many events a request may have on the way before the engine waits
    /// for its consumer.
    public static func spawn(_ transport: TransportChoice = .process(), credit: Int = 32) async throws -> Engine {
        guard credit >= 1 else { throw LeanError.invalid("credit: \(credit) is less than one event") }
        let connection = Connection(try transport.start(), credit: credit)
        return Engine(connection, try await connection.hello(patience: greetingPatience))
    }

    /// The id of the process that it runs in.
    public var pid: Int32 { connection.transport.pid }

    /// Loads a model file, or `echo`, the model without weights. `backend` is `auto`, `cpu` or `gpu`, `context` how many tokens its sessions
    /// hold by default, `kv` the precision of keys and values (`f32`, `f24`, `f16`, `q8_0`), `precision` how exactly it is computed (`exact`,
    /// `fast`), `prefixCacheBytes` the argument of `Model.setPrefixCache`. `onProgress` is told bytes done and bytes in total.
    public func load(
        _ path: String, backend: String? = nil, threads: UInt32? = nil, context: UInt32? = nil, kv: String? = nil,
        precision: String? = nil, prefixCacheBytes: UInt64? = nil, onProgress: ((UInt64, UInt64) -> Void)? = nil
    ) async throws -> Model {
        let isEcho = path == "echo" || path.hasPrefix("echo?")
        let head: [String: JSON] = [
            "path": .string(isEcho ? path : absolute(path)), "backend": .some(backend), "threads": .some(threads), "context": .some(context),
            "progress": .bool(onProgress != nil),
        ]
        let more = [("kv", kv), ("precision", precision)].compactMap { name, value in value.map { JSON.Member(name, .string($0)) } }
        let tail = more.isEmpty ? [] : JSON.object(more).bytes
        let answer = try await connection.call("LOAD", head, tail) { event in
            if event.name == "PROGRESS" { onProgress?(event.head.u64("done"), event.head.u64("total")) }
        }
        let model = Model(self, answer.head.u32("model"), try JSON(parsing: answer.tail))
        if let prefixCacheBytes { try await model.setPrefixCache(bytes: prefixCacheBytes) }
        return model
    }

    /// Ends the engine; what still runs is cancelled. A second time it does nothing.
    public func close() async { await connection.shutDown(patience: closePatience) }
}

/// Something that lives in the engine until it is dropped here or forgotten.
final class Handle: @unchecked Sendable {
    let engine: Engine
    private let id: UInt32
    private let what: String
    private let message: String
    private let lock = NSLock()
    private var isGone = false

    /// `message` frees it, by the field `what`.
    init(_ engine: Engine, _ id: UInt32, _ what: String, freedBy message: String) {
        self.engine = engine
        self.id = id
        self.what = what
        self.message = message
    }

    deinit { if !isGone { engine.connection.post(message, [what: JSON(id)]) } }

    /// Its number, for requests to the engine that it lives in.
    func on(_ engine: Engine) throws -> UInt32 {
        if lock.withLock({ isGone }) { throw LeanError.invalid("the \(what) was dropped") }
        if engine !== self.engine { throw LeanError.invalid("the \(what) lives in another engine") }
        return id
    }

    func number() throws -> JSON { JSON(try on(engine)) }

    /// Frees it now, in a task that is cancelled as well. Where the engine is gone, so is everything in it.
    func drop() async throws {
        let first = lock.withLock {
            defer { isGone = true }
            return !isGone
        }
        guard first else { return }
        let (connection, message, fields) = (engine.connection, message, [what: JSON(id)])
        do {
            try await Task { _ = try await connection.call(message, fields) }.value
        } catch let error as LeanError where error.code == .bridgeExited || error.code == .cancelled {}
    }
}

/// Runs a call that ends with the error `timeout` if it takes longer; a value that arrives by then is returned.
public func withTimeout<T: Sendable>(_ limit: Duration?, _ body: @escaping @Sendable () async throws -> T) async throws -> T {
    guard let limit else { return try await body() }
    return try await withThrowingTaskGroup(of: T?.self) { group in
        group.addTask { try await body() }
        group.addTask {
            try await Task.sleep(for: limit)
            return nil
        }
        let first = try await group.next()
        group.cancelAll()
        if let value = first ?? nil { return value }
        do {
            if let value = try await group.next() ?? nil { return value }
        } catch is CancellationError {
            try Task.checkCancellation()
        }
        throw LeanError.timedOut(limit)
    }
}
