package lean

import (
	"encoding/json"
	"reflect"
	"strings"
	"sync"
	"unicode/utf8"
)

// Type is what is generated and nothing else, where the Go type alone does not say it: a [Part] of a call. The value
// then is decoded into the call's Go type by encoding/json.
type Type struct {
	source map[string]any
	err    error
}

// Source is its wire form: {"expr": ..}, {"schema": ..}, {"text": ..}, {"regex": ..}, {"choice": ..} or {"tools": ..}.
func (t Type) Source() map[string]any { return t.source }

func (t Type) add(r *draft) error {
	if t.source == nil && t.err == nil {
		return invalid("the zero Type: make one with Expr, Schema, Choice, Regex, TextUpTo or Tools")
	}
	r.of = &t
	return t.err
}

// A Typer is a Go type that says itself what its values are, such as one of strings that is a [Choice].
type Typer interface{ LeanType() Type }

// Expr is a type expression: JSON whose leaves are strings such as "string < 64", or such a string.
func Expr(expression string) Type {
	text := strings.TrimSpace(expression)
	if strings.HasPrefix(text, "{") || strings.HasPrefix(text, "[") {
		if !json.Valid([]byte(text)) {
			return Type{err: refusedType("the type expression", "it is no JSON")}
		}
		return Type{source: map[string]any{"expr": json.RawMessage(text)}}
	}
	return Type{source: map[string]any{"expr": expression}}
}

// Schema is a JSON Schema: its text (string, []byte, json.RawMessage), or anything that encoding/json makes one of.
// Properties come in their order, and those of a Go map in the alphabet's.
func Schema(schema any) Type {
	var data []byte
	switch s := schema.(type) {
	case string:
		data = []byte(s)
	case []byte:
		data = s
	case json.RawMessage:
		data = s
	default:
		var err error
		if data, err = toJSON(schema); err != nil {
			return Type{err: err}
		}
	}
	if !json.Valid(data) {
		return Type{err: refusedType("the schema", "it is no JSON")}
	}
	return Type{source: map[string]any{"schema": json.RawMessage(data)}}
}

// TextUpTo is unquoted text of at most so many characters.
func TextUpTo(maxChars int) Type {
	return Type{source: map[string]any{"text": map[string]any{"max_chars": maxChars}}}
}

// Regex is unquoted text that an ECMA-262 regular expression matches as a whole.
func Regex(pattern string) Type {
	if !utf8.ValidString(pattern) {
		return Type{err: refusedType("the pattern", "it is not UTF-8")}
	}
	return Type{source: map[string]any{"regex": pattern}}
}

// Choice is unquoted text: one of these strings.
func Choice(choices ...string) Type {
	if choices == nil {
		choices = []string{}
	}
	return Type{source: map[string]any{"choice": choices}}
}

type understood struct {
	of  Type
	err error
}

var types sync.Map

// TypeOf is the type that a Go type stands for: see [Generate].
func TypeOf[T any]() (Type, error) {
	t := reflect.TypeFor[T]()
	known, is := types.Load(t)
	if !is {
		of, err := typeOf(t)
		known, _ = types.LoadOrStore(t, understood{of, err})
	}
	u := known.(understood)
	return u.of, u.err
}

func typeOf(t reflect.Type) (Type, error) {
	if typer, is := typerOf(t); is {
		of := typer.LeanType()
		return of, of.err
	}
	if t.Kind() == reflect.String && !custom(t) && t != numberType {
		return Type{source: map[string]any{"text": map[string]any{"max_chars": nil}}}, nil
	}
	schema, err := schemaOf(t)
	if err != nil {
		return Type{}, err
	}
	return Type{source: map[string]any{"schema": schema}}, nil
}

// asSchema is the type in place of a part of a schema.
func (t Type) asSchema(at string) (any, error) {
	if t.err != nil {
		return nil, t.err
	}
	if s, is := t.source["schema"]; is {
		return s, nil
	}
	if c, is := t.source["choice"]; is {
		return object{{"enum", c}}, nil
	}
	if r, is := t.source["regex"].(string); is {
		return object{{"type", "string"}, {"pattern", "^(?:" + r + ")$"}}, nil
	}
	if x, is := t.source["text"].(map[string]any); is {
		return object{{"type", "string"}, {"maxLength", x["max_chars"]}}, nil
	}
	if _, is := t.source["tools"]; is {
		return nil, refusedType(at, "a reply cannot stand inside another type")
	}
	return nil, refusedType(at, "a type expression cannot stand inside another type: use Schema")
}
