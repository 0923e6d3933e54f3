package lean

import kotlinx.serialization.json.Json
import kotlinx.serialization.json.JsonArray
import kotlinx.serialization.json.JsonElement
import kotlinx.serialization.json.JsonNull
import kotlinx.serialization.json.JsonObject
import kotlinx.serialization.json.JsonPrimitive
import kotlinx.serialization.json.boolean
import kotlinx.serialization.json.booleanOrNull
import kotlinx.serialization.json.contentOrNull
import kotlinx.serialization.json.int
import kotlinx.serialization.json.jsonArray
import kotlinx.serialization.json.jsonObject
import kotlinx.serialization.json.jsonPrimitive
import org.junit.jupiter.api.Assertions.assertArrayEquals
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import org.junit.jupiter.params.ParameterizedTest
import org.junit.jupiter.params.provider.MethodSource
import java.io.File
import java.util.HexFormat
import kotlin.random.Random

/** The golden vectors of tests/wire, and the reader on arbitrary bytes. */
class WireTest {
    private fun document(name: String) = Json.parseToJsonElement(File(Repository.wire, "$name.json").readText())

    private fun hex(bytes: ByteArray) = HexFormat.of().formatHex(bytes)

    /** A value as the twins write it: integers beyond 2^53 are strings. */
    private fun readable(value: Any?): JsonElement = when (value) {
        null -> JsonNull
        is Boolean -> JsonPrimitive(value)
        is String -> JsonPrimitive(value)
        is Float -> JsonPrimitive(value.toDouble())
        is List<*> -> JsonArray(value.map(::readable))
        is ByteArray -> JsonPrimitive(hex(value))
        is ULong -> if (value >= (1UL shl 53)) JsonPrimitive(value.toString()) else JsonPrimitive(value.toLong())
        is Long -> if (value >= (1L shl 53) || value <= -(1L shl 53)) JsonPrimitive(value.toString()) else JsonPrimitive(value)
        is Number -> JsonPrimitive(value)
        else -> error("$value")
    }

    private fun described(frame: Frame): JsonObject {
        val known = BY_KIND[frame.kind]
        val text = String(frame.tail)
        return JsonObject(
            mapOf(
                "request" to JsonPrimitive(frame.request.toUInt().toLong()),
                "kind" to JsonPrimitive(frame.kind),
                "name" to JsonPrimitive(known?.name),
                "flags" to JsonPrimitive(frame.flags),
                if (known == null) "head_hex" to JsonPrimitive(hex(frame.head)) else "head" to JsonObject(decodeHead(frame.kind, frame.head).mapValues { readable(it.value) }),
                if (text.toByteArray().contentEquals(frame.tail)) "tail" to JsonPrimitive(text) else "tail_hex" to JsonPrimitive(hex(frame.tail)),
            ),
        )
    }

    private fun same(want: JsonElement, got: JsonElement): Boolean = when {
        want is JsonObject && got is JsonObject -> want.keys == got.keys && want.all { same(it.value, got.getValue(it.key)) }
        want is JsonArray && got is JsonArray -> want.size == got.size && want.indices.all { same(want[it], got[it]) }
        want is JsonPrimitive && got is JsonPrimitive -> want == got || numbers(want, got)
        else -> false
    }

    private fun numbers(want: JsonPrimitive, got: JsonPrimitive) =
        want.isString == got.isString && want.booleanOrNull == null && want.content.toDoubleOrNull() != null && want.content.toDouble() == got.content.toDoubleOrNull()

    @ParameterizedTest
    @MethodSource("vectors")
    fun vector(name: String) {
        val data = File(Repository.wire, "$name.bin").readBytes()
        val twin = document(name).jsonObject
        val magic = twin.getValue("magic").jsonPrimitive.boolean
        for (step in listOf(maxOf(1, data.size), 7, 1)) {
            val reader = FrameReader(twin.getValue("max_frame").jsonPrimitive.int, magic)
            val frames = ArrayList<JsonObject>()
            var error: String? = null
            try {
                for (at in data.indices step step) {
                    reader.push(data.copyOfRange(at, minOf(data.size, at + step)))
                    while (true) frames += described(reader.next() ?: break)
                }
                reader.finish()
            } catch (e: WireException) {
                error = e.kind
            }
            assertTrue(same(twin.getValue("frames"), JsonArray(frames))) { "${twin["frames"]}\n$frames" }
            assertEquals(twin.getValue("error").jsonPrimitive.contentOrNull, error)
        }
        if (twin.getValue("error") is JsonNull && name != "hello_newer") {
            val written = twin.getValue("frames").jsonArray.map { written(it.jsonObject) }.fold(ByteArray(0), ByteArray::plus)
            assertArrayEquals(if (magic) data.drop(8).toByteArray() else data, written)
        }
    }

