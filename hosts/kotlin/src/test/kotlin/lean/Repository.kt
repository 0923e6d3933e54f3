package lean

import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.runBlocking
import kotlinx.coroutines.withTimeout
import java.io.File

/** The repository that this folder lies in, and its newest build of the bridge. */
internal object Repository {
    val root: File = generateSequence(File("").absoluteFile) { it.parentFile }.first { File(it, "bridge/PROTOCOL.md").isFile }.canonicalFile
    val wire = File(root, "tests/wire")
    val smol = File(System.getenv("LEAN_MODEL_DIR") ?: "$root/.cache/models", "SmolLM2-135M-Instruct.Q4_1.gguf").absoluteFile
    val bridge: String by lazy {
        val builds = listOf("release", "debug").map { File(root, "target/$it/lean-bridge") }
        System.getenv("LEAN_BRIDGE") ?: builds.filter { it.isFile }.maxByOrNull { it.lastModified() }?.path
            ?: error("there is no lean-bridge to test with: cargo build -p lean-bridge, or set LEAN_BRIDGE")
    }
}

/** A test that has hung ends after this. */
internal const val PATIENCE_MS = 60_000L

internal fun test(body: suspend CoroutineScope.() -> Unit) = runBlocking { withTimeout(PATIENCE_MS, body) }

/** With an engine and a model. */
internal fun withModel(path: String = "echo", body: suspend (Model) -> Unit) = test {
    Lean.spawn(bridge = Repository.bridge).use { body(it.load(path)) }
}
