import Foundation

/// A type that says itself what its JSON is, since its decoder does not show it: one that decodes itself, or that refuses what stands
/// in for its values while its schema is made.
public protocol Described: Decodable {
    static var jsonSchema: JSON { get }
    /// Any value, which stands in where another type's schema is made.
    static var example: Self { get }
}

/// A type some of whose properties are narrower than their Swift types: a limit never makes one wider. A type that is `Described` says its
/// limits in its schema instead.
public protocol Limited: Decodable {
    static var limits: [Limit] { get }
}

/// What narrows a property, by the name that it has in JSON.
public struct Limit: Sendable {
    let name: String
    let keywords: @Sendable (_ type: String) -> [JSON.Member]

    private init(_ name: String, _ keywords: @escaping @Sendable (_ type: String) -> [JSON.Member]) {
        self.name = name
        self.keywords = keywords
    }

    private static func plain(_ name: String, _ keywords: [(String, JSON?)]) -> Limit {
        let members = keywords.compactMap { key, value in value.map { JSON.Member(key, $0) } }
        return Limit(name) { _ in members }
    }

    /// The least and the most that a number may be.
    public static func range(_ name: String, _ range: ClosedRange<Double>) -> Limit {
        plain(name, [("minimum", JSON(range.lowerBound)), ("maximum", JSON(range.upperBound))])
    }

    /// The least that a number may be.
    public static func minimum(_ name: String, _ value: Double) -> Limit { plain(name, [("minimum", JSON(value))]) }

    /// The most that a number may be.
    public static func maximum(_ name: String, _ value: Double) -> Limit { plain(name, [("maximum", JSON(value))]) }

    /// How many characters a string, elements an array, or members a dictionary may have.
    public static func length(_ name: String, min: Int = 0, max: Int? = nil) -> Limit {
        Limit(name) { type in
            let what = ["array": "Items", "object": "Properties"][type] ?? "Length"
            return (min > 0 ? [JSON.Member("min\(what)", JSON(min))] : []) + (max.map { [JSON.Member("max\(what)", JSON($0))] } ?? [])
        }
    }

    /// A regular expression that a string matches, as JSON Schema's `pattern`.
    public static func pattern(_ name: String, _ regex: String) -> Limit { plain(name, [("pattern", .string(regex))]) }

    /// A format of JSON Schema, such as `email`.
    public static func format(_ name: String, _ format: String) -> Limit { plain(name, [("format", .string(format))]) }

    /// The only strings that are possible.
    public static func choice(_ name: String, _ choices: String...) -> Limit { plain(name, [("enum", .array(choices.map { .string($0) }))]) }
}

/// Makes the JSON Schema of a type by letting it decode itself from a decoder that writes down what is asked for, and answers with
/// whatever is simplest: so the schema is what the type's own decoder reads, in its order.
final class SchemaProbe {
    private var definitions: [JSON.Member] = []
    private var names: [ObjectIdentifier: String] = [:]
    private var values: [ObjectIdentifier: Any] = [:]

    static func schema(of type: any Decodable.Type) throws -> JSON {
        let probe = SchemaProbe()
        let root = try probe.schema(of: type, at: "")
        guard !probe.definitions.isEmpty, case .object(let members) = root else { return root }
        return .object(members + [JSON.Member("$defs", .object(probe.definitions))])
    }

    /// The schema alone, which is there for a type inside itself too.
    func schema(of type: any Decodable.Type, at: String) throws -> JSON {
        if let name = names[ObjectIdentifier(type)] { return reference(name) }
        func opened<T: Decodable>(_ type: T.Type) throws -> JSON { try probed(type, at).0 }
        return try opened(type)
    }

    /// A type's schema, and a value of it.
    func probed<T: Decodable>(_ type: T.Type, _ at: String) throws -> (JSON, T) {
        if let (schema, value) = try simple(type, at) {
            guard let value = value as? T else { throw LeanError.refusedType(at, "\(type) is not what it seems") }
            return (schema, value)
        }
        let id = ObjectIdentifier(type)
        if let name = names[id] {
            guard let value = values[id] as? T else { throw LeanError.refusedType(at, "\(type) directly inside itself has no end") }
            return (reference(name), value)
        }
        return try defined(type, id, at)
    }

    private func reference(_ name: String) -> JSON { ["$ref": .string("#/$defs/\(name)")] }

    private func simple(_ type: any Decodable.Type, _ at: String) throws -> (JSON, Any)? {
        let known = try plain(type, at)
        if known != nil, let limited = type as? any Limited.Type, !limited.limits.isEmpty {
            throw LeanError.refusedType(at, "limits are of the properties that a decoder reads: let the jsonSchema of \(type) say them itself")
        }
        return known
    }

    private func plain(_ type: any Decodable.Type, _ at: String) throws -> (JSON, Any)? {
        if let described = type as? any Described.Type { return (described.jsonSchema, described.example) }
        if let scalar = scalar(type) { return scalar }
        if let collected = type as? any Collected.Type { return try collected.probed(by: self, at) }
        if let choice = type as? any (CaseIterable & RawRepresentable).Type { return choices(of: choice) }
        if type is any RawRepresentable.Type {
            throw LeanError.refusedType(at, "\(type) does not say what its values are: let it be CaseIterable, or Described")
        }
        return nil
    }

