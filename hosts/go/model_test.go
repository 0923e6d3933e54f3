package lean_test

// The same client on real weights: a tiny model of the fixtures, and SmolLM2 where it is present.

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"lean"
)

var (
	tinyFile = filepath.Join(repository, "tests", "fixtures", "models", "llama-hd64-tied.s1.q4_1.gguf")
	adapters = filepath.Join(repository, "tests", "fixtures", "adapters", "llama-all-r4")
)

func smolFile(t *testing.T) string {
	folder := os.Getenv("LEAN_MODEL_DIR")
	if folder == "" {
		folder = filepath.Join(repository, ".cache", "models")
	}
	file := filepath.Join(folder, "SmolLM2-135M-Instruct.Q4_1.gguf")
	if _, err := os.Stat(file); err != nil {
		t.Skip("there is no ", file)
	}
	return file
}

type author struct {
	Name string `json:"name" lean:"min=1,max=12"`
	Age  int    `json:"age" lean:"min=0,max=150"`
}

func (a author) check(t *testing.T) {
	t.Helper()
	if n := utf8.RuneCountInString(a.Name); n < 1 || n > 12 || a.Age < 0 || a.Age > 150 {
		t.Fatal(a)
	}
}

type ticket struct {
	Kind   string   `json:"kind" lean:"enum=bug|feature"`
	Author author   `json:"author"`
	Score  float64  `json:"score" lean:"min=0,max=1"`
	Tags   []string `json:"tags" lean:"max=3,items.enum=a|b|c"`
	Reply  *author  `json:"reply"`
	Note   *string  `json:"note,omitempty" lean:"max=5"`
	Blob   []byte   `json:"blob" lean:""`
	Pair   [2]int8  `json:"pair"`
	Big    float32  `json:"big"`
}

func TestEveryValueIsOfItsType(t *testing.T) {
	// Random weights say anything: what comes out is of the type all the same.
	m := load(t, spawn(t, nil), tinyFile, nil)
	equal(t, m.Info.Architecture, "llama")
	for seed := range uint64(5) {
		r := value[*lean.Result[ticket]](t)(lean.Run[ticket](background, m, lean.Text("A ticket: "), lean.MaxTokens(160), lean.Seed(seed), lean.Temperature(1.5)))
		v := r.Value
		v.Author.check(t)
		if v.Reply != nil {
			v.Reply.check(t)
		}
		if v.Kind != "bug" && v.Kind != "feature" || v.Score < 0 || v.Score > 1 || len(v.Tags) > 3 || v.Note != nil && utf8.RuneCountInString(*v.Note) > 5 {
			t.Fatalf("%+v", v)
		}
		for _, tag := range v.Tags {
			if !strings.Contains("abc", tag) || len(tag) != 1 {
				t.Fatalf("%+v", v)
			}
		}
		equal(t, r.Finish, "complete")
	}
}

func TestPartialValues(t *testing.T) {
	m := load(t, spawn(t, nil), tinyFile, nil)
	s := value[*lean.Stream[ticket]](t)(lean.Iterate[ticket](background, m, lean.Text("A ticket: "), lean.MaxTokens(120), lean.Seed(1), lean.Temperature(1), lean.Partials()))
	var all []lean.Partial
	for e, err := range s.Events() {
		must(t, err)
		if p, is := e.(lean.Partial); is {
			all = append(all, p)
		}
	}
	text := value[*lean.Result[ticket]](t)(s.Result()).Text
	equal(t, all[len(all)-1].JSON, text)
	for _, p := range all {
		if !strings.HasPrefix(text, p.JSON[:p.FinalBytes]) {
			t.Fatal(p)
		}
	}
	seen := 0
	value[author](t)(lean.Generate[author](background, m, lean.MaxTokens(40), lean.OnPartial(func(lean.Partial) { seen++ })))
	if seen == 0 {
		t.Fatal("no partial value")
	}
}

