import Foundation

/// The functions of liblean that a port needs, found when the first one is opened.
private struct Library: @unchecked Sendable {
    typealias Out = UnsafeMutablePointer<OpaquePointer?>
    typealias Open = @convention(c) (Out, Out) -> Int32
    typealias Send = @convention(c) (OpaquePointer, UnsafePointer<UInt8>?, Int, UInt32, Out) -> Int32
    typealias Receive = @convention(c) (OpaquePointer, UInt32, Out, Out) -> Int32
    typealias State = @convention(c) (OpaquePointer, UnsafeMutablePointer<Int32>, Out) -> Int32
    typealias Close = @convention(c) (OpaquePointer, Out) -> Int32
    typealias Data = @convention(c) (OpaquePointer, UnsafeMutablePointer<UnsafePointer<UInt8>?>, UnsafeMutablePointer<Int>, Out) -> Int32
    typealias Free = @convention(c) (OpaquePointer?) -> Void
    typealias Words = @convention(c) (OpaquePointer) -> UnsafePointer<CChar>?
    typealias Message = @convention(c) (OpaquePointer, UnsafeMutablePointer<Int>?) -> UnsafePointer<CChar>?

    let open: Open
    let send: Send
    let receive: Receive
    let state: State
    let close: Close
    let bytesData: Data
    let portFree: Free
    let bytesFree: Free
    let errorFree: Free
    let errorName: Words
    let errorMessage: Message

    init(_ file: String?) throws {
        // Without a file: what is linked into this program, or else what the loader knows.
        var handle = dlopen(file, RTLD_NOW | RTLD_LOCAL)
        if file == nil, let whole = handle, dlsym(whole, "lean_port_open") == nil { handle = dlopen(libraryName, RTLD_NOW | RTLD_LOCAL) }
        guard let handle else {
            let why = dlerror().map { String(cString: $0) } ?? "it cannot be loaded"
            throw LeanError.notFound(
                "no \(libraryName) was found: \(why). Build it with `cargo build --release -p lean-ffi` and set LEAN_LIBRARY to where it is, "
                    + "or use the process: it needs no library.")
        }
        func function<F>(_ name: String, _: F.Type) throws -> F {
            guard let symbol = dlsym(handle, name) else { throw LeanError.notFound("\(file ?? libraryName) is no liblean that this client can use: it has no \(name)") }
            return unsafeBitCast(symbol, to: F.self)
        }
        open = try function("lean_port_open", Open.self)
        send = try function("lean_port_send", Send.self)
        receive = try function("lean_port_recv", Receive.self)
        state = try function("lean_port_state", State.self)
        close = try function("lean_port_close", Close.self)
        bytesData = try function("lean_bytes_data", Data.self)
        portFree = try function("lean_port_free", Free.self)
        bytesFree = try function("lean_bytes_free", Free.self)
        errorFree = try function("lean_error_free", Free.self)
        errorName = try function("lean_error_name", Words.self)
        errorMessage = try function("lean_error_message", Message.self)
    }

    /// Calls a function that ends with an error's place; throws what it fails with.
    func call(_ body: (Out) -> Int32) throws -> Int32 {
        var failed: OpaquePointer?
        let status = body(&failed)
        guard let error = failed else { return status }
        defer { errorFree(error) }
        let (name, message) = (errorName(error), errorMessage(error, nil))
        throw LeanError.ofLibrary(status, name.map { String(cString: $0) } ?? "", message.map { String(cString: $0) } ?? "")
    }
}

/// The engine in this process, through liblean. A status of 0 is success; `LEAN_END` is the end.
final class BridgePort: Transport, @unchecked Sendable {
    private static let forever: UInt32 = 0xffff_ffff
    private static let endedByProtocol: Int32 = 3

    let pid = getpid()
    private let library: Library
    private let port: OpaquePointer

    init(library file: String? = nil) throws {
        let library = try Library(findLibrary(file))
        self.library = library
        var opened: OpaquePointer?
        _ = try library.call { library.open(&opened, $0) }
        guard let opened else { throw LeanError.violated("the port is null") }
        port = opened
    }

    // By then no call is under way: each keeps the port alive.
    deinit { library.portFree(port) }

    func read() -> [UInt8]? {
        var received: OpaquePointer?
        guard let status = try? library.call({ library.receive(port, BridgePort.forever, &received, $0) }), status == 0, let received else {
            return nil
        }
        defer { library.bytesFree(received) }
        var data: UnsafePointer<UInt8>?
        var length = 0
        guard (try? library.call { library.bytesData(received, &data, &length, $0) }) == 0 else { return nil }
        return Array(UnsafeBufferPointer(start: data, count: length))
    }

    func write(_ bytes: [UInt8]) -> Bool {
        bytes.withUnsafeBufferPointer { buffer in
            (try? library.call { library.send(port, buffer.baseAddress, buffer.count, BridgePort.forever, $0) }) == 0
        }
    }

    func end() { kill() }

    /// Returns when no thread of the port runs any more.
    func kill() { _ = try? library.call { library.close(port, $0) } }

    func account(patience: Duration) -> BridgeExit {
        do {
            _ = try library.call { library.close(port, $0) }
            var state: Int32 = 0
            _ = try library.call { library.state(port, &state, $0) }
            return BridgeExit(status: state == BridgePort.endedByProtocol ? 2 : 0, how: "in this process ended")
        } catch {
            return BridgeExit(how: "in this process failed: \(error)")
        }
    }
}
