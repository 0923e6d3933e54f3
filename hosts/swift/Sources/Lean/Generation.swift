import Foundation

/// What happens on the way to a value.
public enum Event: Sendable, Equatable {
    /// How much of the context has been computed, in tokens.
    case prefill(done: Int, total: Int)
    /// A step: its token ids, their text (whole characters, possibly none yet), and whether the type left no choice.
    case token(ids: [UInt32], text: String, forced: Bool)
    /// The value so far, which parses; the JSON pointer of the innermost value that is being written; how many bytes will not change.
    case partial(json: String, path: String, finalBytes: Int)
    /// What the next token is chosen from: the likeliest, likeliest first, and at the end the one taken if it is not among them.
    case candidates([Candidate])

    /// Nil for kinds that a newer engine may send.
    init?(_ message: Message) {
        let head = message.head
        let text = String(decoding: message.tail, as: UTF8.self)
        switch message.name {
        case "PREFILL": self = .prefill(done: Int(head.u32("done")), total: Int(head.u32("total")))
        case "TOKENS": self = .token(ids: head.fields["ids"]?.array?.compactMap { $0.integer() } ?? [], text: text, forced: head.bool("forced"))
        case "PARTIAL": self = .partial(json: text, path: head.string("path"), finalBytes: Int(head.u32("final_bytes")))
        case "CANDIDATES":
            guard let all = try? JSON(parsing: message.tail).decoded(as: [Candidate].self) else { return nil }
            self = .candidates(all)
        default: return nil
        }
    }
}

/// A token that the model might go on with.
public struct Candidate: Sendable, Equatable, Codable {
    public let id: UInt32
    /// Empty for the end of the value.
    public let text: String
    /// Among all tokens of the vocabulary, at temperature 1.
    public let probability: Double
    /// Whether the type allows it here.
    public let allowed: Bool
}

/// What a generation took.
public struct Usage: Sendable, Equatable {
    public let promptTokens: Int
    /// Of the prompt's tokens, those that did not have to be computed.
    public let reusedTokens: Int
    /// Tokens that the model chose, and those about which the type left no choice.
    public let sampledTokens: Int
    public let forcedTokens: Int
    /// Forced tokens that ran together with another one.
    public let savedPasses: Int
    /// Passes over the weights.
    public let passes: Int
    public let firstTokenSeconds: Double
    public let totalSeconds: Double

    init(_ json: JSON?) {
        func count(_ name: String) -> Int { json?[name]?.integer() ?? 0 }
        promptTokens = count("prompt_tokens")
        reusedTokens = count("reused_tokens")
        sampledTokens = count("sampled_tokens")
        forcedTokens = count("forced_tokens")
        savedPasses = count("saved_passes")
        passes = count("passes")
        firstTokenSeconds = json?["first_token_seconds"]?.double ?? 0
        totalSeconds = json?["total_seconds"]?.double ?? 0
    }
}

/// How sure the model was.
public struct Confidence: Sendable, Codable {
    /// A scalar of the value.
    public struct Leaf: Sendable, Codable {
        /// Its JSON pointer.
        public let path: String
        /// The part of the value's logarithm that its own tokens have.
        public let logprob: Double
        /// The values that the type allowed here, if they are at most 64, the likeliest first.
        public let alternatives: [Alternative]?
    }

    /// A value that a leaf could have had.
    public struct Alternative: Sendable, Codable {
        public let value: JSON
        public let probability: Double
    }

    /// The natural logarithm of the value's probability among all values of its type.
    public let logprob: Double
    public let leaves: [Leaf]
}

/// A value and everything about it.
public struct Output<T: Sendable>: Sendable {
    public let value: T
    /// The value as generated.
    public let text: String
    /// `complete`, `stop` or `length`.
    public let finish: String
    public let usage: Usage
    /// How sure the model was, if `Options.confidence` asked for it.
    public let confidence: Confidence?
    /// What was taken as an annotation of the type, and tools that were left out with the reason.
    public let warnings: [String]
    /// The state after the value, if `Options.keep` asked for it.
    public let checkpoint: Checkpoint?

    init(_ type: ValueType<T>, _ request: Request) throws {
        let document = try JSON(parsing: request.answer().tail)
        checkpoint = request.checkpoint
        text = document["text"]?.string ?? ""
        finish = document["finish"]?.string ?? ""
        usage = Usage(document["usage"])
        confidence = try document["confidence"]?.decoded(as: Confidence.self)
        warnings = document["warnings"]?.array?.compactMap(\.string) ?? []
        value = try type.build(document["value"] ?? .null)
    }
}

