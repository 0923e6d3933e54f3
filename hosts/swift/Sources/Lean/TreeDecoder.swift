import Foundation

/// Decodes a value from a JSON tree: what it holds of `JSON` keeps the order of its members and the digits of its numbers. Of several
/// members of one name the last one counts.
struct TreeDecoder: Decoder {
    let json: JSON
    let codingPath: [any CodingKey]
    var userInfo: [CodingUserInfoKey: Any] { [:] }

    func container<Key: CodingKey>(keyedBy _: Key.Type) throws -> KeyedDecodingContainer<Key> {
        guard let members = json.members else { throw mismatch([String: JSON].self, "an object") }
        return KeyedDecodingContainer(TreeKeyed<Key>(members: members, codingPath: codingPath))
    }

    func unkeyedContainer() throws -> any UnkeyedDecodingContainer {
        guard let elements = json.array else { throw mismatch([JSON].self, "an array") }
        return TreeUnkeyed(elements: elements, codingPath: codingPath)
    }

    func singleValueContainer() -> any SingleValueDecodingContainer { TreeSingle(decoder: self) }

    func mismatch(_ type: Any.Type, _ wanted: String) -> DecodingError {
        let text = json.text
        let shown = text.count > 80 ? text.prefix(80) + ".." : text[...]
        return .typeMismatch(type, .init(codingPath: codingPath, debugDescription: "\(shown) is not \(wanted)"))
    }

    private func given<T>(_ value: T?, _ wanted: String) throws -> T {
        guard let value else { throw mismatch(T.self, wanted) }
        return value
    }

    /// What decodes itself otherwise than as JSON has it comes first.
    func value<T: Decodable>(_ type: T.Type) throws -> T {
        func special<V>(_ value: V?, _ wanted: String) throws -> T { try given(given(value, wanted) as? T, wanted) }
        switch type {
        case is JSON.Type: return try special(json, "JSON")
        case is Date.Type: return try special(json.string.flatMap(Dates.date), "a date")
        case is Data.Type: return try special(json.string.flatMap { Data(base64Encoded: $0) }, "base64")
        case is URL.Type: return try special(json.string.flatMap { URL(string: $0) }, "a URL")
        case is Decimal.Type: return try special(decimal, "a decimal number")
        default: return try T(from: self)
        }
    }

    private var decimal: Decimal? {
        guard case .number(let text) = json, let value = Decimal(string: text, locale: Locale(identifier: "en_US_POSIX")), !value.isNaN else { return nil }
        return value
    }

    func bool() throws -> Bool { try given(json.bool, "true or false") }
    func string() throws -> String { try given(json.string, "a string") }
    func integer<I: FixedWidthInteger>(_: I.Type) throws -> I { try given(json.integer(I.self), "a whole number that \(I.self) holds") }
    func double() throws -> Double { try given(json.double.flatMap { $0.isFinite ? $0 : nil }, "a number that Double holds") }
    func float() throws -> Float {
        guard case .number(let text) = json, let value = Float(text), value.isFinite else { throw mismatch(Float.self, "a number that Float holds") }
        return value
    }
}

/// A place in an array.
struct Place: CodingKey {
    let index: Int
    var stringValue: String { String(index) }
    var intValue: Int? { index }
    init(_ index: Int) { self.index = index }
    init?(stringValue: String) { nil }
    init?(intValue: Int) { index = intValue }
}

private struct TreeSingle: SingleValueDecodingContainer {
    let decoder: TreeDecoder
    var codingPath: [any CodingKey] { decoder.codingPath }

