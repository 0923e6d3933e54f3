import Foundation
import XCTest

@testable import Lean

private enum Kind: String, Codable, CaseIterable { case bug, feature }

private struct Issue: Codable, Equatable, Limited {
    let kind: Kind
    let title: String
    let weight: Int?
    let notes: [String: Double]
    static let limits = [Limit.length("title", max: 24), .range("weight", 1...5), .length("notes", max: 3)]
}

private struct Tree: Codable, Equatable {
    let value: Bool
    let children: [Tree]
}

private struct Everything: Codable, Equatable {
    let at: Date
    let data: Data
    let id: UUID
    let link: URL
    let small: UInt8
    let price: Decimal
    let both: [Kind?]
    let inner: Tree
    let again: Tree?
}

private struct Wrapped: Codable, Equatable {
    let value: Int
    init(_ value: Int) { self.value = value }
    init(from decoder: any Decoder) throws { value = try decoder.singleValueContainer().decode(Int.self) }
    func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(value)
    }
}

private enum Opaque: String, Codable { case a }

private enum Shape: Codable { case circle(Double), square(Double) }

private struct Even: Described, Equatable {
    let value: Int
    init(_ value: Int) { self.value = value }
    init(from decoder: any Decoder) throws { value = try decoder.singleValueContainer().decode(Int.self) * 1 }
    static let jsonSchema: JSON = ["type": "integer", "multipleOf": 2]
    static let example = Even(2)
}

/// The JSON Schema of a type, and that the engine takes it.
final class SchemaTests: XCTestCase {
    private func schema(_ type: any Decodable.Type) throws -> String { try SchemaProbe.schema(of: type).text }

    func testStructsEnumsBoundsAndWhatMayBeLeftOut() throws {
        XCTAssertEqual(
            try schema(Issue.self),
            ##"{"$ref":"#/$defs/Issue","$defs":{"Issue":{"type":"object","properties":{"kind":{"enum":["bug","feature"]},"##
                + #""title":{"type":"string","maxLength":24},"weight":{"type":"integer","minimum":1,"maximum":5},"#
                + #""notes":{"type":"object","additionalProperties":{"type":"number"},"maxProperties":3}},"#
                + #""required":["kind","title","notes"],"additionalProperties":false}}}"#)
    }

    func testALimitMakesNothingWider() throws {
        struct Narrow: Decodable, Limited {
            let small: UInt8
            let kind: Kind
            static let limits = [Limit.range("small", 10...1000), .choice("kind", "feature", "other")]
        }
        let made = try SchemaProbe.schema(of: Narrow.self)["$defs"]?["Narrow"]?["properties"]
        XCTAssertEqual(made?.text, #"{"small":{"type":"integer","minimum":10,"maximum":255},"kind":{"enum":["feature"]}}"#)
    }

    func testATypeInsideItselfIsAReference() throws {
        XCTAssertEqual(
            try schema(Tree.self),
            ##"{"$ref":"#/$defs/Tree","$defs":{"Tree":{"type":"object","properties":{"value":{"type":"boolean"},"##
                + ##""children":{"type":"array","items":{"$ref":"#/$defs/Tree"}}},"required":["value","children"],"additionalProperties":false}}}"##)
    }

    func testScalars() throws {
        XCTAssertEqual(try schema(Int8.self), #"{"type":"integer","minimum":-128,"maximum":127}"#)
        XCTAssertEqual(try schema(Double.self), #"{"type":"number"}"#)
        XCTAssertEqual(try schema(Bool?.self), #"{"anyOf":[{"type":"boolean"},{"type":"null"}]}"#)
        XCTAssertEqual(try schema([String].self), #"{"type":"array","items":{"type":"string"}}"#)
        XCTAssertEqual(try schema(JSON.self), "{}")
    }

    func testWhatDoesNotShowItsJSONIsRefusedByItsPlace() {
        struct Around: Decodable { let value: Opaque }
        struct Keys: Decodable { let value: [Int: String] }
        struct Wrong: Limited {
            let value: Int
            static let limits = [Limit.minimum("valu", 1)]
        }
        struct Both: Described, Limited {
            let value: Int
            static let jsonSchema: JSON = ["type": "object"]
            static let example = Both(value: 1)
            static let limits = [Limit.minimum("value", 1)]
        }
        struct Empty: Limited {
            let value: UInt8
            static let limits = [Limit.minimum("value", 1000)]
        }
        struct Twice: Limited {
            let value: UUID
            static let limits = [Limit.format("value", "email")]
        }
        let types: [(any Decodable.Type, String)] = [
            (Around.self, "/value"), (Keys.self, "/value"), (Shape.self, "Described"), (Wrong.self, "valu"), (Both.self, "jsonSchema"),
            (Empty.self, "/value"), (Twice.self, "format"),
        ]
        for (type, words) in types {
            XCTAssertThrowsError(try schema(type)) { error in
                XCTAssertEqual((error as? LeanError)?.code, .type)
                XCTAssertTrue("\(error)".contains(words), "\(error)")
            }
        }
    }

    func testDatesAreRFC3339() {
        for (text, seconds) in [("1970-01-01T00:00:00Z", 0), ("2024-02-29T23:59:58.5+02:00", 1_709_243_998.5), ("1969-12-31T23:00:00Z", -3600)] as [(String, Double)] {
            XCTAssertEqual(Dates.date(text)?.timeIntervalSince1970, seconds, text)
            XCTAssertEqual(Dates.text(Date(timeIntervalSince1970: seconds)).flatMap(Dates.date)?.timeIntervalSince1970, seconds, text)
        }
        XCTAssertEqual(Dates.text(Date(timeIntervalSince1970: 951_782_400)), "2000-02-29T00:00:00Z")
        XCTAssertNil(Dates.date("2024-02-29"))
    }

    func testTheEngineTakesThemAndWhatItMakesIsReadBack() async throws {
        try await withModels { model in
            let issue = Issue(kind: .feature, title: "t", weight: nil, notes: ["a": 0.5])
            let made = try await model.generate(Issue.self, .json(issue))
            XCTAssertEqual(made, issue)
            let tree = Tree(value: true, children: [Tree(value: false, children: [])])
            let grown = try await model.generate(Tree.self, .json(tree))
            XCTAssertEqual(grown, tree)
            let all = Everything(
                at: Date(timeIntervalSince1970: 1_700_000_000.25), data: Data([1, 2, 255]), id: UUID(), link: URL(string: "https://lean.example/a?b=c")!,
                small: 255, price: Decimal(string: "12.5")!, both: [.bug, nil], inner: tree, again: tree)
            let back = try await model.generate(Everything.self, .json(all))
            XCTAssertEqual(back, all)
            let wrapped = try await model.generate([Wrapped].self, "[1,2]")
            XCTAssertEqual(wrapped, [Wrapped(1), Wrapped(2)])
            let even = try await model.generate([Even].self, "[2,4]")
            XCTAssertEqual(even, [Even(2), Even(4)])
        }
    }
}
