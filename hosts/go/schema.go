package lean

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

var (
	typerType   = reflect.TypeFor[Typer]()
	jsonType    = reflect.TypeFor[json.Unmarshaler]()
	textType    = reflect.TypeFor[encoding.TextUnmarshaler]()
	timeType    = reflect.TypeFor[time.Time]()
	rawType     = reflect.TypeFor[json.RawMessage]()
	numberType  = reflect.TypeFor[json.Number]()
	base64Regex = `^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$`
)

// An object is a JSON object whose members keep their order, which is the order in which they are generated.
type object []member

type member struct {
	name  string
	value any
}

// MarshalJSON writes the members in order.
func (o object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	for i, m := range o {
		b.WriteByte("{,"[min(i, 1)])
		name, err := toJSON(m.name)
		if err != nil {
			return nil, err
		}
		value, err := toJSON(m.value)
		if err != nil {
			return nil, err
		}
		b.Write(name)
		b.WriteByte(':')
		b.Write(value)
	}
	if len(o) == 0 {
		return []byte("{}"), nil
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// schemaOf is the JSON Schema whose values encoding/json decodes into a Go type. Structs become definitions, so that
// they may be recursive.
func schemaOf(t reflect.Type) (any, error) {
	w := &schemaWalk{names: map[reflect.Type]string{}}
	schema, err := w.of(t, nil, t.String())
	if err != nil || len(w.defs) == 0 {
		return schema, err
	}
	o, _ := schema.(object)
	return append(slices.Clone(o), member{"$defs", w.defs}), nil
}

type schemaWalk struct {
	defs  object
	names map[reflect.Type]string
}

func typerOf(t reflect.Type) (Typer, bool) {
	switch {
	case t.Kind() == reflect.Interface:
		return nil, false
	case t.Implements(typerType) && t.Kind() != reflect.Pointer:
		return reflect.Zero(t).Interface().(Typer), true
	case reflect.PointerTo(t).Implements(typerType):
		return reflect.New(t).Interface().(Typer), true
	}
	return nil, false
}

// custom says whether a type decodes itself, so that its shape says nothing about its JSON.
func custom(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(jsonType) || p.Implements(textType)
}

// of is the schema of a Go type that stands at a place, with the limits of its tag.
func (w *schemaWalk) of(t reflect.Type, l *limits, at string) (any, error) {
	if typer, is := typerOf(t); is {
		if err := l.rest(at, "a type that says itself what it is"); err != nil {
			return nil, err
		}
		return typer.LeanType().asSchema(at)
	}
	switch {
	case t == timeType:
		return object{{"type", "string"}, {"format", "date-time"}}, l.rest(at, "time.Time")
	case t == rawType:
		return object{}, l.rest(at, "json.RawMessage")
	case t == numberType:
		return w.number(object{{"type", "number"}}, l, at)
	case t.Kind() != reflect.Pointer && custom(t):
		return nil, refusedType(at, "%v decodes itself: a method LeanType() lean.Type has to say what its JSON is", t)
	}
	switch t.Kind() {
	case reflect.Bool:
		return l.enum(object{{"type", "boolean"}}, t, at)
	case reflect.String:
		return w.text(t, l, at)
	case reflect.Int, reflect.Int64:
		return w.integer(t, object{{"type", "integer"}}, l, at)
	case reflect.Int8, reflect.Int16, reflect.Int32:
		half := int64(1) << (t.Bits() - 1)
		return w.integer(t, object{{"type", "integer"}, {"minimum", -half}, {"maximum", half - 1}}, l, at)
	case reflect.Uint, reflect.Uint64, reflect.Uintptr:
		return w.integer(t, object{{"type", "integer"}, {"minimum", 0}, {"maximum", uint64(math.MaxUint64)}}, l, at)
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		return w.integer(t, object{{"type", "integer"}, {"minimum", 0}, {"maximum", uint64(1)<<t.Bits() - 1}}, l, at)
	case reflect.Float64:
		return w.number(object{{"type", "number"}}, l, at)
	case reflect.Float32:
		// Larger ones are decoded with an error; a bound has at most 20 digits.
		const most = 1_000_000_000_000_000
		return w.number(object{{"type", "number"}, {"minimum", -most}, {"maximum", most}}, l, at)
	case reflect.Pointer:
		inner, err := w.of(t.Elem(), l, at)
		return object{{"anyOf", []any{inner, object{{"type", "null"}}}}}, err
	case reflect.Slice:
		return w.slice(t, l, at)
	case reflect.Array:
		items, err := w.of(t.Elem(), l.items(), at+"[]")
		if err == nil {
			err = l.rest(at, "an array")
		}
		return object{{"type", "array"}, {"items", items}, {"minItems", t.Len()}, {"maxItems", t.Len()}}, err
	case reflect.Map:
		return w.mapping(t, l, at)
	case reflect.Struct:
		return w.structure(t, l, at)
	case reflect.Interface:
		if t.NumMethod() == 0 {
			return object{}, l.rest(at, "an interface")
		}
	}
	return nil, refusedType(at, "%v says nothing about JSON", t)
}

func (w *schemaWalk) text(t reflect.Type, l *limits, at string) (any, error) {
	o := object{{"type", "string"}}
	o = l.number(o, "min", "minLength")
	o = l.number(o, "max", "maxLength")
	o = l.word(o, "pattern", "pattern")
	o = l.word(o, "format", "format")
	return l.enum(o, t, at)
}

func (w *schemaWalk) integer(t reflect.Type, o object, l *limits, at string) (any, error) {
	return l.enum(l.bounds(o), t, at)
}

func (w *schemaWalk) number(o object, l *limits, at string) (any, error) {
	return l.enum(l.bounds(o), reflect.TypeFor[float64](), at)
}

func (w *schemaWalk) slice(t reflect.Type, l *limits, at string) (any, error) {
	if t.Elem().Kind() == reflect.Uint8 && !custom(t.Elem()) {
		o := object{{"type", "string"}, {"pattern", base64Regex}}
		return o, l.rest(at, "[]byte")
	}
	items, err := w.of(t.Elem(), l.items(), at+"[]")
	if err != nil {
		return nil, err
	}
	o := object{{"type", "array"}, {"items", items}}
	o = l.number(o, "min", "minItems")
	o = l.number(o, "max", "maxItems")
	return o, l.rest(at, "a slice")
}

func (w *schemaWalk) mapping(t reflect.Type, l *limits, at string) (any, error) {
	if t.Key().Kind() != reflect.String || custom(t.Key()) {
		return nil, refusedType(at, "the keys of a JSON object are strings, and not %v", t.Key())
	}
	items, err := w.of(t.Elem(), l.items(), at+"[]")
	if err != nil {
		return nil, err
	}
	o := object{{"type", "object"}, {"additionalProperties", items}}
	o = l.number(o, "min", "minProperties")
	o = l.number(o, "max", "maxProperties")
	return o, l.rest(at, "a map")
}

func (w *schemaWalk) structure(t reflect.Type, l *limits, at string) (any, error) {
	if err := l.rest(at, "a struct"); err != nil {
		return nil, err
	}
	name, known := w.names[t]
	if !known {
		name = w.name(t)
		w.names[t] = name
		// Before the fields, since they may be of this type.
		place := len(w.defs)
		w.defs = append(w.defs, member{name, nil})
		var properties object
		required := []string{}
		if err := w.fields(t, &properties, &required, at); err != nil {
			return nil, err
		}
		if properties == nil {
			properties = object{}
		}
		w.defs[place].value = object{
			{"type", "object"}, {"properties", properties}, {"required", required}, {"additionalProperties", false},
		}
	}
	return object{{"$ref", "#/$defs/" + name}}, nil
}

// name is a name for $defs: two types may be called the same, and one may have none.
func (w *schemaWalk) name(t reflect.Type) string {
	wanted := strings.Map(func(r rune) rune {
		if r == '_' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
			return r
		}
		return '_'
	}, t.Name())
	if wanted == "" {
		wanted = "struct"
	}
	name := wanted
	for n := 2; slices.ContainsFunc(w.defs, func(m member) bool { return m.name == name }); n++ {
		name = fmt.Sprint(wanted, n)
	}
	return name
}

// fields are the members that encoding/json knows of a struct.
func (w *schemaWalk) fields(t reflect.Type, properties *object, required *[]string, at string) error {
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("json")
		name, options, _ := strings.Cut(tag, ",")
		if tag == "-" || !f.IsExported() && !f.Anonymous {
			continue
		}
		here := at + "." + f.Name
		if f.Anonymous && name == "" {
			if err := w.embedded(f, properties, required, here); err != nil {
				return err
			}
			continue
		}
		if !f.IsExported() {
			continue
		}
		if name == "" {
			name = f.Name
		}
		known := strings.Split(options, ",")
		if slices.Contains(known, "string") {
			return refusedType(here, "numbers in strings are not understood")
		}
		optional := slices.Contains(known, "omitempty") || slices.Contains(known, "omitzero")
		if err := w.field(f, name, optional, properties, here); err != nil {
			return err
		}
		if !optional {
			*required = append(*required, name)
		}
	}
	return nil
}

