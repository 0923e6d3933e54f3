package lean

import kotlinx.coroutines.TimeoutCancellationException
import kotlinx.coroutines.withTimeout
import kotlinx.serialization.json.Json
import kotlinx.serialization.json.JsonArray
import kotlinx.serialization.json.JsonObject
import kotlinx.serialization.json.JsonPrimitive
import kotlinx.serialization.json.jsonObject
import kotlinx.serialization.json.jsonPrimitive
import java.io.File
import java.util.concurrent.atomic.AtomicBoolean
import java.util.zip.CRC32

/** How long a greeting may take: long enough for a cold disk and a virus scanner. */
private const val GREETING_MS = 20_000L

/** How long a bridge may take to end after it was asked to. */
private const val CLOSE_MS = 3_000L

/** Events that a request may have on the way: the bridge waits for a consumer that is this far behind. */
private const val CREDIT = 32

/** The engine in a process of its own, until [close]. Everything here may be used from many coroutines at once. */
class Lean private constructor(internal val connection: Connection, hello: Map<String, Any?>) : AutoCloseable {
    /** Name and version of the engine. */
    val version = hello["engine"] as String

    /** What this build can do, such as `cpu`, `gpu`, `echo`. */
    val capabilities = (hello["capabilities"] as List<*>).map { it as String }

    /** The bridge's process id. */
    val pid: Long get() = connection.transport.pid

    /** Loads a model file, or `echo`, the model without weights. [onProgress] is told bytes done and bytes in total. */
    suspend fun load(
        path: String,
        backend: String? = null,
        threads: Int? = null,
        context: Int? = null,
        kv: String? = null,
        precision: String? = null,
        onProgress: ((Long, Long) -> Unit)? = null,
    ): Model {
        val echo = path == "echo" || path.startsWith("echo?")
        val head = mapOf(
            "path" to if (echo) path else File(path).absolutePath,
            "backend" to backend,
            "threads" to threads,
            "context" to context,
            "progress" to (onProgress != null),
        )
        val tail = tailOf("kv" to kv?.let(::JsonPrimitive), "precision" to precision?.let(::JsonPrimitive))
        val answer = connection.call("LOAD", head, tail) {
            if (it.name == "PROGRESS") onProgress?.invoke(it.long("done"), it.long("total"))
        }
        return Model(this, answer.int("model"), Json.parseToJsonElement(String(answer.tail)).jsonObject)
    }

    /** Ends the bridge; what still runs is cancelled. A second time it does nothing. */
    override fun close() = connection.shutDown(CLOSE_MS)

    companion object {
        /**
         * Starts the engine in a process of its own: [bridge] is the binary (see [findBridge]). With [inProcess] it runs in this
         * process instead, through JNA and liblean: [library], or what LEAN_LIBRARY names, or the one that the loader finds.
         */
        suspend fun spawn(
            bridge: String? = null,
            args: List<String> = emptyList(),
            credit: Int = CREDIT,
            inProcess: Boolean = false,
            library: String? = null,
        ): Lean {
            if (credit < 1) throw invalid("credit: $credit is less than one event")
            if (inProcess && (bridge != null || args.isNotEmpty())) throw invalid("bridge and args belong to the engine in a process of its own")
            if (!inProcess && library != null) throw invalid("library: it belongs to inProcess")
            val transport = if (inProcess) startPort(library) else startProcess(bridge, args)
            val connection = Connection(transport, credit)
            try {
                return Lean(connection, withTimeout(GREETING_MS) { connection.hello.await() })
            } catch (e: TimeoutCancellationException) {
                throw exited(BridgeExit(null, "did not greet within ${GREETING_MS / 1000} s"))
            } finally {
                if (!connection.hello.isCompleted) transport.kill()
            }
        }
    }
}

/** JNA is an optional dependency. */
private fun startPort(library: String?): Transport = try {
    BridgePort(library)
} catch (e: NoClassDefFoundError) {
    throw notFound("inProcess needs JNA: add the dependency net.java.dev.jna:jna")
}

