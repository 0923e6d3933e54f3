package lean

import java.io.IOException
import java.util.concurrent.TimeUnit
import kotlin.concurrent.thread

/** Bytes of stderr that an error carries. */
private const val STDERR_TAIL = 4096

/** The spawned bridge. */
internal class BridgeProcess(file: String, args: List<String> = emptyList()) : Transport {
    private val process: Process = try {
        ProcessBuilder(listOf(file, "--parent-pid", ownPid().toString()) + args).start()
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

/** The id of this process. */
internal fun ownPid(): Long = ProcessHandle.current().pid()

/** The bridge that [Lean.spawn] starts. */
internal fun startProcess(bridge: String?, args: List<String>): Transport = BridgeProcess(findBridge(bridge), args)
