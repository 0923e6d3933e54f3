package lean

import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Test
import java.io.File

class ReadmeTest {
    private val folder = File(Repository.root, "hosts/kotlin")

    @Test
    fun `the README's example is the one that runs`() {
        val code = File(folder, "README.md").readText().substringAfter("```kotlin\n").substringBefore("```")
        assertEquals(File(folder, "src/test/kotlin/example/Example.kt").readText(), code)
    }

    @Test
    fun `the example runs as a program of its own`() {
        val java = File(System.getProperty("java.home"), "bin/java").path
        val run = ProcessBuilder(java, "-cp", System.getProperty("java.class.path"), "example.ExampleKt").redirectErrorStream(true)
        run.environment() += mapOf("LEAN_BRIDGE" to Repository.bridge, "MODEL" to "echo")
        val process = run.start()
        assertEquals("Ada\n", process.inputStream.reader().readText())
        assertEquals(0, process.waitFor())
    }
}