/** What may be done to a checkpoint of another exactness class, such as another backend's. */
enum class RestorePolicy {
    /** Nothing: it is refused. */
    EXACT,

    /** It is taken over as it is; what follows is close, not identical. */
    CONVERT,

    /** Its tokens are taken, and the state is computed again. */
    REPREFILL,
}

/** A loaded model; immutable. */
class Model internal constructor(engine: Lean, private val id: Long, /** What it is. */ val info: JsonObject) : Generator(engine), AutoCloseable {
    private val closed = AtomicBoolean()

    override fun target(options: Options): Map<String, Any?> = mapOf("model" to id, "checkpoint" to options.from?.on(engine))

    /** An empty sequence, of at most [context] tokens, or one that continues where a checkpoint was taken. */
    suspend fun session(from: Checkpoint? = null, context: Int? = null): Session {
        val head = mapOf("model" to id, "checkpoint" to from?.on(engine), "context" to context)
        return Session(engine, engine.connection.call("SESSION_OPEN", head))
    }

    /**
     * A checkpoint from its bytes, checked against this model. [policy] says what may be done to a state of another exactness class;
     * [Checkpoint.restored] then says what was. [parent] is the one that it was written with.
     */
    suspend fun restore(bytes: ByteArray, policy: RestorePolicy? = null, parent: Checkpoint? = null): Checkpoint {
        val connection = engine.connection
        val digest = CRC32().apply { update(bytes) }.value
        val answer = connection.request("CHECKPOINT_LOAD", mapOf("model" to id, "path" to null), how(policy, parent)) { request ->
            var at = 0
            do {
                val next = minOf(bytes.size, at + CHUNK_BYTES)
                val last = next == bytes.size
                val head = mapOf("offset" to at.toULong(), "digest" to if (last) digest else null)
                val flags = CRITICAL or if (last) END else 0
                connection.sendNow(messageBytes(request.id, "CHUNK", head, bytes.copyOfRange(at, next), flags))
                at = next
            } while (!last && !request.ended)
            request.answer()
        }
        return Checkpoint.of(engine, answer)
    }

    /** A checkpoint from a file, in the same way. */
    suspend fun restore(file: File, policy: RestorePolicy? = null, parent: Checkpoint? = null): Checkpoint {
        val head = mapOf("model" to id, "path" to file.absolutePath)
        return Checkpoint.of(engine, engine.connection.call("CHECKPOINT_LOAD", head, how(policy, parent)))
    }

    private fun how(policy: RestorePolicy?, parent: Checkpoint?) =
        tailOf("parent" to parent?.let { JsonPrimitive(it.on(engine)) }, "restore" to policy?.let { JsonPrimitive(it.name.lowercase()) })

    /** Counts of what it has done and bytes of what it takes. */
    suspend fun stats(): JsonObject = Json.parseToJsonElement(String(engine.connection.call("MODEL_STATS", mapOf("model" to id)).tail)).jsonObject

    /** Frees it; what uses it keeps what it needs. */
    override fun close() {
        if (closed.compareAndSet(false, true)) engine.connection.post("UNLOAD", mapOf("model" to id))
    }
}

/** One sequence, used by one call at a time. A call that fails or is cancelled leaves it as it was. */
class Session internal constructor(engine: Lean, answer: Message) : Generator(engine), AutoCloseable {
    private val id = answer.int("session")
    private val closed = AtomicBoolean()

    /** Tokens it held after the last [append], [setContext] or [cut]. */
    var tokens = answer.int("tokens")
        private set

    override fun target(options: Options): Map<String, Any?> {
        if (options.from != null) throw invalid("from: a session continues from itself; a model has `session(from)`")
        return mapOf("session" to id)
    }

    /** Appends blocks. */
    suspend fun append(vararg blocks: Block) = change(blocks, false)

    /** Makes blocks the whole context; the longest common prefix is not computed again. */
    suspend fun setContext(vararg blocks: Block) = change(blocks, true)

    private suspend fun change(blocks: Array<out Block>, replace: Boolean) {
        val tail = JsonObject(mapOf("blocks" to JsonArray(blocks.map { it.json }))).toString().toByteArray()
        tokens = engine.connection.call("SESSION_APPEND", mapOf("session" to id, "replace" to replace), tail).int("tokens")
    }

