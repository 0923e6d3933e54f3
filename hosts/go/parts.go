package lean

import (
	"bytes"
	"encoding/json"
	"maps"
	"math"
	"unicode/utf8"
)

// A Part of a call: a block of context ([Text], [Raw], [JSON], [Tokens], [Chat]), an option ([MaxTokens] and the like),
// a [Type], or a checkpoint to continue from ([From]).
type Part interface{ add(*draft) error }

// draft is a generation in the making.
type draft struct {
	blocks  []any
	of      *Type
	options map[string]any
	from    *Checkpoint
	keep    bool
	listen  listeners
}

type listeners struct {
	token   func(Token)
	prefill func(Prefill)
	partial func(Partial)
}

func (l listeners) any() bool { return l.token != nil || l.prefill != nil || l.partial != nil }

type part func(*draft) error

func (p part) add(r *draft) error { return p(r) }

func block(kind string, value any) Part {
	return part(func(r *draft) error {
		r.blocks = append(r.blocks, map[string]any{kind: value})
		return nil
	})
}

func textBlock(kind, text string) Part {
	if !utf8.ValidString(text) {
		return part(func(*draft) error { return invalid("%s: the text is not UTF-8", kind) })
	}
	return block(kind, text)
}

// Text is plain text: control tokens in it are never parsed, so nobody injects a role through data.
func Text(text string) Part { return textBlock("text", text) }

// Raw is trusted text, in which control tokens are parsed.
func Raw(text string) Part { return textBlock("raw", text) }

// JSON is a value, which the model sees in compact form.
func JSON(value any) Part {
	return part(func(r *draft) error {
		data, err := toJSON(value)
		if err == nil {
			r.blocks = append(r.blocks, map[string]any{"json": json.RawMessage(data)})
		}
		return err
	})
}

// Tokens are token ids.
func Tokens(ids ...uint32) Part {
	if ids == nil {
		ids = []uint32{}
	}
	return block("tokens", ids)
}

// Message is one of a conversation. More are further keys for the model's template, such as "tool_calls".
type Message struct {
	Role, Content string
	More          map[string]any
}

// MarshalJSON writes the message as chat templates know it.
func (m Message) MarshalJSON() ([]byte, error) {
	all := map[string]any{"role": m.Role, "content": m.Content}
	maps.Copy(all, m.More)
	return json.Marshal(all)
}

// System is a message of the role "system".
func System(content string) Message { return Message{Role: "system", Content: content} }

// User is a message of the role "user".
func User(content string) Message { return Message{Role: "user", Content: content} }

// Assistant is a message of the role "assistant".
func Assistant(content string) Message { return Message{Role: "assistant", Content: content} }

// Chat is a whole conversation, rendered with the model's own template; it can only be the first block of a context.
func Chat(messages ...Message) Part { return Conversation{Messages: messages} }

// Conversation is [Chat] with more to say about it.
type Conversation struct {
	Messages []Message
	// Tools are described to the model as its template does it.
	Tools []any
	// NoGenerationPrompt leaves out the beginning of the model's turn.
	NoGenerationPrompt bool
	// Trusted parses control tokens inside messages; otherwise they stay text.
	Trusted bool
}

func (c Conversation) add(r *draft) error {
	document := map[string]any{"messages": c.Messages}
	if c.Messages == nil {
		document["messages"] = []Message{}
	}
	if c.Tools != nil {
		document["tools"] = c.Tools
	}
	if c.NoGenerationPrompt {
		document["add_generation_prompt"] = false
	}
	if c.Trusted {
		document["trusted"] = true
	}
	r.blocks = append(r.blocks, map[string]any{"chat": document})
	return nil
}

func option(name string, value any) Part {
	return part(func(r *draft) error {
		if f, is := value.(float64); is && (math.IsNaN(f) || math.IsInf(f, 0)) {
			return invalid("%s: %v is no number", name, f)
		}
		r.options[name] = value
		return nil
	})
}

// MaxTokens is the budget; a value of a type ends, whole, within it. The default is what the context still holds.
func MaxTokens(n int) Part { return option("max_tokens", n) }

// Temperature 0, the default, takes the likeliest token.
func Temperature(t float64) Part { return option("temperature", t) }

// TopK samples among this many of the likeliest.
func TopK(k int) Part { return option("top_k", k) }

// TopP samples among the likeliest that together reach this probability.
func TopP(p float64) Part { return option("top_p", p) }

// MinP drops tokens below this share of the likeliest one's probability.
func MinP(p float64) Part { return option("min_p", p) }

// RepetitionPenalty makes recent tokens less likely; 1 is off.
func RepetitionPenalty(p float64) Part { return option("repetition_penalty", p) }

// RepetitionWindow is how many tokens the penalty looks at.
func RepetitionWindow(n int) Part { return option("repetition_window", n) }

// Seed is the sampler's. The same context, type, options and class of machine give the same value.
func Seed(n uint64) Part { return option("seed", n) }

// Stop ends text before any of these strings (text types only).
func Stop(strings ...string) Part {
	if strings == nil {
		strings = []string{}
	}
	return option("stop", strings)
}

// Partials asks for [Partial] events, for JSON types.
func Partials() Part { return option("partials", true) }

// Keep keeps the state after the value: [Result.Checkpoint].
func Keep() Part {
	return part(func(r *draft) error { r.keep = true; return nil })
}

// From is where a stateless call continues (models only).
func From(c *Checkpoint) Part {
	return part(func(r *draft) error {
		if c == nil {
			return invalid("From: the checkpoint is nil")
		}
		r.from = c
		return nil
	})
}

// OnToken is called with each token by [Generate] and [Run], in the calling goroutine; while it runs, the bridge is held
// back.
func OnToken(f func(Token)) Part {
	return part(func(r *draft) error { r.listen.token = f; return nil })
}

// OnPrefill is called as the context is computed; see [OnToken].
func OnPrefill(f func(Prefill)) Part {
	return part(func(r *draft) error { r.listen.prefill = f; return nil })
}

// OnPartial is called with the value so far; it asks for [Partials] by itself. See [OnToken].
func OnPartial(f func(Partial)) Part {
	return part(func(r *draft) error {
		r.listen.partial = f
		if _, said := r.options["partials"]; !said {
			r.options["partials"] = true
		}
		return nil
	})
}

// gather reads the parts of a call.
func gather(parts []Part) (*draft, error) {
	r := &draft{blocks: []any{}, options: map[string]any{}}
	for _, p := range parts {
		if p == nil {
			return nil, invalid("a part is nil")
		}
		if err := p.add(r); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// blocksOnly are the blocks of parts that may be nothing else.
func blocksOnly(parts []Part, where string) (*draft, error) {
	r, err := gather(parts)
	if err == nil && (r.of != nil || len(r.options) > 0 || r.from != nil || r.keep || r.listen.token != nil || r.listen.partial != nil) {
		err = invalid("%s takes blocks and OnPrefill", where)
	}
	return r, err
}

// document is the tail of a GENERATE.
func (r *draft) document() ([]byte, error) {
	d := map[string]any{"blocks": r.blocks, "options": r.options}
	if r.of != nil {
		d["type"] = r.of.source
	}
	return toJSON(d)
}

// toJSON is a JSON tail.
func toJSON(document any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(document); err != nil {
		return nil, like(ErrInvalidArgument, "the request is no JSON: "+err.Error(), err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
