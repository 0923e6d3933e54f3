package lean

import kotlinx.serialization.Contextual
import kotlinx.serialization.SerialName
import kotlinx.serialization.Serializable
import kotlinx.serialization.json.Json
import kotlinx.serialization.serializer
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.assertThrows

@Serializable
enum class Kind { @SerialName("bug") BUG, @SerialName("feature") FEATURE }

@Serializable
data class Issue(
    val kind: Kind,
    @Length(max = 24) val title: String,
    @Minimum(1.0) @Maximum(5.0) val weight: Int?,
    val notes: Map<String, Double> = emptyMap(),
)

@Serializable
data class Tree(val value: Boolean, val children: List<Tree>)

@Serializable
sealed interface Shape {
    @Serializable
    @SerialName("circle")
    data class Circle(val radius: Double) : Shape

    @Serializable
    @SerialName("square")
    data class Square(val side: Double) : Shape
}

@Serializable
data class Opaque(@Contextual val value: java.util.UUID)

/** The JSON Schema of a class, and that the engine takes it. */
class SchemaTest {
    private inline fun <reified T> schema() = SchemaBuilder().build(serializer<T>().descriptor)

    private fun same(want: String, got: Any) = assertEquals(Json.parseToJsonElement(want), got)

    @Test
    fun `classes, enums, bounds, what may be null and what may be left out`() = same(
        """{"${'$'}ref": "#/${'$'}defs/lean.Issue", "${'$'}defs": {
            "lean.Issue": {"type": "object", "properties": {
                "kind": {"enum": ["bug", "feature"]},
                "title": {"type": "string", "minLength": 0, "maxLength": 24},
                "weight": {"anyOf": [{"type": "integer", "minimum": 1, "maximum": 5}, {"type": "null"}]},
                "notes": {"type": "object", "additionalProperties": {"type": "number"}}},
              "required": ["kind", "title", "weight"], "additionalProperties": false}}}""",
        schema<Issue>(),
    )

    @Test
    fun `a class inside itself is a reference`() = same(
        """{"${'$'}ref": "#/${'$'}defs/lean.Tree", "${'$'}defs": {
            "lean.Tree": {"type": "object", "properties": {
                "value": {"type": "boolean"}, "children": {"type": "array", "items": {"${'$'}ref": "#/${'$'}defs/lean.Tree"}}},
              "required": ["value", "children"], "additionalProperties": false}}}""",
        schema<Tree>(),
    )

    @Test
    fun `scalars`() {
        same("""{"type": "integer", "minimum": -128, "maximum": 127}""", schema<Byte>())
        same("""{"type": "number"}""", schema<Double>())
        same("""{"anyOf": [{"type": "boolean"}, {"type": "null"}]}""", schema<Boolean?>())
        same("""{"type": "array", "items": {"type": "string"}}""", schema<List<String>>())
    }

    @Test
    fun `what says nothing about its JSON is refused by its place`() {
        val error = assertThrows<LeanException> { schema<Opaque>() }
        assertEquals("type", error.name)
        assert("/value" in error.message!!) { error.message!! }
        assertThrows<LeanException> { schema<Map<Int, String>>() }
    }

    @Test
    fun `the engine takes them, and what it makes is read back`() = withModel { model ->
        val issue = Issue(Kind.FEATURE, "t", 3, mapOf("a" to 0.5))
        assertEquals(issue, model.generate<Issue>(json(issue)))
        val tree = Tree(true, listOf(Tree(false, emptyList())))
        assertEquals(tree, model.generate<Tree>(json(tree)))
        val shapes = listOf(Shape.Circle(1.5), Shape.Square(2.5))
        assertEquals(shapes, model.generate<List<Shape>>(text(Json.encodeToString(serializer<List<Shape>>(), shapes))))
    }
}
