/// Any JSON. Objects keep the order of their members, which is the order in which they are generated, and numbers the digits
/// that they were written with.
public enum JSON: Sendable, Hashable {
    case null
    case bool(Bool)
    /// A number, by its text.
    case number(String)
    case string(String)
    case array([JSON])
    case object([Member])

    /// A member of an object.
    public struct Member: Sendable, Hashable {
        public let name: String
        public let value: JSON

        public init(_ name: String, _ value: JSON) {
            self.name = name
            self.value = value
        }
    }

    /// A whole number.
    public init(_ value: some BinaryInteger) { self = .number(String(value)) }

    /// A number; nil for what JSON has no number for (NaN and the infinities).
    public init?(_ value: Double) {
        guard value.isFinite else { return nil }
        self = .number(value == value.rounded() && abs(value) < 1e15 ? String(Int64(value)) : String(value))
    }

    /// The member of an object with this name.
    public subscript(name: String) -> JSON? {
        guard case .object(let members) = self else { return nil }
        return members.last { $0.name == name }?.value
    }

    /// Its text, if it is a string.
    public var string: String? { if case .string(let text) = self { text } else { nil } }

    /// Its value, if it is a whole number of this type's range.
    public func integer<I: FixedWidthInteger>(_ type: I.Type = I.self) -> I? {
        guard case .number(let text) = self else { return nil }
        return I(text) ?? Double(text).flatMap { I(exactly: $0) }
    }

    /// Its value, if it is a number.
    public var double: Double? { if case .number(let text) = self { Double(text) } else { nil } }

    /// Its value, if it is true or false.
    public var bool: Bool? { if case .bool(let value) = self { value } else { nil } }

    /// Its elements, if it is an array.
    public var array: [JSON]? { if case .array(let elements) = self { elements } else { nil } }

    /// Its members, if it is an object.
    public var members: [Member]? { if case .object(let members) = self { members } else { nil } }

    /// Compact JSON.
    public var text: String { String(decoding: bytes, as: UTF8.self) }

    var bytes: [UInt8] {
        var out: [UInt8] = []
        write(to: &out)
        return out
    }

    private func write(to out: inout [UInt8]) {
        switch self {
        case .null: out += "null".utf8
        case .bool(let value): out += (value ? "true" : "false").utf8
        case .number(let text): out += text.utf8
        case .string(let text): JSON.quote(text, to: &out)
        case .array(let elements):
            out.append(UInt8(ascii: "["))
            for (i, element) in elements.enumerated() {
                if i > 0 { out.append(UInt8(ascii: ",")) }
                element.write(to: &out)
            }
            out.append(UInt8(ascii: "]"))
        case .object(let members):
            out.append(UInt8(ascii: "{"))
            for (i, member) in members.enumerated() {
                if i > 0 { out.append(UInt8(ascii: ",")) }
                JSON.quote(member.name, to: &out)
                out.append(UInt8(ascii: ":"))
                member.value.write(to: &out)
            }
            out.append(UInt8(ascii: "}"))
        }
    }

    private static func quote(_ text: String, to out: inout [UInt8]) {
        let digits = Array("0123456789abcdef".utf8)
        out.append(UInt8(ascii: "\""))
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "\""), UInt8(ascii: "\\"): out += [UInt8(ascii: "\\"), byte]
            case UInt8(ascii: "\n"): out += "\\n".utf8
            case 0..<0x20: out += "\\u00".utf8 + [digits[Int(byte >> 4)], digits[Int(byte & 15)]]
            default: out.append(byte)
            }
        }
        out.append(UInt8(ascii: "\""))
    }
}

extension JSON: ExpressibleByStringLiteral, ExpressibleByIntegerLiteral, ExpressibleByBooleanLiteral, ExpressibleByNilLiteral,
    ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral
{
    public init(stringLiteral value: String) { self = .string(value) }
    public init(integerLiteral value: Int64) { self = .number(String(value)) }
    public init(booleanLiteral value: Bool) { self = .bool(value) }
    public init(nilLiteral: ()) { self = .null }
    public init(arrayLiteral elements: JSON...) { self = .array(elements) }
    public typealias Key = String
    public typealias Value = JSON
    public init(dictionaryLiteral elements: (String, JSON)...) { self = .object(elements.map { Member($0.0, $0.1) }) }
}

extension JSON: Codable {
    struct Name: CodingKey {
        let stringValue: String
        var intValue: Int? { nil }
        init(_ name: String) { stringValue = name }
        init?(stringValue: String) { self.stringValue = stringValue }
        init?(intValue: Int) { nil }
    }

    /// From any decoder; the order of members and the digits of numbers are then the decoder's, which `JSON.decoded` keeps, and Foundation's
    /// does not.
    public init(from decoder: any Decoder) throws {
        if let tree = decoder as? TreeDecoder {
            self = tree.json
            return
        }
        if let object = try? decoder.container(keyedBy: Name.self) {
            self = .object(try object.allKeys.map { Member($0.stringValue, try object.decode(JSON.self, forKey: $0)) })
            return
        }
        if var array = try? decoder.unkeyedContainer() {
            var elements: [JSON] = []
            while !array.isAtEnd { elements.append(try array.decode(JSON.self)) }
            self = .array(elements)
            return
        }
        let one = try decoder.singleValueContainer()
        if one.decodeNil() {
            self = .null
        } else if let value = try? one.decode(Bool.self) {
            self = .bool(value)
        } else if let value = try? one.decode(Int64.self) {
            self = JSON(value)
        } else if let value = try? one.decode(UInt64.self) {
            self = JSON(value)
        } else if let value = try? one.decode(Double.self), let number = JSON(value) {
            self = number
        } else {
            self = .string(try one.decode(String.self))
        }
    }

    public func encode(to encoder: any Encoder) throws {
        switch self {
        case .object(let members):
            var container = encoder.container(keyedBy: Name.self)
            for member in members { try container.encode(member.value, forKey: Name(member.name)) }
        case .array(let elements):
            var container = encoder.unkeyedContainer()
            for element in elements { try container.encode(element) }
        default:
            var container = encoder.singleValueContainer()
            switch self {
            case .bool(let value): try container.encode(value)
            case .string(let text): try container.encode(text)
            case .number(let text):
                if let value = Int64(text) {
                    try container.encode(value)
                } else if let value = UInt64(text) {
                    try container.encode(value)
                } else {
                    try container.encode(Double(text) ?? 0)
                }
            default: try container.encodeNil()
            }
        }
    }
}
