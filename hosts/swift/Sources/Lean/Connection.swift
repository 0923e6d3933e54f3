import Foundation

/// How long a bridge that broke the protocol, or closed its stdout, may take to end by itself.
private let exitPatience = Duration.seconds(1)

/// The protocol over a transport: handshake, requests, events with credit, cancellation. One thread reads frames and hands them to
/// their requests, one writes them; both end with the engine.
final class Connection: @unchecked Sendable {
    let transport: any Transport
    let credit: Int
    private let slots = Slots()
    private let writer: Writer
    private let lock = NSLock()
    private var requests: [UInt32: Request] = [:]
    private var lastId: UInt32 = 0
    private var maxFrame = maxFrameDefault
    private var over: LeanError?
    private var greeting: Result<Head, LeanError>?
    private var greeted: CheckedContinuation<Result<Head, LeanError>, Never>?
    private var isDead = false
    private var mourners: [CheckedContinuation<Void, Never>] = []
    /// Why it is killed, if this client does that.
    private var verdict: String?

    init(_ transport: any Transport, credit: Int) {
        self.transport = transport
        self.credit = credit
        writer = Writer(transport)
        Thread.detachNewThread { self.read() }
    }

    // Requests.

    /// Sends a request, once there is a place for it. With `prepaid`, the caller has taken the place, and gives it back if this fails.
    /// What is kept lives until the request has ended; the engine is the one that a state which it leaves lives in.
    func open(
        _ name: String, _ fields: [String: JSON], _ tail: [UInt8] = [], prepaid: Bool = false, engine: Engine? = nil, keeping kept: [(any Sendable)?] = []
    ) async throws -> Request {
        let frame = messageFrame(0, name, fields, tail, flags: Flag.critical)
        let (size, most, over) = lock.withLock { (frame.head.count + tail.count, maxFrame, self.over) }
        if let over { throw over }
        if size > most {
            throw LeanError.invalid("the request has \(size) bytes; at most \(most) fit a frame: a long context can be appended to a session in parts")
        }
        if !prepaid { try await slots.enter(places: Slots.places(for: name)) }
        do {
            return try begin(frame, engine: engine, keeping: kept)
        } catch {
            if !prepaid { slots.leave() }
            throw error
        }
    }

    /// Takes places for several requests at once.
    func reserve(_ count: Int) async throws { try await slots.enter(count, places: Slots.places(forGroup: count)) }

    /// Gives places back that no request was sent for.
    func release(_ count: Int) { slots.leave(count) }

    /// Sends a request and waits for its answer.
    func call(
        _ name: String, _ fields: [String: JSON], _ tail: [UInt8] = [], keeping kept: [(any Sendable)?] = [], onEvent: (Message) -> Void = { _ in }
    ) async throws -> Message {
        let request = try await open(name, fields, tail, keeping: kept)
        while let event = await request.next() { onEvent(event) }
        return try request.answer()
    }

    /// Sends a request that nobody waits for, in its turn like any other.
    func post(_ name: String, _ fields: [String: JSON]) {
        let frame = messageFrame(0, name, fields, flags: Flag.critical)
        slots.enter(places: Slots.places(for: name)) { error in
            // Where the bridge is gone, so is everything in it.
            if error == nil, (try? self.begin(frame)) == nil { self.slots.leave() }
        }
    }

    /// Its place has been taken, unless it is the end.
    private func begin(_ frame: Frame, hasPlace: Bool = true, engine: Engine? = nil, keeping kept: [(any Sendable)?] = []) throws -> Request {
        let begun: Result<Request, LeanError> = lock.withLock {
            if let over { return .failure(over) }
            repeat { lastId = lastId % 0x7fff_ffff + 1 } while requests[lastId] != nil
            let request = Request(id: lastId, connection: self, hasPlace: hasPlace, engine: engine, keeping: kept)
            requests[lastId] = request
            writer.queue(Frame(request: lastId, kind: frame.kind, flags: frame.flags, head: frame.head, tail: frame.tail).bytes)
            return .success(request)
        }
        return try begun.get()
    }

