// Package lean gives typed values out of local language models. The engine runs in a child process (lean-bridge), so
// nothing is compiled with cgo, and a crash there is an error here. (With the build tag lean_cgo it can run inside this
// process instead: [SpawnOptions].InProcess.)
//
//	engine, err := lean.Spawn(ctx, nil)
//	model, err := engine.Load(ctx, "smollm2.gguf", nil)
//	user, err := lean.Generate[User](ctx, model, lean.Chat(lean.User("Invent a user.")))
//
// The type parameter says what comes out, and nothing else can: see [Generate]. What follows are [Part]s: blocks of
// context, options, or a [Type] that says more than the Go type. A context that ends ends the call, within a step or a
// layer of a prefill, and leaves a session as it was. All of it may be used from many goroutines at once, a [Session]
// and a [Stream] by one at a time.
package lean

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"
)

const (
	// greetingPatience is long enough for a cold disk and a virus scanner.
	greetingPatience = 20 * time.Second
	// closePatience is how long a bridge may take to end after it was asked to.
	closePatience = 3 * time.Second
)

// SpawnOptions say how the engine is started. The zero value is the default.
type SpawnOptions struct {
	// InProcess runs the engine inside this process, through liblean, in a program that was built with the tag lean_cgo. A
	// crash of the engine is then one of the program; all else is the same. Of the other options it takes Credit.
	InProcess bool
	// Bridge is the binary; by default [FindBridge] finds it.
	Bridge string
	// Args are given to it as well; Env and Dir are those of [os/exec.Cmd].
	Args []string
	Env  []string
	Dir  string
	// Stderr also receives what the bridge writes there.
	Stderr io.Writer
	// Credit is how many events a request may have on the way before the bridge waits for its consumer; 0 is 32.
	Credit uint32
}

// Engine is an engine in a process of its own. It ends with Close, and when it, its models, sessions and checkpoints
// are collected.
type Engine struct {
	// Version is the name and version of the engine.
	Version string
	// Capabilities are what this build can do, such as "cpu", "gpu", "echo".
	Capabilities []string
	conn         *conn
	closed       sync.Once
}

// Spawn starts the engine, in a process of its own unless told otherwise, and waits for its greeting; a nil options is the default. The context
// is about the start alone.
func Spawn(ctx context.Context, options *SpawnOptions) (*Engine, error) {
	var o SpawnOptions
	if options != nil {
		o = *options
	}
	if o.InProcess {
		t, err := startPort(o)
		if err != nil {
			return nil, err
		}
		return Open(ctx, t, o.Credit)
	}
	file, err := FindBridge(o.Bridge)
	if err != nil {
		return nil, err
	}
	p, err := startProcess(o, file)
	if err != nil {
		return nil, err
	}
	return Open(ctx, p, o.Credit)
}

// Open speaks to an engine over any transport, which it takes. A credit of 0 is the default of [SpawnOptions].
func Open(ctx context.Context, transport Transport, credit uint32) (*Engine, error) {
	if credit == 0 {
		credit = creditDefault
	}
	c := newConn(transport, credit)
	patience, stop := context.WithTimeout(ctx, greetingPatience)
	defer stop()
	select {
	case hello := <-c.greeted:
		e := &Engine{Version: hello.Engine, Capabilities: hello.Capabilities, conn: c}
		runtime.SetFinalizer(e, func(e *Engine) { e.conn.hangUp() })
		return e, nil
	case <-c.dead:
		return nil, c.over
	case <-patience.Done():
		_ = transport.Kill()
		<-c.dead
		if ctx.Err() != nil {
			return nil, ended(ctx)
		}
		return nil, exited(&BridgeExited{Status: -1, How: fmt.Sprintf("did not greet within %v", greetingPatience)})
	}
}

// Pid is the bridge's process id.
func (e *Engine) Pid() int {
	if e.conn == nil {
		return 0
	}
	return e.conn.transport.Pid()
}

// Close ends the bridge; what still runs is cancelled. A second time it does nothing.
func (e *Engine) Close() error {
	e.closed.Do(func() {
		if e.conn == nil {
			return
		}
		runtime.SetFinalizer(e, nil)
		e.conn.close(closePatience)
	})
	return nil
}