    /** Removes the tokens from [begin] up to, but not including, [end] (or all from there on). */
    suspend fun cut(begin: Int, end: Int? = null) {
        tokens = engine.connection.call("SESSION_CUT", mapOf("session" to id, "begin" to begin, "end" to end)).int("tokens")
    }

    /** A copy that goes its own way. */
    suspend fun fork() = Session(engine, engine.connection.call("SESSION_FORK", mapOf("session" to id)))

    /** Its state now. */
    suspend fun checkpoint(): Checkpoint {
        val answer = engine.connection.call("CHECKPOINT_TAKE", mapOf("session" to id))
        return Checkpoint(engine, answer.int("checkpoint"), answer.int("tokens"))
    }

    /** Frees it. */
    override fun close() {
        if (closed.compareAndSet(false, true)) engine.connection.post("SESSION_CLOSE", mapOf("session" to id))
    }
}

/** A state to continue from, bit for bit; it outlives the session it came from. [tokens] it holds, if known. */
class Checkpoint internal constructor(
    private val engine: Lean,
    private val id: Long,
    val tokens: Long?,
    /** What was done to it, where a policy said what may be done: `imported`, `converted` or `reprefilled`. */
    val restored: String? = null,
) : AutoCloseable {
    private val closed = AtomicBoolean()

    internal fun on(other: Lean): Long {
        if (closed.get()) throw invalid("the checkpoint was closed")
        if (other !== engine) throw invalid("the checkpoint lives in another engine: hand over its toBytes()")
        return id
    }

    /**
     * Its self-describing bytes, for [Model.restore] in any process with the same model. [compress] makes them smaller (zstd);
     * [parent] leaves out what that checkpoint has too, and must be given again.
     */
    suspend fun toBytes(compress: Boolean = false, parent: Checkpoint? = null): ByteArray {
        val out = java.io.ByteArrayOutputStream()
        val saved = engine.connection.call("CHECKPOINT_SAVE", mapOf("checkpoint" to on(engine), "path" to null), how(compress, parent)) {
            if (it.name == "CHUNK") out.write(it.tail)
        }
        val bytes = out.toByteArray()
        if (bytes.size.toLong() != saved.long("size") || CRC32().apply { update(bytes) }.value != saved.int("digest")) {
            throw LeanException("the checkpoint was damaged on its way", 300, "bad_checkpoint", ErrorClass.INPUT)
        }
        return bytes
    }

    /** Writes it to a file (a temporary one that is flushed and renamed) and returns its size in bytes. */
    suspend fun save(file: File, compress: Boolean = false, parent: Checkpoint? = null): Long {
        val head = mapOf("checkpoint" to on(engine), "path" to file.absolutePath)
        return engine.connection.call("CHECKPOINT_SAVE", head, how(compress, parent)).long("size")
    }

    private fun how(compress: Boolean, parent: Checkpoint?) =
        tailOf("compress" to if (compress) JsonPrimitive(true) else null, "parent" to parent?.let { JsonPrimitive(it.on(engine)) })

    /** Frees it. */
    override fun close() {
        if (closed.compareAndSet(false, true)) engine.connection.post("CHECKPOINT_DROP", mapOf("checkpoint" to id))
    }

    internal companion object {
        fun of(engine: Lean, answer: Message): Checkpoint {
            val restored = if (answer.tail.isEmpty()) null else Json.parseToJsonElement(String(answer.tail)).jsonObject["restored"]
            return Checkpoint(engine, answer.int("checkpoint"), answer.int("tokens"), restored?.jsonPrimitive?.content)
        }
    }
}

/** A JSON tail of the members that are there; none, if none is. */
private fun tailOf(vararg members: Pair<String, JsonPrimitive?>): ByteArray {
    val given = members.mapNotNull { (name, value) -> value?.let { name to it } }
    return if (given.isEmpty()) ByteArray(0) else JsonObject(given.toMap()).toString().toByteArray()
}