    func send(_ frame: Frame) { writer.queue(frame.bytes) }

    /// Sends a frame and waits until it was written, or cannot be: what uploads are held back by.
    func sendNow(_ frame: Frame) async { await writer.write(frame.bytes) }

    // Its life.

    /// Waits for the greeting; the engine is killed if it does not come.
    func hello(patience: TimeInterval) async throws -> Head {
        // A timer that was cancelled is kept until its time.
        let timer = DispatchWorkItem { [weak self] in self?.condemn("did not greet within \(Int(patience)) s") }
        DispatchQueue.global().asyncAfter(deadline: .now() + patience, execute: timer)
        defer { timer.cancel() }
        let result = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let known = lock.withLock {
                    if greeting == nil { greeted = continuation }
                    return greeting
                }
                if let known { continuation.resume(returning: known) }
            }
        } onCancel: {
            condemn("was not wanted any more")
        }
        if case .failure = result { try Task.checkCancellation() }
        return try result.get()
    }

    private func condemn(_ verdict: String) {
        lock.withLock { self.verdict = self.verdict ?? verdict }
        transport.kill()
    }

    /// Ends the engine's stdin, and with it the engine.
    func hangUp() { writer.end() }

    /// Ends everything in good order; from now on every call fails. It is killed if that takes too long.
    func shutDown(patience: TimeInterval) async {
        let closed = LeanError.exited(BridgeExit(how: "was closed by this program"))
        slots.close(LeanError.cancelled("the engine was closed"))
        let request = try? begin(messageFrame(0, "SHUTDOWN", flags: Flag.critical), hasPlace: false)
        lock.withLock { over = over ?? closed }
        let timer = DispatchWorkItem { [weak self] in self?.transport.kill() }
        DispatchQueue.global().asyncAfter(deadline: .now() + patience, execute: timer)
        defer { timer.cancel() }
        // Not by a task that may be cancelled: what was begun is carried through.
        if let request { await Task { while await request.next() != nil {} }.value }
        hangUp()
        await withCheckedContinuation { continuation in
            let dead = lock.withLock {
                if !isDead { mourners.append(continuation) }
                return isDead
            }
            if dead { continuation.resume() }
        }
    }

    // The reader.

    private func read() {
        var reader = FrameReader()
        var failure: LeanError?
        do {
            while let bytes = transport.read() {
                reader.push(bytes)
                while let frame = try reader.next() { try handle(frame, &reader) }
            }
        } catch let error as WireError {
            failure = .violated("the bridge does not speak the protocol: \(error.reason)")
        } catch {
            failure = error as? LeanError ?? .violated("\(error)")
        }
        // If no more can be understood, the bridge has to go, and its account of itself joins the error.
        if failure != nil { hangUp() }
        let account = transport.account(patience: exitPatience)
        let said = lock.withLock { verdict }
        var error = failure ?? .exited(said.map { BridgeExit(status: account.status, signal: account.signal, stderr: account.stderr, how: $0) } ?? account)
        error.exit = account
        fail(error)
    }

    private func handle(_ frame: Frame, _ reader: inout FrameReader) throws {
        let known = Wire.byKind[frame.kind]
        if known == nil, !frame.isEnd { return }
        let head = try known.map { try decodeHead($0, frame.head[...]) } ?? Head()
        let message = Message(name: known?.name ?? "", head: head, tail: frame.tail)
        if frame.request == 0 { return try control(message, &reader) }
        let request = lock.withLock { frame.isEnd ? requests.removeValue(forKey: frame.request) : requests[frame.request] }
        guard let request else { return }
        guard frame.isEnd else {
            if !request.put(message) { throw LeanError.violated("the bridge sent more events than there was credit for") }
            return
        }
        if message.name == "ERROR" {
            request.finish(.failure(LeanError(head: head, tail: frame.tail)))
        } else if known == nil || frame.flags & Flag.error != 0 {
            request.finish(.failure(.violated("the bridge answered with kind \(frame.kind), which is unknown here", code: .unknownKind, name: "unknown_kind")))
        } else {
            request.finish(.success(message))
        }
        if request.hasPlace { slots.leave() }
    }

    private func control(_ message: Message, _ reader: inout FrameReader) throws {
        if message.name == "ERROR" { throw LeanError(head: message.head, tail: message.tail) }
        guard message.name == "HELLO" else { return }
        let head = message.head
        let (major, low, high) = (head.u32("major"), head.u32("minor_min"), head.u32("minor_max"))
        guard major == Wire.major, low <= Wire.minor, Wire.minor <= high else {
            throw LeanError.violated(
                "this client speaks protocol \(Wire.major).\(Wire.minor), the bridge (\(head.string("engine"))) \(major).\(low) to \(major).\(high)",
                code: .version, name: "version")
        }
        let theirs = head.u32("max_frame")
        reader.maxFrame = min(theirs, maxFrameDefault)
        let most = reader.maxFrame
        let lowered: JSON = theirs > maxFrameDefault ? JSON(maxFrameDefault) : .null
        send(messageFrame(0, "HELLO_ACK", ["minor": JSON(Wire.minor), "credit": JSON(credit), "max_frame": lowered]))
        let waiting = lock.withLock {
            maxFrame = most
            greeting = .success(head)
            defer { greeted = nil }
            return greeted
        }
        waiting?.resume(returning: .success(head))
    }

    /// Ends every call that is open, and every later one.
    private func fail(_ error: LeanError) {
        let (pending, waiting, mourning, asked) = lock.withLock {
            let asked = over != nil
            over = over ?? error
            isDead = true
            let waiting = greeted
            if greeting == nil { greeting = .failure(error) }
            defer {
                requests = [:]
                greeted = nil
                mourners = []
            }
            return (requests.values, waiting, mourners, asked)
        }
        slots.close(error)
        // What an engine that was asked to go had no time to answer was cancelled, and no accident.
        let fate = asked && error.exit?.status == 0 ? LeanError.cancelled("the engine was closed") : error
        for request in pending { request.finish(.failure(fate)) }
        waiting?.resume(returning: .failure(error))
        writer.stop()
        for mourner in mourning { mourner.resume() }
    }
}

