import Foundation
import XCTest

@testable import Lean

/// The golden vectors of tests/wire, and the readers on arbitrary bytes.
final class WireTests: XCTestCase {
    private func document(_ name: String) throws -> JSON {
        try JSON(parsing: String(contentsOfFile: "\(Repository.wire)/\(name).json", encoding: .utf8))
    }

    /// A value as the twins write it: integers beyond 2^53 are strings.
    private func readable(_ value: JSON) -> JSON {
        if let number = value.integer(UInt64.self), number >= 1 << 53 { return .string(String(number)) }
        if let number = value.integer(Int64.self), number <= -(1 << 53) { return .string(String(number)) }
        if case .array(let elements) = value { return .array(elements.map(readable)) }
        return value
    }

    private func unreadable(_ type: String, _ value: JSON) -> JSON {
        if case .array(let elements) = value { return .array(elements.map { unreadable(type, $0) }) }
        if let text = value.string, type.contains("64") { return .number(text) }
        return value
    }

    private func described(_ frame: Frame) throws -> JSON {
        let kind = Wire.byKind[frame.kind]
        var told: [JSON.Member] = [
            .init("request", JSON(frame.request)), .init("kind", JSON(frame.kind)), .init("name", kind.map { .string($0.name) } ?? .null),
            .init("flags", JSON(frame.flags)),
        ]
        if let kind {
            let head = try decodeHead(kind, frame.head[...])
            told.append(.init("head", .object(kind.fields.map { .init($0.name, readable(head.fields[$0.name] ?? .null)) })))
        } else {
            told.append(.init("head_hex", .string(hex(frame.head))))
        }
        let text = String(validating: frame.tail, as: UTF8.self)
        told.append(text.map { .init("tail", .string($0)) } ?? .init("tail_hex", .string(hex(frame.tail))))
        return .object(told)
    }

    func testVectors() throws {
        let names = try FileManager.default.contentsOfDirectory(atPath: Repository.wire).filter { $0.hasSuffix(".bin") }.map { String($0.dropLast(4)) }
        XCTAssertGreaterThan(names.count, 40)
        for name in names.sorted() {
            let data = try [UInt8](Data(contentsOf: URL(fileURLWithPath: "\(Repository.wire)/\(name).bin")))
            let twin = try document(name)
            let magic = twin["magic"]?.bool == true
            for step in [max(1, data.count), 7, 1] {
                var reader = FrameReader(maxFrame: twin["max_frame"]?.integer() ?? 0, expectMagic: magic)
                var frames: [JSON] = []
                var failure: JSON = .null
                do {
                    for at in stride(from: 0, to: data.count, by: step) {
                        reader.push(Array(data[at..<min(data.count, at + step)]))
                        while let frame = try reader.next() { frames.append(try described(frame)) }
                    }
                    try reader.finish()
                } catch let error as WireError {
                    failure = .string(error.kind.rawValue)
                }
                XCTAssertTrue(same(twin["frames"] ?? .null, .array(frames)), "\(name): \(JSON.array(frames).text)")
                XCTAssertEqual(twin["error"], failure, name)
            }
            if twin["error"] == .null, name != "hello_newer" {
                let written = (twin["frames"]?.array ?? []).flatMap(written)
                XCTAssertEqual(magic ? Array(data.dropFirst(8)) : data, written, name)
            }
        }
    }

    /// A twin's frame, as this client writes it.
    private func written(_ frame: JSON) -> [UInt8] {
        let kind = frame["name"]?.string.flatMap { Wire.byName[$0] }
        var head = unhex(frame["head_hex"]?.string ?? "") ?? []
        if let kind {
            let fields = kind.fields.map { ($0.name, unreadable($0.type, frame["head"]?[$0.name] ?? .null)) }
            head = encodeHead(kind, Dictionary(uniqueKeysWithValues: fields))
        }
        let tail = frame["tail_hex"]?.string.flatMap(unhex) ?? Array((frame["tail"]?.string ?? "").utf8)
        return Frame(
            request: frame["request"]?.integer() ?? 0, kind: frame["kind"]?.integer() ?? 0, flags: frame["flags"]?.integer() ?? 0, head: head, tail: tail
        ).bytes
    }

    func testTheMessageTableIsTheProtocols() throws {
        let theirs = (try document("messages").array ?? []).map { message in
            let fields = (message["fields"]?.array ?? []).map { "\($0["name"]?.string ?? "") \($0["type"]?.string ?? "")" }
            return "\(message["name"]?.string ?? "") \(message["kind"]?.integer(UInt16.self) ?? 0): \(fields.joined(separator: ", "))"
        }
        let ours = Wire.kinds.map { kind in "\(kind.name) \(kind.kind): \(kind.fields.map { "\($0.name) \($0.type)" }.joined(separator: ", "))" }
        XCTAssertEqual(theirs, ours)
    }

