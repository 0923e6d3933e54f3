import Foundation

/// How long the end of a cancelled request is waited for; it takes one step, or a layer of a prefill.
private let cancelPatience = 5.0

/// An open request. Each of its events is taken by one of the tasks that ask for one.
final class Request: @unchecked Sendable {
    let id: UInt32
    /// Whether it took a place among the open requests, which its end gives back.
    let hasPlace: Bool
    private let connection: Connection
    private let lock = NSLock()
    private var events: [Message] = []
    private var outcome: Result<Message, LeanError>?
    private var isCancelled = false
    /// What it names in the engine, which must not be freed before its end.
    private var kept: [(any Sendable)?]
    private weak var engine: Engine?
    private var left: Checkpoint?
    /// Who waits for the next event, and who for the end.
    private var waiters: [CheckedContinuation<Message?, Never>] = []
    private var enders: [CheckedContinuation<Void, Never>] = []
    /// Events that were taken and not given back as credit, and how many are still in use.
    private var consumed: UInt32 = 0
    private var owed = 0

    init(id: UInt32, connection: Connection, hasPlace: Bool = true, engine: Engine? = nil, keeping kept: [(any Sendable)?] = []) {
        self.id = id
        self.connection = connection
        self.hasPlace = hasPlace
        self.engine = engine
        self.kept = kept
    }

    var hasEnded: Bool { lock.withLock { outcome != nil } }

    /// The state that its answer left in the engine: one object, however often it is asked for.
    var checkpoint: Checkpoint? { lock.withLock { left } }

    // The reader's part.

    /// Hands an event over; false if there was no credit for it.
    func put(_ message: Message) -> Bool {
        let (waiting, fits): (CheckedContinuation<Message?, Never>?, Bool) = lock.withLock {
            if isCancelled || outcome != nil { return (nil, true) }
            if !waiters.isEmpty {
                owed += 1
                return (waiters.removeFirst(), true)
            }
            events.append(message)
            return (nil, events.count <= connection.credit)
        }
        waiting?.resume(returning: message)
        return fits
    }

    /// Hands the end over.
    func finish(_ result: Result<Message, LeanError>) {
        // Made here, so that it is freed with the request where nobody asks for it.
        var made: Checkpoint?
        if case .success(let message) = result, message.name == "GENERATED", let id = message.head.optional("checkpoint") {
            made = engine.map { Checkpoint($0, id, tokens: nil) }
        }
        let (waiting, ending, released) = lock.withLock {
            defer {
                waiters = []
                enders = []
                kept = []
            }
            if outcome == nil {
                outcome = result
                left = made
            }
            return (waiters, enders, kept)
        }
        for waiter in waiting { waiter.resume(returning: nil) }
        for ender in ending { ender.resume() }
        // Freeing takes other locks.
        withExtendedLifetime((released, made)) {}
    }

    // The caller's part.

    /// The next event, or nil at the end; asking for it gives the one before back as credit. A task that is cancelled cancels the
    /// request, of which there are no more events then.
    func next() async -> Message? {
        giveBack()
        if Task.isCancelled { cancel() }
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let (ready, message): (Bool, Message?) = lock.withLock {
                    if !isCancelled, !events.isEmpty {
                        owed += 1
                        return (true, events.removeFirst())
                    }
                    if outcome != nil { return (true, nil) }
                    waiters.append(continuation)
                    return (false, nil)
                }
                if ready { continuation.resume(returning: message) }
            }
        } onCancel: {
            cancel()
        }
    }

    /// The answer, once `next` has said that there are no more events.
    func answer() throws -> Message {
        let result = lock.withLock { outcome }
        switch result {
        case .success(let message): return message
        case .failure(let error):
            if error.code == .cancelled, Task.isCancelled { throw CancellationError() }
            throw error
        case nil: throw LeanError.violated("the request has not ended")
        }
    }

    /// Ends it early. If the bridge does not answer, whoever waits is let go after a while.
    func cancel() {
        let first = lock.withLock {
            guard !isCancelled, outcome == nil else { return false }
            isCancelled = true
            events = []
            return true
        }
        guard first else { return }
        connection.send(messageFrame(id, "CANCEL"))
        DispatchQueue.global().asyncAfter(deadline: .now() + cancelPatience) { [weak self] in
            self?.finish(.failure(.cancelled("the engine did not answer")))
        }
    }

    /// Ends it early and waits until that is done, so that its session is free again.
    func close() async {
        cancel()
        await withCheckedContinuation { continuation in
            let over = lock.withLock {
                if outcome == nil { enders.append(continuation) }
                return outcome != nil
            }
            if over { continuation.resume() }
        }
    }

    /// Returns credit in halves of what there was, so that a token does not cost a frame each way.
    private func giveBack() {
        let due: UInt32 = lock.withLock {
            guard owed > 0 else { return 0 }
            owed -= 1
            consumed += 1
            guard consumed >= max(1, connection.credit / 2), outcome == nil, !isCancelled else { return 0 }
            defer { consumed = 0 }
            return consumed
        }
        if due > 0 { connection.send(messageFrame(id, "CREDIT", ["events": JSON(due)])) }
    }
}
