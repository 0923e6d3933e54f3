package lean_test

// The client over the bridge's echo model: no weights needed.

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lean"
)

type user struct {
	ID   int      `json:"id"`
	Name string   `json:"name" lean:"max=63"`
	Tags []string `json:"tags,omitempty" lean:"max=5"`
}

func TestHandshake(t *testing.T) {
	e := spawn(t, nil)
	if !regexp.MustCompile(`^lean \d`).MatchString(e.Version) || !slices.Contains(e.Capabilities, "echo") || e.Pid() <= 0 {
		t.Fatal(e.Version, e.Capabilities, e.Pid())
	}
}

func TestLoadReportsProgressAndInfo(t *testing.T) {
	e := spawn(t, nil)
	var seen []string
	m := load(t, e, "echo?load_steps=3", &lean.LoadOptions{
		Context:    77,
		OnProgress: func(done, total uint64) { seen = append(seen, fmt.Sprint(done, "/", total)) },
	})
	equal(t, strings.Join(seen, " "), "0/3 1/3 2/3 3/3")
	equal(t, m.Info.ContextLength, 77)
	equal(t, m.Info.Architecture, "echo")
	must(t, m.Unload())
	must(t, m.Unload())
	_, err := lean.Generate[string](background, m)
	fails(t, err, lean.ErrInvalidArgument, "dropped")
}

func TestLoadIsCancelled(t *testing.T) {
	ctx, stop := context.WithCancel(background)
	_, err := spawn(t, nil).Load(ctx, "echo?load_steps=1000&load_ms=20", &lean.LoadOptions{OnProgress: func(_, _ uint64) { stop() }})
	fails(t, err, lean.ErrCancelled)
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

func TestPathsAreLookedUpFromWhereThisProgramIs(t *testing.T) {
	here, _ := os.Getwd()
	_, err := spawn(t, &lean.SpawnOptions{Dir: t.TempDir()}).Load(background, "no/such.gguf", nil)
	fails(t, err, lean.ErrModelIO, filepath.Join(here, "no", "such.gguf"))
}

func TestGenerateGivesATypedValue(t *testing.T) {
	m := loadEcho(t, "echo")
	var text strings.Builder
	want := user{7, "Ada", []string{"x"}}
	r := value[*lean.Result[user]](t)(lean.Run[user](background, m, lean.Text("Invent a user."), lean.JSON(want),
		lean.OnToken(func(e lean.Token) { text.WriteString(e.Text) }), lean.MaxTokens(50), lean.Seed(0), lean.Temperature(0)))
	if !reflect.DeepEqual(r.Value, want) || r.Text != text.String() {
		t.Fatal(r, text.String())
	}
	equal(t, r.Finish, "complete")
	equal(t, r.Usage.PromptTokens, 5)
	if r.Checkpoint != nil {
		t.Fatal("a checkpoint was kept")
	}
}

func TestEveryFormOfABlockArrives(t *testing.T) {
	m := loadEcho(t, "echo")
	equal(t, say(t, m, lean.Chat(lean.System("be brief"), lean.User("a <&> b")), lean.Text(" c"), lean.Raw(" d"), lean.Tokens(5),
		lean.JSON(map[string]any{"x": "<"})), `a <&> b c d 5{"x":"<"}`)
	talk := lean.Conversation{Messages: []lean.Message{{Role: "user", Content: "hi", More: map[string]any{"name": "Ada"}}},
		Tools: []any{map[string]any{"name": "f"}}, NoGenerationPrompt: true, Trusted: true}
	equal(t, say(t, m, talk), "hi")
	_, err := lean.Generate[string](background, m, lean.Text("\xff"))
	fails(t, err, lean.ErrInvalidArgument, "UTF-8")
	_, err = lean.Generate[string](background, m, lean.JSON(func() {}))
	fails(t, err, lean.ErrInvalidArgument, "no JSON")
	_, err = lean.Generate[string](background, m, nil)
	fails(t, err, lean.ErrInvalidArgument, "nil")
}

type kind string

func (kind) LeanType() lean.Type { return lean.Choice("three", "four") }

func TestTextTypes(t *testing.T) {
	m := loadEcho(t, "echo")
	for _, c := range []struct {
		part   lean.Part
		value  string
		finish string
	}{
		{lean.TextUpTo(5), "one t", "complete"},
		{lean.Stop(" th"), "one two", "stop"},
		{lean.MaxTokens(2), "one two", "length"},
		{lean.Choice("three", "four"), "three", "complete"},
		{lean.Regex("[a-z ]+"), "one two three", "complete"},
	} {
		r := value[*lean.Result[string]](t)(lean.Run[string](background, m, lean.Text("one two three"), c.part))
		equal(t, r.Value, c.value)
		equal(t, r.Finish, c.finish)
	}
	equal(t, value[kind](t)(lean.Generate[kind](background, m, lean.Text("one two three"))), "three")
}

func TestTypesOfEveryNotation(t *testing.T) {
	m := loadEcho(t, "echo")
	told := lean.JSON(map[string]any{"id": 7})
	for _, of := range []lean.Type{
		lean.Expr(`{"id": "number"}`),
		lean.Schema(`{"type": "object", "properties": {"id": {"type": "integer"}}}`),
		lean.Schema(map[string]any{"type": "object", "properties": map[string]any{"id": map[string]any{"type": "integer"}}}),
	} {
		got := value[map[string]int](t)(lean.Generate[map[string]int](background, m, of, told))
		equal(t, got["id"], 7)
	}
	equal(t, value[float64](t)(lean.Generate[float64](background, m, lean.Expr("number < 9"), lean.JSON(8.5))), 8.5)
	raw := value[json.RawMessage](t)(lean.Generate[json.RawMessage](background, m, told))
	equal(t, string(raw), `{"id":7}`)
	for _, c := range []struct {
		of lean.Type
		at string
	}{
		{lean.Expr(`{"id": "nmber"}`), "character 1 of /id"},
		{lean.Schema(`{"type": "string", "format": "regex"}`), ""},
		{lean.Expr(`{"id": `), "the type expression"},
		{lean.Schema(`{`), "the schema"},
	} {
		_, err := lean.Generate[any](background, m, c.of, told)
		e := fails(t, err, lean.ErrType)
		var detail *lean.TypeError
		if !errors.As(err, &detail) || !strings.Contains(detail.At, c.at) || detail.Reason == "" || e.Details["at"] != detail.At {
			t.Fatalf("%+v %+v", detail, e.Details)
		}
	}
	_, err := lean.Generate[any](background, m, lean.Type{})
	fails(t, err, lean.ErrInvalidArgument)
}

func TestAValueThatIsNoneOfTheGoType(t *testing.T) {
	_, err := lean.Generate[int](background, loadEcho(t, "echo"), lean.Expr("number"), lean.JSON(1.5))
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) {
		t.Fatal(err)
	}
}

