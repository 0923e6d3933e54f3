package example

import kotlinx.coroutines.runBlocking
import kotlinx.serialization.Serializable
import lean.Lean
import lean.Length
import lean.generate
import lean.json
import lean.text

@Serializable
data class User(val id: Int, @Length(max = 63) val name: String)

fun main() = runBlocking {
    Lean.spawn().use { engine ->
        val model = engine.load(System.getenv("MODEL") ?: "smollm2.gguf") // a GGUF file, or `echo`: no weights, repeats JSON
        val user = model.generate<User>(text("Invent a user, for example: "), json(User(7, "Ada")))
        println(user.name)
    }
}
