package lean

// The conformance scripts of tests/wire/conformance, over a spawned bridge and, with the tag lean_cgo, over a
// port: see the README there.

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// patience is how long a frame, or the bridge's end, may take.
const patience = time.Minute

type scriptFrame struct {
	Request  uint32
	Name     string
	Kind     uint16
	Flags    *uint16
	Head     map[string]any
	JSON     json.RawMessage
	Text     string
	Kept     string
	Flip     *int
	From, To *int
	Keep     string
}

type scriptStep struct {
	Send    *scriptFrame
	SendHex string         `json:"send_hex"`
	Expect  map[string]any `json:"expect"`
	Close   bool
	End     *int
}

// A player is one run of a script.
type player struct {
	t        *testing.T
	places   []string
	process  Transport
	incoming chan frame
	open     map[uint32][]frame
	kept     map[string][]byte
	ended    bool
}

func TestConformance(t *testing.T) {
	files, _ := filepath.Glob("../../tests/wire/conformance/*.jsonl")
	if len(files) < 25 {
		t.Fatal(len(files), " scripts")
	}
	repository, err := filepath.Abs("../..")
	if err == nil {
		repository, err = filepath.EvalSymlinks(repository)
	}
	if err != nil {
		t.Fatal(err)
	}
	models := os.Getenv("LEAN_MODEL_DIR")
	if models == "" {
		models = filepath.Join(repository, ".cache", "models")
	}
	smol, _ := filepath.Abs(filepath.Join(models, "SmolLM2-135M-Instruct.Q4_1.gguf"))
	for _, file := range files {
		for _, transport := range []string{"process", "port"} {
			t.Run(strings.TrimSuffix(filepath.Base(file), ".jsonl")+"/"+transport, func(t *testing.T) {
				if transport == "port" && openPort == nil {
					t.Skip("SKIPPED: built without the tag lean_cgo")
				}
				data, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				lines := strings.Split(strings.TrimSpace(string(data)), "\n")
				head := struct {
					Model     string
					Credit    uint32
					MaxFrame  *uint32 `json:"max_frame"`
					Handshake bool
				}{Credit: 32, Handshake: true}
				if err := json.Unmarshal([]byte(lines[0]), &head); err != nil {
					t.Fatal(err)
				}
				if _, err := os.Stat(smol); err != nil && head.Model == "smol" {
					t.Skip("SKIPPED: there is no ", smol)
				}
				folder, _ := filepath.EvalSymlinks(t.TempDir())
				p := play(t, transport, []string{"{dir}", folder, "{repo}", repository, "{smol}", smol})
				if head.Handshake {
					if f := p.next(0); nameOf[f.kind] != "HELLO" {
						t.Fatal("the first frame is no HELLO")
					}
					p.write(messageBytes(0, 0, helloAck{0, head.Credit, head.MaxFrame}, nil))
				}
				for i, line := range lines[1:] {
					if strings.TrimSpace(line) != "" && !strings.HasPrefix(line, "#") {
						p.step(line, fmt.Sprintf("%s:%d", filepath.Base(file), i+2))
					}
				}
				p.finish()
			})
		}
	}
}

func start(transport string) (Transport, error) {
	if transport == "port" {
		return openPort()
	}
	file, err := FindBridge("")
	if err != nil {
		return nil, err
	}
	return startProcess(SpawnOptions{}, file)
}

func play(t *testing.T, transport string, places []string) *player {
	process, err := start(transport)
	if err != nil {
		t.Fatal(err)
	}
	p := &player{t: t, places: places, process: process, incoming: make(chan frame, 1024), open: map[uint32][]frame{}, kept: map[string][]byte{}}
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer close(p.incoming)
		r := newFrameReader(process, maxFrameDefault, true)
		for {
			f, err := r.next()
			if err != nil {
				return
			}
			p.incoming <- f
		}
	}()
	t.Cleanup(func() {
		_ = process.Kill()
		for range p.incoming {
		}
		<-read
		process.Wait()
	})
	return p
}

func (p *player) write(b []byte) {
	// What is written to a bridge that has ended is nobody's: the script says what must come back.
	_, _ = p.process.Write(b)
}

// replaced is a value with the places filled in, or back, and then without times.
func (p *player) replaced(v any, back bool) any {
	switch v := v.(type) {
	case string:
		for i := 0; i < len(p.places); i += 2 {
			name, place := p.places[i], p.places[i+1]
			if back {
				name, place = place, name
			}
			v = strings.ReplaceAll(v, name, place)
		}
		return v
	case []any:
		for i := range v {
			v[i] = p.replaced(v[i], back)
		}
	case map[string]any:
		for k := range v {
			v[k] = p.replaced(v[k], back)
			if back && slices.Contains([]string{"first_token_seconds", "total_seconds", "tokens_per_second"}, k) {
				v[k] = 0.0
			}
		}
	}
	return v
}

