import Foundation
import XCTest

@testable import Lean

/// The conversations of tests/wire/conformance over both transports, frame by frame: see the README there.
final class ConformanceTests: XCTestCase {
    func testProcess() throws { try playAll("process") { try BridgeProcess(file: Repository.bridge) } }

    func testPort() throws { try playAll("port") { try BridgePort(library: Repository.library) } }

    private func playAll(_ name: String, _ start: () throws -> any Transport) throws {
        let folder = "\(Repository.wire)/conformance"
        let scripts = try FileManager.default.contentsOfDirectory(atPath: folder).filter { $0.hasSuffix(".jsonl") }.sorted()
        XCTAssertGreaterThan(scripts.count, 25)
        for script in scripts {
            let title = "script \(script.dropLast(6))/\(name)"
            do {
                let lines = try String(contentsOfFile: "\(folder)/\(script)", encoding: .utf8).split(separator: "\n", omittingEmptySubsequences: false)
                let head = try JSON(parsing: lines[0])
                if head["model"]?.string == "smol", !FileManager.default.fileExists(atPath: Repository.smol) {
                    print("\(title) SKIPPED: there is no \(Repository.smol)")
                    continue
                }
                let player = try Player(head, start())
                try player.play(lines.dropFirst().map(String.init), script)
                print("\(title) ok")
            } catch {
                print("\(title) FAILED")
                XCTFail("\(title): \(error)")
            }
        }
    }
}

private struct Mismatch: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
}

/// Frames from a thread that reads, for one that waits.
private final class Inbox: @unchecked Sendable {
    private let condition = NSCondition()
    private var frames: [Frame] = []
    private var ended = false

    init(_ transport: any Transport) {
        Thread.detachNewThread {
            var reader = FrameReader()
            reading: while let bytes = transport.read() {
                reader.push(bytes)
                while true {
                    guard let frame = try? reader.next() else { break }
                    self.condition.withLock {
                        self.frames.append(frame)
                        self.condition.signal()
                    }
                }
            }
            self.condition.withLock {
                self.ended = true
                self.condition.signal()
            }
        }
    }

    /// The next frame, or nil at the end.
    func take() throws -> Frame? {
        let late = Date(timeIntervalSinceNow: 60)
        return try condition.withLock {
            while frames.isEmpty {
                if ended { return nil }
                if !condition.wait(until: late) { throw Mismatch("no frame within a minute") }
            }
            return frames.removeFirst()
        }
    }
}

/// One run of a script.
private final class Player {
    private let head: JSON
    private let transport: any Transport
    private let inbox: Inbox
    private let folder: URL
    private let places: [(name: String, path: String)]
    private var open: [UInt32: [Frame]] = [:]
    private var kept: [String: [UInt8]] = [:]
    private var ended = false

    init(_ head: JSON, _ transport: any Transport) throws {
        self.head = head
        self.transport = transport
        inbox = Inbox(transport)
        folder = try temporaryFolder()
        places = [("{dir}", folder.path), ("{repo}", Repository.root), ("{smol}", Repository.smol)]
    }

    func play(_ lines: [String], _ script: String) throws {
        defer {
            transport.kill()
            while (try? inbox.take()) ?? nil != nil {}
            _ = transport.account(patience: .seconds(60))
            try? FileManager.default.removeItem(at: folder)
        }
        if head["handshake"]?.bool != false { try handshake() }
        for (i, line) in lines.enumerated() where !line.isEmpty && !line.hasPrefix("#") {
            do {
                try step(try JSON(parsing: line))
            } catch {
                throw Mismatch("\(script):\(i + 2): \(error)")
            }
        }
        try finish()
    }

    private func handshake() throws {
        let hello = try next(0)
        guard Wire.byKind[hello.kind]?.name == "HELLO" else { throw Mismatch("the first frame is no HELLO") }
        let fields: [String: JSON] = ["minor": 0, "credit": head["credit"] ?? 32, "max_frame": head["max_frame"] ?? .null]
        _ = transport.write(messageFrame(0, "HELLO_ACK", fields).bytes)
    }

    private func step(_ step: JSON) throws {
        if let frame = step["send"] {
            try send(frame)
        } else if let text = step["send_hex"]?.string {
            _ = transport.write(unhex(text) ?? [])
        } else if let frame = step["expect"] {
            try expect(frame)
        } else if step["close"] != nil {
            transport.end()
        } else if let status = step["end"]?.integer(Int32.self) {
            try end(status)
        } else {
            throw Mismatch("a step of no kind")
        }
    }

