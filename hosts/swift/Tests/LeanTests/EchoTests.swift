import Foundation
import XCTest

@testable import Lean

struct Person: Codable, Equatable {
    var id: Int
    var name: String
    var tags: [String]?
}

private final class Order: @unchecked Sendable {
    private let lock = NSLock()
    private var added: [String] = []
    var names: [String] { lock.withLock { added } }
    func add(_ name: String) { lock.withLock { added.append(name) } }
}

/// The client over the echo model, which answers text with its context and a JSON type with the JSON it was told; over both transports.
final class EchoTests: XCTestCase {
    func testValuesOfSwiftTypesComeOut() async throws {
        try await withModels { model in
            let text: String = try await model.generate(String.self, "one two three")
            XCTAssertEqual(text, "one two three")
            for person in [Person(id: 7, name: "Ada", tags: ["a", "b"]), Person(id: 8, name: "Bob")] {
                let made = try await model.generate(Person.self, .json(person))
                XCTAssertEqual(made, person)
            }
            let numbers = try await model.generate([Int].self, "[1,2]")
            XCTAssertEqual(numbers, [1, 2])
            let any = try await model.generate(JSON.self, #"{"b":1,"a":2.5}"#)
            XCTAssertEqual(any.text, #"{"b":1,"a":2.5}"#)
            let choice = try await model.generate(.choice("yes", "no"), "is it? no")
            XCTAssertEqual(choice, "no")
            let expressed = try await model.generate(.expression(#"{"id": "number"}"#, as: [String: Int].self), #"{"id":3}"#)
            XCTAssertEqual(expressed, ["id": 3])
            let output = try await model.run(String.self, "a b", options: Options(maxTokens: 8, temperature: 0, seed: .max, keep: true))
            XCTAssertEqual(output.usage.promptTokens, 2)
            XCTAssertEqual(output.finish, "complete")
            let more = try await model.generate(String.self, " c", options: Options(from: output.checkpoint))
            XCTAssertEqual(more, " c")
        }
    }

    func testAStreamHasTheEventsAndTheValue() async throws {
        try await withModels { model in
            let stream = try await model.stream(String.self, "naïve 日本 words")
            var events: [Event] = []
            for try await event in stream { events.append(event) }
            XCTAssertEqual(events.first, .prefill(done: 3, total: 3))
            XCTAssertEqual(events.dropFirst().count, 3)
            let output = try await stream.result()
            XCTAssertEqual(output.value, "naïve 日本 words")
            var text = ""
            for try await piece in try await model.stream(String.self, "one two").text { text += piece }
            XCTAssertEqual(text, "one two")
        }
    }

    func testMoreEventsThanCreditArrive() async throws {
        let words = (0..<300).map { "w\($0)" }.joined(separator: " ")
        try await withModels { model in
            var count = 0
            let stream = try await model.stream(String.self, .text(words))
            for try await event in stream { if case .token = event { count += 1 } }
            XCTAssertEqual(count, 300)
            let value = try await stream.result().value
            XCTAssertEqual(value, words)
        }
    }

    func testALeftOrCancelledStreamFreesItsSession() async throws {
        try await withModels { model in
            let session = try await model.session()
            let words = (0..<100).map { "w\($0)" }.joined(separator: " ")
            try await session.append(.text(words))
            let stream = try await session.stream(String.self)
            for try await event in stream { if case .token = event { break } }
            await stream.cancel()
            let value = try await session.generate(String.self)
            XCTAssertEqual(value, words)
        }
    }

    func testACancelledTaskEndsItsCallAndLeavesTheSessionAsItWas() async throws {
        try await withModels("echo?step_ms=60000") { model in
            let session = try await model.session()
            let begun = ContinuousClock.now
            for call in [
                { _ = try await session.generate(String.self, "a b c") }, { try await session.append("a b c") },
                { for try await _ in try await session.stream(String.self, "a") {} },
            ] as [@Sendable () async throws -> Void] {
                let task = Task { try await call() }
                try await Task.sleep(for: .milliseconds(30))
                task.cancel()
                do {
                    try await task.value
                    XCTFail("it ended as if nothing had been cancelled")
                } catch {
                    XCTAssertTrue(error is CancellationError, "\(error)")
                }
            }
            XCTAssertLessThan(ContinuousClock.now - begun, .seconds(20))
            let tokens = await session.tokens
            XCTAssertEqual(tokens, 0)
            await fails(.timeout) { try await session.generate(String.self, "a", options: Options(timeout: .milliseconds(50))) }
            await fails(.timeout) { try await withTimeout(.milliseconds(50)) { try await session.append("b") } }
        }
    }

    func testSessionsAreAppendedToCutForkedAndContinued() async throws {
        try await withModels { model in
            let session = try await model.session()
            try await session.append("one two", " three")
            var tokens = await session.tokens
            XCTAssertEqual(tokens, 3)
            try await session.truncate(to: 2)
            let fork = try await session.fork()
            try await fork.append(" four")
            try await session.drop(0..<1)
            tokens = await session.tokens
            XCTAssertEqual(tokens, 1)
            try await session.setContext("five")
            let (one, two) = (try await session.generate(String.self), try await fork.generate(String.self))
            XCTAssertEqual(one, "five")
            XCTAssertEqual(two, "one two four")
            try await session.close()
            try await session.close()
            await fails(.invalidArgument, "dropped") { try await session.append("x") }
        }
    }

    func testCheckpointsContinueInAnotherEngine() async throws {
        let folder = try temporaryFolder()
        defer { try? FileManager.default.removeItem(at: folder) }
        try await withModels { model in
            let session = try await model.session()
            try await session.append("one two")
            let checkpoint = try await session.checkpoint()
            XCTAssertEqual(checkpoint.tokens, 2)
            let file = folder.appendingPathComponent("state.lean")
            let size = try await checkpoint.save(to: file)
            let data = try await checkpoint.data()
            XCTAssertEqual(Int(size), data.count)
            let packed = try await checkpoint.data(compress: true)

            let other = try await spawn()
            let again = try await other.load("echo")
            for restored in [try await again.restore(from: file), try await again.restore(data), try await again.restore(packed, policy: .convert)] {
                let value = try await again.session(from: restored).generate(String.self)
                XCTAssertEqual(value, "one two")
            }
            let restored = try await again.restore(from: file, policy: .reprefill)
            XCTAssertEqual(restored.restored, "reprefilled")
            await fails(.invalidArgument, "another engine") { try await model.session(from: restored) }
            try await checkpoint.drop()
            await fails(.invalidArgument, "dropped") { try await checkpoint.data() }
            await fails(.badCheckpoint) { try await again.restore(Data("no checkpoint".utf8)) }
            await fails(.badCheckpoint) { try await again.restore(Data()) }
            await other.close()
        }
    }

    func testACheckpointInsideAValueIsResumed() async throws {
        try await withModels { model in
            let words = (0..<100).map { "w\($0)" }.joined(separator: " ")
            let stream = try await model.stream(String.self, .text(words))
            for try await event in stream { if case .token(_, " w1", _) = event { break } }
            let checkpoint = try await stream.checkpoint()
            await stream.cancel()
            let output = try await model.resume(String.self, options: Options(from: checkpoint))
            XCTAssertEqual(output.value, words)
        }
    }

    func testSeveralValuesContinueOneContext() async throws {
        try await withModels { model in
            let session = try await model.session()
            try await session.append("all: ")
            let values = try await session.generateMany(String.self, [["one"], ["two"], ["three"]])
            XCTAssertEqual(values, ["all: one", "all: two", "all: three"])
            await fails(.invalidArgument) { try await session.generateMany(String.self, []) }
        }
    }

    func testManyCallsWaitForTheirTurnAndNothingIsLost() async throws {
        try await withModels("echo?step_ms=2") { model in
            let values = try await withThrowingTaskGroup(of: String.self) { group in
                for i in 0..<200 {
                    group.addTask {
                        // Each leaves a session and a checkpoint behind, which are freed while others wait.
                        let session = try await model.session()
                        try await session.append(.text("call \(i)"))
                        _ = try await session.checkpoint()
                        return try await session.generate(String.self)
                    }
                }
                return try await group.reduce(into: Set<String>()) { $0.insert($1) }
            }
            XCTAssertEqual(values.count, 200)
        }
    }

    func testStreamsThatAreNotReadLeaveRoomForWhatEnds() async throws {
        try await withModels { model in
            let words = Block.text((0..<200).map { "w\($0)" }.joined(separator: " "))
            var streams: [Generation<String>] = []
            for _ in 0..<56 { streams.append(try await model.stream(String.self, words)) }
            let waiting = Task { try await model.generate(String.self, "one more") }
            try await Task.sleep(for: .milliseconds(50))
            waiting.cancel()
            do {
                _ = try await waiting.value
                XCTFail("there was room for it")
            } catch {
                XCTAssertTrue(error is CancellationError, "\(error)")
            }
            for try await event in streams[0] { if case .token = event { break } }
            _ = try await streams[0].checkpoint()
            streams.removeAll()
            let value = try await model.generate(String.self, "and on")
            XCTAssertEqual(value, "and on")
        }
    }

    func testAStreamKeepsWhatItNeeds() async throws {
        try await withModels("echo?step_ms=2") { model in
            let words = (0..<40).map { "w\($0)" }.joined(separator: " ")
            for _ in 0..<5 {
                let stream = try await model.session().stream(String.self, .text(words))
                let value = try await stream.result().value
                XCTAssertEqual(value, words)
                func state() async throws -> Checkpoint? { try await model.run(String.self, "a", options: Options(keep: true)).checkpoint }
                let more = try await model.stream(String.self, .text(words), options: Options(from: state()))
                let again = try await more.result().value
                XCTAssertEqual(again, words)
            }
        }
    }

    func testSeveralMayWaitForOneStream() async throws {
        try await withModels("echo?step_ms=2") { model in
            let stream = try await model.stream(String.self, "a b c d e f g h")
            let reader = Task { for try await _ in stream {} }
            let results = (0..<3).map { _ in Task { try await stream.result().value } }
            for result in results {
                let value = try await result.value
                XCTAssertEqual(value, "a b c d e f g h")
            }
            try await reader.value
        }
    }

    func testALoopThatIsCancelledInItsBodyDoesNotEndAsIfItWereDone() async throws {
        try await withModels("echo?step_ms=5") { model in
            let session = try await model.session()
            try await session.append(.text((0..<200).map { "w\($0)" }.joined(separator: " ")))
            let stream = try await session.stream(String.self)
            await fails(.timeout) {
                try await withTimeout(.milliseconds(100)) {
                    var text = ""
                    for try await piece in stream.text {
                        text += piece
                        // Work that does not hear of it.
                        await Task { try? await Task.sleep(for: .milliseconds(20)) }.value
                    }
                    return text
                }
            }
            // The request has ended as well, though the stream is still here.
            try await session.truncate(to: 1)
            withExtendedLifetime(stream) {}
        }
    }

    func testWhatIsFreedInACancelledTaskIsFree() async throws {
        try await withModels { model in
            let engine = model.engine
            let other = try await engine.load("echo")
            let number = try other.number()
            let task = Task {
                while !Task.isCancelled { await Task.yield() }
                try await other.unload()
            }
            task.cancel()
            try await task.value
            await fails(.invalidArgument) { try await engine.connection.call("MODEL_INFO", ["model": number]) }
        }
    }

    func testAResultHasOneCheckpointHoweverOftenItIsAskedFor() async throws {
        try await withModels { model in
            let stream = try await model.stream(String.self, "a b", options: Options(keep: true))
            _ = try await stream.result()
            let kept = try await stream.result().checkpoint
            // Whatever was dropped meanwhile comes before this.
            _ = try await model.stats()
            let value = try await model.generate(String.self, " c", options: Options(from: kept))
            XCTAssertEqual(value, " c")
        }
    }

    func testGroupsEnterInTheirTurn() async throws {
        let slots = Slots()
        let order = Order()
        for i in 0..<10 { slots.enter(places: Slots.places(for: "GENERATE")) { _ in order.add("\(i)") } }
        let group = try Slots.places(forGroup: 50)
        slots.enter(50, places: group) { _ in order.add("group") }
        slots.enter(places: Slots.places(for: "GENERATE")) { _ in order.add("late") }
        slots.enter(places: Slots.places(for: "CHECKPOINT_TAKE")) { _ in order.add("short") }
        XCTAssertEqual(order.names.suffix(1), ["short"])
        slots.leave(5)
        XCTAssertEqual(order.names.suffix(2), ["short", "group"])
        slots.leave(50)
        XCTAssertEqual(order.names.suffix(1), ["late"])
        XCTAssertThrowsError(try Slots.places(forGroup: 64))
        // One that is given up lets those behind it go on.
        let waiting = Task { try await slots.enter(60, places: Slots.places(forGroup: 60)) }
        try await Task.sleep(for: .milliseconds(20))
        slots.enter(places: Slots.places(for: "GENERATE")) { _ in order.add("behind") }
        waiting.cancel()
        _ = try? await waiting.value
        XCTAssertEqual(order.names.suffix(1), ["behind"])
    }

    func testErrorsKeepTheirCodesAndNumbers() async throws {
        try await withModels { model in
            await fails(.modelIO) { try await model.engine.load("/nowhere/model.gguf") }
            await fails(.type) { try await model.generate(.expression("nothing", as: JSON.self), "a") }
            let small = try await model.session(context: 2)
            let overflow = await fails(.contextOverflow) { try await small.append("a b c d") }
            XCTAssertEqual(overflow?.details["needed"], 4)
            XCTAssertEqual(overflow?.errorClass, .input)
            await fails(.invalidArgument, "fit a frame") { try await model.generate(String.self, .text(String(repeating: "x", count: 2 << 20))) }
            await fails(.invalidArgument, "no number") { try await model.generate(String.self, "a", options: Options(temperature: .nan)) }
            try await model.unload()
            try await model.unload()
            await fails(.invalidArgument, "dropped") { try await model.generate(String.self) }
        }
    }
}
