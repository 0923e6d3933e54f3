import Foundation

/// How many requests are open at once. The bridge refuses more than 64; here the next ones wait for their turn, those that nobody
/// waits for as well.
final class Slots: @unchecked Sendable {
    /// The bridge's own limit, which only the end may take up fully.
    static let openMost = 64

    /// Requests that stay open for as long as the caller likes leave a few places to those that always end, such as the checkpoint
    /// of a stream that is not read on.
    static func places(for name: String) -> Int {
        switch name {
        case "GENERATE", "SESSION_APPEND", "LOAD": openMost - 8
        case "SHUTDOWN": openMost
        default: openMost - 1
        }
    }

    private final class Ticket: @unchecked Sendable {
        let count: Int
        let places: Int
        let start: @Sendable ((any Error)?) -> Void

        init(_ count: Int, _ places: Int, _ start: @escaping @Sendable ((any Error)?) -> Void) {
            self.count = count
            self.places = places
            self.start = start
        }
    }

    private let lock = NSLock()
    private var open = 0
    private var waiting: [Ticket] = []
    private var over: (any Error)?

    /// Calls `start` once that many requests more may be open, all at once; with an error, once none may any more.
    func enter(_ count: Int = 1, places: Int, start: @escaping @Sendable ((any Error)?) -> Void) { enter(Ticket(count, places, start)) }

    /// The same, for a task; if that is cancelled, it gives up its place in the queue.
    func enter(_ count: Int = 1, places: Int) async throws {
        try Task.checkCancellation()
        let box = TicketBox()
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
                let ticket = Ticket(count, places) { error in
                    if let error { continuation.resume(throwing: error) } else { continuation.resume() }
                }
                if box.set(ticket) { enter(ticket) } else { ticket.start(CancellationError()) }
            }
        } onCancel: {
            if let ticket = box.cancel() as? Ticket { abandon(ticket) }
        }
    }

    /// Gives places back.
    func leave(_ count: Int = 1) {
        let ready = lock.withLock {
            open -= count
            return admitted()
        }
        for ticket in ready { ticket.start(nil) }
    }

    /// From now on nobody enters; who waits hears of it.
    func close(_ error: any Error) {
        let left = lock.withLock {
            over = over ?? error
            defer { waiting = [] }
            return waiting
        }
        for ticket in left { ticket.start(error) }
    }

    private func enter(_ ticket: Ticket) {
        let (ready, error): ([Ticket], (any Error)?) = lock.withLock {
            if let over, ticket.places < Slots.openMost { return ([ticket], over) }
            waiting.append(ticket)
            return (admitted(), nil)
        }
        for ticket in ready { ticket.start(error) }
    }

    private func abandon(_ ticket: Ticket) {
        let found = lock.withLock {
            guard let at = waiting.firstIndex(where: { $0 === ticket }) else { return false }
            waiting.remove(at: at)
            return true
        }
        if found { ticket.start(CancellationError()) }
    }

    /// Takes those out of the queue whose turn it is. The lock is held.
    private func admitted() -> [Ticket] {
        var ready: [Ticket] = []
        waiting.removeAll { ticket in
            let fits = open + ticket.count <= ticket.places
            if fits {
                open += ticket.count
                ready.append(ticket)
            }
            return fits
        }
        return ready
    }
}

/// A ticket on its way into the queue, and whether it is still wanted.
private final class TicketBox: @unchecked Sendable {
    private let lock = NSLock()
    private var ticket: AnyObject?
    private var cancelled = false

    /// False if it was cancelled before.
    func set(_ ticket: AnyObject) -> Bool {
        lock.withLock {
            self.ticket = ticket
            return !cancelled
        }
    }

    func cancel() -> AnyObject? {
        lock.withLock {
            cancelled = true
            return ticket
        }
    }
}