    private func filled(_ json: JSON, back: Bool) -> JSON {
        switch json {
        case .string(let text):
            return .string(places.reduce(text) { $0.replacingOccurrences(of: back ? $1.path : $1.name, with: back ? $1.name : $1.path) })
        case .array(let elements): return .array(elements.map { filled($0, back: back) })
        case .object(let members):
            let times = ["first_token_seconds", "total_seconds", "tokens_per_second"]
            return .object(members.map { JSON.Member($0.name, back && times.contains($0.name) ? 0 : filled($0.value, back: back)) })
        default: return json
        }
    }

    private func send(_ frame: JSON) throws {
        let name = frame["name"]?.string
        var tail = frame["json"].map { filled($0, back: false).bytes } ?? Array((frame["text"]?.string ?? "").utf8)
        var fields = Dictionary(uniqueKeysWithValues: (frame["head"]?.members ?? []).map { ($0.name, filled($0.value, back: false)) })
        if let blob = frame["kept"]?.string {
            tail = kept[blob] ?? []
            if fields["digest"] == "DIGEST" { fields["digest"] = JSON(CRC32.of(tail)) }
            if let flip = frame["flip"]?.integer(Int.self) { tail[flip] ^= 1 }
            tail = Array(tail[(frame["from"]?.integer() ?? 0)..<(frame["to"]?.integer() ?? tail.count)])
        }
        let kind = name.flatMap { Wire.byName[$0] }
        let quiet = ["HELLO_ACK", "CANCEL", "CREDIT"].contains(name ?? "")
        let made = Frame(
            request: frame["request"]?.integer() ?? 0, kind: kind?.kind ?? frame["kind"]?.integer() ?? 0,
            flags: frame["flags"]?.integer() ?? (quiet ? 0 : Flag.critical), head: kind.map { encodeHead($0, fields) } ?? [], tail: tail)
        _ = transport.write(made.bytes)
    }

    /// The next frame of a request; those of others wait for their turn.
    private func next(_ request: UInt32) throws -> Frame {
        while open[request, default: []].isEmpty {
            guard let frame = try inbox.take() else { throw Mismatch("the stream ended before a frame of request \(request)") }
            open[frame.request, default: []].append(frame)
        }
        return open[request, default: []].removeFirst()
    }

    private func described(_ frame: Frame) throws -> JSON {
        let kind = Wire.byKind[frame.kind]
        var told = [JSON.Member("request", JSON(frame.request))]
        told.append(kind.map { JSON.Member("name", .string($0.name)) } ?? JSON.Member("kind", JSON(frame.kind)))
        if frame.flags != 0 { told.append(JSON.Member("flags", JSON(frame.flags))) }
        if let kind, !kind.fields.isEmpty {
            let decoded = try decodeHead(kind, frame.head[...])
            told.append(JSON.Member("head", filled(.object(kind.fields.map { JSON.Member($0.name, decoded.fields[$0.name] ?? .null) }), back: true)))
        }
        let name = kind?.name ?? ""
        if frame.tail.isEmpty {
            return .object(told)
        } else if ["LOADED", "INFO", "GENERATED", "ADAPTER", "ERROR"].contains(name) {
            told.append(JSON.Member("json", filled(try JSON(parsing: frame.tail), back: true)))
        } else if ["TOKENS", "PARTIAL"].contains(name) {
            told.append(JSON.Member("text", .string(String(decoding: frame.tail, as: UTF8.self))))
        } else {
            told.append(JSON.Member("bytes", ["size": JSON(frame.tail.count), "crc32": JSON(CRC32.of(frame.tail))]))
        }
        return .object(told)
    }

    private func expect(_ given: JSON) throws {
        let frame = try next(given["request"]?.integer() ?? 0)
        if let blob = given["keep"]?.string { kept[blob, default: []] += frame.tail }
        let want = JSON.object((given.members ?? []).filter { $0.name != "keep" })
        let got = try described(frame)
        if !same(want, got) { throw Mismatch("\nexpected \(want.text)\ngot      \(got.text)") }
    }

    private func end(_ status: Int32) throws {
        ended = true
        while let frame = try inbox.take() { open[frame.request, default: []].append(frame) }
        if let frame = open.values.joined().first { throw Mismatch("not expected: \(try described(frame).text)") }
        let exit = transport.account(patience: .seconds(60))
        if exit.status != status { throw Mismatch("exit status \(status) was expected: \(exit)") }
    }

    private func finish() throws {
        if ended { return }
        let last: UInt32 = 0x7fff_ffff
        _ = transport.write(messageFrame(last, "SHUTDOWN", flags: Flag.critical).bytes)
        let answer = try described(try next(last))
        if answer["name"] != "OK" { throw Mismatch(answer.text) }
        try end(0)
    }
}
