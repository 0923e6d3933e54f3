package lean_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"

	"lean"
)

// inProcess is an engine in this process, or a skip where the tests were built without it.
func inProcess(t *testing.T) *lean.Engine {
	t.Helper()
	e, err := lean.Spawn(background, &lean.SpawnOptions{InProcess: true})
	if errors.Is(err, lean.ErrBridgeNotFound) {
		if !strings.Contains(err.Error(), "-tags lean_cgo") {
			t.Fatal("it does not say what to build with: ", err)
		}
		t.Skip("SKIPPED: built without the tag lean_cgo")
	}
	must(t, err)
	t.Cleanup(func() { _ = e.Close() })
	return e
}

func TestInProcess(t *testing.T) {
	e := inProcess(t)
	equal(t, e.Pid(), os.Getpid())
	equal(t, say(t, load(t, e, "echo", nil), lean.Text("one two three")), "one two three")
	_, err := e.Load(background, "/nowhere/model.gguf", nil)
	fails(t, err, lean.ErrModelIO)
	must(t, e.Close())
	must(t, e.Close())
	if _, err := e.Load(background, "echo", nil); err == nil {
		t.Fatal("a closed engine loads")
	}
}

func TestInProcessOptions(t *testing.T) {
	_, err := lean.Spawn(background, &lean.SpawnOptions{InProcess: true, Dir: "/"})
	fails(t, err, lean.ErrInvalidArgument, "Dir")
}

func TestInProcessEndsWhatRuns(t *testing.T) {
	e := inProcess(t)
	m := load(t, e, "echo?step_ms=60000", nil)
	ctx, stop := context.WithCancel(background)
	stop()
	if _, err := lean.Generate[string](ctx, m, lean.Text("a b")); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	var calls sync.WaitGroup
	for range 3 {
		calls.Add(1)
		go func() {
			defer calls.Done()
			if _, err := lean.Generate[string](background, m, lean.Text("a b")); err == nil {
				t.Error("a call outlived its engine")
			}
		}()
	}
	must(t, e.Close())
	calls.Wait()
}

func TestInProcessSeveral(t *testing.T) {
	var calls sync.WaitGroup
	for _, text := range []string{"a", "b c", "d e f", "g"} {
		m := load(t, inProcess(t), "echo", nil)
		calls.Add(1)
		go func() {
			defer calls.Done()
			if got, err := lean.Generate[string](background, m, lean.Text(text)); err != nil || got != text {
				t.Error(got, err)
			}
		}()
	}
	calls.Wait()
}
