package lean

import kotlinx.coroutines.CompletableDeferred
import kotlinx.coroutines.NonCancellable
import kotlinx.coroutines.channels.Channel
import kotlinx.coroutines.channels.ClosedReceiveChannelException
import kotlinx.coroutines.withContext
import kotlinx.coroutines.withTimeoutOrNull
import java.util.concurrent.LinkedBlockingQueue
import java.util.concurrent.atomic.AtomicInteger
import kotlin.concurrent.thread

/** How long a bridge that broke the protocol may take to end by itself. */
private const val EXIT_MS = 1000L

/** How long the end of a cancelled request is waited for; it takes one step, or a layer of a prefill. */
private const val CANCEL_MS = 5000L

/** A decoded frame; its name is empty if the kind is unknown here. */
internal class Message(val name: String, val head: Map<String, Any?>, val tail: ByteArray) {
    fun int(field: String): Long = head[field] as Long
    fun long(field: String): Long = (head[field] as ULong).toLong()
}

/** Handshake, requests, events with credit, cancellation. One thread reads frames, one writes them. */
internal class Connection(val transport: Transport, private val credit: Int) {
    val hello = CompletableDeferred<Map<String, Any?>>()
    private val reader = FrameReader()
    private val requests = HashMap<Int, Request>()
    private val slots = Slots()
    private var lastId = 0
    private var over: LeanException? = null
    private val jobs = LinkedBlockingQueue<Job>()
    private var stopped = false
    private val reading = thread(isDaemon = true, name = "lean-reader") { read() }

    /** Bytes to write, or the end of stdin; after a last one the writer stops. */
    private class Job(val bytes: ByteArray?, val written: CompletableDeferred<Unit>? = null, val stop: Boolean = false)

    init {
        thread(isDaemon = true, name = "lean-writer") { write() }
    }

    val maxFrame: Int get() = reader.maxFrame

    /** One open request. */
    inner class Request(val id: Int) {
        private val events = Channel<Message>(Channel.UNLIMITED)
        private val end = CompletableDeferred<Message>()
        private var consumed = 0
        private val waiting = AtomicInteger()

        /** Hands an event over; false if there was no credit for it. */
        fun put(message: Message): Boolean {
            events.trySend(message)
            return waiting.incrementAndGet() <= credit
        }

        fun finish(outcome: Result<Message>) {
            outcome.fold(end::complete, end::completeExceptionally)
            events.close()
        }

        /** The next event, or null at the end; asking for it gives the one before back as credit. */
        suspend fun next(): Message? {
            if (consumed >= maxOf(1, credit / 2) && !end.isCompleted) {
                send(messageBytes(id, "CREDIT", mapOf("events" to consumed.toLong())))
                consumed = 0
            }
            return try {
                events.receive().also {
                    waiting.decrementAndGet()
                    consumed++
                }
            } catch (e: ClosedReceiveChannelException) {
                null
            }
        }

        /** The answer. Only once there are no events left. */
        suspend fun answer(): Message = end.await()

        val ended: Boolean get() = end.isCompleted

        /** Ends it early if it has not ended, and waits for that, so that its session is free again. */
        suspend fun close() {
            if (end.isCompleted) return
            send(messageBytes(id, "CANCEL", emptyMap()))
            withContext(NonCancellable) { withTimeoutOrNull(CANCEL_MS) { end.join() } }
        }
    }

    /** Sends a request and hands it to [use]; whatever ends that early, a cancelled coroutine too, cancels the request. */
    suspend fun <T> request(name: String, head: Map<String, Any?>, tail: ByteArray = ByteArray(0), use: suspend (Request) -> T): T {
        val bytes = messageBytes(0, name, head, tail, CRITICAL)
        val body = bytes.size - HEADER_BYTES
        if (body > maxFrame) {
            throw invalid("the request has $body bytes; at most $maxFrame fit a frame: a long context can be appended to a session in parts")
        }
        slots.enter(placesFor(name))
        val request = begin(bytes)
        try {
            return use(request)
        } finally {
            request.close()
        }
    }

    /** Sends a request whose place was taken; the place is free again once its end has arrived, whoever still waits for that. */
    private fun begin(bytes: ByteArray): Request = try {
        open(bytes)
    } catch (e: LeanException) {
        slots.leave()
        throw e
    }

    /** Sends a request and waits for its answer. */
    suspend fun call(name: String, head: Map<String, Any?>, tail: ByteArray = ByteArray(0), onEvent: suspend (Message) -> Unit = {}): Message =
        request(name, head, tail) { request ->
            while (true) onEvent(request.next() ?: break)
            request.answer()
        }

    private fun open(bytes: ByteArray): Request = synchronized(requests) {
        over?.let { throw it.copy() }
        do lastId = lastId % Int.MAX_VALUE + 1 while (lastId in requests)
        val request = Request(lastId)
        requests[lastId] = request
        for (i in 0..3) bytes[4 + i] = (lastId shr (8 * i)).toByte()
        put(Job(bytes))
        request
    }

    fun send(bytes: ByteArray) {
        put(Job(bytes))
    }

