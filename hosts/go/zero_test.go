package lean_test

import (
	"bytes"
	"testing"

	"lean"
)

// What was never opened is an error, and no panic.
func TestZeroValues(t *testing.T) {
	var none *lean.Model
	var session lean.Session
	var checkpoint lean.Checkpoint
	var adapter lean.Adapter
	var engine lean.Engine
	var stream lean.Stream[string]
	model := &lean.Model{}
	live := loadEcho(t, "echo")
	for name, call := range map[string]func() error{
		"nil":                   func() error { _, err := lean.Generate[string](background, nil); return err },
		"a nil model":           func() error { _, err := lean.Generate[string](background, none); return err },
		"a nil session":         func() error { _, err := lean.Iterate[string](background, (*lean.Session)(nil)); return err },
		"a model":               func() error { _, err := lean.Generate[string](background, model); return err },
		"branches":              func() error { _, err := lean.GenerateMany[string](background, model, []lean.Branch{{}}); return err },
		"branches of nil":       func() error { _, err := lean.GenerateMany[string](background, none, []lean.Branch{{}}); return err },
		"a model's session":     func() error { _, err := model.Session(background, nil); return err },
		"a model's counts":      func() error { _, err := model.Stats(background); return err },
		"a model's cache":       func() error { return model.SetPrefixCache(background, 0) },
		"a model's adapter":     func() error { _, err := model.LoadAdapter(background, "x"); return err },
		"a restored checkpoint": func() error { _, err := model.Restore(background, &bytes.Buffer{}, nil); return err },
		"a restored file":       func() error { _, err := model.RestoreFile(background, "x", nil); return err },
		"a session":             func() error { _, err := lean.Generate[string](background, &session); return err },
		"an append":             func() error { return session.Append(background, lean.Text("a")) },
		"a cut":                 func() error { return session.Truncate(background, 0) },
		"a fork":                func() error { _, err := session.Fork(background); return err },
		"a session's state":     func() error { _, err := session.Checkpoint(background); return err },
		"a session's adapter":   func() error { return session.SetAdapters(background, lean.Scaled{Adapter: &adapter}) },
		"a checkpoint":          func() error { _, err := checkpoint.Bytes(background, nil); return err },
		"a saved checkpoint":    func() error { _, err := checkpoint.Save(background, "x", nil); return err },
		"a start":               func() error { _, err := lean.Generate[string](background, live, lean.From(&checkpoint)); return err },
		"an engine":             func() error { _, err := engine.Load(background, "echo", nil); return err },
		"a stream":              func() error { _, err := stream.Result(); return err },
		"a stream's state":      func() error { _, err := new(lean.Stream[string]).Checkpoint(background); return err },
	} {
		t.Run(name, func(t *testing.T) { fails(t, call(), lean.ErrInvalidArgument) })
	}
	for _, err := range []error{model.Unload(), session.Close(), checkpoint.Drop(), adapter.Drop(), engine.Close(), stream.Close(), new(lean.Stream[string]).Close()} {
		must(t, err)
	}
	equal(t, engine.Pid(), 0)
}
