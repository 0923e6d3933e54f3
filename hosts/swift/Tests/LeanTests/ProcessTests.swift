import Foundation
import XCTest

@testable import Lean

/// How the process lives and dies.
final class ProcessTests: XCTestCase {
    private var folder = URL(fileURLWithPath: "/")

    override func setUpWithError() throws { folder = try temporaryFolder() }

    override func tearDown() { try? FileManager.default.removeItem(at: folder) }

    /// A bridge that a shell plays.
    private func pretend(_ script: String) throws -> TransportChoice {
        let file = folder.appendingPathComponent(UUID().uuidString)
        try "#!/bin/bash\n\(script)\n".write(to: file, atomically: false, encoding: .utf8)
        try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: file.path)
        return .process(bridge: file.path)
    }

    private func isGone(_ pid: Int32) async throws -> Bool {
        for _ in 0..<200 {
            if kill(pid, 0) != 0 { return true }
            try await Task.sleep(for: .milliseconds(10))
        }
        return false
    }

    func testAKilledBridgeEndsEveryCallWithAnAccountAndAnotherGoesOn() async throws {
        let engine = try await spawn()
        let model = try await engine.load("echo")
        let session = try await model.session()
        try await session.append("one two")
        let state = try await session.checkpoint().data()
        let slow = try await engine.load("echo?step_ms=60000")
        let calls = (0..<3).map { i in Task { try await slow.generate(String.self, .text("a \(i)")) } }
        try await Task.sleep(for: .milliseconds(50))
        kill(engine.pid, SIGKILL)
        for call in calls {
            let error = await fails(.bridgeExited, "killed by SIGKILL") { try await call.value }
            XCTAssertEqual(error?.exit?.signal, "SIGKILL")
            XCTAssertEqual(error?.isRetryable, true)
        }
        await fails(.bridgeExited) { try await engine.load("echo") }
        try await model.unload()
        await engine.close()

        let other = try await spawn()
        let again = try await other.load("echo")
        let value = try await again.session(from: again.restore(state)).generate(String.self)
        XCTAssertEqual(value, "one two")
        await other.close()
    }

    func testBridgesKilledAtRandomLeaveNoOrphanAndNoTornCheckpoint() async throws {
        let file = folder.appendingPathComponent("state.lean")
        let engine = try await spawn()
        let model = try await engine.load("echo", context: 100_000)
        for round in 0..<8 {
            let other = try await spawn()
            let session = try await other.load("echo", context: 100_000).session()
            try await session.append(.text(String(repeating: "x", count: 200_000)))
            let checkpoint = try await session.checkpoint()
            let saving = Task { while true { try await checkpoint.save(to: file) } }
            try await Task.sleep(for: .milliseconds(2 * round))
            kill(other.pid, SIGKILL)
            await fails(.bridgeExited) { try await saving.value }
            let gone = try await isGone(other.pid)
            XCTAssertTrue(gone, "an orphan is left")
            if FileManager.default.fileExists(atPath: file.path) { try await model.restore(from: file).drop() }
        }
        await engine.close()
    }

    func testAnEngineThatIsForgottenEnds() async throws {
        let pid = try await { try await spawn().load("echo").engine.pid }()
        let gone = try await isGone(pid)
        XCTAssertTrue(gone, "an orphan is left")
    }

    func testClosingCancelsWhatRuns() async throws {
        for (name, choice) in transports {
            let engine = try await Engine.spawn(choice)
            let slow = try await engine.load("echo?step_ms=60000")
            let call = Task { try await slow.generate(String.self, "a b") }
            try await Task.sleep(for: .milliseconds(50))
            await engine.close()
            await engine.close()
            await fails(.cancelled) { try await call.value }
            await fails(.bridgeExited, "closed by this program") { _ = try await slow.engine.load("echo") }
            XCTAssertEqual(engine.capabilities.contains("echo"), true, name)
        }
    }

    func testLastWordsAreInTheError() async throws {
        let dies = try pretend("echo 'cannot map the frobnicator' >&2; exit 7")
        let error = await fails(.bridgeExited, "status 7\nIts last words:\ncannot map the frobnicator") { try await Engine.spawn(dies) }
        XCTAssertEqual(error?.exit?.status, 7)
    }

    func testWhatIsNoProtocolIsAnErrorAndNoHang() async throws {
        let chatty = try pretend("echo Hello from a library; exec sleep 60")
        await fails(.protocolViolated, "Hello from a library") { try await Engine.spawn(chatty) }
        let newer = try pretend(#"printf '\x89LEAN\r\n\x1a\x12\0\0\0\0\0\0\0\x01\x80\0\0\x12\0\0\0\x02\x00\x05\x09pretender\x80\x80\x40\x00\x00'; cat >/dev/null"#)
        await fails(.version, "2.0 to 2.5") { try await Engine.spawn(newer) }
    }

    func testAnEndIsSeenWhereAnotherProcessHoldsThePipes() async throws {
        let pidFile = folder.appendingPathComponent("pid").path
        let dies = try pretend("sleep 60 & echo $! >\(pidFile); exit 7")
        let begun = ContinuousClock.now
        let error = await fails(.bridgeExited, "status 7") { try await Engine.spawn(dies) }
        XCTAssertEqual(error?.exit?.status, 7)
        XCTAssertLessThan(ContinuousClock.now - begun, .seconds(15))
        let sleeper = try String(contentsOfFile: pidFile, encoding: .utf8).trimmingCharacters(in: .whitespacesAndNewlines)
        if let pid = Int32(sleeper) { kill(pid, SIGKILL) }
    }

    func testWhatIsMissingIsNamedWithWhatToDo() async throws {
        await fails(.bridgeNotFound, "/nowhere/lean-bridge") { try await Engine.spawn(.process(bridge: "/nowhere/lean-bridge")) }
        await fails(.bridgeNotFound, "/nowhere/liblean") { try await Engine.spawn(.port(library: "/nowhere/liblean")) }
        await fails(.bridgeNotFound, "no liblean") { try await Engine.spawn(.port(library: Repository.bridge)) }
        await fails(.invalidArgument) { try await Engine.spawn(credit: 0) }
    }
}