    /** Sends a frame and waits until it was written: what uploads are held back by. */
    suspend fun sendNow(bytes: ByteArray) {
        val written = CompletableDeferred<Unit>()
        put(Job(bytes, written))
        written.await()
    }

    /** Sends a request that nobody waits for, in its turn like any other. */
    fun post(name: String, head: Map<String, Any?>) {
        val bytes = messageBytes(0, name, head, flags = CRITICAL)
        slots.enter(placesFor(name)) { over ->
            try {
                if (over == null) begin(bytes)
            } catch (e: LeanException) {
                // Where the bridge is gone, so is everything in it.
            }
        }
    }

    /** Ends the bridge's stdin, and with it the bridge. */
    fun hangUp() {
        put(Job(null))
    }

    /** Ends everything in good order; from now on every call fails. Takes this long at most before the bridge is killed. */
    fun shutDown(patienceMs: Long) {
        slots.close(LeanException("cancelled: the engine was closed", 500, "cancelled", ErrorClass.CANCELLED))
        try {
            open(messageBytes(0, "SHUTDOWN", emptyMap(), flags = CRITICAL))
        } catch (e: LeanException) {
            return
        }
        synchronized(requests) { over = over ?: exited(BridgeExit(null, "was closed by this program")) }
        reading.join(patienceMs)
        hangUp()
        reading.join(patienceMs)
        if (reading.isAlive) {
            transport.kill()
            reading.join(patienceMs)
        }
    }

    private fun put(job: Job) {
        synchronized(jobs) { if (stopped) job.written?.complete(Unit) else jobs.put(job) }
    }

    private fun write() {
        var going = true
        while (true) {
            val job = jobs.take()
            if (job.bytes != null) {
                if (going) going = transport.write(job.bytes)
            } else {
                going = false
                transport.end()
            }
            job.written?.complete(Unit)
            if (job.stop) break
        }
        synchronized(jobs) {
            stopped = true
            jobs.forEach { it.written?.complete(Unit) }
        }
    }

    private fun read() {
        val error = try {
            readFrames()
        } catch (e: WireException) {
            protocolError("the bridge does not speak the protocol: ${e.message}")
        } catch (e: RuntimeException) {
            // A bug here must not leave callers waiting.
            LeanException("the client failed: $e", 900, "internal", ErrorClass.INTERNAL, cause = e)
        }
        // If no more can be understood, the bridge has to go, and its account of itself joins the error.
        if (error != null) hangUp()
        val exit = transport.account(EXIT_MS)
        fail(error?.let { LeanException(it.message.orEmpty(), it.code, it.name, it.errorClass, it.retryable, it.details, exit, it.cause) } ?: exited(exit))
        put(Job(null, stop = true))
    }

    /** Handles frames until the stream ends, or an error ends the connection. */
    private fun readFrames(): LeanException? {
        while (true) {
            reader.push(transport.read() ?: return null)
            while (true) {
                val frame = reader.next() ?: break
                handle(frame)?.let { return it }
            }
        }
    }

    private fun handle(frame: Frame): LeanException? {
        val known = BY_KIND[frame.kind]
        if (known == null && !frame.end) return null
        val message = Message(known?.name.orEmpty(), if (known == null) emptyMap() else decodeHead(frame.kind, frame.head), frame.tail)
        if (frame.request == 0) return control(message)
        val request = synchronized(requests) { if (frame.end) requests.remove(frame.request) else requests[frame.request] }
        when {
            request == null -> {}
            !frame.end -> if (!request.put(message)) return protocolError("the bridge sent more events than there was credit for")
            message.name == "ERROR" -> request.finish(Result.failure(errorOf(message.head, message.tail)))
            known == null -> request.finish(Result.failure(protocolError("the bridge answered with a kind unknown here", 602, "unknown_kind")))
            else -> request.finish(Result.success(message))
        }
        if (request != null && frame.end) slots.leave()
        return null
    }

    private fun control(message: Message): LeanException? {
        if (message.name == "ERROR") return errorOf(message.head, message.tail)
        if (message.name != "HELLO") return null
        val (major, low, high) = listOf("major", "minor_min", "minor_max").map(message::int)
        if (major != MAJOR || MINOR !in low..high) {
            val engine = message.head["engine"]
            return protocolError("this client speaks protocol $MAJOR.$MINOR, the bridge ($engine) $major.$low to $major.$high", 601, "version")
        }
        val theirs = message.int("max_frame")
        reader.maxFrame = minOf(theirs, MAX_FRAME_DEFAULT.toLong()).toInt()
        val lower = if (theirs > MAX_FRAME_DEFAULT) MAX_FRAME_DEFAULT.toLong() else null
        send(messageBytes(0, "HELLO_ACK", mapOf("minor" to MINOR, "credit" to credit.toLong(), "max_frame" to lower)))
        hello.complete(message.head)
        return null
    }

    private fun fail(error: LeanException) {
        val pending = synchronized(requests) {
            over = over ?: error
            requests.values.toList().also { requests.clear() }
        }
        slots.close(error)
        hello.completeExceptionally(error.copy())
        pending.forEach { it.finish(Result.failure(error.copy())) }
    }
}
