package lean

/** The id of this process. */
internal fun ownPid(): Long = android.os.Process.myPid().toLong()

/** An app starts no processes of its own. */
@Suppress("UNUSED_PARAMETER")
internal fun startProcess(bridge: String?, args: List<String>): Transport =
    throw invalid("no process can be started here: Lean.spawn(inProcess = true)")