/// The thread that writes: whoever queues does not wait.
private final class Writer: @unchecked Sendable {
    private enum Job {
        case bytes([UInt8], CheckedContinuation<Void, Never>?)
        case end, stop
    }

    private let transport: any Transport
    private let condition = NSCondition()
    private var jobs: [Job] = []
    private var stopped = false

    init(_ transport: any Transport) {
        self.transport = transport
        Thread.detachNewThread { self.run() }
    }

    func queue(_ bytes: [UInt8]) { put(.bytes(bytes, nil)) }

    func write(_ bytes: [UInt8]) async {
        await withCheckedContinuation { continuation in
            if !put(.bytes(bytes, continuation)) { continuation.resume() }
        }
    }

    func end() { put(.end) }

    func stop() { put(.stop) }

    @discardableResult
    private func put(_ job: Job) -> Bool {
        condition.withLock {
            if stopped { return false }
            jobs.append(job)
            condition.signal()
            return true
        }
    }

    private func take() -> [Job] {
        condition.withLock {
            while jobs.isEmpty { condition.wait() }
            defer { jobs = [] }
            return jobs
        }
    }

    private func run() {
        var going = true
        while !condition.withLock({ stopped }) {
            for job in take() {
                switch job {
                case .bytes(let bytes, let written):
                    if going { going = transport.write(bytes) }
                    written?.resume()
                case .end, .stop:
                    going = false
                    transport.end()
                    if case .stop = job { condition.withLock { stopped = true } }
                }
            }
        }
        let left = condition.withLock { jobs }
        for case .bytes(_, let written?) in left { written.resume() }
    }
}