    func testPrimitivesArePostcards() throws {
        for one in try document("primitives").array ?? [] {
            let type = one["type"]?.string ?? ""
            let raw = unhex(one["hex"]?.string ?? "") ?? []
            var reader = HeadReader(raw[...])
            if one["error"] != nil, one["error"] != .null, one["error"] != false {
                XCTAssertThrowsError(try { _ = try reader.value(type); if reader.left > 0 { throw WireError.head("") } }(), one.text)
                continue
            }
            let value = try reader.value(type)
            XCTAssertTrue(same(one["value"] ?? .null, readable(value)), "\(one.text): \(value.text)")
            var writer = HeadWriter()
            writer.put(type, value)
            XCTAssertEqual(writer.bytes, raw, one.text)
        }
    }

    func testAnyBytesGiveFramesOrAnErrorInBoundedMemory() {
        var chance = SystemRandomNumberGenerator()
        for round in 0..<100 {
            var reader = FrameReader(maxFrame: 4096, expectMagic: false)
            let limit: UInt8 = round % 2 == 1 ? 8 : 255
            do {
                for _ in 0..<20 {
                    reader.push((0..<300).map { _ in UInt8.random(in: 0...3, using: &chance) == 0 ? .random(in: 0..<limit, using: &chance) : 0 })
                    while let frame = try reader.next() {
                        if let kind = Wire.byKind[frame.kind] { _ = try decodeHead(kind, frame.head[...]) }
                    }
                    XCTAssertLessThan(reader.buffered, 4096 + 16)
                }
            } catch {
                XCTAssertTrue(error is WireError, "\(error)")
            }
        }
    }

    func testWhatATypeHoldsOfJSONKeepsOrderAndDigits() throws {
        struct Around: Codable, Equatable {
            let any: JSON
            let all: [JSON]
            let named: [String: JSON]
            let none: JSON?
            let price: Decimal
        }
        let text = #"{"any":{"z":1.50,"a":[12345678901234567890123,{"y":0,"b":1e400}]},"all":[{"q":1,"p":2}],"named":{"k":{"d":1,"c":2}},"price":0.1}"#
        let around = try JSON(parsing: text).decoded(as: Around.self)
        XCTAssertEqual(try JSON(encoding: around).text, text)
        XCTAssertNil(around.none)
    }

    func testWhatDoesNotDecodeOrEncodeIsAnErrorWithItsPlace() throws {
        struct Inner: Codable { let n: UInt8 }
        struct Outer: Codable { let list: [Inner] }
        struct Dated: Codable { let at: [Date] }
        struct Priced: Codable { let price: Decimal }
        let wrong: [(String, LeanError.Code, String, () throws -> Any)] = [
            ("n", .type, "/list/1/n", { try JSON(parsing: #"{"list":[{"n":1},{"n":256}]}"#).decoded(as: Outer.self) }),
            ("left out", .type, "/list/0", { try JSON(parsing: #"{"list":[{}]}"#).decoded(as: Outer.self) }),
            ("no date", .type, "/at/0", { try JSON(parsing: #"{"at":["x"]}"#).decoded(as: Dated.self) }),
            ("never", .invalidArgument, "/at/1", { try JSON(encoding: Dated(at: [.init(timeIntervalSince1970: 0), Date(timeIntervalSince1970: .infinity)])) }),
            ("NaN", .invalidArgument, "/price", { try JSON(encoding: Priced(price: .nan)) }),
            ("infinity", .invalidArgument, "/1", { try JSON(encoding: [1, Double.infinity]) }),
        ]
        for (name, code, at, body) in wrong {
            XCTAssertThrowsError(try body(), name) { error in
                XCTAssertEqual((error as? LeanError)?.code, code, "\(name): \(error)")
                XCTAssertEqual((error as? LeanError)?.details["at"], .string(at), "\(name): \(error)")
            }
        }
        let many = Array(0..<50_000)
        XCTAssertEqual(try JSON(encoding: many).decoded(as: [Int].self), many)
    }

    func testJSONIsReadAndWrittenAsItStands() throws {
        for text in [#"{"b":1,"a":[true,false,null,"é\n\"\\ \u0001",-0.5e-3,18446744073709551615]}"#, "[]", "{}", #""""#] {
            XCTAssertEqual(try JSON(parsing: text).text, text)
        }
        XCTAssertEqual(try JSON(parsing: #""\ud83d\ude00""#), "😀")
        let nested = String(repeating: "[", count: 100_000)
        for text in ["", "nul", "01", "1.", "[1,]", #"{"a" 1}"#, #""\ud800""#, #""\u+12f""#, #""\u 12f""#, #""\x""#, "\"\u{1}\"", "1 2", nested] {
            XCTAssertThrowsError(try JSON(parsing: text), String(text.prefix(20)))
        }
    }
}
