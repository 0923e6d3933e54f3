package lean

import (
	"context"
	"encoding/json"
	"runtime"
)

// Info is what a model is and where it runs.
type Info struct {
	Architecture       string   `json:"architecture"`
	Name               string   `json:"name"`
	Backend            string   `json:"backend"`
	Device             string   `json:"device"`
	ExactnessClass     string   `json:"exactness_class"`
	Fingerprint        string   `json:"fingerprint"`
	Parameters         uint64   `json:"parameters"`
	FileBytes          uint64   `json:"file_bytes"`
	WeightBytes        uint64   `json:"weight_bytes"`
	StateBytesPerToken uint64   `json:"state_bytes_per_token"`
	ContextLength      int      `json:"context_length"`
	VocabSize          int      `json:"vocab_size"`
	Layers             int      `json:"layers"`
	BOS                *uint32  `json:"bos"`
	EOS                []uint32 `json:"eos"`
	HasChatTemplate    bool     `json:"has_chat_template"`
	// Raw is all of it as JSON, what a newer engine adds included.
	Raw json.RawMessage `json:"-"`
}

// Stats are what a model has done since it was loaded, and the memory it takes.
type Stats struct {
	// Passes over the weights, the sequences and the tokens in them.
	Passes uint64 `json:"passes"`
	Slots  uint64 `json:"slots"`
	Tokens uint64 `json:"tokens"`
	// PagesCopied counts pages of state that were copied because a session wrote to one that it shared.
	PagesCopied uint64 `json:"pages_copied"`
	Memory      struct {
		WeightBytes      uint64 `json:"weight_bytes"`
		StateBytes       uint64 `json:"state_bytes"`
		PrefixCacheBytes uint64 `json:"prefix_cache_bytes"`
	} `json:"memory"`
	// Prefix is about the states kept of earlier contexts.
	Prefix struct {
		Lookups      uint64 `json:"lookups"`
		Hits         uint64 `json:"hits"`
		TokensReused uint64 `json:"tokens_reused"`
		Entries      uint64 `json:"entries"`
		Bytes        uint64 `json:"bytes"`
		Budget       uint64 `json:"budget"`
		Evictions    uint64 `json:"evictions"`
	} `json:"prefix"`
}

// Model is a loaded model. It is freed when it and its sessions are collected, or with Unload.
type Model struct {
	// Info is what it is and where it runs.
	Info Info
	handle
}

func (m *Model) engine() *Engine { return m.eng }

func (m *Model) target() (*uint32, *uint32, error) {
	id, err := m.on(m.eng, "model")
	return &id, nil, err
}

// Unload frees it now; what runs on it, or was opened on it, keeps what it needs. A second time it does nothing.
func (m *Model) Unload() error { return m.release(unload{m.id}) }

// Stats are what it has done since it was loaded, and the memory it takes.
func (m *Model) Stats(ctx context.Context) (Stats, error) {
	var stats Stats
	id, err := m.on(m.eng, "model")
	if err != nil {
		return stats, err
	}
	_, tail, err := call[info](ctx, m.eng.conn, modelStats{id}, nil, m, nil)
	if err != nil {
		return stats, err
	}
	if err := json.Unmarshal(tail, &stats); err != nil {
		return stats, protocolError(600, "protocol", "the model's counts: %v", err)
	}
	return stats, nil
}

// SetPrefixCache sets how many bytes of state are kept of earlier contexts, so that one that begins alike is not
// computed again from its beginning; 0 is off. Values are the same either way.
func (m *Model) SetPrefixCache(ctx context.Context, bytes uint64) error {
	id, err := m.on(m.eng, "model")
	if err == nil {
		_, _, err = call[ok](ctx, m.eng.conn, modelPrefixCache{id, bytes}, nil, m, nil)
	}
	return err
}

// SessionOptions say how a session begins. The zero value is an empty one.
type SessionOptions struct {
	// Checkpoint is where it goes on.
	Checkpoint *Checkpoint
	// Context is how many tokens it can hold; 0 is the model's default.
	Context int
}

// Session opens a session: a sequence that is appended to and generated from. A nil options is the default.
func (m *Model) Session(ctx context.Context, options *SessionOptions) (*Session, error) {
	var o SessionOptions
	if options != nil {
		o = *options
	}
	id, err := m.on(m.eng, "model")
	if err != nil {
		return nil, err
	}
	open := sessionOpen{Model: id}
	if open.Context, err = positive(o.Context, "Context"); err != nil {
		return nil, err
	}
	if o.Checkpoint != nil {
		from, err := o.Checkpoint.on(m.eng, "checkpoint")
		if err != nil {
			return nil, err
		}
		open.Checkpoint = &from
	}
	answer, _, err := call[session](ctx, m.eng.conn, open, nil, []any{m, o.Checkpoint}, nil)
	if err != nil {
		return nil, err
	}
	return newSession(m.eng, answer), nil
}

// Adapter is a LoRA adapter of a model; sessions that use it keep it. It is freed when collected, or with Drop.
type Adapter struct {
	// Info is what it says about itself, as JSON.
	Info json.RawMessage
	handle
}

// LoadAdapter reads a LoRA adapter: a .gguf file, or PEFT's folder.
func (m *Model) LoadAdapter(ctx context.Context, path string) (*Adapter, error) {
	id, err := m.on(m.eng, "model")
	if err != nil {
		return nil, err
	}
	answer, about, err := call[adapter](ctx, m.eng.conn, adapterLoad{id, absolute(path)}, nil, m, nil)
	if err != nil {
		return nil, err
	}
	a := &Adapter{Info: about, handle: handle{eng: m.eng, id: answer.Adapter}}
	runtime.SetFinalizer(a, func(a *Adapter) { a.forget(adapterDrop{a.id}) })
	return a, nil
}

// Drop frees it now. A second time it does nothing.
func (a *Adapter) Drop() error { return a.release(adapterDrop{a.id}) }
