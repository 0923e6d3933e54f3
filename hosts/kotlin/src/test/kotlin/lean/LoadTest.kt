package lean

import kotlinx.coroutines.CoroutineStart
import kotlinx.coroutines.async
import kotlinx.coroutines.awaitAll
import kotlinx.coroutines.cancelAndJoin
import kotlinx.coroutines.coroutineScope
import kotlinx.coroutines.delay
import kotlinx.coroutines.flow.filterIsInstance
import kotlinx.coroutines.launch
import kotlinx.coroutines.withTimeout
import kotlinx.serialization.json.JsonPrimitive
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertNull
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.assertThrows
import java.io.File
import java.util.concurrent.atomic.AtomicInteger

/** More at once than the bridge takes. */
class LoadTest {
    @Test
    fun `calls wait for their turn, and what they leave behind is freed`() = withModel("echo?step_ms=1") { model ->
        coroutineScope {
            val values = (0 until 200).map { i ->
                async {
                    model.session().use { session ->
                        session.append(text("call $i"))
                        session.checkpoint().use { session.generate<String>() }
                    }
                }
            }.awaitAll()
            assertEquals((0 until 200).map { "call $it" }, values)
        }
        // A session that was closed while all places were taken is closed, at the latest soon: its number is unknown then.
        for (i in 1L..200L) while (runCatching { model.engine.connection.call("SESSION_FORK", mapOf("session" to i)) }.isSuccess) delay(5)
    }

    @Test
    fun `flows that are not collected leave places to what ends`() = withModel { model ->
        val words = text((0 until 200).joinToString(" ") { "w$it" })
        coroutineScope {
            val held = AtomicInteger()
            val flows = (0 until 70).map {
                launch { model.stream<String>(words).filterIsInstance<Token>().collect { held.incrementAndGet(); delay(PATIENCE_MS) } }
            }
            while (held.get() < 56) delay(5)
            val session = withTimeout(5000) { model.session() }
            withTimeout(5000) { session.checkpoint().use { assertEquals(0L, it.tokens) } }
            val waiting = async(start = CoroutineStart.UNDISPATCHED) { model.generate<String>(text("late")) }
            flows.forEach { it.cancel() }
            assertEquals("late", withTimeout(10_000) { waiting.await() })
            flows.forEach { it.cancelAndJoin() }
        }
    }

    @Test
    fun `a cancelled call gives its place back`() = withModel("echo?step_ms=60000") { model ->
        repeat(3) {
            coroutineScope {
                val calls = (0 until 80).map { launch { model.generate<String>(text("a b")) } }
                delay(50)
                calls.forEach { it.cancelAndJoin() }
            }
        }
        assertEquals("a", model.engine.load("echo").generate<String>(text("a")))
    }

    @Test
    fun `a state of another kind is restored as the policy says`() =
        withModel(File(Repository.root, "tests/fixtures/models/llama-hd64-tied.s1.q4_1.gguf").path) { model ->
            val session = model.session()
            session.append(text("A ticket"))
            val first = session.checkpoint()
            val state = first.toBytes()
            assertNull(model.restore(state).restored)
            val other = model.engine.load(File(Repository.root, "tests/fixtures/models/llama-hd64-tied.s1.q4_1.gguf").path, kv = "q8_0")
            assertEquals(301, assertThrows<LeanException> { other.restore(state) }.code)
            assertEquals("converted", other.restore(state, RestorePolicy.CONVERT).restored)
            assertEquals("reprefilled", other.restore(state, RestorePolicy.REPREFILL).restored)
            session.append(text(" for a bug"))
            val delta = session.checkpoint().toBytes(compress = true, parent = first)
            assertEquals(session.tokens, model.restore(delta, parent = first).tokens)
            assertEquals(JsonPrimitive("llama"), model.info["architecture"])
        }

    @Test
    fun `what does not belong together is refused`() = test {
        assertEquals(690, assertThrows<LeanException> { Lean.spawn(inProcess = true, library = "/nowhere/liblean.so") }.code)
        assertEquals(100, assertThrows<LeanException> { Lean.spawn(inProcess = true, bridge = "/bin/true") }.code)
        assertEquals(100, assertThrows<LeanException> { Lean.spawn(library = "/bin/true") }.code)
    }
}
