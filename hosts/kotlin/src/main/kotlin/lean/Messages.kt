package lean

internal const val MAJOR = 1L
internal const val MINOR = 0L

/** A kind of message and the fields of its head, as (name, wire type). */
internal class MessageKind(val name: String, val kind: Int, val fields: List<Pair<String, String>>)

/** Every message of the protocol: tests/wire/messages.json is the same table, and a test compares the two. */
private const val TABLE = """
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
    HELLO 0x8001: major u32, minor_min u32, minor_max u32, engine string, max_frame u32, capabilities seq<string>
    PROGRESS 0x8002: done u64, total u64
    PREFILL 0x8003: done u32, total u32
    TOKENS 0x8004: ids seq<u32>, forced bool
    PARTIAL 0x8005: path string, final_bytes u32
    CANDIDATES 0x8006
    LOADED 0x8010: model u32
    INFO 0x8011
    GENERATED 0x8012: checkpoint option<u32>
    SESSION 0x8013: session u32, tokens u32
    CHECKPOINT 0x8014: checkpoint u32, tokens u32
    SAVED 0x8015: size u64, digest u32
    OK 0x8016
    ADAPTER 0x8018: adapter u32
    ERROR 0x80ff: code u32, class u32, retryable bool, name string, message string
"""

internal val MESSAGES: Map<String, MessageKind> = TABLE.trim().lines().map(::messageKind).associateBy { it.name }

internal val BY_KIND: Map<Int, MessageKind> = MESSAGES.values.associateBy { it.kind }

private fun messageKind(line: String): MessageKind {
    val (name, kind) = line.trim().substringBefore(':').split(' ')
    val fields = line.substringAfter(": ", "").split(", ").filter { it.isNotEmpty() }
    return MessageKind(name, Integer.decode(kind), fields.map { it.substringBefore(' ') to it.substringAfter(' ') })
}