func TestManyValuesOfOneContext(t *testing.T) {
	m := loadEcho(t, "echo")
	got := value[[]any](t)(lean.GenerateMany[any](background, m, []lean.Branch{
		{lean.TextUpTo(99), lean.Text("one two")},
		{lean.Expr(`{"id": "number"}`), lean.JSON(map[string]int{"id": 7})},
		{lean.Choice("yes", "no"), lean.Text("I say no")},
	}))
	if !reflect.DeepEqual(got, []any{"one two", map[string]any{"id": 7.0}, "no"}) {
		t.Fatal(got)
	}
	s := value[*lean.Session](t)(m.Session(background, nil))
	must(t, s.Append(background, lean.Text("so:")))
	many := make([]lean.Branch, 63)
	for i := range many {
		many[i] = lean.Branch{lean.Text(words(i + 1))}
	}
	results := value[[]*lean.Result[string]](t)(lean.RunMany[string](background, s, many, lean.MaxTokens(2)))
	equal(t, results[0].Value, "so:w0")
	equal(t, results[62].Value, "so:w0 w1")
	equal(t, results[62].Finish, "length")
	equal(t, s.Tokens(), 1)
	streams := value[[]*lean.Stream[string]](t)(lean.IterateMany[string](background, m, many[:3]))
	for i, stream := range streams {
		equal(t, value[*lean.Result[string]](t)(stream.Result()).Value, words(i+1))
	}
	for _, wrong := range [][]lean.Branch{{}, make([]lean.Branch, 64), {{}, {lean.Expr("nmber")}}, {{lean.OnToken(func(lean.Token) {})}}} {
		if _, err := lean.GenerateMany[string](background, m, wrong); err == nil {
			t.Fatal(wrong)
		}
	}
}