var weatherTool = map[string]any{"type": "function", "function": map[string]any{
	"name": "weather", "description": "The weather of a city",
	"parameters": map[string]any{
		"type": "object", "required": []string{"city", "unit"},
		"properties": map[string]any{"city": map[string]any{"type": "string", "maxLength": 6}, "unit": map[string]any{"enum": []string{"c", "f"}}},
	},
}}

func TestRepliesAreTextOrCallsOfTools(t *testing.T) {
	m := load(t, spawn(t, nil), tinyFile, nil)
	for _, syntax := range []string{"", "hermes", "llama", "gemma", "pythonic"} {
		for _, tools := range []lean.Tools{{Required: true, Single: true}, {Tool: "weather"}, {}} {
			tools.Tools, tools.Syntax = []any{weatherTool, map[string]any{"name": "now"}}, syntax
			chat := lean.Conversation{Messages: []lean.Message{lean.User("Oslo?")}, Tools: tools.Tools}
			r := value[lean.Reply](t)(lean.Generate[lean.Reply](background, m, chat, tools, lean.MaxTokens(90), lean.Temperature(1.5), lean.Seed(3)))
			if (tools.Required || tools.Tool != "") && len(r.Calls) != 1 || tools.Tool != "" && r.Calls[0].Name != tools.Tool {
				t.Fatalf("%s %+v: %+v", syntax, tools, r)
			}
			for _, c := range r.Calls {
				var arguments struct{ City, Unit string }
				must(t, c.Into(&arguments))
				if c.Name == "weather" && (utf8.RuneCountInString(arguments.City) > 6 || arguments.Unit != "c" && arguments.Unit != "f") {
					t.Fatalf("%s: %s", syntax, c.Arguments)
				}
			}
		}
	}
	_, err := lean.Generate[lean.Reply](background, m)
	fails(t, err, lean.ErrInvalidArgument, "Tools")
	_, err = lean.Generate[lean.Reply](background, m, lean.Tools{Tools: []any{weatherTool}, Required: true, Tool: "weather"})
	fails(t, err, lean.ErrInvalidArgument, "either")
	var typed *lean.TypeError
	if _, err = lean.Generate[lean.Reply](background, m, lean.Tools{}); !errors.As(err, &typed) {
		t.Fatal(err)
	}
}

func TestConfidenceSaysHowSureTheModelWas(t *testing.T) {
	m := load(t, spawn(t, nil), tinyFile, nil)
	type issue struct {
		Kind string `json:"kind" lean:"enum=bug|feature"`
		Open bool   `json:"open"`
		Name string `json:"name" lean:"max=5"`
	}
	s := value[*lean.Stream[issue]](t)(lean.Iterate[issue](background, m, lean.Text("An issue: "), lean.MaxTokens(60), lean.AskConfidence()))
	r := value[*lean.Result[issue]](t)(s.Result())
	c := r.Confidence
	if c == nil || c.Logprob >= 0 || len(c.Leaves) != 3 || c.Leaves[0].Path != "/kind" || len(c.Leaves[2].Alternatives) != 0 {
		t.Fatalf("%+v", c)
	}
	for _, leaf := range c.Leaves[:2] {
		sum := 0.0
		for _, a := range leaf.Alternatives {
			sum += a.Probability
		}
		if len(leaf.Alternatives) != 2 || sum < 0.999 || sum > 1.001 {
			t.Fatalf("%+v", leaf)
		}
	}
	if none := value[*lean.Result[issue]](t)(lean.Run[issue](background, m, lean.MaxTokens(60))).Confidence; none != nil {
		t.Fatal(none)
	}
}

