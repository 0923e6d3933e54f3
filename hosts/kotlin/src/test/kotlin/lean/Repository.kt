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
    val bridge: String by lazy { built("lean-bridge", "LEAN_BRIDGE") }
    val library: String by lazy { built(System.mapLibraryName("lean"), "LEAN_LIBRARY") }

    private fun built(name: String, variable: String): String {
        val builds = listOf("release", "debug").map { File(root, "target/$it/$name") }
        return System.getenv(variable) ?: builds.filter { it.isFile }.maxByOrNull { it.lastModified() }?.path
            ?: error("there is no $name to test with: cargo build --workspace, or set $variable")
    }
}

/** A test that has hung ends after this. */
internal const val PATIENCE_MS = 60_000L

internal fun test(body: suspend CoroutineScope.() -> Unit) = runBlocking { withTimeout(PATIENCE_MS, body) }

/** With an engine and a model, over both transports. */
internal fun withModel(path: String = "echo", body: suspend (Model) -> Unit) = test {
    withProcess(path, body)
    Lean.spawn(inProcess = true, library = Repository.library).use { body(it.load(path)) }
}

internal suspend fun withProcess(path: String = "echo", body: suspend (Model) -> Unit) =
    Lean.spawn(bridge = Repository.bridge).use { body(it.load(path)) }
