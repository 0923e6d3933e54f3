//go:build lean_cgo

package lean

/*
#cgo LDFLAGS: -llean
#include <lean.h>
#include <stdlib.h>
*/
import "C"

import (
	"io"
	"os"
	"runtime"
	"sync"
	"unsafe"
)

func init() {
	openPort = func() (Transport, error) { return newPort() }
}

// port is a bridge inside this process, through liblean. Reading and writing wait in C, each in a thread of its own.
type port struct {
	handle *C.lean_port
	// rest is what was received and not read yet.
	rest []byte
	// account says how it ended.
	account sync.Once
	exit    *BridgeExited
}

func newPort() (*port, error) {
	p := &port{}
	var failed *C.lean_error
	if status := C.lean_port_open(&p.handle, &failed); status != C.LEAN_OK {
		return nil, portError(status, failed)
	}
	// By then no call is under way: each keeps the port alive.
	runtime.SetFinalizer(p, func(p *port) { C.lean_port_free(p.handle) })
	return p, nil
}

// portError takes a C error and frees it.
func portError(status C.lean_status, failed *C.lean_error) *Error {
	defer C.lean_error_free(failed)
	name, message := C.GoString(C.lean_error_name(failed)), C.GoString(C.lean_error_message(failed, nil))
	return &Error{Code: uint32(status), Name: name, Class: ClassInternal, Message: message}
}

func (p *port) Read(b []byte) (int, error) {
	if len(p.rest) == 0 {
		if err := p.receive(); err != nil {
			return 0, err
		}
	}
	n := copy(b, p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

func (p *port) receive() error {
	defer runtime.KeepAlive(p)
	var failed *C.lean_error
	var bytes *C.lean_bytes
	switch status := C.lean_port_recv(p.handle, C.LEAN_WAIT_FOREVER, &bytes, &failed); status {
	case C.LEAN_OK:
	case C.LEAN_END:
		return io.EOF
	default:
		return portError(status, failed)
	}
	defer C.lean_bytes_free(bytes)
	var data *C.uint8_t
	var length C.size_t
	if status := C.lean_bytes_data(bytes, &data, &length, &failed); status != C.LEAN_OK {
		return portError(status, failed)
	}
	p.rest = C.GoBytes(unsafe.Pointer(data), C.int(length))
	return nil
}

func (p *port) Write(b []byte) (int, error) {
	defer runtime.KeepAlive(p)
	if len(b) == 0 {
		return 0, nil
	}
	var failed *C.lean_error
	switch status := C.lean_port_send(p.handle, (*C.uint8_t)(unsafe.Pointer(&b[0])), C.size_t(len(b)), C.LEAN_WAIT_FOREVER, &failed); status {
	case C.LEAN_OK:
		return len(b), nil
	case C.LEAN_END:
		return 0, io.ErrClosedPipe
	default:
		return 0, portError(status, failed)
	}
}

func (p *port) CloseWrite() error { return p.Kill() }

// Kill returns when no thread of the port runs any more.
func (p *port) Kill() error {
	defer runtime.KeepAlive(p)
	var failed *C.lean_error
	if status := C.lean_port_close(p.handle, &failed); status != C.LEAN_OK {
		return portError(status, failed)
	}
	return nil
}

func (p *port) Wait() *BridgeExited {
	p.account.Do(func() {
		defer runtime.KeepAlive(p)
		p.exit = &BridgeExited{How: "in this process ended"}
		var state C.int32_t
		if err := p.Kill(); err != nil {
			p.exit.Status, p.exit.How = -1, "in this process failed: "+err.Error()
		} else if C.lean_port_state(p.handle, &state, nil) == C.LEAN_OK && state == C.LEAN_PORT_PROTOCOL {
			p.exit.Status = 2
		}
	})
	return p.exit
}

func (p *port) Pid() int { return os.Getpid() }
