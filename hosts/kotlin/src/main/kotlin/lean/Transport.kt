package lean

import java.io.File
import java.io.IOException
import java.util.concurrent.TimeUnit
import kotlin.concurrent.thread

/** Carries the protocol's bytes to a bridge and back. Reading belongs to one thread, writing to another. */
internal interface Transport {
    /** The process that the bridge runs in. */
    val pid: Long

    /** Some bytes from the bridge, or null at the end. */
    fun read(): ByteArray?

    /** Writes all of the bytes; false once the bridge takes no more. */
    fun write(bytes: ByteArray): Boolean

    /** Says that nothing more will be sent: the bridge then ends. */
    fun end()

    /** Ends the bridge at once. */
    fun kill()

    /** How it ended; it is killed if that takes longer. */
    fun account(patienceMs: Long): BridgeExit
}

/** Bytes of stderr that an error carries. */
private const val STDERR_TAIL = 4096

/** The spawned bridge. */
internal class BridgeProcess(file: String, args: List<String> = emptyList()) : Transport {
    private val process: Process = try {
        ProcessBuilder(listOf(file, "--parent-pid", ProcessHandle.current().pid().toString()) + args).start()
    } catch (e: IOException) {
        throw exited(BridgeExit(null, "could not be started: ${e.message}"))
    }
    private val stderr = StringBuilder()
    private val drain = thread(isDaemon = true, name = "lean-stderr") { drain() }

    override val pid: Long get() = process.pid()

    override fun read(): ByteArray? {
        val buffer = ByteArray(1 shl 16)
        val count = try {
            process.inputStream.read(buffer)
        } catch (e: IOException) {
            -1
        }
        return if (count < 0) null else buffer.copyOf(count)
    }

    override fun write(bytes: ByteArray): Boolean = try {
        process.outputStream.write(bytes)
        process.outputStream.flush()
        true
    } catch (e: IOException) {
        false
    }

    override fun end() {
        try {
            process.outputStream.close()
        } catch (e: IOException) {
            // It is gone already: its account says how.
        }
    }

    override fun kill() {
        process.destroyForcibly()
    }

    override fun account(patienceMs: Long): BridgeExit {
        if (!process.waitFor(patienceMs, TimeUnit.MILLISECONDS)) {
            kill()
            process.waitFor()
        }
        // A grandchild may hold stderr open: what it says later is not waited for.
        drain.join(1000)
        val status = process.exitValue()
        val how = if (status > 128) "was killed by signal ${status - 128}" else "exited with status $status"
        return BridgeExit(status, how, synchronized(stderr) { stderr.toString() })
    }

    private fun drain() {
        process.errorStream.reader().use { reader ->
            val buffer = CharArray(4096)
            while (true) {
                val count = try {
                    reader.read(buffer)
                } catch (e: IOException) {
                    -1
                }
                if (count < 0) return
                synchronized(stderr) {
                    stderr.append(buffer, 0, count)
                    if (stderr.length > STDERR_TAIL) stderr.delete(0, stderr.length - STDERR_TAIL)
                }
            }
        }
    }
}

/**
 * The bridge binary that [Lean.spawn] starts: the one given, else the one that LEAN_BRIDGE names, else `lean-bridge` on the
 * PATH. The error says what to install.
 */
fun findBridge(given: String? = null): String {
    for ((file, source) in listOf(given to "the argument bridge", System.getenv("LEAN_BRIDGE") to "LEAN_BRIDGE")) {
        if (file.isNullOrEmpty()) continue
        if (File(file).isFile) return file
        throw notFound("$source names $file, where there is no file")
    }
    val name = if (System.getProperty("os.name").startsWith("Windows")) "lean-bridge.exe" else "lean-bridge"
    val onPath = System.getenv("PATH").orEmpty().split(File.pathSeparator).map { File(it, name) }.firstOrNull { it.canExecute() }
    return onPath?.path ?: throw notFound(
        "no $name was found on the PATH. Build it with `cargo build --release -p lean-bridge`, and set LEAN_BRIDGE to where it is",
    )
}
