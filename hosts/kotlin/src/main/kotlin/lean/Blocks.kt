package lean

import kotlinx.serialization.json.Json
import kotlinx.serialization.json.JsonArray
import kotlinx.serialization.json.JsonElement
import kotlinx.serialization.json.JsonObject
import kotlinx.serialization.json.JsonPrimitive
import kotlinx.serialization.json.buildJsonObject
import kotlinx.serialization.json.encodeToJsonElement
import kotlinx.serialization.json.put

/** A piece of context. */
class Block internal constructor(internal val json: JsonObject)

/** Plain text: control tokens in it are never parsed. */
fun text(text: String) = Block(JsonObject(mapOf("text" to JsonPrimitive(text))))

/** Trusted text, in which control tokens are parsed. */
fun raw(text: String) = Block(JsonObject(mapOf("raw" to JsonPrimitive(text))))

/** Token ids of the model. */
fun tokens(ids: List<Int>) = Block(JsonObject(mapOf("tokens" to JsonArray(ids.map(::JsonPrimitive)))))

/** A value as compact JSON. */
fun json(value: JsonElement) = Block(JsonObject(mapOf("json" to value)))

/** A value as compact JSON. */
inline fun <reified T> json(value: T): Block = json(Json.encodeToJsonElement(value))

/** A chat message. */
class ChatMessage(val role: String, val content: String)

/** What a user said. */
fun user(content: String) = ChatMessage("user", content)

/** What the model is told beforehand. */
fun system(content: String) = ChatMessage("system", content)

/** What the model said. */
fun assistant(content: String) = ChatMessage("assistant", content)

/** A whole conversation, rendered with the model's template; control tokens inside a message stay text. */
fun chat(vararg messages: ChatMessage) = Block(
    JsonObject(
        mapOf(
            "chat" to buildJsonObject {
                put(
                    "messages",
                    JsonArray(messages.map { buildJsonObject { put("role", it.role); put("content", it.content) } }),
                )
            },
        ),
    ),
)

/** What a generation may be told. Null is not told. */
data class Options(
    /** Tokens at most; a value of a type ends, whole, within them. */
    val maxTokens: Int? = null,
    /** 0, the default, is greedy. */
    val temperature: Double? = null,
    val topK: Int? = null,
    val topP: Double? = null,
    val minP: Double? = null,
    val repetitionPenalty: Double? = null,
    val repetitionWindow: Int? = null,
    val seed: Long? = null,
    /** Text ends before any of these (text types only). */
    val stop: List<String>? = null,
    /** Events with the value so far as well, for JSON types. */
    val partials: Boolean? = null,
    /** Keeps the state after the value: [Output.checkpoint]. */
    val keep: Boolean = false,
    /** Where to continue from (models only). */
    val from: Checkpoint? = null,
) {
    internal val json: JsonObject
        get() = buildJsonObject {
            maxTokens?.let { put("max_tokens", it) }
            temperature?.let { put("temperature", it) }
            topK?.let { put("top_k", it) }
            topP?.let { put("top_p", it) }
            minP?.let { put("min_p", it) }
            repetitionPenalty?.let { put("repetition_penalty", it) }
            repetitionWindow?.let { put("repetition_window", it) }
            seed?.let { put("seed", it) }
            stop?.let { put("stop", JsonArray(it.map(::JsonPrimitive))) }
            partials?.let { put("partials", it) }
        }
}
