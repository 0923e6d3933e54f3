import Foundation
import XCTest

@testable import Lean

private struct Author: Codable, Limited {
    let name: String
    let age: Int
    static let limits = [Limit.length("name", min: 1, max: 12), .range("age", 0...150)]
}

private enum Kind: String, Codable, CaseIterable { case bug, feature }

private struct Ticket: Codable, Limited {
    let kind: Kind
    let author: Author
    let score: Double
    let reply: Author?
    static let limits = [Limit.range("score", 0...1)]
}

/// The same client on weights: a tiny random model of the fixtures.
final class ModelTests: XCTestCase {
    private let tiny = "\(Repository.root)/tests/fixtures/models/llama-hd64-tied.s1.q4_1.gguf"

    func testEveryValueIsOfItsType() async throws {
        try await withModels(tiny) { model in
            XCTAssertEqual(model.info["architecture"], "llama")
            for seed in 0..<3 as Range<UInt64> {
                let output = try await model.run(Ticket.self, "A ticket: ", options: Options(maxTokens: 160, temperature: 1.5, seed: seed, confidence: true))
                let ticket = output.value
                for author in [ticket.author, ticket.reply].compactMap({ $0 }) {
                    XCTAssertTrue((1...12).contains(author.name.unicodeScalars.count) && (0...150).contains(author.age), output.text)
                }
                XCTAssertTrue((0...1).contains(ticket.score), output.text)
                let kind = output.confidence?.leaves.first { $0.path == "/kind" }
                XCTAssertEqual(kind?.alternatives?.count, 2)
            }
            let stats = try await model.stats()
            XCTAssertGreaterThan(stats["memory"]?["weight_bytes"]?.integer(Int.self) ?? 0, 0)
        }
    }

    func testPartialValuesParseAndKeepWhatIsFinal() async throws {
        try await withModels(tiny) { model in
            let stream = try await model.stream(Ticket.self, "A ticket: ", options: Options(maxTokens: 120, temperature: 1, seed: 1, partials: true, candidates: 3))
            var candidates = 0
            var partials: [(json: String, final: Int)] = []
            for try await event in stream {
                if case .partial(let json, _, let final) = event { partials.append((json, final)) }
                if case .candidates(let all) = event {
                    candidates += 1
                    XCTAssertTrue((3...4).contains(all.count) && all.contains { $0.allowed }, "\(all)")
                }
            }
            XCTAssertGreaterThan(candidates, 0)
            let text = try await stream.result().text
            XCTAssertEqual(partials.last?.json, text)
            for partial in partials {
                XCTAssertNoThrow(try JSON(parsing: partial.json))
                XCTAssertTrue(text.utf8.starts(with: partial.json.utf8.prefix(partial.final)))
            }
        }
    }

    func testAdaptersAndToolsAndRestorePolicies() async throws {
        try await withModels(tiny) { model in
            let adapter = try await model.loadAdapter("\(Repository.root)/tests/fixtures/adapters/llama-all-r4")
            let session = try await model.session()
            try await session.append("A ticket")
            let before = try await session.fork().generate(String.self, options: Options(maxTokens: 8))
            try await session.setAdapters([(adapter, 1)])
            let after = try await session.fork().generate(String.self, options: Options(maxTokens: 8))
            XCTAssertNotEqual(before, after)
            let weather: JSON = [
                "type": "function",
                "function": [
                    "name": "weather", "description": "The weather of a city",
                    "parameters": ["type": "object", "properties": ["unit": ["enum": ["C", "F"]]], "required": ["unit"], "additionalProperties": false],
                ],
            ]
            let reply = try await model.generate(.tools([weather], choice: .required, single: true, syntax: "hermes"), "Weather?", options: Options(maxTokens: 200))
            XCTAssertEqual(reply.calls.first?.name, "weather")
            XCTAssertNotNil(reply.calls.first?.arguments["unit"])

            await fails(.invalidArgument, "rough") { try await model.engine.load(tiny, precision: "rough") }
            let other = try await model.engine.load(tiny, kv: "q8_0", precision: "exact")
            let state = try await model.session()
            try await state.append("A ticket")
            let data = try await state.checkpoint().data()
            await fails(.incompatible) { try await other.restore(data) }
            for (policy, what) in [(Checkpoint.Policy.convert, "converted"), (.reprefill, "reprefilled")] {
                let restored = try await other.restore(data, policy: policy)
                XCTAssertEqual(restored.restored, what)
            }
        }
    }
}