func TestGroupsAndSinglesThatWaitForPlacesAllGetTheirTurn(t *testing.T) {
	m := loadEcho(t, "echo")
	many := make([]lean.Branch, 40)
	for i := range many {
		many[i] = lean.Branch{lean.Text(fmt.Sprint("b", i))}
	}
	var all sync.WaitGroup
	for range 6 {
		all.Add(1)
		go func() {
			defer all.Done()
			if v, err := lean.GenerateMany[string](background, m, many); err != nil || v[39] != "b39" {
				t.Error(v, err)
			}
		}()
	}
	for i := range 100 {
		all.Add(1)
		go func() {
			defer all.Done()
			if v, err := lean.Generate[string](background, m, lean.Text(words(i))); err != nil || v != words(i) {
				t.Error(v, err)
			}
		}()
	}
	all.Wait()
}

func TestEventsAndThenTheResult(t *testing.T) {
	m := loadEcho(t, "echo")
	s := value[*lean.Stream[string]](t)(lean.Iterate[string](background, m, lean.Text("naïve 日本 words")))
	var kinds []string
	for e, err := range s.Events() {
		must(t, err)
		kinds = append(kinds, fmt.Sprintf("%+v", e))
	}
	equal(t, strings.Join(kinds, " "), "{Done:3 Total:3} {IDs:[6] Text:naïve Forced:false} {IDs:[7] Text: 日本 Forced:false} {IDs:[6] Text: words Forced:false}")
	equal(t, value[*lean.Result[string]](t)(s.Result()).Value, "naïve 日本 words")
	must(t, s.Close())
	equal(t, value[*lean.Result[string]](t)(s.Result()).Finish, "complete")
}

func TestTextAndTheResultOfALongStream(t *testing.T) {
	m := loadEcho(t, "echo")
	s := value[*lean.Stream[string]](t)(lean.Iterate[string](background, m, lean.Text(words(500))))
	var text strings.Builder
	for piece, err := range s.Text() {
		must(t, err)
		text.WriteString(piece)
	}
	equal(t, text.String(), words(500))
	s = value[*lean.Stream[string]](t)(lean.Iterate[string](background, m, lean.Text(words(500))))
	equal(t, value[*lean.Result[string]](t)(s.Result()).Value, words(500))
}

// readTokens reads so many tokens of a stream.
func readTokens[T any](t *testing.T, s *lean.Stream[T], n int) {
	t.Helper()
	for e, err := range s.Events() {
		must(t, err)
		if _, is := e.(lean.Token); is {
			if n--; n == 0 {
				return
			}
		}
	}
	t.Fatal("the stream ended")
}

func TestAConsumerThatStopsReadingStopsTheBridgeAndNobodyElse(t *testing.T) {
	m := loadEcho(t, "echo")
	s := value[*lean.Stream[string]](t)(lean.Iterate[string](background, m, lean.Text(words(500))))
	readTokens(t, s, 1)
	time.Sleep(100 * time.Millisecond)
	before := value[*lean.Checkpoint](t)(s.Checkpoint(background))
	time.Sleep(100 * time.Millisecond)
	later := value[*lean.Checkpoint](t)(s.Checkpoint(background))
	equal(t, later.Tokens, before.Tokens)
	if before.Tokens >= 500+64 {
		t.Fatalf("%d tokens for a consumer that has read one", before.Tokens)
	}
	equal(t, say(t, m, lean.Text("meanwhile")), "meanwhile")
	// A loop that was left is taken up again, here by Result.
	equal(t, value[*lean.Result[string]](t)(s.Result()).Value, words(500))
}

