/// Carries the protocol's bytes to an engine and back. Reading belongs to one thread, writing to another; both may wait.
protocol Transport: AnyObject, Sendable {
    /// The process that the engine runs in.
    var pid: Int32 { get }

    /// Some bytes from the engine, or nil at the end.
    func read() -> [UInt8]?

    /// Writes all of the bytes; false once the engine takes no more.
    func write(_ bytes: [UInt8]) -> Bool

    /// Says that nothing more will be sent: the engine then ends.
    func end()

    /// Ends the engine at once.
    func kill()

    /// How it ended; it is killed if that takes longer.
    func account(patience: Duration) -> BridgeExit
}

/// Where the engine runs.
public enum TransportChoice: Sendable {
    /// In a process of its own, `lean-bridge`: a crash there is an error here. See `findBridge`.
    case process(bridge: String? = nil, arguments: [String] = [], environment: [String: String]? = nil)
    /// In this process, through liblean: a crash of the engine is one of this program. See `findLibrary`.
    case port(library: String? = nil)

    func start() throws -> any Transport {
        switch self {
        case .process(let bridge, let arguments, let environment):
            #if os(iOS) || os(tvOS) || os(watchOS) || os(visionOS)
                throw LeanError.invalid("no process can be started here: use .port()")
            #else
                return try BridgeProcess(file: findBridge(bridge), arguments: arguments, environment: environment)
            #endif
        case .port(let library):
            return try BridgePort(library: library)
        }
    }
}
