import Foundation

/// What every call of this module fails with. A call whose task was cancelled throws `CancellationError` instead, and an error of its own
/// that a type's `init(from:)` or `encode(to:)` throws comes out as it is.
public struct LeanError: Error, Sendable {
    /// A stable number, the same in every interface of lean.
    public struct Code: RawRepresentable, Sendable, Hashable {
        public let rawValue: UInt32
        public init(rawValue: UInt32) { self.rawValue = rawValue }

        public static let invalidArgument = Code(rawValue: 100)
        public static let type = Code(rawValue: 110)
        public static let contextOverflow = Code(rawValue: 130)
        public static let budgetTooSmall = Code(rawValue: 131)
        public static let modelIO = Code(rawValue: 200)
        public static let badModel = Code(rawValue: 201)
        public static let badCheckpoint = Code(rawValue: 300)
        public static let incompatible = Code(rawValue: 301)
        public static let busy = Code(rawValue: 420)
        public static let cancelled = Code(rawValue: 500)
        public static let timeout = Code(rawValue: 501)
        public static let protocolViolated = Code(rawValue: 600)
        public static let version = Code(rawValue: 601)
        public static let unknownKind = Code(rawValue: 602)
        public static let bridgeNotFound = Code(rawValue: 690)
        public static let bridgeExited = Code(rawValue: 691)
        public static let panic = Code(rawValue: 901)
    }

    /// What to do about an error.
    public enum Class: UInt32, Sendable {
        case unknown
        /// The bridge and this client do not understand each other: a bug, or versions that do not match.
        case protocolViolated
        /// The request cannot be carried out as it is: an argument, a type, a model file, a checkpoint.
        case input
        /// Memory, a device, a file, a limit, the bridge itself.
        case resource
        /// The caller, a deadline or the end of the engine ended it. A session is as it was before.
        case cancelled
        /// A bug in lean.
        case `internal`
    }

    public let code: Code
    /// The code's short name, such as `context_overflow`.
    public let name: String
    public let errorClass: Class
    /// Whether the same call may succeed later.
    public let isRetryable: Bool
    public let message: String
    /// The error's own numbers and words, such as `{"needed": 5, "available": 4}`; null if it has none.
    public let details: JSON
    /// How the bridge ended, if it did.
    public internal(set) var exit: BridgeExit?
}

extension LeanError: LocalizedError, CustomStringConvertible {
    public var description: String { "lean: \(message)" }
    public var errorDescription: String? { message }
}

/// How a bridge ended. Start another one and go on from a checkpoint.
public struct BridgeExit: Sendable {
    /// Its exit status; nil if a signal or something else ended it.
    public let status: Int32?
    /// The signal that ended it, such as `SIGKILL`.
    public let signal: String?
    /// The last of what it wrote to stderr.
    public let stderr: String
    /// How, in words.
    public let how: String

    init(status: Int32? = nil, signal: String? = nil, stderr: String = "", how: String) {
        self.status = status
        self.signal = signal
        self.stderr = stderr
        self.how = how
    }
}

extension LeanError {
    private init(_ code: Code, _ name: String, _ errorClass: Class, _ message: String, retryable: Bool = false, details: JSON = .null) {
        self.code = code
        self.name = name
        self.errorClass = errorClass
        self.message = message
        self.details = details
        isRetryable = retryable
    }

    static func invalid(_ message: String) -> LeanError { LeanError(.invalidArgument, "invalid_argument", .input, message) }

    /// A Swift type that does not say what its JSON is.
    static func refusedType(_ at: String, _ reason: String) -> LeanError {
        let details: JSON = ["at": .string(at), "keyword": "", "reason": .string(reason)]
        return LeanError(.type, "type", .input, "type error at \(at.isEmpty ? "the root" : at): \(reason)", details: details)
    }

    /// JSON that a type does not decode.
    static func undecodable(_ error: DecodingError) -> LeanError {
        let context: DecodingError.Context
        switch error {
        case .typeMismatch(_, let told), .valueNotFound(_, let told), .keyNotFound(_, let told), .dataCorrupted(let told): context = told
        @unknown default: context = .init(codingPath: [], debugDescription: "\(error)")
        }
        let (at, reason) = (pointer(context.codingPath), context.debugDescription)
        return LeanError(
            .type, "type", .input, "the value does not decode at \(at.isEmpty ? "the root" : at): \(reason)",
            details: ["at": .string(at), "keyword": "", "reason": .string(reason)])
    }

    /// A value that is no JSON.
    static func uncodable(_ error: EncodingError) -> LeanError {
        var context = EncodingError.Context(codingPath: [], debugDescription: "\(error)")
        if case .invalidValue(_, let told) = error { context = told }
        let (at, reason) = (pointer(context.codingPath), context.debugDescription)
        return LeanError(
            .invalidArgument, "invalid_argument", .input, "the value is no JSON at \(at.isEmpty ? "the root" : at): \(reason)",
            details: ["at": .string(at), "reason": .string(reason)])
    }

    private static func pointer(_ path: [any CodingKey]) -> String {
        path.map { "/" + $0.stringValue.replacingOccurrences(of: "~", with: "~0").replacingOccurrences(of: "/", with: "~1") }.joined()
    }

    static func damaged(_ reason: String) -> LeanError {
        LeanError(.badCheckpoint, "bad_checkpoint", .input, "the checkpoint was damaged on its way: \(reason)")
    }

    static func violated(_ message: String, code: Code = .protocolViolated, name: String = "protocol") -> LeanError {
        LeanError(code, name, .protocolViolated, message)
    }

    static func notFound(_ message: String) -> LeanError { LeanError(.bridgeNotFound, "bridge_not_found", .resource, message) }

    static func exited(_ exit: BridgeExit) -> LeanError {
        let words = exit.stderr.trimmingCharacters(in: .whitespacesAndNewlines)
        let message = "the bridge \(exit.how)" + (words.isEmpty ? "" : "\nIts last words:\n\(words)")
        var error = LeanError(.bridgeExited, "bridge_exited", .resource, message, retryable: true)
        error.exit = exit
        return error
    }

    static func cancelled(_ why: String) -> LeanError { LeanError(.cancelled, "cancelled", .cancelled, "cancelled: \(why)") }

    static func timedOut(_ limit: Duration) -> LeanError {
        LeanError(.timeout, "timeout", .cancelled, "timed out after \(limit)", retryable: true)
    }

    /// The error of a function of liblean.
    static func ofLibrary(_ code: Int32, _ name: String, _ message: String) -> LeanError {
        LeanError(Code(rawValue: UInt32(bitPattern: code)), name, .internal, message)
    }

    /// The error of an ERROR frame.
    init(head: Head, tail: [UInt8]) {
        // The numbers are an extra: where they cannot be read, the error itself must arrive.
        let details = tail.isEmpty ? nil : try? JSON(parsing: tail)
        self.init(
            Code(rawValue: head.u32("code")), head.string("name"), Class(rawValue: head.u32("class")) ?? .unknown, head.string("message"),
            retryable: head.bool("retryable"), details: details ?? .null)
    }
}