func (p *player) send(f *scriptFrame) {
	tail := []byte(f.Text)
	if f.JSON != nil {
		// As text, since properties come in their order.
		tail = []byte(p.replaced(string(f.JSON), false).(string))
	}
	if f.Kept != "" {
		tail = slices.Clone(p.kept[f.Kept])
		if f.Head["digest"] == "DIGEST" {
			f.Head["digest"] = float64(crc32.ChecksumIEEE(tail))
		}
		if f.Flip != nil {
			tail[*f.Flip] ^= 1
		}
		if f.To != nil {
			tail = tail[:*f.To]
		}
		if f.From != nil {
			tail = tail[*f.From:]
		}
	}
	kind, flags := f.Kind, uint16(flagCritical)
	var head []byte
	for _, m := range messages {
		if m.name == f.Name {
			v := reflect.New(reflect.TypeOf(m.head)).Elem()
			p.replaced(f.Head, false)
			if err := setReadable(v, f.Head); err != nil {
				p.t.Fatal(err)
			}
			kind, head = m.kind, encodeHead(v.Interface())
		}
	}
	if slices.Contains([]string{"HELLO_ACK", "CANCEL", "CREDIT"}, f.Name) {
		flags = 0
	}
	if f.Flags != nil {
		flags = *f.Flags
	}
	p.write(frameBytes(f.Request, kind, flags, head, tail))
}

// next is the next frame of a request; those of others wait for their turn.
func (p *player) next(request uint32) frame {
	p.t.Helper()
	for len(p.open[request]) == 0 {
		select {
		case f, more := <-p.incoming:
			if !more {
				p.t.Fatalf("the stream ended before a frame of request %d", request)
			}
			p.open[f.request] = append(p.open[f.request], f)
		case <-time.After(patience):
			p.t.Fatalf("no frame of request %d within %v", request, patience)
		}
	}
	f := p.open[request][0]
	p.open[request] = p.open[request][1:]
	return f
}

func (p *player) described(f frame) map[string]any {
	p.t.Helper()
	name, known := nameOf[f.kind]
	told := map[string]any{"request": f.request}
	if known {
		told["name"] = name
		head, err := decodeHead(f.kind, f.head)
		if err != nil {
			p.t.Fatal(err)
		}
		if fields := readable(reflect.ValueOf(head)).(map[string]any); len(fields) > 0 {
			told["head"] = p.replaced(fields, true)
		}
	} else {
		told["kind"] = f.kind
	}
	if f.flags != 0 {
		told["flags"] = f.flags
	}
	switch {
	case len(f.tail) == 0:
	case slices.Contains([]string{"LOADED", "INFO", "GENERATED", "ADAPTER", "ERROR"}, name):
		var document any
		if err := json.Unmarshal(f.tail, &document); err != nil {
			p.t.Fatal(err)
		}
		told["json"] = p.replaced(document, true)
	case name == "TOKENS" || name == "PARTIAL":
		told["text"] = string(f.tail)
	default:
		told["bytes"] = map[string]any{"size": len(f.tail), "crc32": crc32.ChecksumIEEE(f.tail)}
	}
	return told
}

// same says whether something is what was expected. Both have been through JSON.
func same(want, got any) bool {
	if want == "<any>" {
		return true
	}
	switch want := want.(type) {
	case map[string]any:
		other, is := got.(map[string]any)
		if !is || len(want) != len(other) {
			return false
		}
		for k, v := range want {
			if o, has := other[k]; !has || !same(v, o) {
				return false
			}
		}
		return true
	case []any:
		other, is := got.([]any)
		return is && slices.EqualFunc(want, other, same)
	}
	return want == got
}

func (p *player) step(line, at string) {
	p.t.Helper()
	var s scriptStep
	d := json.NewDecoder(strings.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		p.t.Fatal(at, " ", err)
	}
	switch {
	case s.Send != nil:
		p.send(s.Send)
	case s.SendHex != "":
		b, _ := hex.DecodeString(s.SendHex)
		p.write(b)
	case s.Expect != nil:
		f := p.next(uint32(s.Expect["request"].(float64)))
		if keep, is := s.Expect["keep"].(string); is {
			p.kept[keep] = append(p.kept[keep], f.tail...)
			delete(s.Expect, "keep")
		}
		text := canon(p.t, p.described(f))
		var got any
		_ = json.Unmarshal([]byte(text), &got)
		if !same(s.Expect, got) {
			p.t.Fatalf("%s\nexpected %s\ngot      %s", at, canon(p.t, s.Expect), text)
		}
	case s.Close:
		_ = p.process.CloseWrite()
	case s.End != nil:
		p.end(*s.End)
	default:
		p.t.Fatal(at, " is a step of no kind")
	}
}

func (p *player) end(status int) {
	p.t.Helper()
	p.ended = true
	late := time.After(patience)
	for ended := false; !ended; {
		select {
		case f, more := <-p.incoming:
			if ended = !more; more {
				p.open[f.request] = append(p.open[f.request], f)
			}
		case <-late:
			p.t.Fatalf("the stream did not end within %v", patience)
		}
	}
	for _, frames := range p.open {
		for _, f := range frames {
			p.t.Fatal("not expected: ", canon(p.t, p.described(f)))
		}
	}
	if how := p.process.Wait(); how.Status != status {
		p.t.Fatalf("exit status %d was expected: %v", status, how)
	}
}

func (p *player) finish() {
	p.t.Helper()
	if p.ended {
		return
	}
	const last = 0x7fff_ffff
	p.write(messageBytes(last, flagCritical, shutdown{}, nil))
	if got := p.described(p.next(last)); got["name"] != "OK" {
		p.t.Fatal(got)
	}
	p.end(0)
}
