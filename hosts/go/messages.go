package lean

import (
	"reflect"
	"strings"
	"unicode"
)

// The protocol that this client speaks.
const (
	protocolMajor = 1
	protocolMinor = 0
)

// Every message of the protocol: its kind, its name, and a struct whose fields are those of the head, in order. A
// pointer is an option. tests/wire/messages.json is the same table, and a test compares the two.
var messages = []struct {
	kind uint16
	name string
	head any
}{
	{1, "HELLO_ACK", helloAck{}},
	{2, "LOAD", loadModel{}},
	{3, "UNLOAD", unload{}},
	{4, "MODEL_INFO", modelInfo{}},
	{5, "GENERATE", generate{}},
	{6, "SESSION_OPEN", sessionOpen{}},
	{7, "SESSION_APPEND", sessionAppend{}},
	{8, "SESSION_FORK", sessionFork{}},
	{9, "SESSION_CLOSE", sessionClose{}},
	{10, "CHECKPOINT_TAKE", checkpointTake{}},
	{11, "CHECKPOINT_SAVE", checkpointSave{}},
	{12, "CHECKPOINT_LOAD", checkpointLoad{}},
	{13, "CHECKPOINT_DROP", checkpointDrop{}},
	{14, "CANCEL", cancel{}},
	{15, "CREDIT", credit{}},
	{16, "SHUTDOWN", shutdown{}},
	{17, "CHUNK", chunk{}},
	{18, "GENERATE_BRANCH", generateBranch{}},
	{19, "MODEL_STATS", modelStats{}},
	{20, "MODEL_PREFIX_CACHE", modelPrefixCache{}},
	{21, "SESSION_CUT", sessionCut{}},
	{24, "ADAPTER_LOAD", adapterLoad{}},
	{25, "ADAPTER_DROP", adapterDrop{}},
	{26, "SESSION_ADAPT", sessionAdapt{}},
	{0x8001, "HELLO", hello{}},
	{0x8002, "PROGRESS", progress{}},
	{0x8003, "PREFILL", prefill{}},
	{0x8004, "TOKENS", tokens{}},
	{0x8005, "PARTIAL", partial{}},
	{0x8006, "CANDIDATES", candidates{}},
	{0x8010, "LOADED", loaded{}},
	{0x8011, "INFO", info{}},
	{0x8012, "GENERATED", generated{}},
	{0x8013, "SESSION", session{}},
	{0x8014, "CHECKPOINT", checkpoint{}},
	{0x8015, "SAVED", saved{}},
	{0x8016, "OK", ok{}},
	{0x8018, "ADAPTER", adapter{}},
	{0x80ff, "ERROR", failed{}},
}

type (
	helloAck struct {
		Minor, Credit uint32
		MaxFrame      *uint32
	}
	loadModel struct {
		Path             string
		Backend          *string
		Threads, Context *uint32
		Progress         bool
	}
	unload    struct{ Model uint32 }
	modelInfo struct{ Model uint32 }
	generate  struct {
		Model, Session, Checkpoint *uint32
		Keep, Events               bool
	}
	sessionOpen struct {
		Model               uint32
		Checkpoint, Context *uint32
	}
	sessionAppend struct {
		Session uint32
		Replace bool
	}
	sessionFork    struct{ Session uint32 }
	sessionClose   struct{ Session uint32 }
	checkpointTake struct{ Session, Generation *uint32 }
	checkpointSave struct {
		Checkpoint uint32
		Path       *string
	}
	checkpointLoad struct {
		Model uint32
		Path  *string
	}
	checkpointDrop struct{ Checkpoint uint32 }
	cancel         struct{}
	credit         struct{ Events uint32 }
	shutdown       struct{}
	chunk          struct {
		Offset uint64
		Digest *uint32
	}
	generateBranch struct {
		Group, Members             uint32
		Model, Session, Checkpoint *uint32
		Keep, Events               bool
	}
	modelStats       struct{ Model uint32 }
	modelPrefixCache struct {
		Model uint32
		Bytes uint64
	}
	sessionCut struct {
		Session, Begin uint32
		End            *uint32
	}
	adapterLoad struct {
		Model uint32
		Path  string
	}
	adapterDrop  struct{ Adapter uint32 }
	sessionAdapt struct {
		Session  uint32
		Adapters []uint32
		Scales   []float32
	}

	hello struct {
		Major, MinorMin, MinorMax uint32
		Engine                    string
		MaxFrame                  uint32
		Capabilities              []string
	}
	progress struct{ Done, Total uint64 }
	prefill  struct{ Done, Total uint32 }
	tokens   struct {
		Ids    []uint32
		Forced bool
	}
	partial struct {
		Path       string
		FinalBytes uint32
	}
	candidates struct{}
	loaded     struct{ Model uint32 }
	info       struct{}
	generated  struct{ Checkpoint *uint32 }
	session    struct{ Session, Tokens uint32 }
	checkpoint struct{ Checkpoint, Tokens uint32 }
	saved      struct {
		Size   uint64
		Digest uint32
	}
	ok      struct{}
	adapter struct{ Adapter uint32 }
	failed  struct {
		Code, Class   uint32
		Retryable     bool
		Name, Message string
	}
)

var (
	kindOf = map[reflect.Type]uint16{}
	headOf = map[uint16]reflect.Type{}
	nameOf = map[uint16]string{}
)

func init() {
	for _, m := range messages {
		t := reflect.TypeOf(m.head)
		kindOf[t], headOf[m.kind], nameOf[m.kind] = m.kind, t, m.name
	}
}

// wireName is a field's name on the wire: MaxFrame is max_frame there.
func wireName(field string) string {
	var b strings.Builder
	for i, r := range field {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

func some[T any](v T) *T { return &v }
