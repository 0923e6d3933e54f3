package lean

import kotlinx.serialization.json.Json
import kotlinx.serialization.json.JsonArray
import kotlinx.serialization.json.JsonElement
import kotlinx.serialization.json.JsonNull
import kotlinx.serialization.json.JsonObject
import kotlinx.serialization.json.JsonPrimitive
import kotlinx.serialization.json.booleanOrNull
import kotlinx.serialization.json.contentOrNull
import kotlinx.serialization.json.int
import kotlinx.serialization.json.jsonObject
import kotlinx.serialization.json.jsonPrimitive
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Assertions.fail
import org.junit.jupiter.api.Assumptions.assumeTrue
import org.junit.jupiter.api.Test
import org.junit.jupiter.params.ParameterizedTest
import org.junit.jupiter.params.provider.Arguments
import org.junit.jupiter.params.provider.Arguments.arguments
import org.junit.jupiter.params.provider.MethodSource
import java.io.File
import java.util.HexFormat
import java.util.Optional
import java.util.concurrent.LinkedBlockingQueue
import java.util.concurrent.TimeUnit
import java.util.zip.CRC32
import kotlin.concurrent.thread
import kotlin.io.path.createTempDirectory

private val WITH_JSON = setOf("LOADED", "INFO", "GENERATED", "ADAPTER", "ERROR")
private val WITH_TEXT = setOf("TOKENS", "PARTIAL")
private val TIMES = setOf("first_token_seconds", "total_seconds", "tokens_per_second")

private fun crc(bytes: ByteArray) = CRC32().apply { update(bytes) }.value

/** One run of a script of tests/wire/conformance over a transport: see the README there. */
private class Player(private val head: JsonObject, folder: File, private val process: Transport) : AutoCloseable {
    private val places = listOf("{dir}" to folder.path, "{repo}" to Repository.root.path, "{smol}" to Repository.smol.path)
    private val kept = HashMap<String, ByteArray>()
    private val open = HashMap<Int, ArrayDeque<Frame>>()
    private val incoming = LinkedBlockingQueue<Optional<Frame>>()
    private var ended = false

    init {
        thread(isDaemon = true) {
            val reader = FrameReader()
            while (true) {
                reader.push(process.read() ?: break)
                while (true) incoming.put(Optional.of(reader.next() ?: break))
            }
            incoming.put(Optional.empty())
        }
    }

    private fun filled(text: String) = places.fold(text) { t, (name, place) -> t.replace(name, place) }

    private fun unfilled(text: String) = places.fold(text) { t, (name, place) -> t.replace(place, name) }

    private fun mapped(json: JsonElement, change: (String) -> String): JsonElement = when (json) {
        is JsonObject -> JsonObject(json.mapValues { (k, v) -> if (k in TIMES) JsonPrimitive(0) else mapped(v, change) })
        is JsonArray -> JsonArray(json.map { mapped(it, change) })
        is JsonPrimitive -> if (json.isString) JsonPrimitive(change(json.content)) else json
    }

    fun send(frame: JsonObject) {
        val name = frame["name"]?.jsonPrimitive?.content
        val quiet = name in setOf("HELLO_ACK", "CANCEL", "CREDIT")
        var tail = frame["json"]?.let { mapped(it, ::filled).toString() }?.toByteArray() ?: frame["text"]?.jsonPrimitive?.content.orEmpty().toByteArray()
        var given = mapped(frame["head"] ?: JsonObject(emptyMap()), ::filled).jsonObject
        frame["kept"]?.jsonPrimitive?.content?.let { blob ->
            val bytes = kept.getValue(blob).copyOf()
            if (given["digest"]?.jsonPrimitive?.contentOrNull == "DIGEST") given = JsonObject(given + ("digest" to JsonPrimitive(crc(bytes))))
            frame["flip"]?.jsonPrimitive?.int?.let { bytes[it] = (bytes[it].toInt() xor 1).toByte() }
            tail = bytes.copyOfRange(frame["from"]?.jsonPrimitive?.int ?: 0, frame["to"]?.jsonPrimitive?.int ?: bytes.size)
        }
        val head = if (name == null) ByteArray(0) else encodeHead(name, fields(name, given))
        val kind = if (name == null) frame.getValue("kind").jsonPrimitive.int else MESSAGES.getValue(name).kind
        val flags = frame["flags"]?.jsonPrimitive?.int ?: if (quiet) 0 else CRITICAL
        process.write(frameBytes(frame.getValue("request").jsonPrimitive.int, kind, flags, head, tail))
    }

    /** The next frame of a request; those of others wait for their turn. */
    private fun next(request: Int): Frame {
        while (open[request].isNullOrEmpty()) {
            val frame = incoming.poll(PATIENCE_MS, TimeUnit.MILLISECONDS) ?: fail("no frame of request $request within $PATIENCE_MS ms")
            val arrived = frame.orElseGet { fail("the stream ended before a frame of request $request: ${process.account(PATIENCE_MS)}") }
            open.getOrPut(arrived.request, ::ArrayDeque).add(arrived)
        }
        return open.getValue(request).removeFirst()
    }

