enum Wire {
    static let major: UInt32 = 1
    static let minor: UInt32 = 0

    /// A kind of message and the fields of its head.
    struct Kind: Sendable {
        let name: String
        let kind: UInt16
        let fields: [(name: String, type: String)]
    }

    /// Every message of the protocol: tests/wire/messages.json is the same table, and a test compares the two.
    private static let table = """
        HELLO_ACK 1: minor u32, credit u32, max_frame option<u32>
        LOAD 2: path string, backend option<string>, threads option<u32>, context option<u32>, progress bool
        UNLOAD 3: model u32
        MODEL_INFO 4: model u32
        GENERATE 5: model option<u32>, session option<u32>, checkpoint option<u32>, keep bool, events bool
        SESSION_OPEN 6: model u32, checkpoint option<u32>, context option<u32>
        SESSION_APPEND 7: session u32, replace bool
        SESSION_FORK 8: session u32
        SESSION_CLOSE 9: session u32
        CHECKPOINT_TAKE 10: session option<u32>, generation option<u32>
        CHECKPOINT_SAVE 11: checkpoint u32, path option<string>
        CHECKPOINT_LOAD 12: model u32, path option<string>
        CHECKPOINT_DROP 13: checkpoint u32
        CANCEL 14
        CREDIT 15: events u32
        SHUTDOWN 16
        CHUNK 17: offset u64, digest option<u32>
        GENERATE_BRANCH 18: group u32, members u32, model option<u32>, session option<u32>, checkpoint option<u32>, keep bool, events bool
        MODEL_STATS 19: model u32
        MODEL_PREFIX_CACHE 20: model u32, bytes u64
        SESSION_CUT 21: session u32, begin u32, end option<u32>
        ADAPTER_LOAD 24: model u32, path string
        ADAPTER_DROP 25: adapter u32
        SESSION_ADAPT 26: session u32, adapters seq<u32>, scales seq<f32>
        HELLO 32769: major u32, minor_min u32, minor_max u32, engine string, max_frame u32, capabilities seq<string>
        PROGRESS 32770: done u64, total u64
        PREFILL 32771: done u32, total u32
        TOKENS 32772: ids seq<u32>, forced bool
        PARTIAL 32773: path string, final_bytes u32
        CANDIDATES 32774
        LOADED 32784: model u32
        INFO 32785
        GENERATED 32786: checkpoint option<u32>
        SESSION 32787: session u32, tokens u32
        CHECKPOINT 32788: checkpoint u32, tokens u32
        SAVED 32789: size u64, digest u32
        OK 32790
        ADAPTER 32792: adapter u32
        ERROR 33023: code u32, class u32, retryable bool, name string, message string
        """

    static let kinds: [Kind] = table.split(separator: "\n").map { line in
        let parts = line.split(separator: ":")
        let title = parts[0].split(separator: " ")
        let fields: [(name: String, type: String)] = parts.dropFirst().joined().split(separator: ",").map { field in
            let words = field.split(separator: " ")
            return (name: String(words[0]), type: String(words[1]))
        }
        return Kind(name: String(title[0]), kind: UInt16(title[1]) ?? 0, fields: fields)
    }

    static let byName = Dictionary(uniqueKeysWithValues: kinds.map { ($0.name, $0) })
    static let byKind = Dictionary(uniqueKeysWithValues: kinds.map { ($0.kind, $0) })
}

/// The decoded head of a message: its fields by name.
struct Head: Sendable {
    var fields: [String: JSON] = [:]

    func u32(_ name: String) -> UInt32 { fields[name]?.integer() ?? 0 }
    func u64(_ name: String) -> UInt64 { fields[name]?.integer() ?? 0 }
    func bool(_ name: String) -> Bool { fields[name]?.bool ?? false }
    func string(_ name: String) -> String { fields[name]?.string ?? "" }
    func optional(_ name: String) -> UInt32? { fields[name]?.integer() }
}

/// A decoded frame; its name is empty if the kind is unknown here.
struct Message: Sendable {
    let name: String
    let head: Head
    let tail: [UInt8]
}

extension JSON {
    /// An absent option is null.
    static func some(_ value: UInt32?) -> JSON { value.map { JSON($0) } ?? .null }
    static func some(_ value: String?) -> JSON { value.map { .string($0) } ?? .null }
}