    private func scalar(_ type: any Decodable.Type) -> (JSON, Any)? {
        func whole<I: FixedWidthInteger>(_: I.Type) -> (JSON, Any) {
            (["type": "integer", "minimum": JSON(I.min), "maximum": JSON(I.max)], I.zero)
        }
        switch type {
        case is Bool.Type: return (["type": "boolean"], false)
        case is String.Type: return (["type": "string"], "")
        case is Int.Type: return (["type": "integer"], 0)
        case is Int64.Type: return (["type": "integer"], Int64(0))
        case is Int8.Type: return whole(Int8.self)
        case is Int16.Type: return whole(Int16.self)
        case is Int32.Type: return whole(Int32.self)
        case is UInt8.Type: return whole(UInt8.self)
        case is UInt16.Type: return whole(UInt16.self)
        case is UInt32.Type: return whole(UInt32.self)
        case is UInt.Type: return whole(UInt.self)
        case is UInt64.Type: return whole(UInt64.self)
        case is Double.Type: return (["type": "number"], 0.0)
        // Larger ones do not decode; a bound has at most 20 digits.
        case is Float.Type: return (["type": "number", "minimum": -1_000_000_000_000_000, "maximum": 1_000_000_000_000_000], Float(0))
        case is Decimal.Type: return (["type": "number"], Decimal(0))
        case is Date.Type: return (["type": "string", "format": "date-time"], Date(timeIntervalSince1970: 0))
        case is UUID.Type: return (["type": "string", "format": "uuid"], UUID())
        case is URL.Type: return (["type": "string", "format": "uri"], URL(fileURLWithPath: "/"))
        case is Data.Type:
            return (["type": "string", "pattern": "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"], Data())
        case is JSON.Type: return (.object([]), JSON.null)
        default: return nil
        }
    }

    private func choices<E: CaseIterable & RawRepresentable>(of type: E.Type) -> (JSON, Any)? {
        var values: [JSON] = []
        for one in type.allCases {
            if let text = one.rawValue as? String {
                values.append(.string(text))
            } else if let number = one.rawValue as? any BinaryInteger {
                values.append(JSON(number))
            } else {
                return nil
            }
        }
        return type.allCases.first.map { (["enum": .array(values)], $0) }
    }

    private func defined<T: Decodable>(_ type: T.Type, _ id: ObjectIdentifier, _ at: String) throws -> (JSON, T) {
        let name = unused("\(type)")
        names[id] = name
        // Before its members, since they may be of this type.
        let place = definitions.count
        definitions.append(JSON.Member(name, .null))
        let record = ProbeRecord(probe: self, at: at)
        let value: T
        do {
            value = try T(from: ProbeDecoder(record: record))
        } catch let error as LeanError {
            throw error
        } catch {
            throw LeanError.refusedType(at, "\(type) decodes itself in a way that does not show its JSON (\(error)): let it be Described")
        }
        values[id] = value
        definitions[place] = JSON.Member(name, try record.schema(limits: (type as? any Limited.Type)?.limits ?? []))
        return (reference(name), value)
    }

    /// Two types may be called the same.
    private func unused(_ wanted: String) -> String {
        let plain = String(wanted.map { $0.isASCII && ($0.isLetter || $0.isNumber) ? $0 : "_" })
        var name = plain
        var count = 2
        while definitions.contains(where: { $0.name == name }) {
            name = "\(plain)\(count)"
            count += 1
        }
        return name
    }
}

/// What decodes as a part that may be empty: it then needs no value of its elements.
private protocol Collected {
    static func probed(by probe: SchemaProbe, _ at: String) throws -> (JSON, Any)
}

extension Optional: Collected where Wrapped: Decodable {
    static func probed(by probe: SchemaProbe, _ at: String) throws -> (JSON, Any) {
        (["anyOf": [try probe.schema(of: Wrapped.self, at: at), ["type": "null"]]], Wrapped?.none as Any)
    }
}

extension Array: Collected where Element: Decodable {
    static func probed(by probe: SchemaProbe, _ at: String) throws -> (JSON, Any) {
        (["type": "array", "items": try probe.schema(of: Element.self, at: "\(at)/*")], [Element]())
    }
}

extension Set: Collected where Element: Decodable {
    static func probed(by probe: SchemaProbe, _ at: String) throws -> (JSON, Any) {
        (["type": "array", "items": try probe.schema(of: Element.self, at: "\(at)/*"), "uniqueItems": true], Set<Element>())
    }
}

extension Dictionary: Collected where Key: Decodable, Value: Decodable {
    static func probed(by probe: SchemaProbe, _ at: String) throws -> (JSON, Any) {
        guard Key.self == String.self else { throw LeanError.refusedType(at, "the keys of a JSON object are strings, and not \(Key.self)") }
        return (["type": "object", "additionalProperties": try probe.schema(of: Value.self, at: "\(at)/*")], [Key: Value]())
    }
}
