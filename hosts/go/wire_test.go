package lean

// The golden vectors of tests/wire, and the reader on arbitrary bytes.

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

const wire = "../../tests/wire"

type twin struct {
	Magic    bool
	MaxFrame uint32 `json:"max_frame"`
	Frames   []map[string]any
	Error    *string
}

func readTwin(t *testing.T, name string, into any) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(wire, name+".json"))
	if err == nil {
		d := json.NewDecoder(bytes.NewReader(data))
		d.UseNumber()
		err = d.Decode(into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// readable is a value as twins have it: integers beyond 2^53 are strings there.
func readable(v reflect.Value) any {
	switch v.Kind() {
	case reflect.Struct:
		all := map[string]any{}
		for i := range v.NumField() {
			all[wireName(v.Type().Field(i).Name)] = readable(v.Field(i))
		}
		return all
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return readable(v.Elem())
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return hex.EncodeToString(v.Bytes())
		}
		all := []any{}
		for i := range v.Len() {
			all = append(all, readable(v.Index(i)))
		}
		return all
	case reflect.Uint32, reflect.Uint64:
		if v.Uint() >= 1<<53 {
			return fmt.Sprint(v.Uint())
		}
	case reflect.Int64:
		if v.Int() >= 1<<53 || v.Int() <= -1<<53 {
			return fmt.Sprint(v.Int())
		}
	}
	return v.Interface()
}

// setReadable is the other way.
func setReadable(v reflect.Value, from any) error {
	if text, is := from.(string); is && (v.Kind() == reflect.Uint64 || v.Kind() == reflect.Int64) {
		from = json.Number(text)
	}
	if v.Kind() == reflect.Struct {
		all, _ := from.(map[string]any)
		for i := range v.NumField() {
			if err := setReadable(v.Field(i), all[wireName(v.Type().Field(i).Name)]); err != nil {
				return err
			}
		}
		return nil
	}
	if v.Kind() == reflect.Pointer && from != nil {
		v.Set(reflect.New(v.Type().Elem()))
		return setReadable(v.Elem(), from)
	}
	if v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8 {
		b, err := hex.DecodeString(from.(string))
		v.SetBytes(b)
		return err
	}
	data, err := json.Marshal(from)
	if err == nil {
		err = json.Unmarshal(data, v.Addr().Interface())
	}
	return err
}

// canon makes two readable things comparable: 1.0 is 1.
func canon(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err == nil {
		var again any
		if err = json.Unmarshal(data, &again); err == nil {
			data, err = json.Marshal(again)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func describe(f frame) (map[string]any, error) {
	d := map[string]any{"request": f.request, "kind": f.kind, "flags": f.flags, "name": nil}
	if name, known := nameOf[f.kind]; known {
		head, err := decodeHead(f.kind, f.head)
		if err != nil {
			return nil, err
		}
		d["name"], d["head"] = name, readable(reflect.ValueOf(head))
	} else {
		d["head_hex"] = hex.EncodeToString(f.head)
	}
	if utf8.Valid(f.tail) {
		d["tail"] = string(f.tail)
	} else {
		d["tail_hex"] = hex.EncodeToString(f.tail)
	}
	return d, nil
}

// pieces gives at most so many bytes at a time.
type pieces struct {
	from io.Reader
	most int
}

func (p pieces) Read(b []byte) (int, error) { return p.from.Read(b[:min(len(b), p.most)]) }

func readAll(data []byte, tw twin, most int) (frames []map[string]any, failure string) {
	r := newFrameReader(pieces{bytes.NewReader(data), most}, tw.MaxFrame, tw.Magic)
	for {
		f, err := r.next()
		var d map[string]any
		if err == nil {
			d, err = describe(f)
		}
		var wire *wireError
		switch {
		case err == io.EOF:
			return
		case errors.As(err, &wire):
			return frames, wire.name
		case err != nil:
			return frames, err.Error()
		}
		frames = append(frames, d)
	}
}

func TestVectors(t *testing.T) {
	files, _ := filepath.Glob(filepath.Join(wire, "*.bin"))
	if len(files) < 40 {
		t.Fatal(len(files), "vectors")
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".bin")
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var tw twin
			readTwin(t, name, &tw)
			for _, most := range []int{len(data) + 1, 7, 1} {
				frames, failure := readAll(data, tw, most)
				if frames == nil {
					frames = []map[string]any{}
				}
				want := ""
				if tw.Error != nil {
					want = *tw.Error
				}
				if canon(t, frames) != canon(t, tw.Frames) || failure != want {
					t.Fatalf("got %s %q\nwant %s %q", canon(t, frames), failure, canon(t, tw.Frames), want)
				}
			}
			if tw.Error == nil && name != "hello_newer" {
				if tw.Magic {
					data = data[len(magic):]
				}
				if again := writeTwin(t, tw); !bytes.Equal(again, data) {
					t.Fatalf("written as %x, not %x", again, data)
				}
			}
		})
	}
}

// writeTwin writes a twin's frames as this client does.
func writeTwin(t *testing.T, tw twin) []byte {
	var all []byte
	number := func(v any) uint64 { n, _ := strconv.ParseUint(fmt.Sprint(v), 10, 64); return n }
	for _, f := range tw.Frames {
		kind := uint16(number(f["kind"]))
		var head, tail []byte
		if of, known := headOf[kind]; known {
			v := reflect.New(of).Elem()
			if err := setReadable(v, f["head"]); err != nil {
				t.Fatal(err)
			}
			head = encodeHead(v.Interface())
		} else {
			head, _ = hex.DecodeString(f["head_hex"].(string))
		}
		if h, is := f["tail_hex"].(string); is {
			tail, _ = hex.DecodeString(h)
		} else {
			tail = []byte(f["tail"].(string))
		}
		all = append(all, frameBytes(uint32(number(f["request"])), kind, uint16(number(f["flags"])), head, tail)...)
	}
	return all
}

func wireType(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return "option<" + wireType(t.Elem()) + ">"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "bytes"
		}
		return "seq<" + wireType(t.Elem()) + ">"
	case reflect.Uint32, reflect.Uint64:
		return fmt.Sprint("u", t.Bits())
	case reflect.Int64:
		return "i64"
	case reflect.Float32, reflect.Float64:
		return fmt.Sprint("f", t.Bits())
	}
	return t.Kind().String()
}

