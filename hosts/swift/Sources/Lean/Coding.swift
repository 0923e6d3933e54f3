import Foundation

extension JSON {
    /// A value as JSON, its members in the order in which it encodes them (which Foundation's encoder does not keep). Dates are RFC 3339,
    /// `Data` is base64.
    public init(encoding value: some Encodable) throws {
        do {
            self = try box(value)
        } catch let error as EncodingError {
            throw LeanError.invalid("the value is no JSON: \(error)")
        }
    }

    /// A value that this JSON decodes to.
    public func decoded<T: Decodable>(as type: T.Type = T.self) throws -> T {
        if let same = self as? T { return same }
        let decoder = JSONDecoder()
        decoder.dateDecodingStrategy = .custom { decoder in
            let text = try decoder.singleValueContainer().decode(String.self)
            guard let date = Dates.date(text) else {
                throw DecodingError.dataCorrupted(.init(codingPath: decoder.codingPath, debugDescription: "\(text) is no date"))
            }
            return date
        }
        return try decoder.decode(type, from: Data(bytes))
    }
}

private func box(_ value: any Encodable) throws -> JSON {
    switch value {
    case let json as JSON: return json
    case let date as Date: return .string(Dates.text(date))
    case let data as Data: return .string(data.base64EncodedString())
    case let url as URL: return .string(url.absoluteString)
    case let decimal as Decimal: return .number("\(decimal)")
    case let dictionary as [String: any Encodable]:
        return .object(try dictionary.sorted { $0.key < $1.key }.map { JSON.Member($0.key, try box($0.value)) })
    default:
        let node = Node()
        try value.encode(to: TreeEncoder(node: node, codingPath: []))
        return node.json
    }
}

/// What is encoded, while it grows.
private final class Node {
    private enum Content {
        case none
        case value(JSON)
        case array([Node])
        case object([(String, Node)])
    }

    private var content = Content.none

    var json: JSON {
        switch content {
        case .none: .object([])
        case .value(let value): value
        case .array(let nodes): .array(nodes.map(\.json))
        case .object(let members): .object(members.map { JSON.Member($0.0, $0.1.json) })
        }
    }

    var count: Int { if case .array(let nodes) = content { nodes.count } else { 0 } }

    func set(_ value: JSON) { content = .value(value) }

    func becomeArray() { if case .array = content {} else { content = .array([]) } }

    func becomeObject() { if case .object = content {} else { content = .object([]) } }

    func append() -> Node {
        let node = Node()
        if case .array(let nodes) = content { content = .array(nodes + [node]) } else { content = .array([node]) }
        return node
    }

    func member(_ name: String) -> Node {
        let node = Node()
        var members: [(String, Node)] = []
        if case .object(let known) = content { members = known.filter { $0.0 != name } }
        content = .object(members + [(name, node)])
        return node
    }
}

private func number(_ value: Double, _ path: [any CodingKey]) throws -> JSON {
    guard let json = JSON(value) else {
        throw EncodingError.invalidValue(value, .init(codingPath: path, debugDescription: "JSON has no number for \(value)"))
    }
    return json
}

private struct TreeEncoder: Encoder {
    let node: Node
    let codingPath: [any CodingKey]
    var userInfo: [CodingUserInfoKey: Any] { [:] }

    func container<Key: CodingKey>(keyedBy _: Key.Type) -> KeyedEncodingContainer<Key> {
        node.becomeObject()
        return KeyedEncodingContainer(Keyed<Key>(node: node, codingPath: codingPath))
    }

    func unkeyedContainer() -> any UnkeyedEncodingContainer {
        node.becomeArray()
        return Unkeyed(node: node, codingPath: codingPath)
    }

    func singleValueContainer() -> any SingleValueEncodingContainer { Single(node: node, codingPath: codingPath) }
}

private struct Single: SingleValueEncodingContainer {
    let node: Node
    let codingPath: [any CodingKey]

    func encodeNil() { node.set(.null) }
    func encode(_ value: Bool) { node.set(.bool(value)) }
    func encode(_ value: String) { node.set(.string(value)) }
    func encode(_ value: Double) throws { node.set(try number(value, codingPath)) }
    func encode(_ value: Float) throws { node.set(try number(Double("\(value)") ?? Double(value), codingPath)) }
    func encode(_ value: Int) { node.set(JSON(value)) }
    func encode(_ value: Int8) { node.set(JSON(value)) }
    func encode(_ value: Int16) { node.set(JSON(value)) }
    func encode(_ value: Int32) { node.set(JSON(value)) }
    func encode(_ value: Int64) { node.set(JSON(value)) }
    func encode(_ value: UInt) { node.set(JSON(value)) }
    func encode(_ value: UInt8) { node.set(JSON(value)) }
    func encode(_ value: UInt16) { node.set(JSON(value)) }
    func encode(_ value: UInt32) { node.set(JSON(value)) }
    func encode(_ value: UInt64) { node.set(JSON(value)) }
    func encode(_ value: some Encodable) throws { node.set(try box(value)) }
}

