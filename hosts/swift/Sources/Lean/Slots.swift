import Foundation

/// How many requests are open at once. The bridge refuses more than 64; here the next ones wait for their turn, those that nobody
/// waits for as well.
final class Slots: @unchecked Sendable {
    /// The bridge's own limit. The last place is the end's, which does not wait here.
    static let openMost = 64

    /// Requests that stay open for as long as the caller likes leave a few places to those that always end, such as the checkpoint
    /// of a stream that is not read on.
    static func places(for name: String) -> Int {
        switch name {
        case "GENERATE", "SESSION_APPEND", "LOAD": lasting
        default: openMost - 1
        }
    }

    private static let lasting = openMost - 8

    /// The places for a group, which enters whole. A larger one needs more of them, and waits until nearly nothing else is open.
    static func places(forGroup count: Int) throws -> Int {
        guard (1..<openMost).contains(count) else { throw LeanError.invalid("\(count) values at once; from 1 to \(openMost - 1) are possible") }
        return max(lasting, count)
    }

    private final class Ticket: @unchecked Sendable {
        let count: Int
        let places: Int
        let start: @Sendable ((any Error)?) -> Void
        /// By the slots' lock: a ticket may be given up before it is in the queue.
        var isAbandoned = false

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
            if ticket.isAbandoned { return ([ticket], CancellationError()) }
            if let over { return ([ticket], over) }
            waiting.append(ticket)
            return (admitted(), nil)
        }
        for ticket in ready { ticket.start(error) }
    }

    private func abandon(_ ticket: Ticket) {
        let found = lock.withLock {
            ticket.isAbandoned = true
            guard let at = waiting.firstIndex(where: { $0 === ticket }) else { return false }
            waiting.remove(at: at)
            return true
        }
        if found { ticket.start(CancellationError()) }
        for ticket in found ? advance() : [] { ticket.start(nil) }
    }

    private func advance() -> [Ticket] { lock.withLock { admitted() } }

    /// Takes those out of the queue whose turn it is. Nobody overtakes one who may take as many places, so that a group is not kept waiting
    /// for ever by what comes after it; what always ends passes what waits for streams that may not. The lock is held.
    private func admitted() -> [Ticket] {
        var ready: [Ticket] = []
        var bound = 0
        waiting.removeAll { ticket in
            guard ticket.places > bound, open + ticket.count <= ticket.places else {
                bound = max(bound, ticket.places)
                return false
            }
            open += ticket.count
            ready.append(ticket)
            return true
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