func (w *schemaWalk) field(f reflect.StructField, name string, optional bool, properties *object, at string) error {
	same := func(m member) bool { return strings.EqualFold(m.name, name) }
	if slices.ContainsFunc(*properties, same) {
		return refusedType(at, "two fields are called %q", name)
	}
	l, err := parseLimits(f.Tag.Get("lean"), at)
	if err != nil {
		return err
	}
	t := f.Type
	if optional && t.Kind() == reflect.Pointer {
		// What may be absent need not be null as well.
		t = t.Elem()
	}
	schema, err := w.of(t, l, at)
	if err == nil {
		err = l.rest(at, "this type")
	}
	*properties = append(*properties, member{name, schema})
	return err
}

// embedded fields are those of the struct around them.
func (w *schemaWalk) embedded(f reflect.StructField, properties *object, required *[]string, at string) error {
	t := f.Type
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || custom(t) {
		return refusedType(at, "an embedded %v needs a name in its json tag", f.Type)
	}
	if len(*required)+len(*properties) > 10_000 || strings.Count(at, ".") > 100 {
		return refusedType(at, "it embeds itself")
	}
	return w.fields(t, properties, required, at)
}

// limits are a field's lean tag: what narrows its type further. Those that were used are taken out.
type limits struct {
	of   map[string]string
	each *limits
}

