package lean

import kotlinx.coroutines.suspendCancellableCoroutine
import kotlin.coroutines.resumeWithException

/** The bridge's own limit of requests that are open at once, which only the end may take up fully. */
private const val OPEN_MAX = 64

/**
 * Requests that stay open for as long as the caller likes leave a few places to those that always end, such as the checkpoint
 * of a session while many flows are not collected.
 */
internal fun placesFor(name: String) = when (name) {
    "GENERATE", "SESSION_APPEND", "LOAD" -> OPEN_MAX - 8
    else -> OPEN_MAX - 1
}

/** The places of the open requests, and the queue for them: for those that nobody waits for as well. */
internal class Slots {
    private class Ticket(val places: Int, val start: (LeanException?) -> Unit)

    private var open = 0
    private var waiting = ArrayList<Ticket>()
    private var over: LeanException? = null

    /** Suspends until one more request may be open. A cancelled coroutine gives up its turn. */
    suspend fun enter(places: Int) = suspendCancellableCoroutine { continuation ->
        val ticket = Ticket(places) { error ->
            if (error != null) continuation.resumeWithException(error) else continuation.resume(Unit) { _, _, _ -> leave() }
        }
        continuation.invokeOnCancellation { synchronized(this) { waiting.remove(ticket) } }
        enter(ticket)
    }

    /** Calls [start] once one more request may be open; with an error once none may any more. */
    fun enter(places: Int, start: (LeanException?) -> Unit) = enter(Ticket(places, start))

    private fun enter(ticket: Ticket) {
        val (ready, error) = synchronized(this) {
            val error = over
            if (error != null) listOf(ticket) to error else {
                waiting.add(ticket)
                admitted() to null
            }
        }
        ready.forEach { it.start(error?.copy()) }
    }

    /** A request has ended. */
    fun leave() {
        val ready = synchronized(this) {
            open--
            admitted()
        }
        ready.forEach { it.start(null) }
    }

    /** From now on nobody enters; who waits hears of it, and who comes later of the last reason. */
    fun close(error: LeanException) {
        val left = synchronized(this) {
            over = error
            waiting.also { waiting = ArrayList() }
        }
        left.forEach { it.start(error.copy()) }
    }

    private fun admitted(): List<Ticket> {
        val ready = ArrayList<Ticket>()
        waiting.removeAll { ticket ->
            (open < ticket.places).also {
                if (it) {
                    open++
                    ready.add(ticket)
                }
            }
        }
        return ready
    }
}