/// Cancels a request when nobody can read it any more.
final class Lease: Sendable {
    let request: Request
    init(_ request: Request) { self.request = request }
    deinit { request.cancel() }
}

/// What a generation sends on its way, one by one; at the end the error, if there is one. It ends without an error only where
/// all was sent: in a task that is cancelled, `next` cancels the generation and throws `CancellationError`.
public struct GenerationEvents<Element: Sendable>: AsyncSequence, Sendable {
    let lease: Lease
    let pick: @Sendable (Message) -> Element?

    public struct Iterator: AsyncIteratorProtocol {
        let source: GenerationEvents

        public mutating func next() async throws -> Element? {
            let request = source.lease.request
            while !Task.isCancelled, let message = await request.next() {
                if let element = source.pick(message) { return element }
            }
            if Task.isCancelled {
                await request.close()
                throw CancellationError()
            }
            _ = try request.answer()
            return nil
        }
    }

    public func makeAsyncIterator() -> Iterator { Iterator(source: self) }
}

/// A generation that is iterated, event by event: the engine computes no further ahead than its consumer has read (32 events). Leaving
/// and forgetting it, or cancelling the task that reads, cancels what is left of it.
public struct Generation<T: Sendable>: AsyncSequence, Sendable {
    public typealias Element = Event

    private let type: ValueType<T>
    private let engine: Engine
    private let lease: Lease

    init(_ type: ValueType<T>, _ engine: Engine, _ request: Request) {
        self.type = type
        self.engine = engine
        lease = Lease(request)
    }

    /// The events, one by one. Of several tasks that ask for them, each gets some.
    public var events: GenerationEvents<Event> { GenerationEvents(lease: lease) { Event($0) } }

    public func makeAsyncIterator() -> GenerationEvents<Event>.Iterator { events.makeAsyncIterator() }

    /// Only the text, piece by piece.
    public var text: GenerationEvents<String> {
        GenerationEvents(lease: lease) { message in
            guard case .token(_, let text, _)? = Event(message), !text.isEmpty else { return nil }
            return text
        }
    }

    /// The value; events that were not iterated are let pass.
    public func result() async throws -> Output<T> {
        while await lease.request.next() != nil {}
        return try Output(type, lease.request)
    }

    /// The state between two tokens: it holds at least the events that were iterated so far. `resume` finishes the value from there.
    public func checkpoint() async throws -> Checkpoint {
        try await Checkpoint.take(engine, ["generation": JSON(lease.request.id)], keeping: [lease])
    }

    /// Cancels what is left of it and waits until it has ended, so that its session can go on.
    public func cancel() async { await lease.request.close() }
}

/// What values are generated by: a `Model`, apart from anything else, or a `Session`, which they continue.
public protocol Generator: Sendable {
    var engine: Engine { get }
    /// The fields of a GENERATE that name it.
    func target(from checkpoint: Checkpoint?) throws -> [String: JSON]
}

extension Generator {
    /// A value of the type, which continues the context and the blocks.
    ///
    /// The type says what comes out, and nothing else can: a `String` is unquoted text; anything else that is `Decodable` is the JSON that it
    /// decodes. See `Limited`, `Described` and `ValueType` for what a Swift type alone does not say. What cannot be enforced exactly is
    /// the error `type` before the first token.
    public func generate<T: Decodable & Sendable>(_ type: T.Type = T.self, _ blocks: Block..., options: Options = Options()) async throws -> T {
        try await output(.of(type), blocks, options).value
    }

    /// The same with a type said by hand.
    public func generate<T>(_ type: ValueType<T>, _ blocks: Block..., options: Options = Options()) async throws -> T {
        try await output(type, blocks, options).value
    }

    /// `generate` with text, usage and finish beside the value.
    public func run<T: Decodable & Sendable>(_ type: T.Type = T.self, _ blocks: Block..., options: Options = Options()) async throws -> Output<T> {
        try await output(.of(type), blocks, options)
    }

    /// The same with a type said by hand.
    public func run<T>(_ type: ValueType<T>, _ blocks: Block..., options: Options = Options()) async throws -> Output<T> {
        try await output(type, blocks, options)
    }

