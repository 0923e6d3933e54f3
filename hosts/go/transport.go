package lean

import "io"

// Transport carries the protocol's bytes to an engine and back. [Spawn] uses a bridge process; [Open] takes any other,
// such as a port inside a library. Read and Write are each used by one goroutine at a time.
type Transport interface {
	// Read gives bytes from the engine: the magic, then frames in any cuts. io.EOF is its end.
	io.Reader
	// Write sends bytes, whole frames, to the engine.
	io.Writer
	// CloseWrite says that nothing more will be sent: the engine then ends.
	CloseWrite() error
	// Kill ends the engine at once.
	Kill() error
	// Wait returns once the engine has ended, after Read has reported its end, and says how.
	Wait() *BridgeExited
	// Pid is the id of the engine's process; 0 if it is this one.
	Pid() int
}