private struct Keyed<Key: CodingKey>: KeyedEncodingContainerProtocol {
    let node: Node
    let codingPath: [any CodingKey]

    private func single(_ key: Key) -> Single { Single(node: node.member(key.stringValue), codingPath: codingPath + [key]) }

    func encodeNil(forKey key: Key) { single(key).encodeNil() }
    func encode(_ value: Bool, forKey key: Key) { single(key).encode(value) }
    func encode(_ value: String, forKey key: Key) { single(key).encode(value) }
    func encode(_ value: Double, forKey key: Key) throws { try single(key).encode(value) }
    func encode(_ value: Float, forKey key: Key) throws { try single(key).encode(value) }
    func encode(_ value: Int, forKey key: Key) { single(key).encode(value) }
    func encode(_ value: Int8, forKey key: Key) { single(key).encode(value) }
    func encode(_ value: Int16, forKey key: Key) { single(key).encode(value) }
    func encode(_ value: Int32, forKey key: Key) { single(key).encode(value) }
    func encode(_ value: Int64, forKey key: Key) { single(key).encode(value) }
    func encode(_ value: UInt, forKey key: Key) { single(key).encode(value) }
    func encode(_ value: UInt8, forKey key: Key) { single(key).encode(value) }
    func encode(_ value: UInt16, forKey key: Key) { single(key).encode(value) }
    func encode(_ value: UInt32, forKey key: Key) { single(key).encode(value) }
    func encode(_ value: UInt64, forKey key: Key) { single(key).encode(value) }
    func encode(_ value: some Encodable, forKey key: Key) throws { try single(key).encode(value) }

    func nestedContainer<Nested: CodingKey>(keyedBy _: Nested.Type, forKey key: Key) -> KeyedEncodingContainer<Nested> {
        TreeEncoder(node: node.member(key.stringValue), codingPath: codingPath + [key]).container(keyedBy: Nested.self)
    }
    func nestedUnkeyedContainer(forKey key: Key) -> any UnkeyedEncodingContainer {
        TreeEncoder(node: node.member(key.stringValue), codingPath: codingPath + [key]).unkeyedContainer()
    }
    func superEncoder() -> any Encoder { TreeEncoder(node: node.member("super"), codingPath: codingPath) }
    func superEncoder(forKey key: Key) -> any Encoder { TreeEncoder(node: node.member(key.stringValue), codingPath: codingPath + [key]) }
}

private struct Unkeyed: UnkeyedEncodingContainer {
    let node: Node
    let codingPath: [any CodingKey]
    var count: Int { node.count }

    private func single() -> Single { Single(node: node.append(), codingPath: codingPath) }

    func encodeNil() { single().encodeNil() }
    func encode(_ value: Bool) { single().encode(value) }
    func encode(_ value: String) { single().encode(value) }
    func encode(_ value: Double) throws { try single().encode(value) }
    func encode(_ value: Float) throws { try single().encode(value) }
    func encode(_ value: Int) { single().encode(value) }
    func encode(_ value: Int8) { single().encode(value) }
    func encode(_ value: Int16) { single().encode(value) }
    func encode(_ value: Int32) { single().encode(value) }
    func encode(_ value: Int64) { single().encode(value) }
    func encode(_ value: UInt) { single().encode(value) }
    func encode(_ value: UInt8) { single().encode(value) }
    func encode(_ value: UInt16) { single().encode(value) }
    func encode(_ value: UInt32) { single().encode(value) }
    func encode(_ value: UInt64) { single().encode(value) }
    func encode(_ value: some Encodable) throws { try single().encode(value) }

    func nestedContainer<Nested: CodingKey>(keyedBy _: Nested.Type) -> KeyedEncodingContainer<Nested> {
        TreeEncoder(node: node.append(), codingPath: codingPath).container(keyedBy: Nested.self)
    }
    func nestedUnkeyedContainer() -> any UnkeyedEncodingContainer { TreeEncoder(node: node.append(), codingPath: codingPath).unkeyedContainer() }
    func superEncoder() -> any Encoder { TreeEncoder(node: node.append(), codingPath: codingPath) }
}