func TestAStreamThatIsClosedOrForgottenIsCancelledAndItsSessionFree(t *testing.T) {
	m := loadEcho(t, "echo?step_ms=20")
	session := value[*lean.Session](t)(m.Session(background, nil))
	s := value[*lean.Stream[string]](t)(lean.Iterate[string](background, session, lean.Text(words(100))))
	readTokens(t, s, 1)
	must(t, s.Close())
	_, err := s.Result()
	fails(t, err, lean.ErrCancelled, "closed")
	must(t, session.Append(background, lean.Text("one")))
	equal(t, session.Tokens(), 1)
	_, err = s.Checkpoint(background)
	fails(t, err, lean.ErrInvalidArgument, "not running")

	forgotten := value[*lean.Stream[string]](t)(lean.Iterate[string](background, session, lean.Text(words(100))))
	readTokens(t, forgotten, 1)
	forgotten = nil
	for range 500 {
		runtime.GC()
		if err = session.Append(background, lean.Text(" two")); err == nil {
			break
		}
		fails(t, err, lean.ErrBusy)
		time.Sleep(10 * time.Millisecond)
	}
	must(t, err)
	equal(t, say(t, session), "one two")
}

func TestContextsCancel(t *testing.T) {
	m := loadEcho(t, "echo?step_ms=30")
	s := value[*lean.Session](t)(m.Session(background, nil))
	told := words(60)
	must(t, s.Append(background, lean.Text(told)))

	before, stop := context.WithCancel(background)
	stop()
	_, err := lean.Generate[string](before, s)
	fails(t, err, lean.ErrCancelled)

	prefill, stopPrefill := context.WithCancelCause(background)
	reason := errors.New("enough")
	err = s.Append(prefill, lean.Text(words(300)), lean.OnPrefill(func(lean.Prefill) { stopPrefill(reason) }))
	fails(t, err, lean.ErrCancelled)
	if !errors.Is(err, reason) || !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}

	decode, stopDecode := context.WithCancel(background)
	_, err = lean.Generate[string](decode, s, lean.OnToken(func(lean.Token) { stopDecode() }))
	fails(t, err, lean.ErrCancelled)

	late, stopLate := context.WithTimeout(background, 100*time.Millisecond)
	defer stopLate()
	_, err = lean.Generate[string](late, s)
	if e := fails(t, err, lean.ErrTimeout); !e.Retryable || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(e)
	}

	streamed, stopStreamed := context.WithCancel(background)
	defer stopStreamed()
	stream := value[*lean.Stream[string]](t)(lean.Iterate[string](streamed, s))
	for e, end := range stream.Events() {
		if err = end; e != nil {
			stopStreamed()
		}
	}
	fails(t, err, lean.ErrCancelled)

	// After all of that the session is as it was.
	must(t, s.Append(background, lean.Text(" more")))
	equal(t, s.Tokens(), 61)
	equal(t, say(t, s), told+" more")
}

func TestTwoGoroutinesInterleave(t *testing.T) {
	// Each waits for the other's next token: neither can finish unless both go on.
	m := loadEcho(t, "echo")
	a, b := make(chan bool), make(chan bool)
	run := func(first bool, mine chan<- bool, other <-chan bool) string {
		return say(t, m, lean.Text(words(80)), lean.OnToken(func(lean.Token) {
			if first {
				mine <- true
				<-other
			} else {
				<-other
				mine <- true
			}
		}))
	}
	second := make(chan string, 1)
	go func() { second <- run(false, b, a) }()
	equal(t, run(true, a, b), words(80))
	equal(t, <-second, words(80))
}

func TestAPanickingListenerCancels(t *testing.T) {
	m := loadEcho(t, "echo?step_ms=10")
	s := value[*lean.Session](t)(m.Session(background, nil))
	func() {
		defer func() { equal(t, fmt.Sprint(recover()), "mine") }()
		_, _ = lean.Generate[string](background, s, lean.Text(words(400)), lean.OnToken(func(lean.Token) { panic("mine") }))
	}()
	must(t, s.Append(background, lean.Text("free")))
	equal(t, s.Tokens(), 1)
}

