package lean_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lean"
)

const repository = "../.."

// TestMain finds the repository's build of the bridge, or plays a bridge itself where a test asks for a strange one.
func TestMain(m *testing.M) {
	if play := os.Getenv("LEAN_TEST_PLAY"); play != "" {
		os.Exit(plays[play]())
	}
	if os.Getenv("LEAN_BRIDGE") == "" {
		bridge := newest(filepath.Join(repository, "target", "release", "lean-bridge"), filepath.Join(repository, "target", "debug", "lean-bridge"))
		if bridge == "" {
			fmt.Fprintln(os.Stderr, "there is no lean-bridge to test with: cargo build --release -p lean-bridge, or set LEAN_BRIDGE")
			os.Exit(1)
		}
		full, _ := filepath.Abs(bridge)
		_ = os.Setenv("LEAN_BRIDGE", full)
	}
	os.Exit(m.Run())
}

func newest(paths ...string) string {
	found, at := "", time.Time{}
	for _, p := range paths {
		if info, err := os.Stat(p); err == nil && info.ModTime().After(at) {
			found, at = p, info.ModTime()
		}
	}
	return found
}

var background = context.Background()

func spawn(t testing.TB, options *lean.SpawnOptions) *lean.Engine {
	t.Helper()
	e, err := lean.Spawn(background, options)
	must(t, err)
	t.Cleanup(func() { _ = e.Close() })
	return e
}

func load(t testing.TB, e *lean.Engine, path string, options *lean.LoadOptions) *lean.Model {
	t.Helper()
	m, err := e.Load(background, path, options)
	must(t, err)
	return m
}

func loadEcho(t testing.TB, path string) *lean.Model {
	t.Helper()
	return load(t, spawn(t, nil), path, nil)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func equal[T comparable](t testing.TB, got, want T) {
	t.Helper()
	if got != want {
		t.Fatalf("got %v, want %v", got, want)
	}
}

// fails checks an error's kind, and that its message has some words.
func fails(t testing.TB, err error, kind *lean.Error, words ...string) *lean.Error {
	t.Helper()
	var e *lean.Error
	if !errors.Is(err, kind) || !errors.As(err, &e) {
		t.Fatalf("got the error %v, want %s", err, kind.Name)
	}
	equal(t, e.Name, kind.Name)
	equal(t, e.Class, kind.Class)
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Fatalf("%q does not say %q", err, w)
		}
	}
	return e
}

func words(n int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprint("w", i)
	}
	return strings.Join(all, " ")
}

func value[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		must(t, err)
		return v
	}
}

func say(t testing.TB, on lean.Target, parts ...lean.Part) string {
	t.Helper()
	return value[string](t)(lean.Generate[string](background, on, parts...))
}