    /** A twin's frame, as this client writes it. */
    private fun written(frame: JsonObject): ByteArray {
        fun text(name: String) = frame[name]?.jsonPrimitive?.contentOrNull
        val name = text("name")
        val head = if (name == null) HexFormat.of().parseHex(text("head_hex")) else encodeHead(name, fields(name, frame.getValue("head").jsonObject))
        val tail = text("tail_hex")?.let(HexFormat.of()::parseHex) ?: text("tail")!!.toByteArray()
        return frameBytes(text("request")!!.toLong().toInt(), text("kind")!!.toInt(), text("flags")!!.toInt(), head, tail)
    }

    @Test
    fun `there are vectors, and the message table is the protocol's`() {
        assertTrue(vectors().size > 40)
        val table = document("messages").jsonArray.map { it.jsonObject }
        val theirs = table.map { m ->
            val fields = m.getValue("fields").jsonArray.map { it.jsonObject }
            Triple(m["name"]!!.jsonPrimitive.content, m["kind"]!!.jsonPrimitive.int, fields.map { it["name"]!!.jsonPrimitive.content to it["type"]!!.jsonPrimitive.content })
        }
        assertEquals(theirs, MESSAGES.values.map { Triple(it.name, it.kind, it.fields) })
    }

    @Test
    fun `primitives are postcard's`() {
        for (case in document("primitives").jsonArray.map { it.jsonObject }) {
            val type = case.getValue("type").jsonPrimitive.content
            val raw = HexFormat.of().parseHex(case.getValue("hex").jsonPrimitive.content)
            val reader = HeadReader(raw)
            if (case["error"]?.jsonPrimitive?.contentOrNull != null || case["error"]?.jsonPrimitive?.booleanOrNull == true) {
                assertThrows(WireException::class.java, { reader.value(type); if (reader.left > 0) throw WireException("bad_head", "") }, "$case")
                continue
            }
            val value = reader.value(type)
            assertTrue(same(case.getValue("value"), readable(value))) { "$case: $value" }
            assertArrayEquals(raw, HeadWriter().apply { put(type, value) }.bytes(), "$case")
        }
    }

    @Test
    fun `any bytes give frames or an error in bounded memory`() {
        val chance = Random(1)
        repeat(300) { round ->
            val reader = FrameReader(4096, expectMagic = false)
            try {
                repeat(20) {
                    val limit = if (round % 2 == 1) 8 else 256
                    reader.push(ByteArray(300) { if (chance.nextInt(4) == 0) chance.nextInt(limit).toByte() else 0 })
                    while (true) {
                        val frame = reader.next() ?: break
                        if (frame.kind in BY_KIND) decodeHead(frame.kind, frame.head)
                    }
                    assertTrue(reader.buffered < 4096 + 16)
                }
            } catch (e: WireException) {
                // Refused, as it has to be.
            }
        }
    }

    companion object {
        @JvmStatic
        fun vectors(): List<String> = Repository.wire.listFiles().orEmpty().filter { it.extension == "bin" }.map { it.nameWithoutExtension }.sorted()
    }
}

/** JSON fields as [encodeHead] takes them. */
internal fun fields(name: String, head: JsonObject): Map<String, Any?> {
    fun value(type: String, json: JsonElement): Any? = when {
        json is JsonNull -> null
        type.startsWith("option<") -> value(type.substringAfter('<').removeSuffix(">"), json)
        type.startsWith("seq<") -> json.jsonArray.map { value(type.substringAfter('<').removeSuffix(">"), it) }
        type == "bool" -> json.jsonPrimitive.boolean
        type == "string" -> json.jsonPrimitive.content
        type == "u64" -> json.jsonPrimitive.content.toULong()
        type == "f32" -> json.jsonPrimitive.content.toFloat()
        else -> json.jsonPrimitive.content.toLong()
    }
    val types = MESSAGES.getValue(name).fields.toMap()
    return head.mapValues { (field, json) -> value(types.getValue(field), json) }
}