func TestSessions(t *testing.T) {
	m := loadEcho(t, "echo")
	s := value[*lean.Session](t)(m.Session(background, nil))
	must(t, s.Append(background, lean.Text("one"), lean.Text(" two")))
	fork := value[*lean.Session](t)(s.Fork(background))
	equal(t, say(t, s), "one two")
	must(t, fork.Append(background, lean.Text(" 3")))
	equal(t, say(t, fork), "one two 3")
	must(t, fork.SetContext(background, lean.Text("one"), lean.Text(" zwei")))
	equal(t, fork.Tokens(), 2)
	must(t, fork.SetContext(background, lean.Text("a b c d")))
	must(t, fork.DropRange(background, 1, 3))
	equal(t, fork.Tokens(), 2)
	equal(t, say(t, fork), "a d")
	must(t, fork.Truncate(background, 1))
	equal(t, fork.Tokens(), 1)
	fails(t, fork.Truncate(background, 5), lean.ErrInvalidArgument, "1 tokens")
	fails(t, fork.Truncate(background, -1), lean.ErrInvalidArgument)
	fails(t, fork.Append(background, lean.MaxTokens(1)), lean.ErrInvalidArgument, "takes blocks")
	_, err := lean.Generate[string](background, s, lean.From(value[*lean.Checkpoint](t)(s.Checkpoint(background))))
	fails(t, err, lean.ErrInvalidArgument, "goes on where it is")
	must(t, s.Close())
	must(t, s.Close())
	fails(t, s.Append(background, lean.Text("x")), lean.ErrInvalidArgument, "dropped")
}

func TestCheckpointsInAValueAsBytesAndFilesInAnotherProcess(t *testing.T) {
	m, elsewhere := loadEcho(t, "echo"), loadEcho(t, "echo")
	stream := value[*lean.Stream[string]](t)(lean.Iterate[string](background, m, lean.Text(words(100))))
	readTokens(t, stream, 20)
	inside := value[*lean.Checkpoint](t)(stream.Checkpoint(background))
	must(t, stream.Close())

	var b bytes.Buffer
	size := value[int64](t)(inside.Write(background, &b, nil))
	equal(t, size, int64(b.Len()))
	folder := t.TempDir()
	file := filepath.Join(folder, "inside.lean")
	equal(t, value[int64](t)(inside.Save(background, file, nil)), size)
	left, _ := os.ReadDir(folder)
	equal(t, len(left), 1)

	restored := value[*lean.Checkpoint](t)(elsewhere.Restore(background, bytes.NewReader(b.Bytes()), nil))
	equal(t, restored.Tokens, inside.Tokens)
	equal(t, value[*lean.Result[string]](t)(lean.Resume[string](background, elsewhere, lean.From(restored))).Value, words(100))
	fromFile := value[*lean.Checkpoint](t)(elsewhere.RestoreFile(background, file, nil))
	session := value[*lean.Session](t)(elsewhere.Session(background, &lean.SessionOptions{Checkpoint: fromFile}))
	equal(t, value[*lean.Result[string]](t)(lean.Resume[string](background, session)).Value, words(100))
	_, err := lean.Resume[string](background, session)
	fails(t, err, lean.ErrInvalidArgument, "no value is in progress")
	_, err = lean.Resume[string](background, elsewhere, lean.From(inside))
	fails(t, err, lean.ErrInvalidArgument, "another engine process")

	kept := value[*lean.Result[string]](t)(lean.Run[string](background, m, lean.Text("one"), lean.Keep())).Checkpoint
	equal(t, say(t, m, lean.From(kept), lean.Text(" two")), " two")
}

func TestLargeDamagedAndDroppedCheckpoints(t *testing.T) {
	m := load(t, spawn(t, nil), "echo", &lean.LoadOptions{Context: 100_000})
	s := value[*lean.Session](t)(m.Session(background, nil))
	must(t, s.Append(background, lean.Text(strings.Repeat("x", 1_000_000))))
	c := value[*lean.Checkpoint](t)(s.Checkpoint(background))
	data := value[[]byte](t)(c.Bytes(background, &lean.SaveOptions{}))
	if len(data) < 3*256*1024 {
		t.Fatal(len(data))
	}
	again := value[*lean.Checkpoint](t)(m.Restore(background, iotestReader{bytes.NewReader(data)}, nil))
	if !bytes.Equal(value[[]byte](t)(again.Bytes(background, nil)), data) {
		t.Fatal("other bytes")
	}
	must(t, again.Drop())
	must(t, again.Drop())
	_, err := again.Bytes(background, nil)
	fails(t, err, lean.ErrInvalidArgument, "dropped")

	data[20] ^= 1
	_, err = m.Restore(background, bytes.NewReader(data), nil)
	fails(t, err, lean.ErrBadCheckpoint)
	_, err = m.Restore(background, strings.NewReader(""), nil)
	fails(t, err, lean.ErrBadCheckpoint)
	broken := errors.New("broken pipe")
	_, err = m.Restore(background, io.MultiReader(bytes.NewReader(data), failingReader{broken}), nil)
	equal(t, err, broken)
	_, err = c.Write(background, failingWriter{broken}, nil)
	equal(t, err, broken)
	_, err = m.RestoreFile(background, "no/such/checkpoint", nil)
	if !strings.Contains(err.Error(), "no/such/checkpoint") {
		t.Fatal(err)
	}
	equal(t, say(t, m, lean.Text("fine")), "fine")
}