    func decodeNil() -> Bool { decoder.json == .null }
    func decode(_: Bool.Type) throws -> Bool { try decoder.bool() }
    func decode(_: String.Type) throws -> String { try decoder.string() }
    func decode(_: Double.Type) throws -> Double { try decoder.double() }
    func decode(_: Float.Type) throws -> Float { try decoder.float() }
    func decode(_ type: Int.Type) throws -> Int { try decoder.integer(type) }
    func decode(_ type: Int8.Type) throws -> Int8 { try decoder.integer(type) }
    func decode(_ type: Int16.Type) throws -> Int16 { try decoder.integer(type) }
    func decode(_ type: Int32.Type) throws -> Int32 { try decoder.integer(type) }
    func decode(_ type: Int64.Type) throws -> Int64 { try decoder.integer(type) }
    func decode(_ type: UInt.Type) throws -> UInt { try decoder.integer(type) }
    func decode(_ type: UInt8.Type) throws -> UInt8 { try decoder.integer(type) }
    func decode(_ type: UInt16.Type) throws -> UInt16 { try decoder.integer(type) }
    func decode(_ type: UInt32.Type) throws -> UInt32 { try decoder.integer(type) }
    func decode(_ type: UInt64.Type) throws -> UInt64 { try decoder.integer(type) }
    func decode<T: Decodable>(_ type: T.Type) throws -> T { try decoder.value(type) }
}

private struct TreeKeyed<Key: CodingKey>: KeyedDecodingContainerProtocol {
    let codingPath: [any CodingKey]
    private let names: [String]
    private let values: [String: JSON]

    init(members: [JSON.Member], codingPath: [any CodingKey]) {
        self.codingPath = codingPath
        var (names, values) = ([String](), [String: JSON]())
        for member in members where values.updateValue(member.value, forKey: member.name) == nil { names.append(member.name) }
        (self.names, self.values) = (names, values)
    }

    var allKeys: [Key] { names.compactMap { Key(stringValue: $0) } }

    func contains(_ key: Key) -> Bool { values[key.stringValue] != nil }

    private func inside(_ key: any CodingKey) throws -> TreeDecoder {
        guard let value = values[key.stringValue] else {
            throw DecodingError.keyNotFound(key, .init(codingPath: codingPath, debugDescription: "there is no member \(key.stringValue)"))
        }
        return TreeDecoder(json: value, codingPath: codingPath + [key])
    }

    func decodeNil(forKey key: Key) throws -> Bool { try inside(key).json == .null }
    func decode(_: Bool.Type, forKey key: Key) throws -> Bool { try inside(key).bool() }
    func decode(_: String.Type, forKey key: Key) throws -> String { try inside(key).string() }
    func decode(_: Double.Type, forKey key: Key) throws -> Double { try inside(key).double() }
    func decode(_: Float.Type, forKey key: Key) throws -> Float { try inside(key).float() }
    func decode(_ type: Int.Type, forKey key: Key) throws -> Int { try inside(key).integer(type) }
    func decode(_ type: Int8.Type, forKey key: Key) throws -> Int8 { try inside(key).integer(type) }
    func decode(_ type: Int16.Type, forKey key: Key) throws -> Int16 { try inside(key).integer(type) }
    func decode(_ type: Int32.Type, forKey key: Key) throws -> Int32 { try inside(key).integer(type) }
    func decode(_ type: Int64.Type, forKey key: Key) throws -> Int64 { try inside(key).integer(type) }
    func decode(_ type: UInt.Type, forKey key: Key) throws -> UInt { try inside(key).integer(type) }
    func decode(_ type: UInt8.Type, forKey key: Key) throws -> UInt8 { try inside(key).integer(type) }
    func decode(_ type: UInt16.Type, forKey key: Key) throws -> UInt16 { try inside(key).integer(type) }
    func decode(_ type: UInt32.Type, forKey key: Key) throws -> UInt32 { try inside(key).integer(type) }
    func decode(_ type: UInt64.Type, forKey key: Key) throws -> UInt64 { try inside(key).integer(type) }
    func decode<T: Decodable>(_ type: T.Type, forKey key: Key) throws -> T { try inside(key).value(type) }