func TestTheMessageTableIsTheProtocols(t *testing.T) {
	type field struct{ Name, Type string }
	var table []struct {
		Kind   uint16
		Name   string
		Fields []field
	}
	readTwin(t, "messages", &table)
	got, want := []string{}, []string{}
	for _, m := range table {
		want = append(want, fmt.Sprint(m.Kind, m.Name, m.Fields))
	}
	for _, m := range messages {
		fields := []field{}
		of := reflect.TypeOf(m.head)
		for i := range of.NumField() {
			fields = append(fields, field{wireName(of.Field(i).Name), wireType(of.Field(i).Type)})
		}
		got = append(got, fmt.Sprint(m.kind, m.name, fields))
	}
	if a, b := strings.Join(got, "\n"), strings.Join(want, "\n"); a != b {
		t.Fatalf("here:\n%s\nthe protocol:\n%s", a, b)
	}
}

func TestPrimitivesArePostcards(t *testing.T) {
	var cases []struct {
		Type, Hex string
		Value     any
		Error     any
	}
	readTwin(t, "primitives", &cases)
	made := map[string]reflect.Type{}
	for _, of := range []reflect.Type{
		reflect.TypeFor[bool](), reflect.TypeFor[uint32](), reflect.TypeFor[uint64](), reflect.TypeFor[int64](),
		reflect.TypeFor[float32](), reflect.TypeFor[float64](), reflect.TypeFor[string](), reflect.TypeFor[[]byte](),
		reflect.TypeFor[*uint32](), reflect.TypeFor[*string](), reflect.TypeFor[[]uint32](), reflect.TypeFor[[]string](),
		reflect.TypeFor[*uint64](), reflect.TypeFor[[]float32](), reflect.TypeFor[*bool](), reflect.TypeFor[[][]byte](),
		reflect.TypeFor[[]uint64](), reflect.TypeFor[[]bool](), reflect.TypeFor[*[]uint32](), reflect.TypeFor[[]*uint32](),
	} {
		made[wireType(of)] = of
	}
	for _, c := range cases {
		of := made[c.Type]
		if of == nil {
			t.Fatal("no Go type for ", c.Type)
		}
		raw, _ := hex.DecodeString(c.Hex)
		v := reflect.New(of).Elem()
		r := &headReader{head: raw}
		err := r.value(v)
		if err == nil && r.at < len(raw) {
			err = errors.New("too many bytes")
		}
		if (err != nil) != (c.Error != nil) {
			t.Fatalf("%s %s: %v", c.Type, c.Hex, err)
		}
		if err != nil {
			continue
		}
		if got, want := canon(t, readable(v)), canon(t, c.Value); got != want {
			gotFloat, _ := strconv.ParseFloat(got, 64)
			wantFloat, err := strconv.ParseFloat(want, 64)
			if err != nil || gotFloat != wantFloat && of.Kind() != reflect.Float32 {
				t.Fatalf("%s %s: got %s, want %s", c.Type, c.Hex, got, want)
			}
		}
		if again := putValue(nil, v); !bytes.Equal(again, raw) {
			t.Fatalf("%s %s: written as %x", c.Type, c.Hex, again)
		}
	}
}

func TestAnyBytesGiveFramesOrAnErrorInBoundedMemory(t *testing.T) {
	chance := rand.New(rand.NewSource(1))
	for round := range 300 {
		data := make([]byte, 6000)
		for i := range data {
			if chance.Intn(4) == 0 {
				data[i] = byte(chance.Intn(8 + round%2*248))
			}
		}
		r := newFrameReader(bytes.NewReader(data), 4096, false)
		for {
			f, err := r.next()
			if err != nil {
				break
			}
			if len(f.head)+len(f.tail) > 4096 {
				t.Fatal("a frame larger than the maximum")
			}
			if _, known := headOf[f.kind]; known {
				_, _ = decodeHead(f.kind, f.head)
			}
		}
	}
}
