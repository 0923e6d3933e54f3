/// What a type asked its decoder for.
final class ProbeRecord {
    let probe: SchemaProbe
    let at: String
    private var properties: [JSON.Member] = []
    private var required: [JSON] = []
    private var whole: JSON?

    init(probe: SchemaProbe, at: String) {
        self.probe = probe
        self.at = at
    }

    func refused(_ reason: String) -> LeanError { .refusedType(at, "\(reason): let the type be Described") }

    func value<T: Decodable>(_ type: T.Type) throws -> T {
        let (schema, value) = try probe.probed(type, at)
        whole = schema
        return value
    }

    func property<T: Decodable>(_ type: T.Type, _ name: String) throws -> T {
        let (schema, value) = try probe.probed(type, "\(at)/\(name)")
        add(name, schema, isRequired: true)
        return value
    }

    /// One that may be left out, and then need not be null as well.
    func optional(_ type: any Decodable.Type, _ name: String) throws { add(name, try probe.schema(of: type, at: "\(at)/\(name)"), isRequired: false) }

    private func add(_ name: String, _ schema: JSON, isRequired: Bool) {
        if properties.contains(where: { $0.name == name }) { return }
        properties.append(JSON.Member(name, schema))
        if isRequired { required.append(.string(name)) }
    }

    func schema(limits: [Limit]) throws -> JSON {
        if let whole {
            guard limits.isEmpty else { throw refused("limits are of properties, and it has none") }
            return whole
        }
        for limit in limits {
            guard let i = properties.firstIndex(where: { $0.name == limit.name }) else {
                throw LeanError.refusedType(at, "limits: there is no property \(limit.name)")
            }
            properties[i] = JSON.Member(limit.name, try narrowed(properties[i].value, limit, "\(at)/\(limit.name)"))
        }
        return ["type": "object", "properties": .object(properties), "required": .array(required), "additionalProperties": false]
    }

    private func narrowed(_ schema: JSON, _ limit: Limit, _ at: String) throws -> JSON {
        if case .array(let choices)? = schema["anyOf"], let first = choices.first {
            return ["anyOf": .array([try narrowed(first, limit, at)] + choices.dropFirst())]
        }
        let keywords = try limit.keywords(schema["type"]?.string ?? "").map { keyword in
            guard let known = schema[keyword.name], known != keyword.value else { return keyword }
            guard let both = both(keyword.name, known, keyword.value) else {
                throw LeanError.refusedType(at, "limits: its \(keyword.name) is \(known.text), and cannot be \(keyword.value.text) as well")
            }
            return JSON.Member(keyword.name, both)
        }
        let narrow = JSON.object((schema.members ?? []).filter { member in !keywords.contains { $0.name == member.name } } + keywords)
        for (low, high) in [("minimum", "maximum"), ("minLength", "maxLength"), ("minItems", "maxItems"), ("minProperties", "maxProperties")] {
            if let least = narrow[low]?.double, let most = narrow[high]?.double, least > most {
                throw LeanError.refusedType(at, "limits: nothing is at least \(least) and at most \(most)")
            }
        }
        return narrow
    }

    /// What both bounds allow; nil where a schema cannot say that.
    private func both(_ keyword: String, _ a: JSON, _ b: JSON) -> JSON? {
        if keyword == "enum", let some = a.array, let others = b.array {
            let shared = some.filter(others.contains)
            return shared.isEmpty ? nil : .array(shared)
        }
        guard let x = a.double, let y = b.double else { return nil }
        return (x < y) == keyword.hasPrefix("max") ? a : b
    }
}

struct ProbeDecoder: Decoder {
    let record: ProbeRecord
    var codingPath: [any CodingKey] { [] }
    var userInfo: [CodingUserInfoKey: Any] { [:] }

    func container<Key: CodingKey>(keyedBy _: Key.Type) -> KeyedDecodingContainer<Key> { KeyedDecodingContainer(ProbeKeyed<Key>(record: record)) }
    func unkeyedContainer() throws -> any UnkeyedDecodingContainer { throw record.refused("it decodes an array by itself") }
    func singleValueContainer() -> any SingleValueDecodingContainer { ProbeSingle(record: record) }
}

private struct ProbeSingle: SingleValueDecodingContainer {
    let record: ProbeRecord
    var codingPath: [any CodingKey] { [] }

    func decodeNil() -> Bool { false }
    func decode<T: Decodable>(_ type: T.Type) throws -> T { try record.value(type) }
}

private struct ProbeKeyed<Key: CodingKey>: KeyedDecodingContainerProtocol {
    let record: ProbeRecord
    var codingPath: [any CodingKey] { [] }
    var allKeys: [Key] { [] }

    func contains(_: Key) -> Bool { true }
    func decodeNil(forKey _: Key) -> Bool { false }

    func decode<T: Decodable>(_ type: T.Type, forKey key: Key) throws -> T { try record.property(type, key.stringValue) }

    func decodeIfPresent<T: Decodable>(_ type: T.Type, forKey key: Key) throws -> T? {
        try record.optional(type, key.stringValue)
        return nil
    }
    func decodeIfPresent(_ type: Bool.Type, forKey key: Key) throws -> Bool? { try absent(type, key) }
    func decodeIfPresent(_ type: String.Type, forKey key: Key) throws -> String? { try absent(type, key) }
    func decodeIfPresent(_ type: Double.Type, forKey key: Key) throws -> Double? { try absent(type, key) }
    func decodeIfPresent(_ type: Float.Type, forKey key: Key) throws -> Float? { try absent(type, key) }
    func decodeIfPresent(_ type: Int.Type, forKey key: Key) throws -> Int? { try absent(type, key) }
    func decodeIfPresent(_ type: Int8.Type, forKey key: Key) throws -> Int8? { try absent(type, key) }
    func decodeIfPresent(_ type: Int16.Type, forKey key: Key) throws -> Int16? { try absent(type, key) }
    func decodeIfPresent(_ type: Int32.Type, forKey key: Key) throws -> Int32? { try absent(type, key) }
    func decodeIfPresent(_ type: Int64.Type, forKey key: Key) throws -> Int64? { try absent(type, key) }
    func decodeIfPresent(_ type: UInt.Type, forKey key: Key) throws -> UInt? { try absent(type, key) }
    func decodeIfPresent(_ type: UInt8.Type, forKey key: Key) throws -> UInt8? { try absent(type, key) }
    func decodeIfPresent(_ type: UInt16.Type, forKey key: Key) throws -> UInt16? { try absent(type, key) }
    func decodeIfPresent(_ type: UInt32.Type, forKey key: Key) throws -> UInt32? { try absent(type, key) }
    func decodeIfPresent(_ type: UInt64.Type, forKey key: Key) throws -> UInt64? { try absent(type, key) }

    private func absent<T: Decodable>(_ type: T.Type, _ key: Key) throws -> T? {
        try record.optional(type, key.stringValue)
        return nil
    }

    func nestedContainer<Nested: CodingKey>(keyedBy _: Nested.Type, forKey _: Key) throws -> KeyedDecodingContainer<Nested> {
        throw record.refused("it decodes an object inside by itself")
    }
    func nestedUnkeyedContainer(forKey _: Key) throws -> any UnkeyedDecodingContainer { throw record.refused("it decodes an array inside by itself") }
    func superDecoder() throws -> any Decoder { throw record.refused("it has a superclass that is decoded apart") }
    func superDecoder(forKey _: Key) throws -> any Decoder { throw record.refused("it has a superclass that is decoded apart") }
}
