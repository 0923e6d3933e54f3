/// A piece of context.
public struct Block: Sendable {
    let make: @Sendable () throws -> JSON

    private init(_ make: @escaping @Sendable () throws -> JSON) { self.make = make }

    private init(_ kind: String, _ value: JSON) { self.init { .object([JSON.Member(kind, value)]) } }

    /// Plain text: control tokens in it are never parsed, so nobody injects a role through data.
    public static func text(_ text: String) -> Block { Block("text", .string(text)) }

    /// Trusted text, in which control tokens are parsed.
    public static func raw(_ text: String) -> Block { Block("raw", .string(text)) }

    /// Token ids of the model.
    public static func tokens(_ ids: [UInt32]) -> Block { Block("tokens", .array(ids.map { JSON($0) })) }

    /// A value, which the model sees as compact JSON.
    public static func json(_ value: some Encodable & Sendable) -> Block { Block { ["json": try JSON(encoding: value)] } }

    /// A whole conversation, rendered with the model's own template; it can only be the first block of a context. Tools are described to
    /// the model as its template does it. Control tokens inside a message stay text unless it is `trusted`.
    public static func chat(_ messages: ChatMessage..., tools: [JSON] = [], generationPrompt: Bool = true, trusted: Bool = false) -> Block {
        chat(messages, tools: tools, generationPrompt: generationPrompt, trusted: trusted)
    }

    /// The same.
    public static func chat(_ messages: [ChatMessage], tools: [JSON] = [], generationPrompt: Bool = true, trusted: Bool = false) -> Block {
        var document = [JSON.Member("messages", .array(messages.map(\.json)))]
        if !tools.isEmpty { document.append(JSON.Member("tools", .array(tools))) }
        if !generationPrompt { document.append(JSON.Member("add_generation_prompt", false)) }
        if trusted { document.append(JSON.Member("trusted", true)) }
        return Block("chat", .object(document))
    }

    static func wire(_ blocks: [Block]) throws -> JSON { .array(try blocks.map { try $0.make() }) }
}

extension Block: ExpressibleByStringLiteral {
    /// A string literal is plain text.
    public init(stringLiteral text: String) { self.init("text", .string(text)) }
}

/// A message of a conversation.
public struct ChatMessage: Sendable {
    let json: JSON

    /// `more` are further keys for the model's template, such as `tool_calls`.
    public init(role: String, content: String, more: [String: JSON] = [:]) {
        let rest = more.sorted { $0.key < $1.key }.map { JSON.Member($0.key, $0.value) }
        json = .object([JSON.Member("role", .string(role)), JSON.Member("content", .string(content))] + rest)
    }

    /// What the model is told beforehand.
    public static func system(_ content: String) -> ChatMessage { ChatMessage(role: "system", content: content) }
    /// What a user said.
    public static func user(_ content: String) -> ChatMessage { ChatMessage(role: "user", content: content) }
    /// What the model said.
    public static func assistant(_ content: String) -> ChatMessage { ChatMessage(role: "assistant", content: content) }
}

/// What a generation may be told. What is nil is not told.
public struct Options: Sendable {
    /// Tokens at most; a value of a type ends, whole, within them.
    public var maxTokens: Int?
    /// 0, the default, is greedy.
    public var temperature: Double?
    public var topK: Int?
    public var topP: Double?
    public var minP: Double?
    public var repetitionPenalty: Double?
    public var repetitionWindow: Int?
    public var seed: UInt64?
    /// Text ends before any of these (text types only).
    public var stop: [String]?
    /// Events with the value so far as well, for JSON types.
    public var partials = false
    /// Says how sure the model was: `Output.confidence`.
    public var confidence = false
    /// Events with what each token was chosen from as well, so many of the likeliest, at most 64.
    public var candidates: Int?
    /// Keeps the state after the value: `Output.checkpoint`.
    public var keep = false
    /// Where to continue from (models only).
    public var from: Checkpoint?
    /// After this the call ends with the error `timeout`.
    public var timeout: Duration?

    public init(
        maxTokens: Int? = nil, temperature: Double? = nil, topK: Int? = nil, topP: Double? = nil, minP: Double? = nil,
        repetitionPenalty: Double? = nil, repetitionWindow: Int? = nil, seed: UInt64? = nil, stop: [String]? = nil,
        partials: Bool = false, confidence: Bool = false, candidates: Int? = nil, keep: Bool = false, from: Checkpoint? = nil, timeout: Duration? = nil
    ) {
        self.maxTokens = maxTokens
        self.temperature = temperature
        self.topK = topK
        self.topP = topP
        self.minP = minP
        self.repetitionPenalty = repetitionPenalty
        self.repetitionWindow = repetitionWindow
        self.seed = seed
        self.stop = stop
        self.partials = partials
        self.confidence = confidence
        self.candidates = candidates
        self.keep = keep
        self.from = from
        self.timeout = timeout
    }

    func wire() throws -> JSON {
        var members: [JSON.Member] = []
        func whole(_ name: String, _ value: (some BinaryInteger)?) { if let value { members.append(JSON.Member(name, JSON(value))) } }
        func number(_ name: String, _ value: Double?) throws {
            guard let value else { return }
            guard let json = JSON(value) else { throw LeanError.invalid("\(name): \(value) is no number") }
            members.append(JSON.Member(name, json))
        }
        whole("max_tokens", maxTokens)
        try number("temperature", temperature)
        whole("top_k", topK)
        try number("top_p", topP)
        try number("min_p", minP)
        try number("repetition_penalty", repetitionPenalty)
        whole("repetition_window", repetitionWindow)
        whole("seed", seed)
        if let stop { members.append(JSON.Member("stop", .array(stop.map { .string($0) }))) }
        if partials { members.append(JSON.Member("partials", true)) }
        whole("candidates", candidates)
        if confidence { members.append(JSON.Member("confidence", true)) }
        return .object(members)
    }
}
