package lean

import com.sun.jna.IntegerType
import com.sun.jna.Library
import com.sun.jna.Native
import com.sun.jna.Pointer
import com.sun.jna.ptr.IntByReference
import com.sun.jna.ptr.PointerByReference

/** C's `size_t`. */
internal class SizeT(value: Long = 0) : IntegerType(Native.SIZE_T_SIZE, value, true) {
    override fun toByte() = toLong().toByte()
    override fun toShort() = toLong().toShort()
}

/** What a port needs of liblean, by the names of `lean.h`. */
@Suppress("FunctionName")
internal interface LeanLibrary : Library {
    fun lean_port_open(port: PointerByReference, error: PointerByReference): Int
    fun lean_port_send(port: Pointer, data: ByteArray, length: SizeT, timeoutMs: Int, error: PointerByReference): Int
    fun lean_port_recv(port: Pointer, timeoutMs: Int, bytes: PointerByReference, error: PointerByReference): Int
    fun lean_port_state(port: Pointer, state: IntByReference, error: PointerByReference): Int
    fun lean_port_close(port: Pointer, error: PointerByReference): Int
    fun lean_bytes_data(bytes: Pointer, data: PointerByReference, length: PointerByReference, error: PointerByReference): Int
    fun lean_bytes_free(bytes: Pointer)
    fun lean_error_name(error: Pointer): String?
    fun lean_error_message(error: Pointer, length: Pointer?): String?
    fun lean_error_free(error: Pointer)
}

private const val OK = 0
private const val END_OF_PORT = 2
private const val FOREVER = -1
private const val STATE_PROTOCOL = 3

/** The engine in this process, through liblean and JNA: a crash of the engine is then one of this program. */
internal class BridgePort(library: String? = null) : Transport {
    private val lean = load(findLibrary(library))
    private val port: Pointer

    init {
        val opened = PointerByReference()
        call { lean.lean_port_open(opened, it) }
        port = opened.value
    }

    override val pid: Long get() = ownPid()

    override fun read(): ByteArray? {
        val received = PointerByReference()
        val status = try {
            call { lean.lean_port_recv(port, FOREVER, received, it) }
        } catch (e: LeanException) {
            return null
        }
        if (status == END_OF_PORT) return null
        try {
            // A pointer is as wide as a size_t.
            val (data, length) = PointerByReference() to PointerByReference()
            call { lean.lean_bytes_data(received.value, data, length, it) }
            return data.value.getByteArray(0, Pointer.nativeValue(length.value).toInt())
        } finally {
            lean.lean_bytes_free(received.value)
        }
    }

    override fun write(bytes: ByteArray): Boolean = try {
        call { lean.lean_port_send(port, bytes, SizeT(bytes.size.toLong()), FOREVER, it) } == OK
    } catch (e: LeanException) {
        false
    }

    override fun end() = kill()

    /** Returns when no thread of the port runs any more. The handle itself stays: another thread may be in a call on it. */
    override fun kill() {
        try {
            call { lean.lean_port_close(port, it) }
        } catch (e: LeanException) {
            // The account says it.
        }
    }

    override fun account(patienceMs: Long): BridgeExit = try {
        val state = IntByReference()
        call { lean.lean_port_close(port, it) }
        call { lean.lean_port_state(port, state, it) }
        BridgeExit(if (state.value == STATE_PROTOCOL) 2 else 0, "in this process ended")
    } catch (e: LeanException) {
        BridgeExit(null, "in this process failed: ${e.message}")
    }

    /** Calls a function; throws what it fails with. */
    private fun call(function: (PointerByReference) -> Int): Int {
        val failed = PointerByReference()
        val status = function(failed)
        val error = failed.value ?: return status
        try {
            val (name, message) = lean.lean_error_name(error).orEmpty() to lean.lean_error_message(error, null).orEmpty()
            throw LeanException(message, status, name, ErrorClass.INTERNAL)
        } finally {
            lean.lean_error_free(error)
        }
    }

    private companion object {
        fun load(file: String): LeanLibrary = try {
            Native.load(file, LeanLibrary::class.java)
        } catch (e: UnsatisfiedLinkError) {
            throw notFound(
                "no liblean was found: ${e.message}. Build it with `cargo build --release -p lean-ffi` and set LEAN_LIBRARY to where it is, " +
                    "or use the process: it needs no library",
            )
        }
    }
}
