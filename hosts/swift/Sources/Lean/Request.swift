import Foundation

/// How long the end of a cancelled request is waited for; it takes one step, or a layer of a prefill.
private let cancelPatience = 5.0

/// An open request. Its events are taken by one task at a time.
final class Request: @unchecked Sendable {
    let id: UInt32
    private let connection: Connection
    private let lock = NSLock()
    private var events: [Message] = []
    private var outcome: Result<Message, LeanError>?
    private var isCancelled = false
    /// Who waits for the next event, and who for the end.
    private var waiter: CheckedContinuation<Message?, Never>?
    private var enders: [CheckedContinuation<Void, Never>] = []
    /// Events that were taken and not given back as credit, and whether the last one is still in use.
    private var consumed: UInt32 = 0
    private var owes = false

    init(id: UInt32, connection: Connection) {
        self.id = id
        self.connection = connection
    }

    var hasEnded: Bool { lock.withLock { outcome != nil } }

    // The reader's part.

    /// Hands an event over; false if there was no credit for it.
    func put(_ message: Message) -> Bool {
        let (waiting, fits): (CheckedContinuation<Message?, Never>?, Bool) = lock.withLock {
            if isCancelled || outcome != nil { return (nil, true) }
            if let waiter {
                self.waiter = nil
                owes = true
                return (waiter, true)
            }
            events.append(message)
            return (nil, events.count <= connection.credit)
        }
        waiting?.resume(returning: message)
        return fits
    }

    /// Hands the end over.
    func finish(_ result: Result<Message, LeanError>) {
        let (waiting, ending) = lock.withLock {
            defer {
                waiter = nil
                enders = []
            }
            if outcome == nil { outcome = result }
            return (waiter, enders)
        }
        waiting?.resume(returning: nil)
        for ender in ending { ender.resume() }
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
                        owes = true
                        return (true, events.removeFirst())
                    }
                    if outcome != nil { return (true, nil) }
                    waiter = continuation
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
            guard owes else { return 0 }
            owes = false
            consumed += 1
            guard consumed >= max(1, connection.credit / 2), outcome == nil, !isCancelled else { return 0 }
            defer { consumed = 0 }
            return consumed
        }
        if due > 0 { connection.send(messageFrame(id, "CREDIT", ["events": JSON(due)])) }
    }
}
