package lean_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"lean"
)

type level int

func (level) LeanType() lean.Type {
	return lean.Schema(`{"enum":[1,2,3]}`)
}

type base struct {
	ID   uint8     `json:"id"`
	When time.Time `json:"when"`
}

type tree struct {
	base
	Name     string            `json:"name" lean:"min=1,max=8,pattern=^[a-z]{1,8}$"`
	Mood     string            `json:"mood" lean:"enum=good|bad"`
	Kind     kind              `json:"kind"`
	Level    level             `json:"level"`
	Score    float64           `json:"score" lean:"gt=0,lt=1.5,step=0.5"`
	Ratio    float32           `json:"ratio"`
	Count    int16             `json:"count" lean:"min=0"`
	Choice   int               `json:"choice" lean:"enum=1|2"`
	Children []tree            `json:"children,omitempty" lean:"max=2"`
	Parent   *tree             `json:"parent"`
	Note     *string           `json:"note,omitempty" lean:"max=3"`
	Grid     [2]bool           `json:"grid"`
	Words    [][]string        `json:"words" lean:"max=3,items.min=1,items.items.max=5"`
	More     map[string]int    `json:"more" lean:"max=2"`
	Any      any               `json:"any"`
	Blob     []byte            `json:"blob"`
	Extra    json.RawMessage   `json:"extra"`
	Number   json.Number       `json:"number"`
	Hidden   func()            `json:"-"`
	Flags    map[kind]struct{} `json:"flags"`
	unseen   int
}

const treeSchema = `{"$ref":"#/$defs/tree","$defs":{"tree":{"type":"object","properties":{
"id":{"type":"integer","minimum":0,"maximum":255},
"when":{"type":"string","format":"date-time"},
"name":{"type":"string","minLength":1,"maxLength":8,"pattern":"^[a-z]{1,8}$"},
"mood":{"type":"string","enum":["good","bad"]},
"kind":{"enum":["three","four"]},
"level":{"enum":[1,2,3]},
"score":{"type":"number","exclusiveMinimum":0,"exclusiveMaximum":1.5,"multipleOf":0.5},
"ratio":{"type":"number","minimum":-1000000000000000,"maximum":1000000000000000},
"count":{"type":"integer","minimum":0,"maximum":32767},
"choice":{"type":"integer","enum":[1,2]},
"children":{"type":"array","items":{"$ref":"#/$defs/tree"},"maxItems":2},
"parent":{"anyOf":[{"$ref":"#/$defs/tree"},{"type":"null"}]},
"note":{"type":"string","maxLength":3},
"grid":{"type":"array","items":{"type":"boolean"},"minItems":2,"maxItems":2},
"words":{"type":"array","items":{"type":"array","items":{"type":"string","maxLength":5},"minItems":1},"maxItems":3},
"more":{"type":"object","additionalProperties":{"type":"integer"},"maxProperties":2},
"any":{},
"blob":{"type":"string","pattern":"^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"},
"extra":{},
"number":{"type":"number"},
"flags":{"type":"object","additionalProperties":{"$ref":"#/$defs/struct"}}
},"required":["id","when","name","mood","kind","level","score","ratio","count","choice","parent","grid","words","more","any","blob","extra","number","flags"],"additionalProperties":false},
"struct":{"type":"object","properties":{},"required":[],"additionalProperties":false}}}`

func TestSchemaOfAStruct(t *testing.T) {
	of := value[lean.Type](t)(lean.TypeOf[tree]())
	got := value[[]byte](t)(json.Marshal(of.Source()["schema"]))
	if want := strings.ReplaceAll(treeSchema, "\n", ""); string(got) != want {
		t.Fatalf("got  %s\nwant %s", got, want)
	}
}

func TestTypesThatTheEngineTakes(t *testing.T) {
	// The engine reads the schema of every one of them, and its value comes back as it went.
	m := loadEcho(t, "echo")
	name := "Al"
	want := tree{base: base{ID: 3, When: time.Date(2024, 2, 29, 12, 0, 1, 0, time.UTC)}, Name: "oak", Mood: "bad", Kind: "four", Level: 2,
		Score: 0.5, Ratio: 2.5, Count: 7, Choice: 2, Note: &name, Words: [][]string{{"a"}}, More: map[string]int{"x": 1}, Any: true,
		Blob: []byte("hi!!"), Extra: json.RawMessage(`{"y":null}`), Number: "12.5", Flags: map[kind]struct{}{}}
	got := value[tree](t)(lean.Generate[tree](background, m, lean.JSON(want)))
	a, b := value[[]byte](t)(json.Marshal(got)), value[[]byte](t)(json.Marshal(want))
	equal(t, string(a), string(b))
	equal(t, len(value[[]user](t)(lean.Generate[[]user](background, m, lean.JSON([]user{{1, "a", nil}})))), 1)
	equal(t, value[*int](t)(lean.Generate[*int](background, m, lean.JSON(nil))), nil)
	equal(t, *value[*int](t)(lean.Generate[*int](background, m, lean.JSON(5))), 5)
	equal(t, value[uint64](t)(lean.Generate[uint64](background, m, lean.JSON(uint64(1<<64-1)))), 1<<64-1)
	equal(t, value[bool](t)(lean.Generate[bool](background, m, lean.JSON(true))), true)

	_, err := lean.Generate[struct {
		N int `lean:"max=3"`
	}](background, m, lean.JSON(map[string]int{"N": 4}))
	if err == nil {
		t.Fatal("4 is not at most 3")
	}
}

func TestGoTypesThatSayNothingAboutJSON(t *testing.T) {
	for _, c := range []struct {
		of    func() (lean.Type, error)
		words string
	}{
		{lean.TypeOf[chan int], "chan int says nothing about JSON"},
		{lean.TypeOf[struct{ F func() }], ".F: func() says nothing"},
		{lean.TypeOf[map[int]string], "keys of a JSON object are strings"},
		{lean.TypeOf[struct{ E error }], ".E: error says nothing"},
		{lean.TypeOf[struct {
			A int `json:"a,string"`
		}], "numbers in strings"},
		{lean.TypeOf[struct {
			A int `lean:"max=x"`
		}], "no number"},
		{lean.TypeOf[struct {
			A int `lean:"least=1"`
		}], "known are min"},
		{lean.TypeOf[struct {
			A bool `lean:"max=1"`
		}], ".A: max does not limit boolean"},
		{lean.TypeOf[struct {
			A string `lean:"gt=1"`
		}], ".A: gt does not limit string"},
		{lean.TypeOf[struct {
			A string `lean:"items.max=1"`
		}], "items. does not limit string"},
		{lean.TypeOf[struct {
			A user `lean:"max=1"`
		}], "max does not limit a struct"},
		{lean.TypeOf[struct {
			A int `lean:"enum=1|x"`
		}], `"x" is no int`},
		{lean.TypeOf[struct {
			A int `json:"x"`
			B int `json:"X"`
		}], `two fields are called "X"`},
		{lean.TypeOf[selfMade], "a method LeanType() lean.Type"},
	} {
		_, err := c.of()
		fails(t, err, lean.ErrType, c.words)
	}
}

type selfMade struct{}

func (*selfMade) UnmarshalText([]byte) error { return nil }