// iotestReader gives a byte more than half a chunk at a time.
type iotestReader struct{ from io.Reader }

func (r iotestReader) Read(b []byte) (int, error) { return r.from.Read(b[:min(len(b), 1<<17+1)]) }

type failingReader struct{ err error }

func (r failingReader) Read([]byte) (int, error) { return 0, r.err }

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }

func TestErrorsCarryTheirNumbers(t *testing.T) {
	e := spawn(t, nil)
	small := load(t, e, "echo", &lean.LoadOptions{Context: 4})
	_, err := lean.Generate[string](background, small, lean.Text("a b c d e"))
	got := fails(t, err, lean.ErrContextOverflow, "5", "4")
	var overflow *lean.ContextOverflow
	if !errors.As(err, &overflow) || *overflow != (lean.ContextOverflow{Needed: 5, Available: 4}) || got.Retryable || got.Details["needed"] != 5.0 {
		t.Fatal(overflow, got)
	}
	_, err = lean.Generate[user](background, small, lean.JSON(user{1, "a b c d e f", nil}), lean.MaxTokens(1))
	if err == nil {
		t.Fatal("it fits")
	}
	echo := load(t, e, "echo", nil)
	_, err = lean.Generate[[]string](background, echo, lean.JSON([]string{"a b c d"}), lean.MaxTokens(2))
	var budget *lean.BudgetTooSmall
	if !errors.As(err, &budget) || budget.Needed != 4 {
		t.Fatal(err)
	}
	_, err = lean.Generate[string](background, echo, lean.Text(strings.Repeat("x", 2_000_000)))
	fails(t, err, lean.ErrInvalidArgument, "fit a frame")
	_, err = lean.Generate[string](background, echo, lean.MaxTokens(-1))
	fails(t, err, lean.ErrInvalidArgument)
	_, err = e.Load(background, "echo", &lean.LoadOptions{Threads: -1})
	fails(t, err, lean.ErrInvalidArgument, "Threads")
	_, err = e.Load(background, "echo", &lean.LoadOptions{Backend: "tpu"})
	fails(t, err, lean.ErrInvalidArgument)
	equal(t, lean.ClassResource.String(), "resource")
}

func TestAPanicInTheBridgeIsAnErrorOfOneCall(t *testing.T) {
	e := spawn(t, nil)
	bad := load(t, e, "echo?panic_at=1", nil)
	_, err := lean.Generate[string](background, bad, lean.Text("one two"))
	fails(t, err, lean.ErrPanic)
	equal(t, say(t, load(t, e, "echo", nil), lean.Text("fine")), "fine")
}

func TestMoreCallsThanTheBridgeTakesWaitTheirTurn(t *testing.T) {
	m := loadEcho(t, "echo?step_ms=5")
	var all sync.WaitGroup
	for i := range 200 {
		all.Add(1)
		go func() {
			defer all.Done()
			if v, err := lean.Generate[string](background, m, lean.Text(words(1+i%3))); err != nil || v != words(1+i%3) {
				t.Error(v, err)
			}
		}()
	}
	all.Wait()

	// Streams that nobody reads hold their places: one more waits, can be cancelled, and gets its turn.
	var streams []*lean.Stream[string]
	for range 56 {
		streams = append(streams, value[*lean.Stream[string]](t)(lean.Iterate[string](background, m, lean.Text(words(500)))))
	}
	short, stop := context.WithTimeout(background, 50*time.Millisecond)
	defer stop()
	_, err := lean.Generate[string](short, m, lean.Text("waits"))
	fails(t, err, lean.ErrTimeout)
	turn := make(chan error, 1)
	go func() { _, err := lean.Generate[string](background, m, lean.Text("waits")); turn <- err }()
	must(t, streams[0].Close())
	must(t, <-turn)
	for _, s := range streams {
		must(t, s.Close())
	}
}