    func nestedContainer<Nested: CodingKey>(keyedBy type: Nested.Type, forKey key: Key) throws -> KeyedDecodingContainer<Nested> {
        try inside(key).container(keyedBy: type)
    }
    func nestedUnkeyedContainer(forKey key: Key) throws -> any UnkeyedDecodingContainer { try inside(key).unkeyedContainer() }
    func superDecoder() throws -> any Decoder { try inside(JSON.Name("super")) }
    func superDecoder(forKey key: Key) throws -> any Decoder { try inside(key) }
}

private struct TreeUnkeyed: UnkeyedDecodingContainer {
    let elements: [JSON]
    let codingPath: [any CodingKey]
    private(set) var currentIndex = 0

    init(elements: [JSON], codingPath: [any CodingKey]) {
        self.elements = elements
        self.codingPath = codingPath
    }

    var count: Int? { elements.count }
    var isAtEnd: Bool { currentIndex >= elements.count }

    private func current(_ type: Any.Type) throws -> TreeDecoder {
        let path = codingPath + [Place(currentIndex)]
        guard !isAtEnd else { throw DecodingError.valueNotFound(type, .init(codingPath: path, debugDescription: "the array has no more elements")) }
        return TreeDecoder(json: elements[currentIndex], codingPath: path)
    }

    /// Goes on only past what decodes.
    private mutating func next<T>(_ type: T.Type, _ decode: (TreeDecoder) throws -> T) throws -> T {
        let value = try decode(current(type))
        currentIndex += 1
        return value
    }

    mutating func decodeNil() throws -> Bool {
        guard try current(JSON.self).json == .null else { return false }
        currentIndex += 1
        return true
    }
    mutating func decode(_ type: Bool.Type) throws -> Bool { try next(type) { try $0.bool() } }
    mutating func decode(_ type: String.Type) throws -> String { try next(type) { try $0.string() } }
    mutating func decode(_ type: Double.Type) throws -> Double { try next(type) { try $0.double() } }
    mutating func decode(_ type: Float.Type) throws -> Float { try next(type) { try $0.float() } }
    mutating func decode(_ type: Int.Type) throws -> Int { try next(type) { try $0.integer(type) } }
    mutating func decode(_ type: Int8.Type) throws -> Int8 { try next(type) { try $0.integer(type) } }
    mutating func decode(_ type: Int16.Type) throws -> Int16 { try next(type) { try $0.integer(type) } }
    mutating func decode(_ type: Int32.Type) throws -> Int32 { try next(type) { try $0.integer(type) } }
    mutating func decode(_ type: Int64.Type) throws -> Int64 { try next(type) { try $0.integer(type) } }
    mutating func decode(_ type: UInt.Type) throws -> UInt { try next(type) { try $0.integer(type) } }
    mutating func decode(_ type: UInt8.Type) throws -> UInt8 { try next(type) { try $0.integer(type) } }
    mutating func decode(_ type: UInt16.Type) throws -> UInt16 { try next(type) { try $0.integer(type) } }
    mutating func decode(_ type: UInt32.Type) throws -> UInt32 { try next(type) { try $0.integer(type) } }
    mutating func decode(_ type: UInt64.Type) throws -> UInt64 { try next(type) { try $0.integer(type) } }
    mutating func decode<T: Decodable>(_ type: T.Type) throws -> T { try next(type) { try $0.value(type) } }

    mutating func nestedContainer<Nested: CodingKey>(keyedBy type: Nested.Type) throws -> KeyedDecodingContainer<Nested> {
        try next(KeyedDecodingContainer<Nested>.self) { try $0.container(keyedBy: type) }
    }
    mutating func nestedUnkeyedContainer() throws -> any UnkeyedDecodingContainer {
        try next((any UnkeyedDecodingContainer).self) { try $0.unkeyedContainer() }
    }
    mutating func superDecoder() throws -> any Decoder { try next((any Decoder).self) { $0 } }
}