    private func output<T>(_ type: ValueType<T>, _ blocks: [Block], _ options: Options) async throws -> Output<T> {
        try await withTimeout(options.timeout) {
            let request = try await open(type, blocks, options, events: false)
            while await request.next() != nil {}
            return try Output(type, request)
        }
    }

    /// The events on the way to a value, and the value.
    public func stream<T: Decodable & Sendable>(_ type: T.Type = T.self, _ blocks: Block..., options: Options = Options()) async throws -> Generation<T> {
        try await begin(.of(type), blocks, options)
    }

    /// The same with a type said by hand.
    public func stream<T>(_ type: ValueType<T>, _ blocks: Block..., options: Options = Options()) async throws -> Generation<T> {
        try await begin(type, blocks, options)
    }

    private func begin<T>(_ type: ValueType<T>, _ blocks: [Block], _ options: Options) async throws -> Generation<T> {
        if options.timeout != nil { throw LeanError.invalid("timeout: a stream lasts as long as its reader: put the loop into withTimeout") }
        return try await Generation(type, engine, open(type, blocks, options, events: true))
    }

    private func open<T>(_ type: ValueType<T>, _ blocks: [Block], _ options: Options, events: Bool) async throws -> Request {
        let (head, tail) = (try fields(options, events: events), try tail(type, blocks, options))
        return try await engine.connection.open("GENERATE", head, tail, engine: engine, keeping: [self, options.from])
    }

    /// Goes on with the value that a checkpoint was taken in: `options.from`, or the one that the session was opened from. The checkpoint
    /// knows the type; `T` is what the value is decoded into.
    public func resume<T: Decodable & Sendable>(_ type: T.Type = T.self, options: Options = Options()) async throws -> Output<T> {
        let value = ValueType<T>(source: .null) { try $0.decoded(as: T.self) }
        return try await output(value, [], options)
    }

    /// Several values, 63 at most, that continue one context: a pass over the weights serves all of them, and each is what it would be
    /// alone. A session stays as it is. If one fails, the others are cancelled and its error is thrown.
    ///
    /// They wait until there is room for all of them beside what is open: for up to 56 of them the open ones and they are 56 at most, for
    /// more nothing else may be open. So a task that holds streams open without reading them may wait here for itself.
    public func generateMany<T: Decodable & Sendable>(_ type: T.Type = T.self, _ branches: [[Block]], options: Options = Options()) async throws -> [T] {
        let value = try ValueType<T>.of(type)
        return try await withTimeout(options.timeout) {
            var requests: [Request] = []
            do {
                requests = try await openMany(value, branches, options)
                var values: [T] = []
                for request in requests {
                    while await request.next() != nil {}
                    values.append(try Output(value, request).value)
                }
                return values
            } catch {
                for request in requests { request.cancel() }
                for request in requests { await request.close() }
                throw error
            }
        }
    }

    /// Sends all members of a group; they begin once the last has arrived.
    private func openMany<T>(_ type: ValueType<T>, _ branches: [[Block]], _ options: Options) async throws -> [Request] {
        _ = try Slots.places(forGroup: branches.count)
        let group: [String: JSON] = ["group": JSON(Groups.next()), "members": JSON(branches.count)]
        let head = try fields(options, events: false).merging(group) { $1 }
        let tails = try branches.map { try tail(type, $0, options) }
        try await engine.connection.reserve(branches.count)
        var requests: [Request] = []
        for tail in tails {
            do {
                requests.append(try await engine.connection.open("GENERATE_BRANCH", head, tail, prepaid: true, engine: engine, keeping: [self, options.from]))
            } catch {
                engine.connection.release(branches.count - requests.count)
                for request in requests { await request.close() }
                throw error
            }
        }
        return requests
    }

    private func fields(_ options: Options, events: Bool) throws -> [String: JSON] {
        try target(from: options.from).merging(["keep": .bool(options.keep), "events": .bool(events)]) { $1 }
    }

    private func tail<T>(_ type: ValueType<T>, _ blocks: [Block], _ options: Options) throws -> [UInt8] {
        var document = [JSON.Member("blocks", try Block.wire(blocks))]
        if type.source != .null { document.append(JSON.Member("type", type.source)) }
        return JSON.object(document + [JSON.Member("options", try options.wire())]).bytes
    }
}

/// Numbers the groups of all engines.
private enum Groups {
    private static let lock = NSLock()
    nonisolated(unsafe) private static var last: UInt32 = 0

    static func next() -> UInt32 {
        lock.withLock {
            last = last % 0x7fff_ffff + 1
            return last
        }
    }
}