func TestManyValuesAreWhatEachWouldBeAloneAndShareTheirPasses(t *testing.T) {
	m := load(t, spawn(t, nil), tinyFile, &lean.LoadOptions{PrefixCacheBytes: new(uint64)})
	s := value[*lean.Session](t)(m.Session(background, nil))
	must(t, s.Append(background, lean.Text("Once upon a time")))
	c := value[*lean.Checkpoint](t)(s.Checkpoint(background))
	common := []lean.Part{lean.Temperature(0.8), lean.MaxTokens(16)}
	var alone []string
	var branches []lean.Branch
	for seed := range uint64(6) {
		alone = append(alone, say(t, m, append(common, lean.From(c), lean.Seed(seed))...))
		branches = append(branches, lean.Branch{lean.Seed(seed)})
	}
	before := value[lean.Stats](t)(m.Stats(background))
	many := value[[]string](t)(lean.GenerateMany[string](background, m, branches, append(common, lean.From(c))...))
	now := value[lean.Stats](t)(m.Stats(background))
	if !reflect.DeepEqual(many, alone) {
		t.Fatalf("%q\n%q", many, alone)
	}
	if passes, tokens := now.Passes-before.Passes, now.Tokens-before.Tokens; passes >= tokens/2 {
		t.Fatal(passes, " passes for ", tokens, " tokens")
	}
	if now.Memory.WeightBytes == 0 || now.Memory.StateBytes == 0 || now.Prefix.Entries != 0 {
		t.Fatalf("%+v", now)
	}
}

func TestForksAndRestoredSessionsGoOnAlike(t *testing.T) {
	m := load(t, spawn(t, nil), tinyFile, nil)
	other := load(t, spawn(t, nil), tinyFile, nil)
	s := value[*lean.Session](t)(m.Session(background, nil))
	// Longer than a page, or the two would have none in common.
	must(t, s.Append(background, lean.Text("Once upon a time"+strings.Repeat(" and a time before that", 20))))
	early := value[*lean.Checkpoint](t)(s.Checkpoint(background))
	must(t, s.Append(background, lean.Text(" there was a machine that learned to speak, and it spoke of many things.")))
	late := value[*lean.Checkpoint](t)(s.Checkpoint(background))
	fork := value[*lean.Session](t)(s.Fork(background))
	want := say(t, fork, lean.MaxTokens(8))

	parent := value[*lean.Checkpoint](t)(other.Restore(background, bytes.NewReader(value[[]byte](t)(early.Bytes(background, nil))), nil))
	delta := value[[]byte](t)(late.Bytes(background, &lean.SaveOptions{Parent: early}))
	small := value[[]byte](t)(late.Bytes(background, &lean.SaveOptions{Compress: true}))
	for data, options := range map[string]*lean.RestoreOptions{string(delta): {Parent: parent}, string(small): nil} {
		c := value[*lean.Checkpoint](t)(other.Restore(background, strings.NewReader(data), options))
		restored := value[*lean.Session](t)(other.Session(background, &lean.SessionOptions{Checkpoint: c}))
		equal(t, say(t, restored, lean.MaxTokens(8)), want)
	}
	_, err := other.Restore(background, bytes.NewReader(delta), nil)
	if err == nil {
		t.Fatal("a delta without its parent")
	}

	echo := loadEcho(t, "echo")
	_, err = echo.Restore(background, bytes.NewReader(small), nil)
	var e *lean.Error
	if !errors.As(err, &e) || e.Code != 300 && e.Code != 301 {
		t.Fatal(err)
	}
}

