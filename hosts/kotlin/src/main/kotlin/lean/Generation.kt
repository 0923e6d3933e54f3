package lean

import kotlinx.coroutines.flow.Flow
import kotlinx.coroutines.flow.flow
import kotlinx.serialization.SerialName
import kotlinx.serialization.Serializable
import kotlinx.serialization.json.Json
import kotlinx.serialization.json.JsonArray
import kotlinx.serialization.json.JsonElement
import kotlinx.serialization.json.JsonObject
import kotlinx.serialization.json.decodeFromJsonElement
import kotlinx.serialization.json.jsonObject
import kotlinx.serialization.json.jsonPrimitive

/** On the way to a value of [T]. */
sealed interface Event<out T>

/** Tokens of the context that have been computed, of how many. */
data class Prefill(val done: Long, val total: Long) : Event<Nothing>

/** A step: its token ids, their text (whole characters, possibly none yet), and whether the type left no choice. */
data class Token(val ids: List<Long>, val text: String, val forced: Boolean) : Event<Nothing>

/** The value so far, with [Options.partials]: JSON that parses, of which the first [finalBytes] bytes will not change. */
data class Partial(val value: JsonElement, val path: String, val finalBytes: Long) : Event<Nothing>

/** The value; the last event. */
data class Done<T>(val output: Output<T>) : Event<T>

/** What a generation took: tokens, and seconds. */
@Serializable
data class Usage(
    @SerialName("prompt_tokens") val promptTokens: Long = 0,
    /** Tokens of the prompt that did not have to be computed. */
    @SerialName("reused_tokens") val reusedTokens: Long = 0,
    /** Tokens that the model chose. */
    @SerialName("sampled_tokens") val sampledTokens: Long = 0,
    /** Tokens that the type left no choice about. */
    @SerialName("forced_tokens") val forcedTokens: Long = 0,
    /** Passes that these saved, since each ran together with another token. */
    @SerialName("saved_passes") val savedPasses: Long = 0,
    val passes: Long = 0,
    @SerialName("first_token_seconds") val firstTokenSeconds: Double = 0.0,
    @SerialName("total_seconds") val totalSeconds: Double = 0.0,
)

/** A value and everything about it. */
data class Output<T>(
    val value: T,
    /** The value's text as generated. */
    val text: String,
    /** `complete`, `stop` or `length`. */
    val finish: String,
    val usage: Usage,
    /** The state after the value, with [Options.keep]. */
    val checkpoint: Checkpoint? = null,
    /** What was taken as an annotation of the type, and tools that were left out with the reason. */
    val warnings: List<String> = emptyList(),
)

private val lenient = Json { ignoreUnknownKeys = true }

/** What generates: a [Model], or a [Session] that then holds the value too. */
sealed class Generator(internal val engine: Lean) {
    /** Whose context the value follows, for GENERATE. */
    internal abstract fun target(options: Options): Map<String, Any?>

    /** A value of the type that follows the blocks, with everything about it. A cancelled coroutine cancels it. */
    suspend fun <T> run(type: Type<T>, vararg blocks: Block, options: Options = Options()): Output<T> {
        val answer = engine.connection.call("GENERATE", head(options, false), tail(type, blocks, options))
        return outputOf(type, answer)
    }

    /**
     * The same as a cold flow of events, the last of which is [Done]. The bridge computes no further ahead than its collector
     * has read (32 events); a collector that stops cancels the generation and waits for its end.
     */
    fun <T> stream(type: Type<T>, vararg blocks: Block, options: Options = Options()): Flow<Event<T>> = flow {
        engine.connection.request("GENERATE", head(options, true), tail(type, blocks, options)) { request ->
            while (true) {
                val message = request.next() ?: break
                eventOf(message)?.let { emit(it) }
            }
            emit(Done(outputOf(type, request.answer())))
        }
    }

    private fun head(options: Options, events: Boolean) = target(options) + mapOf("keep" to options.keep, "events" to events)

    private fun tail(type: Type<*>, blocks: Array<out Block>, options: Options): ByteArray {
        val document = mapOf("blocks" to JsonArray(blocks.map { it.json }), "type" to type.json, "options" to options.json)
        return JsonObject(document).toString().toByteArray()
    }

    private fun eventOf(message: Message): Event<Nothing>? = when (message.name) {
        "PREFILL" -> Prefill(message.int("done"), message.int("total"))
        "TOKENS" -> Token((message.head["ids"] as List<*>).map { it as Long }, String(message.tail), message.head["forced"] as Boolean)
        "PARTIAL" -> Partial(Json.parseToJsonElement(String(message.tail)), message.head["path"] as String, message.int("final_bytes"))
        else -> null // Of a newer bridge.
    }

    private fun <T> outputOf(type: Type<T>, answer: Message): Output<T> {
        val document = Json.parseToJsonElement(String(answer.tail)).jsonObject
        val usage = document["usage"]?.let { lenient.decodeFromJsonElement<Usage>(it) } ?: Usage()
        val kept = (answer.head["checkpoint"] as Long?)?.let { Checkpoint(engine, it, null) }
        val (text, finish) = listOf("text", "finish").map { document.getValue(it).jsonPrimitive.content }
        val warnings = document["warnings"]?.let { lenient.decodeFromJsonElement<List<String>>(it) } ?: emptyList()
        return Output(type.build(document.getValue("value")), text, finish, usage, kept, warnings)
    }
}

/** A value of [T] that follows the blocks. */
suspend inline fun <reified T> Generator.generate(vararg blocks: Block, options: Options = Options()): T =
    run(typeOf<T>(), *blocks, options = options).value

/** The events on the way to a value of [T]. */
inline fun <reified T> Generator.stream(vararg blocks: Block, options: Options = Options()): Flow<Event<T>> =
    stream(typeOf<T>(), *blocks, options = options)
