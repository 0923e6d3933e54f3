package lean

import kotlinx.serialization.json.Json
import kotlinx.serialization.json.JsonObject
import kotlinx.serialization.json.jsonObject

/** What to do about an error. */
enum class ErrorClass { UNKNOWN, PROTOCOL, INPUT, RESOURCE, CANCELLED, INTERNAL }

/** How a bridge process ended: its exit status (128 and the signal's number for one that a signal ended) and its last words. */
data class BridgeExit(val status: Int?, val how: String, val stderr: String = "")

/** An error of the engine, of the bridge, or of the way there. */
class LeanException(
    message: String,
    /** Stable number, the same in every interface of lean. */
    val code: Int,
    /** Short name of the code, such as `context_overflow`. */
    val name: String,
    /** What to do about it. */
    val errorClass: ErrorClass,
    /** Whether the same call may succeed later. */
    val retryable: Boolean = false,
    /** The error's own numbers, such as `needed` and `available`. */
    val details: JsonObject = JsonObject(emptyMap()),
    /** How the bridge ended, where that is why. */
    val exit: BridgeExit? = null,
    cause: Throwable? = null,
) : RuntimeException(message, cause) {
    /** The same error anew: every pending call throws an object of its own, with its own stack. */
    internal fun copy() = LeanException(message.orEmpty(), code, name, errorClass, retryable, details, exit, cause)
}

internal fun invalid(message: String) = LeanException(message, 100, "invalid_argument", ErrorClass.INPUT)

internal fun refusedType(at: String, reason: String) = LeanException("type error at $at: $reason", 110, "type", ErrorClass.INPUT)

internal fun notFound(message: String) = LeanException(message, 690, "bridge_not_found", ErrorClass.RESOURCE)

internal fun protocolError(message: String, code: Int = 600, name: String = "protocol") =
    LeanException(message, code, name, ErrorClass.PROTOCOL)

internal fun exited(exit: BridgeExit): LeanException {
    val words = if (exit.stderr.isBlank()) "" else "\nIts last words:\n${exit.stderr.trimEnd()}"
    return LeanException("the bridge ${exit.how}$words", 691, "bridge_exited", ErrorClass.RESOURCE, retryable = true, exit = exit)
}

/** The error of an ERROR frame. */
internal fun errorOf(head: Map<String, Any?>, tail: ByteArray): LeanException {
    // The numbers are an extra: the error itself must arrive.
    val details = runCatching { Json.parseToJsonElement(String(tail)).jsonObject }.getOrDefault(JsonObject(emptyMap()))
    val of = ErrorClass.entries.getOrElse((head["class"] as Long).toInt()) { ErrorClass.UNKNOWN }
    val code = (head["code"] as Long).toInt()
    return LeanException(head["message"] as String, code, head["name"] as String, of, head["retryable"] as Boolean, details)
}