func TestAdaptersAndKV(t *testing.T) {
	e := spawn(t, nil)
	m := load(t, e, filepath.Join(repository, "tests", "fixtures", "models", "llama-hd64-tied.s1.q4_1.gguf"), nil)
	s := value[*lean.Session](t)(m.Session(background, nil))
	must(t, s.Append(background, lean.Text("Once upon a time")))
	a := value[*lean.Adapter](t)(m.LoadAdapter(background, adapters))
	if !bytes.Contains(a.Info, []byte("fingerprint")) {
		t.Fatal(string(a.Info))
	}
	plain := value[*lean.Session](t)(s.Fork(background))
	before := say(t, plain, lean.MaxTokens(24))
	must(t, s.SetAdapters(background, lean.Scaled{Adapter: a, Scale: 4}))
	adapted := value[*lean.Session](t)(s.Fork(background))
	if say(t, adapted, lean.MaxTokens(24)) == before {
		t.Fatal("the adapter changed nothing")
	}
	must(t, s.SetAdapters(background))
	equal(t, say(t, s, lean.MaxTokens(24)), before)
	must(t, a.Drop())
	fails(t, s.SetAdapters(background, lean.Scaled{Adapter: a, Scale: 1}), lean.ErrInvalidArgument, "dropped")
	fails(t, s.SetAdapters(background, lean.Scaled{}), lean.ErrInvalidArgument)
	_, err := m.LoadAdapter(background, "no/such/adapter.gguf")
	if err == nil {
		t.Fatal("loaded")
	}
	half := load(t, e, tinyFile, &lean.LoadOptions{KV: "f16", Threads: 1, Backend: "cpu"})
	say(t, half, lean.MaxTokens(2))
	whole := load(t, e, tinyFile, &lean.LoadOptions{Threads: 1, Backend: "cpu"})
	held := value[*lean.Session](t)(whole.Session(background, nil))
	must(t, held.Append(background, lean.Text("Once upon a time")))
	data := value[[]byte](t)(value[*lean.Checkpoint](t)(held.Checkpoint(background)).Bytes(background, nil))
	for policy, want := range map[string]string{"": "", "exact": "", "convert": "converted", "reprefill": "reprefilled"} {
		c, err := half.Restore(background, bytes.NewReader(data), &lean.RestoreOptions{Policy: policy})
		if want == "" {
			fails(t, err, lean.ErrIncompatible)
			continue
		}
		must(t, err)
		equal(t, c.Restored, want)
	}
	if _, err = e.Load(background, tinyFile, &lean.LoadOptions{Precision: "rough"}); err == nil {
		t.Error("a precision that there is not")
	}
	_, err = e.Load(background, tinyFile, &lean.LoadOptions{KV: "f17"})
	fails(t, err, lean.ErrInvalidArgument)
}

func TestSmolLM2(t *testing.T) {
	file := smolFile(t)
	// Little credit: a stream that nobody reads waits, so that the middle of a value can be met on any machine.
	m := load(t, spawn(t, &lean.SpawnOptions{Credit: 4}), file, nil)
	asked := lean.Chat(lean.User("Invent an author as JSON."))

	t.Run("a typed value, and its continuation in another process", func(t *testing.T) {
		s := value[*lean.Stream[author]](t)(lean.Iterate[author](background, m, asked))
		readTokens(t, s, 4)
		var b bytes.Buffer
		value[int64](t)(value[*lean.Checkpoint](t)(s.Checkpoint(background)).Write(background, &b, nil))
		whole := value[*lean.Result[author]](t)(s.Result())
		whole.Value.check(t)
		if whole.Usage.SampledTokens == 0 || whole.Usage.ForcedTokens == 0 {
			t.Fatalf("%+v", whole.Usage)
		}
		other := load(t, spawn(t, nil), file, nil)
		c := value[*lean.Checkpoint](t)(other.Restore(background, &b, nil))
		again := value[*lean.Result[author]](t)(lean.Resume[author](background, other, lean.From(c)))
		equal(t, again.Text, whole.Text)
		equal(t, again.Value, whole.Value)
	})
	t.Run("cancelling a long prefill leaves the session usable", func(t *testing.T) {
		s := value[*lean.Session](t)(m.Session(background, nil))
		must(t, s.Append(background, lean.Text("Once upon a time")))
		before := s.Tokens()
		ctx, stop := context.WithCancel(background)
		long := strings.Repeat("The quick brown fox jumps over the lazy dog. ", 100)
		err := s.Append(ctx, lean.Text(long), lean.OnPrefill(func(lean.Prefill) { stop() }))
		fails(t, err, lean.ErrCancelled)
		must(t, s.Append(background, lean.Text(" there was")))
		if s.Tokens() <= before || s.Tokens() >= before+10 {
			t.Fatal(s.Tokens())
		}
	})
}
