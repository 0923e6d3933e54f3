/// Bytes that do not decode as what they should be; fatal for the connection.
struct WireError: Error {
    enum Kind: String { case badMagic = "bad_magic", frameTooLarge = "frame_too_large", badHeader = "bad_header", truncated, badHead = "bad_head" }

    let kind: Kind
    let reason: String

    static func head(_ reason: String) -> WireError { WireError(kind: .badHead, reason: reason) }
}

/// Reads the postcard subset of message heads (bridge/PROTOCOL.md).
struct HeadReader {
    let bytes: ArraySlice<UInt8>
    private(set) var at: Int

    init(_ bytes: ArraySlice<UInt8>) {
        self.bytes = bytes
        at = bytes.startIndex
    }

    var left: Int { bytes.endIndex - at }

    private var place: Int { at - bytes.startIndex }

    private mutating func take(_ count: UInt64, _ what: String) throws -> ArraySlice<UInt8> {
        guard count <= UInt64(left) else { throw WireError.head("the head ends inside \(what) at byte \(place)") }
        at += Int(count)
        return bytes[at - Int(count)..<at]
    }

    private mutating func byte(_ what: String) throws -> UInt8 { try take(1, what).first ?? 0 }

    private mutating func varint(_ bits: UInt64) throws -> UInt64 {
        var value: UInt64 = 0
        var shift: UInt64 = 0
        while true {
            let next = try byte("a number")
            let group = UInt64(next & 0x7f)
            if shift >= bits || (shift + 7 > bits && group >> (bits - shift) != 0) {
                throw WireError.head("a number of more than \(bits) bits at byte \(place)")
            }
            value |= group << shift
            if next < 0x80 {
                if next == 0, shift > 0 { throw WireError.head("an overlong number at byte \(place)") }
                return value
            }
            shift += 7
        }
    }

    private mutating func flag(_ what: String) throws -> Bool {
        let next = try byte(what)
        guard next <= 1 else { throw WireError.head("\(what) of \(next) at byte \(place)") }
        return next == 1
    }

    private mutating func little(_ count: UInt64) throws -> UInt64 {
        try take(count, "a float").reversed().reduce(0) { $0 << 8 | UInt64($1) }
    }

    mutating func value(_ type: String) throws -> JSON {
        if let inner = innerType(type, "option<") { return try flag("an option") ? value(inner) : .null }
        if let inner = innerType(type, "seq<") {
            let count = try varint(64)
            // Every element takes at least one byte, so a count beyond the rest of the head is a lie.
            guard count <= UInt64(left) else { throw WireError.head("a sequence of \(count) in \(left) bytes at byte \(place)") }
            return .array(try (0..<count).map { _ in try value(inner) })
        }
        switch type {
        case "bool": return .bool(try flag("a bool"))
        case "u32": return JSON(try varint(32))
        case "u64": return JSON(try varint(64))
        case "i64":
            let raw = try varint(64)
            return JSON(Int64(bitPattern: raw >> 1) ^ -Int64(bitPattern: raw & 1))
        case "f32": return .number("\(Double(Float(bitPattern: UInt32(try little(4)))))")
        case "f64": return .number("\(Double(bitPattern: try little(8)))")
        case "bytes": return .string(hex(try take(try varint(64), "bytes")))
        default:
            let raw = Array(try take(try varint(64), "a string"))
            guard let text = String(validating: raw, as: UTF8.self) else { throw WireError.head("a string that is not UTF-8 before byte \(place)") }
            return .string(text)
        }
    }
}

/// Writes what `HeadReader` reads; an absent value is an absent option, false, zero, or empty.
struct HeadWriter {
    private(set) var bytes: [UInt8] = []

    private mutating func varint(_ given: UInt64) {
        var value = given
        while value >= 0x80 {
            bytes.append(UInt8(value & 0x7f) | 0x80)
            value >>= 7
        }
        bytes.append(UInt8(value))
    }

    private mutating func little(_ value: UInt64, _ count: Int) {
        for i in 0..<count { bytes.append(UInt8(value >> (8 * UInt64(i)) & 0xff)) }
    }

    private mutating func blob(_ raw: [UInt8]) {
        varint(UInt64(raw.count))
        bytes += raw
    }

    mutating func put(_ type: String, _ value: JSON?) {
        if let inner = innerType(type, "option<") {
            let given = value ?? .null
            bytes.append(given == .null ? 0 : 1)
            if given != .null { put(inner, given) }
            return
        }
        if let inner = innerType(type, "seq<") {
            let items = value?.array ?? []
            varint(UInt64(items.count))
            for item in items { put(inner, item) }
            return
        }
        switch type {
        case "bool": bytes.append(value?.bool == true ? 1 : 0)
        case "u32": varint(UInt64(value?.integer(UInt32.self) ?? 0))
        case "u64": varint(value?.integer(UInt64.self) ?? 0)
        case "i64":
            let given = value?.integer(Int64.self) ?? 0
            varint(UInt64(bitPattern: given << 1 ^ given >> 63))
        case "f32": little(UInt64(Float(value?.double ?? 0).bitPattern), 4)
        case "f64": little((value?.double ?? 0).bitPattern, 8)
        case "bytes": blob(unhex(value?.string ?? "") ?? [])
        default: blob(Array((value?.string ?? "").utf8))
        }
    }
}

private func innerType(_ type: String, _ prefix: String) -> String? {
    type.hasPrefix(prefix) ? String(type.dropFirst(prefix.count).dropLast()) : nil
}

func hex(_ bytes: some Sequence<UInt8>) -> String {
    bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
}

func unhex(_ text: String) -> [UInt8]? {
    let digits = Array(text.utf8)
    guard digits.count % 2 == 0 else { return nil }
    var bytes: [UInt8] = []
    for i in stride(from: 0, to: digits.count, by: 2) {
        guard let byte = UInt8(String(decoding: digits[i..<i + 2], as: UTF8.self), radix: 16) else { return nil }
        bytes.append(byte)
    }
    return bytes
}

func encodeHead(_ kind: Wire.Kind, _ fields: [String: JSON]) -> [UInt8] {
    var writer = HeadWriter()
    for field in kind.fields { writer.put(field.type, fields[field.name]) }
    return writer.bytes
}

/// Decodes a head of a known kind. HELLO may be longer than known here: newer bridges append fields.
func decodeHead(_ kind: Wire.Kind, _ head: ArraySlice<UInt8>) throws -> Head {
    var reader = HeadReader(head)
    var decoded = Head()
    for field in kind.fields { decoded.fields[field.name] = try reader.value(field.type) }
    if reader.left > 0, kind.name != "HELLO" { throw WireError.head("\(kind.name): \(reader.left) bytes too many") }
    return decoded
}
