package lean

import java.io.ByteArrayOutputStream
import java.nio.ByteBuffer
import java.nio.ByteOrder
import java.nio.charset.CharacterCodingException

/**
 * Bytes that do not decode as what they should be; fatal for the connection.
 * [kind] is one of bad_magic, frame_too_large, bad_header, truncated, bad_head.
 */
internal class WireException(val kind: String, message: String) : Exception(message)

private fun bad(reason: String): Nothing = throw WireException("bad_head", reason)

/** The postcard subset of message heads (bridge/PROTOCOL.md). u32 is a Long here, u64 a ULong. */
internal class HeadReader(private val head: ByteArray) {
    private var at = 0
    val left: Int get() = head.size - at

    fun take(count: ULong, what: String): ByteArray {
        if (count > left.toULong()) bad("the head ends inside $what at byte $at")
        at += count.toInt()
        return head.copyOfRange(at - count.toInt(), at)
    }

    fun varint(bits: Int): ULong {
        var value = 0UL
        var shift = 0
        while (true) {
            val byte = take(1UL, "a number")[0].toInt() and 0xff
            val group = byte and 0x7f
            if (shift >= bits || (shift + 7 > bits && group shr (bits - shift) != 0)) bad("a number of more than $bits bits at byte $at")
            value = value or (group.toULong() shl shift)
            if (byte < 0x80) {
                if (byte == 0 && shift > 0) bad("an overlong number at byte $at")
                return value
            }
            shift += 7
        }
    }

    fun flag(what: String): Boolean = when (val byte = take(1UL, what)[0].toInt()) {
        0 -> false
        1 -> true
        else -> bad("$what of $byte at byte $at")
    }

    fun value(type: String): Any? = when {
        type.startsWith("option<") -> if (flag("an option")) value(inner(type)) else null
        type.startsWith("seq<") -> {
            val count = varint(64)
            // Every element takes at least one byte, so a count beyond the rest of the head is a lie.
            if (count > left.toULong()) bad("a sequence of $count in $left bytes at byte $at")
            List(count.toInt()) { value(inner(type)) }
        }
        else -> scalar(type)
    }

    private fun scalar(type: String): Any = when (type) {
        "bool" -> flag("a bool")
        "u32" -> varint(32).toLong()
        "u64" -> varint(64)
        "i64" -> varint(64).let { (it shr 1).toLong() xor -(it and 1UL).toLong() }
        "f32" -> little(take(4UL, "a float")).float
        "f64" -> little(take(8UL, "a float")).double
        "bytes" -> take(varint(64), "bytes")
        "string" -> text(take(varint(64), "a string"))
        else -> throw IllegalArgumentException("unknown wire type $type")
    }

    private fun text(raw: ByteArray): String = try {
        Charsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(raw)).toString()
    } catch (e: CharacterCodingException) {
        bad("a string that is not UTF-8 before byte $at")
    }
}

private fun little(bytes: ByteArray) = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN)

private fun inner(type: String) = type.substringAfter('<').removeSuffix(">")

internal class HeadWriter {
    private val out = ByteArrayOutputStream()

    fun bytes(): ByteArray = out.toByteArray()

    private fun varint(given: ULong) {
        var value = given
        while (value >= 0x80UL) {
            out.write((value and 0x7fUL or 0x80UL).toInt())
            value = value shr 7
        }
        out.write(value.toInt())
    }

    /** Absent values are absent options, false, zero, or empty. */
    fun put(type: String, value: Any?) {
        when {
            type.startsWith("option<") -> {
                out.write(if (value == null) 0 else 1)
                if (value != null) put(inner(type), value)
            }
            type.startsWith("seq<") -> {
                val items = value as List<*>? ?: emptyList<Any>()
                varint(items.size.toULong())
                items.forEach { put(inner(type), it) }
            }
            else -> scalar(type, value)
        }
    }

    private fun scalar(type: String, value: Any?) {
        when (type) {
            "bool" -> out.write(if (value as Boolean? == true) 1 else 0)
            "u32" -> {
                val number = (value as Number? ?: 0).toLong()
                require(number in 0..0xffff_ffffL) { "$number is no u32" }
                varint(number.toULong())
            }
            "u64" -> varint(value as ULong? ?: 0UL)
            "i64" -> (value as Long? ?: 0L).let { varint(((it shl 1) xor (it shr 63)).toULong()) }
            "f32" -> out.write(little(ByteArray(4)).putFloat(value as Float? ?: 0f).array())
            "f64" -> out.write(little(ByteArray(8)).putDouble(value as Double? ?: 0.0).array())
            "bytes" -> blob(value as ByteArray? ?: ByteArray(0))
            "string" -> blob((value as String? ?: "").toByteArray())
            else -> throw IllegalArgumentException("unknown wire type $type")
        }
    }

    private fun blob(bytes: ByteArray) {
        varint(bytes.size.toULong())
        out.write(bytes)
    }
}

internal fun encodeHead(name: String, fields: Map<String, Any?>): ByteArray {
    val kind = MESSAGES.getValue(name)
    val unknown = fields.keys - kind.fields.map { it.first }.toSet()
    require(unknown.isEmpty()) { "$name has no field $unknown" }
    val writer = HeadWriter()
    for ((field, type) in kind.fields) writer.put(type, fields[field])
    return writer.bytes()
}

/** Decodes a head of a known kind. HELLO may be longer than known here: newer bridges append fields. */
internal fun decodeHead(kind: Int, head: ByteArray): Map<String, Any?> {
    val message = BY_KIND.getValue(kind)
    val reader = HeadReader(head)
    val fields = message.fields.associate { (field, type) -> field to reader.value(type) }
    if (reader.left > 0 && message.name != "HELLO") bad("${message.name}: ${reader.left} bytes too many")
    return fields
}
