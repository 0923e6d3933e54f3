package lean

import java.nio.ByteBuffer
import java.nio.ByteOrder

internal const val END = 1
internal const val ERROR = 2
internal const val CRITICAL = 4
internal const val HEADER_BYTES = 16
internal const val MAX_FRAME_DEFAULT = 1 shl 20
internal const val CHUNK_BYTES = 256 shl 10
internal val MAGIC = byteArrayOf(0x89.toByte(), 0x4c, 0x45, 0x41, 0x4e, 0x0d, 0x0a, 0x1a)

/** A frame as it was read, its head not decoded yet. */
internal class Frame(val request: Int, val kind: Int, val flags: Int, val head: ByteArray, val tail: ByteArray) {
    val end: Boolean get() = flags and END != 0
}

internal fun frameBytes(request: Int, kind: Int, flags: Int, head: ByteArray, tail: ByteArray = ByteArray(0)): ByteArray =
    ByteBuffer.allocate(HEADER_BYTES + head.size + tail.size).order(ByteOrder.LITTLE_ENDIAN)
        .putInt(head.size + tail.size).putInt(request).putShort(kind.toShort()).putShort(flags.toShort()).putInt(head.size)
        .put(head).put(tail).array()

internal fun messageBytes(request: Int, name: String, fields: Map<String, Any?>, tail: ByteArray = ByteArray(0), flags: Int = 0): ByteArray =
    frameBytes(request, MESSAGES.getValue(name).kind, flags, encodeHead(name, fields), tail)

/** Turns a byte stream, cut anywhere, into frames. A [WireException] from it is final. */
internal class FrameReader(var maxFrame: Int = MAX_FRAME_DEFAULT, private var expectMagic: Boolean = true) {
    private var buffer = ByteArray(0)
    private var begin = 0
    private var failed: WireException? = null
    val buffered: Int get() = buffer.size - begin

    fun push(bytes: ByteArray) {
        buffer = buffer.copyOfRange(begin, buffer.size) + bytes
        begin = 0
    }

    /** The next whole frame, or null if more bytes are needed. */
    fun next(): Frame? {
        failed?.let { throw it }
        try {
            return parse()
        } catch (e: WireException) {
            failed = e
            buffer = ByteArray(0)
            begin = 0
            throw e
        }
    }

    /** To be called at the end of the stream: an unfinished frame throws. */
    fun finish() {
        failed?.let { throw it }
        if (buffered > 0 || expectMagic) throw WireException("truncated", "the stream ended $buffered bytes into a frame")
    }

    private fun parse(): Frame? {
        if (expectMagic && !takeMagic() || buffered < HEADER_BYTES) return null
        val header = ByteBuffer.wrap(buffer, begin, HEADER_BYTES).order(ByteOrder.LITTLE_ENDIAN)
        val bodyLength = header.int.toUInt().toLong()
        val request = header.int
        val kind = header.short.toInt() and 0xffff
        val flags = header.short.toInt() and 0xffff
        val headLength = header.int.toUInt().toLong()
        if (bodyLength > maxFrame) throw WireException("frame_too_large", "a frame of $bodyLength bytes; at most $maxFrame are allowed")
        if (headLength > bodyLength) throw WireException("bad_header", "a head of $headLength bytes in a body of $bodyLength")
        if (buffered < HEADER_BYTES + bodyLength) return null
        val at = begin + HEADER_BYTES
        val split = at + headLength.toInt()
        begin = at + bodyLength.toInt()
        return Frame(request, kind, flags, buffer.copyOfRange(at, split), buffer.copyOfRange(split, begin))
    }

    /** Whether the magic is behind us; a wrong byte is noticed as soon as it arrives. */
    private fun takeMagic(): Boolean {
        val found = buffer.copyOfRange(begin, begin + minOf(buffered, MAGIC.size))
        if (!found.contentEquals(MAGIC.copyOf(found.size))) {
            val text = String(buffer, begin, minOf(buffered, 60), Charsets.ISO_8859_1)
            throw WireException("bad_magic", "the stream does not begin with the lean magic but with \"$text\"")
        }
        if (found.size < MAGIC.size) return false
        begin += MAGIC.size
        expectMagic = false
        return true
    }
}
