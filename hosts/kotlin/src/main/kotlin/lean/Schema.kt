package lean

import kotlinx.serialization.ExperimentalSerializationApi
import kotlinx.serialization.SerialInfo
import kotlinx.serialization.descriptors.PolymorphicKind
import kotlinx.serialization.descriptors.PrimitiveKind
import kotlinx.serialization.descriptors.SerialDescriptor
import kotlinx.serialization.descriptors.SerialKind
import kotlinx.serialization.descriptors.StructureKind
import kotlinx.serialization.json.JsonArray
import kotlinx.serialization.json.JsonElement
import kotlinx.serialization.json.JsonObject
import kotlinx.serialization.json.JsonPrimitive
import kotlinx.serialization.json.buildJsonObject
import kotlinx.serialization.json.put

/** The least a number may be. */
@OptIn(ExperimentalSerializationApi::class)
@SerialInfo
@Target(AnnotationTarget.PROPERTY)
annotation class Minimum(val value: Double)

/** The most a number may be. */
@OptIn(ExperimentalSerializationApi::class)
@SerialInfo
@Target(AnnotationTarget.PROPERTY)
annotation class Maximum(val value: Double)

/** How many characters of a string, elements of a list or entries of a map there may be. */
@OptIn(ExperimentalSerializationApi::class)
@SerialInfo
@Target(AnnotationTarget.PROPERTY)
annotation class Length(val min: Int = 0, val max: Int = Int.MAX_VALUE)

/** A regular expression that a string matches, as JSON Schema's `pattern`. */
@OptIn(ExperimentalSerializationApi::class)
@SerialInfo
@Target(AnnotationTarget.PROPERTY)
annotation class Pattern(val regex: String)

/** JSON Schema of what kotlinx.serialization makes of a type: exactly what its decoder reads back. */
@OptIn(ExperimentalSerializationApi::class)
internal class SchemaBuilder {
    private val definitions = LinkedHashMap<String, JsonElement>()
    /** Classes under way or done, by their serial names: a second use refers to the definition. */
    private val seen = HashSet<String>()

    fun build(descriptor: SerialDescriptor): JsonObject {
        val root = of(descriptor, "")
        return if (definitions.isEmpty()) root else JsonObject(root + ("\$defs" to JsonObject(definitions)))
    }

    private fun of(d: SerialDescriptor, at: String): JsonObject {
        val plain = if (d.isInline) of(d.getElementDescriptor(0), at) else shape(d, at)
        return if (d.isNullable) any(listOf(plain, typed("null"))) else plain
    }

    private fun shape(d: SerialDescriptor, at: String): JsonObject = when (val kind = d.kind) {
        PrimitiveKind.BOOLEAN -> typed("boolean")
        PrimitiveKind.BYTE -> whole(Byte.MIN_VALUE.toLong(), Byte.MAX_VALUE.toLong())
        PrimitiveKind.SHORT -> whole(Short.MIN_VALUE.toLong(), Short.MAX_VALUE.toLong())
        PrimitiveKind.INT -> whole(Int.MIN_VALUE.toLong(), Int.MAX_VALUE.toLong())
        // JSON has no numbers beyond 2^53 that all readers agree on.
        PrimitiveKind.LONG -> whole(-(1L shl 53), 1L shl 53)
        PrimitiveKind.FLOAT, PrimitiveKind.DOUBLE -> typed("number")
        PrimitiveKind.CHAR -> buildJsonObject { put("type", "string"); put("minLength", 1); put("maxLength", 1) }
        PrimitiveKind.STRING -> typed("string")
        SerialKind.ENUM -> buildJsonObject {
            put("enum", JsonArray((0 until d.elementsCount).map { JsonPrimitive(d.getElementName(it)) }))
        }
        StructureKind.LIST -> buildJsonObject { put("type", "array"); put("items", of(d.getElementDescriptor(0), "$at/*")) }
        StructureKind.MAP -> {
            val key = d.getElementDescriptor(0)
            if (key.kind != PrimitiveKind.STRING) throw refusedType(at, "JSON's keys are strings, and not ${key.serialName}")
            buildJsonObject { put("type", "object"); put("additionalProperties", of(d.getElementDescriptor(1), "$at/*")) }
        }
        StructureKind.CLASS, StructureKind.OBJECT -> defined(d, at) { members(d, at, null) }
        PolymorphicKind.SEALED -> defined(d, at) { subclasses(d, at) }
        else -> throw refusedType(at, "${d.serialName} (${kind}) says nothing about its JSON")
    }