// LoadOptions say how a model is loaded. The zero value is the default.
type LoadOptions struct {
	// Backend is "auto", "cpu" or "gpu".
	Backend string
	// Threads of the CPU backend; 0 is the number of cores that the process may use.
	Threads int
	// Context is how many tokens its sessions hold by default; 0 is the model's own length.
	Context int
	// KV is the precision of keys and values: "f32", "f24", "f16" or "q8_0".
	KV string
	// Precision is how exactly it is computed: "exact" or "fast".
	Precision string
	// PrefixCacheBytes, if not nil, is the argument of [Model.SetPrefixCache].
	PrefixCacheBytes *uint64
	// OnProgress is told bytes done and bytes in total.
	OnProgress func(done, total uint64)
}

// Load loads a model file, or "echo", the model without weights. A nil options is the default.
func (e *Engine) Load(ctx context.Context, path string, options *LoadOptions) (*Model, error) {
	var o LoadOptions
	if options != nil {
		o = *options
	}
	m := loadModel{Path: path, Progress: o.OnProgress != nil}
	if path != "echo" && !strings.HasPrefix(path, "echo?") {
		m.Path = absolute(path)
	}
	if o.Backend != "" {
		m.Backend = &o.Backend
	}
	var err error
	if m.Threads, err = positive(o.Threads, "Threads"); err != nil {
		return nil, err
	}
	if m.Context, err = positive(o.Context, "Context"); err != nil {
		return nil, err
	}
	var tail []byte
	document := map[string]any{}
	if o.KV != "" {
		document["kv"] = o.KV
	}
	if o.Precision != "" {
		document["precision"] = o.Precision
	}
	if len(document) > 0 {
		if tail, err = toJSON(document); err != nil {
			return nil, err
		}
	}
	answer, about, err := call[loaded](ctx, e.conn, m, tail, e, func(m message) {
		if p, is := m.head.(progress); is && o.OnProgress != nil {
			o.OnProgress(p.Done, p.Total)
		}
	})
	if err != nil {
		return nil, err
	}
	model := &Model{handle: handle{eng: e, id: answer.Model}}
	model.Info.Raw = about
	if err := json.Unmarshal(about, &model.Info); err != nil {
		return nil, protocolError(600, "protocol", "the model's description: %v", err)
	}
	runtime.SetFinalizer(model, func(m *Model) { m.forget(unload{m.id}) })
	if o.PrefixCacheBytes != nil {
		if err := model.SetPrefixCache(ctx, *o.PrefixCacheBytes); err != nil {
			return nil, err
		}
	}
	return model, nil
}

// absolute is a path as the bridge finds it too, whatever its working directory.
func absolute(path string) string {
	if full, err := filepath.Abs(path); err == nil && path != "" {
		return full
	}
	return path
}

// positive is an option that is a number, absent if it is 0.
func positive(n int, name string) (*uint32, error) {
	if n < 0 || int64(n) > 0xffff_ffff {
		return nil, invalid("%s: %d is out of range", name, n)
	}
	if n == 0 {
		return nil, nil
	}
	return some(uint32(n)), nil
}

// A handle is something that lives in the bridge, until it is dropped here or collected.
type handle struct {
	eng  *Engine
	id   uint32
	drop sync.Once
	gone bool
	lock sync.Mutex
}

// on is the handle's number, for requests to the engine that it lives in.
func (h *handle) on(e *Engine, what string) (uint32, error) {
	if h.eng == nil {
		return 0, invalid("this is a zero value, and no %s of an engine", what)
	}
	h.lock.Lock()
	defer h.lock.Unlock()
	if h.gone {
		return 0, invalid("the %s was dropped", what)
	}
	if h.eng != e {
		return 0, invalid("the %s lives in another engine process", what)
	}
	return h.id, nil
}

// release frees it now. Where the bridge is gone, so is everything in it.
func (h *handle) release(m any) error {
	if h.eng == nil {
		return nil
	}
	var err error
	h.drop.Do(func() {
		h.lock.Lock()
		h.gone = true
		h.lock.Unlock()
		_, _, err = call[ok](context.Background(), h.eng.conn, m, nil, h.eng, nil)
		if e, is := err.(*Error); is && (e.Code == ErrBridgeExited.Code || e.Code == ErrCancelled.Code) {
			err = nil
		}
	})
	return err
}

// forget is the finalizer: it must not wait.
func (h *handle) forget(m any) {
	h.drop.Do(func() { go h.eng.conn.post(m) })
}
