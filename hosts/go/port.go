package lean

// openPort opens the engine inside this process. It is there when the program is built with the tag lean_cgo.
var openPort func() (Transport, error)

// startPort is [SpawnOptions.InProcess].
func startPort(o SpawnOptions) (Transport, error) {
	if o.Bridge != "" || len(o.Args) > 0 || o.Env != nil || o.Dir != "" || o.Stderr != nil {
		return nil, invalid("SpawnOptions: Bridge, Args, Env, Dir and Stderr belong to a process, not to InProcess")
	}
	if openPort == nil {
		return nil, like(ErrBridgeNotFound, "InProcess needs liblean, and this program was built without it: "+
			"go build -tags lean_cgo, with CGO_CFLAGS and CGO_LDFLAGS that say where lean.h and liblean are")
	}
	return openPort()
}