    private fun described(frame: Frame): JsonObject {
        val name = BY_KIND[frame.kind]?.name
        val told = LinkedHashMap<String, JsonElement>()
        told["request"] = JsonPrimitive(frame.request)
        if (name == null) told["kind"] = JsonPrimitive(frame.kind) else told["name"] = JsonPrimitive(name)
        if (frame.flags != 0) told["flags"] = JsonPrimitive(frame.flags)
        val head = if (name == null) emptyMap() else decodeHead(frame.kind, frame.head)
        if (head.isNotEmpty()) told["head"] = mapped(JsonObject(head.mapValues { plain(it.value) }), ::unfilled)
        when {
            frame.tail.isEmpty() -> {}
            name in WITH_JSON -> told["json"] = mapped(Json.parseToJsonElement(String(frame.tail)), ::unfilled)
            name in WITH_TEXT -> told["text"] = JsonPrimitive(String(frame.tail))
            else -> told["bytes"] = JsonObject(mapOf("size" to JsonPrimitive(frame.tail.size), "crc32" to JsonPrimitive(crc(frame.tail))))
        }
        return JsonObject(told)
    }

    private fun plain(value: Any?): JsonElement = when (value) {
        null -> JsonNull
        is Boolean -> JsonPrimitive(value)
        is String -> JsonPrimitive(value)
        is List<*> -> JsonArray(value.map(::plain))
        is ULong -> JsonPrimitive(value.toLong())
        else -> JsonPrimitive(value as Number)
    }

    private fun same(want: JsonElement, got: JsonElement): Boolean = when {
        want is JsonPrimitive && want.isString && want.content == "<any>" -> true
        want is JsonObject && got is JsonObject -> want.keys == got.keys && want.all { same(it.value, got.getValue(it.key)) }
        want is JsonArray && got is JsonArray -> want.size == got.size && want.indices.all { same(want[it], got[it]) }
        want is JsonPrimitive && got is JsonPrimitive && want.isString == got.isString -> want == got || !want.isString && equalNumbers(want, got)
        else -> false
    }

    private fun equalNumbers(want: JsonPrimitive, got: JsonPrimitive): Boolean {
        val (a, b) = want.content.toBigDecimalOrNull() to got.content.toBigDecimalOrNull()
        return a != null && b != null && a.compareTo(b) == 0
    }

    fun handshake() {
        assertEquals(MESSAGES.getValue("HELLO").kind, next(0).kind)
        val ack = mapOf("minor" to JsonPrimitive(0), "credit" to (head["credit"] ?: JsonPrimitive(32)), "max_frame" to (head["max_frame"] ?: JsonNull))
        send(JsonObject(mapOf("request" to JsonPrimitive(0), "name" to JsonPrimitive("HELLO_ACK"), "head" to JsonObject(ack))))
    }

    fun step(step: JsonObject, at: String) {
        when {
            "send" in step -> send(step.getValue("send").jsonObject)
            "send_hex" in step -> process.write(HexFormat.of().parseHex(step.getValue("send_hex").jsonPrimitive.content))
            "expect" in step -> expect(step.getValue("expect").jsonObject, at)
            "close" in step -> process.end()
            "end" in step -> end(step.getValue("end").jsonPrimitive.int)
            else -> fail<Unit>("$at: a step of no kind")
        }
    }

    private fun expect(given: JsonObject, at: String) {
        val frame = next(given.getValue("request").jsonPrimitive.int)
        given["keep"]?.jsonPrimitive?.content?.let { kept[it] = (kept[it] ?: ByteArray(0)) + frame.tail }
        val want = JsonObject(given - "keep")
        val got = described(frame)
        if (!same(want, got)) fail<Unit>("$at\nexpected $want\ngot      $got")
    }

    private fun end(status: Int) {
        ended = true
        val last = incoming.poll(PATIENCE_MS, TimeUnit.MILLISECONDS) ?: fail("the stream did not end within $PATIENCE_MS ms")
        val left = open.values.flatten() + listOfNotNull(last.orElse(null))
        assertTrue(left.isEmpty()) { "not expected: ${left.map(::described)}" }
        val exit = process.account(PATIENCE_MS)
        assertEquals(status, exit.status) { "$exit" }
    }

    fun finish() {
        if (ended) return
        send(JsonObject(mapOf("request" to JsonPrimitive(Int.MAX_VALUE), "name" to JsonPrimitive("SHUTDOWN"))))
        assertEquals("OK", described(next(Int.MAX_VALUE))["name"]?.jsonPrimitive?.content)
        end(0)
    }

    override fun close() {
        process.kill()
        process.account(PATIENCE_MS)
    }
}

class ConformanceTest {
    @ParameterizedTest
    @MethodSource("scripts")
    fun script(name: String, transport: String) {
        val lines = File(Repository.wire, "conformance/$name.jsonl").readLines()
        val head = Json.parseToJsonElement(lines[0]).jsonObject
        val smol = head["model"]?.jsonPrimitive?.content == "smol"
        assumeTrue(!smol || Repository.smol.isFile) { "SKIPPED: there is no ${Repository.smol}" }
        val folder = createTempDirectory("lean-conformance").toRealPath().toFile()
        try {
            val carrier = if (transport == "port") BridgePort(Repository.library) else BridgeProcess(Repository.bridge)
            Player(head, folder, carrier).use { player ->
                if (head["handshake"]?.jsonPrimitive?.booleanOrNull != false) player.handshake()
                lines.drop(1).forEachIndexed { i, line ->
                    if (line.isNotBlank() && !line.startsWith("#")) player.step(Json.parseToJsonElement(line).jsonObject, "$name:${i + 2}")
                }
                player.finish()
            }
        } finally {
            folder.deleteRecursively()
        }
    }

    @Test
    fun `there are scripts`() = assertTrue(scripts().size > 50)

    companion object {
        @JvmStatic
        fun scripts(): List<Arguments> =
            File(Repository.wire, "conformance").listFiles().orEmpty().filter { it.extension == "jsonl" }.map { it.nameWithoutExtension }.sorted()
                .flatMap { listOf(arguments(it, "process"), arguments(it, "port")) }
    }
}