var limitNames = []string{"min", "max", "gt", "lt", "step", "format", "pattern", "enum"}

// parseLimits reads `min=1,max=5,items.max=16`. A pattern is the rest of the tag, since it may have commas.
func parseLimits(tag, at string) (*limits, error) {
	if tag == "" {
		return nil, nil
	}
	l := &limits{of: map[string]string{}}
	for tag != "" {
		var one string
		if strings.HasPrefix(strings.TrimLeft(strings.ReplaceAll(tag, "items.", ""), " "), "pattern=") {
			one, tag = tag, ""
		} else {
			one, tag, _ = strings.Cut(tag, ",")
		}
		name, value, has := strings.Cut(strings.TrimSpace(one), "=")
		into := l
		for strings.HasPrefix(name, "items.") {
			name = strings.TrimPrefix(name, "items.")
			if into.each == nil {
				into.each = &limits{of: map[string]string{}}
			}
			into = into.each
		}
		if !has || !slices.Contains(limitNames, name) {
			return nil, refusedType(at, "the lean tag says %q; known are %s, and items. before them", one, strings.Join(limitNames, ", "))
		}
		if _, err := strconv.ParseFloat(value, 64); err != nil && slices.Contains(limitNames[:5], name) {
			return nil, refusedType(at, "the lean tag says %q, which is no number", one)
		}
		into.of[name] = value
	}
	return l, nil
}

// items are the limits of the elements.
func (l *limits) items() *limits {
	if l == nil {
		return nil
	}
	each := l.each
	l.each = nil
	return each
}

// rest is an error if there are limits that do not limit what was found.
func (l *limits) rest(at, what string) error {
	if l == nil || len(l.of) == 0 && l.each == nil {
		return nil
	}
	for name := range l.of {
		return refusedType(at, "%s does not limit %s", name, what)
	}
	return refusedType(at, "items. does not limit %s", what)
}

func (l *limits) take(name string) (string, bool) {
	if l == nil {
		return "", false
	}
	value, has := l.of[name]
	delete(l.of, name)
	return value, has
}

func (l *limits) number(o object, name, keyword string) object {
	if value, has := l.take(name); has {
		return set(o, keyword, json.Number(value))
	}
	return o
}

func (l *limits) word(o object, name, keyword string) object {
	if value, has := l.take(name); has {
		return set(o, keyword, value)
	}
	return o
}

func (l *limits) bounds(o object) object {
	o = l.number(o, "min", "minimum")
	o = l.number(o, "max", "maximum")
	o = l.number(o, "gt", "exclusiveMinimum")
	o = l.number(o, "lt", "exclusiveMaximum")
	return l.number(o, "step", "multipleOf")
}

func set(o object, keyword string, value any) object {
	for i := range o {
		if o[i].name == keyword {
			o[i].value = value
			return o
		}
	}
	return append(o, member{keyword, value})
}

// enum applies enum=a|b|c, and is an error if limits are left that say nothing about the type.
func (l *limits) enum(o object, t reflect.Type, at string) (any, error) {
	if given, has := l.take("enum"); has {
		values := []any{}
		for _, word := range strings.Split(given, "|") {
			var value any = word
			if t.Kind() != reflect.String {
				v := reflect.New(t)
				if json.Unmarshal([]byte(word), v.Interface()) != nil {
					return nil, refusedType(at, "enum: %q is no %v", word, t)
				}
				value = json.RawMessage(word)
			}
			values = append(values, value)
		}
		o = set(o, "enum", values)
	}
	return o, l.rest(at, o[0].value.(string))
}
