extension JSON {
    /// Reads JSON text; a `LeanError` of the code `invalidArgument` says where it is none.
    public init(parsing text: some StringProtocol) throws { try self.init(parsing: Array(text.utf8)) }

    init(parsing bytes: [UInt8]) throws {
        var parser = JSONParser(bytes: bytes)
        self = try parser.document()
    }
}

/// Reads one JSON document. Nesting is bounded, so that no text exhausts the stack.
private struct JSONParser {
    static let depthMost = 512

    let bytes: [UInt8]
    var at = 0
    var depth = 0

    mutating func document() throws -> JSON {
        let value = try value()
        skipBlanks()
        if at < bytes.count { throw wrong("something follows the value") }
        return value
    }

    private func wrong(_ reason: String) -> LeanError { .invalid("no JSON, at byte \(at): \(reason)") }

    private mutating func skipBlanks() {
        while at < bytes.count, bytes[at] == 0x20 || bytes[at] == 0x0a || bytes[at] == 0x09 || bytes[at] == 0x0d { at += 1 }
    }

    /// The next byte that is no blank; 0 at the end.
    private mutating func peek() -> UInt8 {
        skipBlanks()
        return at < bytes.count ? bytes[at] : 0
    }

    private mutating func takes(_ byte: Unicode.Scalar) -> Bool {
        guard peek() == UInt8(ascii: byte), at < bytes.count else { return false }
        at += 1
        return true
    }

    private mutating func value() throws -> JSON {
        depth += 1
        defer { depth -= 1 }
        if depth > JSONParser.depthMost { throw wrong("it nests deeper than \(JSONParser.depthMost)") }
        switch peek() {
        case UInt8(ascii: "{"): return try object()
        case UInt8(ascii: "["): return try array()
        case UInt8(ascii: "\""): return .string(try string())
        case UInt8(ascii: "t"): return try word("true", .bool(true))
        case UInt8(ascii: "f"): return try word("false", .bool(false))
        case UInt8(ascii: "n"): return try word("null", .null)
        default: return try number()
        }
    }

    private mutating func word(_ word: String, _ value: JSON) throws -> JSON {
        guard bytes[at...].starts(with: word.utf8) else { throw wrong("a value is needed") }
        at += word.utf8.count
        return value
    }

    private mutating func object() throws -> JSON {
        at += 1
        var members: [JSON.Member] = []
        if takes("}") { return .object([]) }
        repeat {
            guard peek() == UInt8(ascii: "\"") else { throw wrong("a name is needed") }
            let name = try string()
            guard takes(":") else { throw wrong("a colon is needed") }
            members.append(JSON.Member(name, try value()))
        } while takes(",")
        guard takes("}") else { throw wrong("the object does not end") }
        return .object(members)
    }

    private mutating func array() throws -> JSON {
        at += 1
        var elements: [JSON] = []
        if takes("]") { return .array([]) }
        repeat { elements.append(try value()) } while takes(",")
        guard takes("]") else { throw wrong("the array does not end") }
        return .array(elements)
    }

    private mutating func digits() -> Int {
        let begin = at
        while at < bytes.count, (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(bytes[at]) { at += 1 }
        return at - begin
    }

    private mutating func skips(_ set: String) -> Bool {
        guard at < bytes.count, set.utf8.contains(bytes[at]) else { return false }
        at += 1
        return true
    }

    private mutating func number() throws -> JSON {
        let begin = at
        _ = skips("-")
        let whole = at
        let count = digits()
        guard count > 0, count == 1 || bytes[whole] != UInt8(ascii: "0") else { throw wrong("a value is needed") }
        if skips("."), digits() == 0 { throw wrong("digits are needed after the point") }
        if skips("eE") {
            _ = skips("+-")
            if digits() == 0 { throw wrong("digits are needed in the exponent") }
        }
        return .number(String(decoding: bytes[begin..<at], as: UTF8.self))
    }

    private mutating func string() throws -> String {
        at += 1
        var text: [UInt8] = []
        while true {
            guard at < bytes.count else { throw wrong("the string does not end") }
            let byte = bytes[at]
            at += 1
            switch byte {
            case UInt8(ascii: "\""):
                guard let whole = String(validating: text, as: UTF8.self) else { throw wrong("the string is not UTF-8") }
                return whole
            case UInt8(ascii: "\\"): try escape(into: &text)
            case 0..<0x20: throw wrong("a control character in a string")
            default: text.append(byte)
            }
        }
    }

    private mutating func escape(into text: inout [UInt8]) throws {
        guard at < bytes.count else { throw wrong("the string does not end") }
        let kind = bytes[at]
        at += 1
        switch kind {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): text.append(kind)
        case UInt8(ascii: "b"): text.append(8)
        case UInt8(ascii: "f"): text.append(12)
        case UInt8(ascii: "n"): text.append(10)
        case UInt8(ascii: "r"): text.append(13)
        case UInt8(ascii: "t"): text.append(9)
        case UInt8(ascii: "u"): try unicode(into: &text)
        default: throw wrong("no such escape")
        }
    }

    private mutating func unicode(into text: inout [UInt8]) throws {
        var code = try hex4()
        if (0xd800..<0xdc00).contains(code), bytes[at...].starts(with: "\\u".utf8) {
            at += 2
            let low = try hex4()
            guard (0xdc00..<0xe000).contains(low) else { throw wrong("half a surrogate pair") }
            code = 0x10000 + (code - 0xd800) << 10 + (low - 0xdc00)
        }
        guard let scalar = Unicode.Scalar(code) else { throw wrong("half a surrogate pair") }
        text += String(Character(scalar)).utf8
    }

    private mutating func hex4() throws -> UInt32 {
        guard at + 4 <= bytes.count else { throw wrong("four hexadecimal digits are needed") }
        var code: UInt32 = 0
        for byte in bytes[at..<at + 4] {
            let digit: UInt8
            switch byte {
            case UInt8(ascii: "0")...UInt8(ascii: "9"): digit = byte - UInt8(ascii: "0")
            case UInt8(ascii: "a")...UInt8(ascii: "f"): digit = byte - UInt8(ascii: "a") + 10
            case UInt8(ascii: "A")...UInt8(ascii: "F"): digit = byte - UInt8(ascii: "A") + 10
            default: throw wrong("four hexadecimal digits are needed")
            }
            code = code << 4 | UInt32(digit)
        }
        at += 4
        return code
    }
}

extension String {
    /// The text of UTF-8 bytes, or nil if they are none.
    init?(validating bytes: [UInt8], as _: UTF8.Type) {
        var decoder = UTF8()
        var iterator = bytes.makeIterator()
        var text = String.UnicodeScalarView()
        while true {
            switch decoder.decode(&iterator) {
            case .scalarValue(let scalar): text.append(scalar)
            case .emptyInput:
                self.init(text)
                return
            case .error: return nil
            }
        }
    }
}
