package lean

import (
	"context"
	"math"
	"runtime"
	"sync/atomic"
)

// Session is one sequence. A call that fails or is cancelled leaves it as it was. It takes one call at a time; another
// is [ErrBusy]. It is freed when collected, or with Close.
type Session struct {
	tokens atomic.Int64
	handle
}

func newSession(e *Engine, opened session) *Session {
	s := &Session{handle: handle{eng: e, id: opened.Session}}
	s.tokens.Store(int64(opened.Tokens))
	runtime.SetFinalizer(s, func(s *Session) { s.forget(sessionClose{s.id}) })
	return s
}

func (s *Session) engine() *Engine { return s.eng }

func (s *Session) target() (*uint32, *uint32, error) {
	id, err := s.on(s.eng, "session")
	return nil, &id, err
}

// Tokens is how many it held after the last append.
func (s *Session) Tokens() int { return int(s.tokens.Load()) }

// Append appends blocks; [OnPrefill] may be among them.
func (s *Session) Append(ctx context.Context, blocks ...Part) error {
	return s.add(ctx, false, "Append", blocks)
}

// SetContext makes blocks the whole context; what is equal so far is kept.
func (s *Session) SetContext(ctx context.Context, blocks ...Part) error {
	return s.add(ctx, true, "SetContext", blocks)
}

func (s *Session) add(ctx context.Context, replace bool, where string, blocks []Part) error {
	r, err := blocksOnly(blocks, where)
	if err != nil {
		return err
	}
	tail, err := toJSON(map[string]any{"blocks": r.blocks})
	if err != nil {
		return err
	}
	id, err := s.on(s.eng, "session")
	if err != nil {
		return err
	}
	return s.change(ctx, sessionAppend{id, replace}, tail, r.listen.prefill, nil)
}

// Truncate keeps the first tokens.
func (s *Session) Truncate(ctx context.Context, tokens int) error { return s.cut(ctx, tokens, nil) }

// DropRange removes the tokens from begin up to, but not including, end; what follows is computed again.
func (s *Session) DropRange(ctx context.Context, begin, end int) error {
	if end < 0 || end > math.MaxUint32 {
		return invalid("DropRange: %d is out of range", end)
	}
	return s.cut(ctx, begin, some(uint32(end)))
}

func (s *Session) cut(ctx context.Context, begin int, end *uint32) error {
	if begin < 0 || begin > math.MaxUint32 {
		return invalid("a number of tokens is needed, and not %d", begin)
	}
	id, err := s.on(s.eng, "session")
	if err != nil {
		return err
	}
	return s.change(ctx, sessionCut{id, uint32(begin), end}, nil, nil, nil)
}

// Scaled is an adapter and what it is multiplied with.
type Scaled struct {
	Adapter *Adapter
	Scale   float32
}

// SetAdapters makes it run with these adapters and no others from now on; its tokens are run again.
func (s *Session) SetAdapters(ctx context.Context, adapters ...Scaled) error {
	id, err := s.on(s.eng, "session")
	if err != nil {
		return err
	}
	adapt := sessionAdapt{Session: id}
	for _, a := range adapters {
		if a.Adapter == nil || math.IsNaN(float64(a.Scale)) || math.IsInf(float64(a.Scale), 0) {
			return invalid("SetAdapters: each is an adapter and a finite scale")
		}
		handle, err := a.Adapter.on(s.eng, "adapter")
		if err != nil {
			return err
		}
		adapt.Adapters, adapt.Scales = append(adapt.Adapters, handle), append(adapt.Scales, a.Scale)
	}
	return s.change(ctx, adapt, nil, nil, adapters)
}

// change sends what is answered with the session as it is then.
func (s *Session) change(ctx context.Context, m any, tail []byte, onPrefill func(Prefill), needed any) error {
	answer, _, err := call[session](ctx, s.eng.conn, m, tail, []any{s, needed}, func(m message) {
		if p, is := m.head.(prefill); is && onPrefill != nil {
			onPrefill(Prefill{int(p.Done), int(p.Total)})
		}
	})
	if err == nil {
		s.tokens.Store(int64(answer.Tokens))
	}
	return err
}

// Fork is a second session with the same content.
func (s *Session) Fork(ctx context.Context) (*Session, error) {
	id, err := s.on(s.eng, "session")
	if err != nil {
		return nil, err
	}
	answer, _, err := call[session](ctx, s.eng.conn, sessionFork{id}, nil, s, nil)
	if err != nil {
		return nil, err
	}
	return newSession(s.eng, answer), nil
}

// Checkpoint is the state now.
func (s *Session) Checkpoint(ctx context.Context) (*Checkpoint, error) {
	id, err := s.on(s.eng, "session")
	if err != nil {
		return nil, err
	}
	return take(ctx, s.eng, checkpointTake{Session: &id}, s)
}

// Close frees it now. A second time it does nothing.
func (s *Session) Close() error { return s.release(sessionClose{s.id}) }
