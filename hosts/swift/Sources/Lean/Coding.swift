import Foundation

extension JSON {
    /// A value as JSON, its members in the order in which it encodes them (which Foundation's encoder does not keep). Dates are RFC 3339,
    /// `Data` is base64.
    public init(encoding value: some Encodable) throws {
        do {
            self = try box(value, [])
        } catch let error as EncodingError {
            throw LeanError.uncodable(error)
        }
    }

    /// A value that this JSON decodes to; what does not decode is a `LeanError` of the code `type`, which says where.
    public func decoded<T: Decodable>(as type: T.Type = T.self) throws -> T {
        do {
            return try TreeDecoder(json: self, codingPath: []).value(type)
        } catch let error as DecodingError {
            throw LeanError.undecodable(error)
        }
    }
}

private func box(_ value: any Encodable, _ path: [any CodingKey]) throws -> JSON {
    func refused(_ reason: String) -> EncodingError { .invalidValue(value, .init(codingPath: path, debugDescription: reason)) }
    switch value {
    case let json as JSON: return json
    case let date as Date:
        guard let text = Dates.text(date) else { throw refused("RFC 3339 has no such date: \(date.timeIntervalSince1970) s since 1970") }
        return .string(text)
    case let data as Data: return .string(data.base64EncodedString())
    case let url as URL: return .string(url.absoluteString)
    case let decimal as Decimal:
        guard !decimal.isNaN else { throw refused("JSON has no number for NaN") }
        return .number("\(decimal)")
    case let dictionary as [String: any Encodable]:
        return .object(try dictionary.sorted { $0.key < $1.key }.map { JSON.Member($0.key, try box($0.value, path + [JSON.Name($0.key)])) })
    default:
        let node = Node()
        try value.encode(to: TreeEncoder(node: node, codingPath: path))
        return node.json
    }
}

/// What is encoded, while it grows.
private final class Node {
    private enum Kind { case none, value, array, object }

    private var kind = Kind.none
    private var value = JSON.null
    private var nodes: [Node] = []
    /// The names of an object's members, and where each is.
    private var names: [String] = []
    private var places: [String: Int] = [:]

    var json: JSON {
        switch kind {
        case .none: .object([])
        case .value: value
        case .array: .array(nodes.map(\.json))
        case .object: .object(zip(names, nodes).map { JSON.Member($0, $1.json) })
        }
    }

    var count: Int { kind == .array ? nodes.count : 0 }

    func set(_ value: JSON) {
        become(.value)
        self.value = value
    }

    func becomeArray() { become(.array) }

    func becomeObject() { become(.object) }

    private func become(_ wanted: Kind) {
        if kind == wanted { return }
        kind = wanted
        (nodes, names, places) = ([], [], [:])
    }

    func append() -> Node {
        become(.array)
        nodes.append(Node())
        return nodes[nodes.count - 1]
    }

    /// A member's second value replaces its first.
    func member(_ name: String) -> Node {
        become(.object)
        let node = Node()
        if let place = places[name] {
            nodes[place] = node
        } else {
            places[name] = nodes.count
            names.append(name)
            nodes.append(node)
        }
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
    func encode(_ value: some Encodable) throws { node.set(try box(value, codingPath)) }
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

    private func single() -> Single {
        let node = node.append()
        return Single(node: node, codingPath: codingPath + [Place(count - 1)])
    }

    private func inside() -> TreeEncoder {
        let node = node.append()
        return TreeEncoder(node: node, codingPath: codingPath + [Place(count - 1)])
    }

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
        inside().container(keyedBy: Nested.self)
    }
    func nestedUnkeyedContainer() -> any UnkeyedEncodingContainer { inside().unkeyedContainer() }
    func superEncoder() -> any Encoder { inside() }
}
