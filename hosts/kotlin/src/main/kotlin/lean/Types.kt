package lean

import kotlinx.serialization.KSerializer
import kotlinx.serialization.json.Json
import kotlinx.serialization.json.JsonArray
import kotlinx.serialization.json.JsonElement
import kotlinx.serialization.json.JsonObject
import kotlinx.serialization.json.JsonPrimitive
import kotlinx.serialization.json.buildJsonObject
import kotlinx.serialization.json.jsonPrimitive
import kotlinx.serialization.json.put
import kotlinx.serialization.serializer

/** What comes out, and nothing else can. */
class Type<T> internal constructor(internal val json: JsonObject, internal val build: (JsonElement) -> T) {
    companion object {
        /** Unquoted text, of so many characters at most. */
        fun text(maxChars: Int? = null): Type<String> {
            val text = buildJsonObject { put("max_chars", JsonPrimitive(maxChars)) }
            return Type(JsonObject(mapOf("text" to text))) { it.jsonPrimitive.content }
        }

        /** One of some strings. */
        fun choice(vararg choices: String): Type<String> =
            Type(JsonObject(mapOf("choice" to JsonArray(choices.map(::JsonPrimitive))))) { it.jsonPrimitive.content }

        /** Text that a regular expression matches. */
        fun regex(pattern: String): Type<String> = Type(JsonObject(mapOf("regex" to JsonPrimitive(pattern)))) { it.jsonPrimitive.content }

        /** JSON of a JSON Schema. */
        fun schema(schema: JsonElement): Type<JsonElement> = Type(JsonObject(mapOf("schema" to schema))) { it }

        /** JSON of a type expression, itself JSON, such as `{"id": "number"}`. */
        fun expression(expression: String): Type<JsonElement> =
            Type(JsonObject(mapOf("expr" to Json.parseToJsonElement(expression)))) { it }

        /** The JSON that a serializer reads; a string is unquoted text. */
        fun <T> of(serializer: KSerializer<T>): Type<T> {
            val schema by lazy { SchemaBuilder().build(serializer.descriptor) }
            @Suppress("UNCHECKED_CAST")
            return when (serializer.descriptor.serialName) {
                "kotlin.String" -> text() as Type<T>
                "kotlinx.serialization.json.JsonElement" -> Type(JsonObject(mapOf("schema" to JsonPrimitive(true)))) { it as T }
                else -> Type(JsonObject(mapOf("schema" to schema))) { Json.decodeFromJsonElement(serializer, it) }
            }
        }
    }
}

/** The type of a Kotlin class: see [Type.of]. */
inline fun <reified T> typeOf(): Type<T> = Type.of(serializer<T>())