    /** A class, by its definition where it is used again or inside itself. */
    private fun defined(d: SerialDescriptor, at: String, make: () -> JsonObject): JsonObject {
        val name = d.serialName.removeSuffix("?")
        val reference = buildJsonObject { put("\$ref", "#/\$defs/$name") }
        if (!seen.add(name)) return reference
        definitions[name] = make()
        return reference
    }

    private fun members(d: SerialDescriptor, at: String, tag: String?): JsonObject = buildJsonObject {
        val names = (0 until d.elementsCount).map(d::getElementName)
        val properties = LinkedHashMap<String, JsonElement>()
        if (tag != null) properties["type"] = buildJsonObject { put("const", tag) }
        names.forEachIndexed { i, name ->
            properties[name] = narrowed(of(d.getElementDescriptor(i), "$at/$name"), d.getElementAnnotations(i), "$at/$name")
        }
        val required = names.filterIndexed { i, _ -> !d.isElementOptional(i) }
        put("type", "object")
        put("properties", JsonObject(properties))
        put("required", JsonArray((listOfNotNull(tag?.let { "type" }) + required).map(::JsonPrimitive)))
        put("additionalProperties", false)
    }

    /** A sealed class: one of its subclasses, which `type` names. */
    private fun subclasses(d: SerialDescriptor, at: String): JsonObject {
        val all = d.getElementDescriptor(1)
        return any((0 until all.elementsCount).map { members(all.getElementDescriptor(it), at, all.getElementName(it)) })
    }

    private fun narrowed(schema: JsonObject, annotations: List<Annotation>, at: String): JsonObject {
        val more = LinkedHashMap<String, JsonElement>()
        for (annotation in annotations) when (annotation) {
            is Minimum -> more["minimum"] = number(annotation.value)
            is Maximum -> more["maximum"] = number(annotation.value)
            is Pattern -> more["pattern"] = JsonPrimitive(annotation.regex)
            is Length -> more += length(schema, annotation, at)
        }
        if (more.isEmpty()) return schema
        val choices = schema["anyOf"] as? JsonArray ?: return JsonObject(schema + more)
        return any(listOf(JsonObject(choices[0] as JsonObject + more)) + choices.drop(1).map { it as JsonObject })
    }

    private fun length(schema: JsonObject, length: Length, at: String): Map<String, JsonElement> {
        val kind = (schema["anyOf"] as? JsonArray)?.first() as? JsonObject ?: schema
        val what = when ((kind["type"] as? JsonPrimitive)?.content) {
            "string" -> "Length"
            "array" -> "Items"
            "object" -> "Properties"
            else -> throw refusedType(at, "it has no length")
        }
        val most = if (length.max == Int.MAX_VALUE) emptyMap() else mapOf("max$what" to JsonPrimitive(length.max))
        return mapOf("min$what" to JsonPrimitive(length.min)) + most
    }

    private fun number(value: Double) = if (value == Math.rint(value) && Math.abs(value) < 1e15) JsonPrimitive(value.toLong()) else JsonPrimitive(value)

    private fun typed(name: String) = buildJsonObject { put("type", name) }

    private fun whole(low: Long, high: Long) = buildJsonObject { put("type", "integer"); put("minimum", low); put("maximum", high) }

    private fun any(schemas: List<JsonObject>) = buildJsonObject { put("anyOf", JsonArray(schemas)) }
}
