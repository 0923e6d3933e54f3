package lean

import java.io.File

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

/** The library for the transport in this process: the one given, else the one that LEAN_LIBRARY names, else `lean`, which the loader has to find. */
internal fun findLibrary(given: String?): String {
    for ((file, source) in listOf(given to "the argument library", System.getenv("LEAN_LIBRARY") to "LEAN_LIBRARY")) {
        if (file.isNullOrEmpty()) continue
        if (File(file).isFile) return File(file).absolutePath
        throw notFound("$source names $file, where there is no file")
    }
    return "lean"
}
