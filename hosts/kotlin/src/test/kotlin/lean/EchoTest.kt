package lean

import kotlinx.coroutines.CancellationException
import kotlinx.coroutines.CoroutineStart
import kotlinx.coroutines.async
import kotlinx.coroutines.awaitAll
import kotlinx.coroutines.coroutineScope
import kotlinx.coroutines.flow.filterIsInstance
import kotlinx.coroutines.flow.first
import kotlinx.coroutines.flow.toList
import kotlinx.coroutines.launch
import kotlinx.coroutines.withTimeoutOrNull
import kotlinx.serialization.Serializable
import kotlinx.serialization.json.JsonElement
import kotlinx.serialization.json.JsonPrimitive
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertNull
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.assertThrows
import java.io.File
import kotlin.io.path.createTempDirectory

@Serializable
data class Person(val id: Int, val name: String, val tags: List<String> = emptyList())

/** The client over the echo model, which answers text with its context and a JSON type with the JSON it was told. */
class EchoTest {
    @Test
    fun `values of Kotlin types come out`() = withModel { model ->
        assertEquals("one two three", model.generate<String>(text("one two three")))
        val person = Person(7, "Ada", listOf("a", "b"))
        assertEquals(person, model.generate<Person>(json(person)))
        assertEquals(listOf(1, 2), model.generate<List<Int>>(text("[1,2]")))
        assertNull(model.generate<Int?>(text("null")))
        assertEquals(JsonPrimitive(5), model.generate<JsonElement>(text("5")))
    }

    @Test
    fun `a flow has the events and, last, the value`() = withModel { model ->
        val events = model.stream<String>(text("naïve 日本 words")).toList()
        assertEquals(Prefill(3, 3), events.first())
        assertEquals("naïve 日本 words", events.filterIsInstance<Token>().joinToString("") { it.text })
        val output = (events.last() as Done).output
        assertEquals("naïve 日本 words", output.value)
        assertEquals("complete", output.finish)
        assertEquals(3, output.usage.promptTokens)
    }

    @Test
    fun `more events than there is credit for come all the same`() = withModel { model ->
        val words = (0 until 500).joinToString(" ") { "w$it" }
        assertEquals(words, model.stream<String>(text(words)).toList().filterIsInstance<Token>().joinToString("") { it.text })
    }

    @Test
    fun `a collector that stops cancels, and the session is as it was`() = withModel { model ->
        model.session().use { session ->
            // Longer than there is credit for, so that it cannot end by itself.
            val words = (0 until 500).joinToString(" ") { "w$it" }
            session.append(text(words))
            session.stream<String>().filterIsInstance<Token>().first()
            assertEquals(500, session.checkpoint().tokens)
            assertEquals(words, session.generate<String>())
        }
    }

    @Test
    fun `a cancelled coroutine cancels the call`() = withModel("echo?step_ms=60000") { model ->
        coroutineScope {
            val call = launch(start = CoroutineStart.UNDISPATCHED) { model.generate<String>(text("a b")) }
            call.cancel(CancellationException("enough"))
            call.join()
        }
        assertNull(withTimeoutOrNull(50) { model.generate<String>(text("a b")) })
    }

    @Test
    fun `closing ends what runs`() = withModel("echo?step_ms=60000") { model ->
        coroutineScope {
            val calls = (1..3).map { async(start = CoroutineStart.UNDISPATCHED) { runCatching { model.generate<String>(text("a b")) } } }
            model.engine.close()
            for (outcome in calls.awaitAll()) assertTrue(outcome.exceptionOrNull() is LeanException) { "$outcome" }
        }
        assertEquals(691, assertThrows<LeanException> { model.generate<String>(text("a")) }.code)
    }

    @Test
    fun `more calls than a bridge takes wait for their turn`() = withModel { model ->
        coroutineScope {
            val values = (0 until 200).map { async { model.generate<String>(text("number $it")) } }.awaitAll()
            assertEquals((0 until 200).map { "number $it" }, values)
        }
    }

    @Test
    fun `checkpoints go through bytes and files`() = withModel { model ->
        val folder = createTempDirectory("lean").toFile()
        try {
            val session = model.session()
            session.append(text("one two"))
            val checkpoint = session.checkpoint()
            val file = File(folder, "state")
            val size = checkpoint.save(file)
            assertEquals(file.length(), size)
            for (restored in listOf(checkpoint, model.restore(checkpoint.toBytes()), model.restore(file))) {
                assertEquals("one two", model.generate<String>(options = Options(from = restored)))
            }
            val kept = model.run(Type.text(), text("three"), options = Options(keep = true)).checkpoint!!
            assertEquals(model.session(from = kept).tokens, model.restore(kept.toBytes()).tokens)
            checkpoint.close()
            assertEquals(100, assertThrows<LeanException> { model.session(from = checkpoint) }.code)
        } finally {
            folder.deleteRecursively()
        }
    }

    @Test
    fun `errors keep their codes and numbers`() = withModel { model ->
        val cases = listOf<Pair<Int, suspend () -> Unit>>(
            200 to { model.engine.load("/nowhere/model.gguf") },
            110 to { model.run(Type.expression("\"nothing\""), text("a")) },
            130 to { model.session(context = 2).append(text("a b c d")) },
            100 to { model.generate<String>(text("x".repeat(2 shl 20))) },
        )
        for ((code, call) in cases) {
            val error = assertThrows<LeanException> { call() }
            assertEquals(code, error.code, error.message)
            assertEquals(ErrorClass.INPUT, error.errorClass)
            if (code == 130) assertEquals(JsonPrimitive(4), error.details["needed"])
        }
    }

    @Test
    fun `a bridge that is missing is named with what to do`() = test {
        val error = assertThrows<LeanException> { Lean.spawn(bridge = "/nowhere/lean-bridge") }
        assertEquals("bridge_not_found", error.name)
        assertTrue("/nowhere/lean-bridge" in error.message!!)
    }

    @Test
    fun `what is no bridge ends with its account`() = test {
        for ((file, code) in listOf("/bin/true" to 691, "/bin/echo" to 600)) {
            assertEquals(code, assertThrows<LeanException> { Lean.spawn(bridge = file) }.code, file)
        }
    }

    @Test
    fun `a killed bridge fails every call with how it ended, and another goes on from the checkpoint`() = test { withProcess { model ->
        val session = model.session()
        session.append(text("one two"))
        val state = session.checkpoint().toBytes()
        val slow = model.engine.load("echo?step_ms=60000")
        coroutineScope {
            val calls = (1..3).map { async(start = CoroutineStart.UNDISPATCHED) { runCatching { slow.generate<String>(text("a b")) } } }
            ProcessHandle.of(model.engine.pid).get().destroyForcibly()
            for (outcome in calls.awaitAll()) {
                val error = outcome.exceptionOrNull() as LeanException
                assertEquals(691, error.code)
                assertEquals(137, error.exit?.status)
                assertTrue(error.retryable)
            }
        }
        Lean.spawn(bridge = Repository.bridge).use { other ->
            val again = other.load("echo")
            assertEquals("one two", again.session(from = again.restore(state)).generate<String>())
        }
    } }
}
