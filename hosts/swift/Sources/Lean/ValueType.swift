/// What comes out, and nothing else can: of a Swift type by `of`, or by hand.
public struct ValueType<T: Sendable>: Sendable {
    /// Its wire form.
    let source: JSON
    let build: @Sendable (JSON) throws -> T
}

extension ValueType where T: Decodable {
    /// The JSON that `T` decodes: see `generate`. A string is unquoted text.
    public static func of(_ type: T.Type = T.self) throws -> ValueType {
        if let text = ValueType<String>.text() as? ValueType { return text }
        let build: @Sendable (JSON) throws -> T = { try $0.decoded(as: T.self) }
        if let described = type as? any Described.Type, type as? any Limited.Type == nil {
            return ValueType(source: ["schema": described.jsonSchema], build: build)
        }
        return ValueType(source: ["schema": try SchemaProbe.schema(of: type)], build: build)
    }

    /// The JSON of a JSON Schema, decoded into a `T`.
    public static func schema(_ schema: JSON, as type: T.Type = T.self) -> ValueType {
        ValueType(source: ["schema": schema]) { try $0.decoded(as: T.self) }
    }

    /// The JSON of a type expression, decoded into a `T`: a JSON object or array whose leaves are strings such as `"string < 64"`, or such
    /// a string.
    public static func expression(_ expression: String, as type: T.Type = T.self) throws -> ValueType {
        let structured = expression.first { !$0.isWhitespace }.map { "{[".contains($0) } ?? false
        let source: JSON = structured ? try JSON(parsing: expression) : .string(expression)
        return ValueType(source: ["expr": source]) { try $0.decoded(as: T.self) }
    }
}

extension ValueType where T == String {
    private static func ofText(_ source: JSON) -> ValueType { ValueType(source: source) { $0.string ?? "" } }

    /// Unquoted text, of so many characters at most.
    public static func text(_ maxCharacters: Int? = nil) -> ValueType {
        ofText(["text": ["max_chars": maxCharacters.map { JSON($0) } ?? .null]])
    }

    /// One of these strings.
    public static func choice(_ choices: String...) -> ValueType { ofText(["choice": .array(choices.map { .string($0) })]) }

    /// Text that an ECMA-262 regular expression matches as a whole.
    public static func regex(_ pattern: String) -> ValueType { ofText(["regex": .string(pattern)]) }
}

/// What a model says, and the calls of tools that it makes.
public struct Reply: Sendable, Codable {
    public struct Call: Sendable, Codable {
        public let name: String
        /// A JSON object that the tool's schema accepts.
        public let arguments: JSON
    }

    public let text: String
    public let calls: [Call]
}

/// Whether tools are called.
public enum ToolChoice: Sendable {
    /// The model chooses.
    case auto
    /// Only calls.
    case required
    /// One call of this tool.
    case tool(String)
}

extension ValueType where T == Reply {
    /// Text or calls of these tools, in the syntax that the model was trained on (or `hermes`, `llama`, `gemma`, `pythonic`). Tools are in
    /// OpenAI's form, `{"type": "function", "function": {"name", "description", "parameters"}}`, or the inner object alone.
    public static func tools(_ tools: [JSON], choice: ToolChoice = .auto, single: Bool = false, syntax: String? = nil) -> ValueType {
        var document = [JSON.Member("tools", .array(tools)), JSON.Member("parallel", .bool(!single))]
        switch choice {
        case .auto: break
        case .required: document.append(JSON.Member("choice", "required"))
        case .tool(let name): document.append(JSON.Member("choice", ["tool": .string(name)]))
        }
        if let syntax { document.append(JSON.Member("syntax", .string(syntax))) }
        return ValueType(source: ["tools": .object(document)]) { try $0.decoded(as: Reply.self) }
    }
}
