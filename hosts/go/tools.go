package lean

import "encoding/json"

// Tools is a [Part] that makes the value a [Reply]: text, or calls of these tools, in the syntax that the model was
// trained on. Arguments are always valid against their tool's schema. To tell the model of them, give them to the
// [Conversation] as well.
type Tools struct {
	// Tools are in OpenAI's form, {"type": "function", "function": {"name", "description", "parameters"}}, or the inner
	// object alone: maps, structs or json.RawMessage.
	Tools []any
	// Required leaves only calls; Tool one call of the tool of that name. Otherwise the model chooses.
	Required bool
	Tool     string
	// Single allows one call at most.
	Single bool
	// Syntax is "hermes", "llama", "gemma" or "pythonic"; empty, the model's own.
	Syntax string
}

// Reply is what a model says and the calls that it makes: the value of a type of [Tools].
type Reply struct {
	Text  string `json:"text"`
	Calls []Call `json:"calls"`
}

// Call is one call of a tool.
type Call struct {
	Name string `json:"name"`
	// Arguments are a JSON object that the tool's schema accepts.
	Arguments json.RawMessage `json:"arguments"`
}

// Into decodes the arguments.
func (c Call) Into(arguments any) error { return json.Unmarshal(c.Arguments, arguments) }

// Type is the type of the replies.
func (t Tools) Type() Type {
	if t.Required && t.Tool != "" {
		return Type{err: invalid("Tools: either Required or Tool")}
	}
	all := t.Tools
	if all == nil {
		all = []any{}
	}
	document := map[string]any{"tools": all, "parallel": !t.Single}
	switch {
	case t.Tool != "":
		document["choice"] = map[string]any{"tool": t.Tool}
	case t.Required:
		document["choice"] = "required"
	}
	if t.Syntax != "" {
		document["syntax"] = t.Syntax
	}
	return Type{source: map[string]any{"tools": document}}
}

func (t Tools) add(r *draft) error { return t.Type().add(r) }

// LeanType refuses a reply of no tools.
func (Reply) LeanType() Type {
	return Type{err: invalid("a Reply needs its Tools among the arguments")}
}
