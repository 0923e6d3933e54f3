package lean

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// stderrTail is how many bytes of stderr an error carries.
const stderrTail = 4096

// process is the spawned bridge as a transport.
type process struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    io.ReadCloser
	stderr tailWriter
	waited sync.Once
	exit   *BridgeExited
}

func startProcess(o SpawnOptions, file string) (*process, error) {
	p := &process{stderr: tailWriter{also: o.Stderr}}
	p.cmd = exec.Command(file, append([]string{"--parent-pid", strconv.Itoa(os.Getpid())}, o.Args...)...)
	p.cmd.Env, p.cmd.Dir = o.Env, o.Dir
	p.cmd.Stderr = &p.stderr
	// A grandchild may hold stderr open: what it says later is not waited for.
	p.cmd.WaitDelay = time.Second
	var err error
	if p.in, err = p.cmd.StdinPipe(); err == nil {
		if p.out, err = p.cmd.StdoutPipe(); err == nil {
			err = p.cmd.Start()
		}
	}
	if err != nil {
		return nil, exited(&BridgeExited{Status: -1, How: "could not be started: " + err.Error()})
	}
	return p, nil
}

func (p *process) Read(b []byte) (int, error)  { return p.out.Read(b) }
func (p *process) Write(b []byte) (int, error) { return p.in.Write(b) }
func (p *process) CloseWrite() error           { return p.in.Close() }
func (p *process) Kill() error                 { return p.cmd.Process.Kill() }
func (p *process) Pid() int                    { return p.cmd.Process.Pid }

func (p *process) Wait() *BridgeExited {
	p.waited.Do(func() {
		err := p.cmd.Wait()
		p.exit = &BridgeExited{Status: -1, Stderr: p.stderr.String()}
		state := p.cmd.ProcessState
		if state == nil {
			p.exit.How = fmt.Sprintf("could not be waited for: %v", err)
			return
		}
		if status, is := state.Sys().(syscall.WaitStatus); is && status.Signaled() {
			p.exit.Signal = signalName(status.Signal())
			p.exit.How = "was killed by " + p.exit.Signal
			return
		}
		p.exit.Status = state.ExitCode()
		p.exit.How = fmt.Sprintf("exited with status %d", p.exit.Status)
	})
	return p.exit
}

func signalName(s syscall.Signal) string {
	names := map[syscall.Signal]string{
		syscall.SIGABRT: "SIGABRT", syscall.SIGBUS: "SIGBUS", syscall.SIGFPE: "SIGFPE", syscall.SIGHUP: "SIGHUP",
		syscall.SIGILL: "SIGILL", syscall.SIGINT: "SIGINT", syscall.SIGKILL: "SIGKILL", syscall.SIGPIPE: "SIGPIPE",
		syscall.SIGSEGV: "SIGSEGV", syscall.SIGTERM: "SIGTERM", syscall.SIGTRAP: "SIGTRAP",
	}
	if name, known := names[s]; known {
		return name
	}
	return fmt.Sprintf("signal %d", int(s))
}

// tailWriter keeps the end of what is written to it.
type tailWriter struct {
	also io.Writer
	lock sync.Mutex
	tail []byte
}

func (w *tailWriter) Write(b []byte) (int, error) {
	w.lock.Lock()
	w.tail = append(w.tail, b...)
	w.tail = w.tail[max(0, len(w.tail)-stderrTail):]
	w.lock.Unlock()
	if w.also != nil {
		// A listener that fails must not fill the pipe.
		_, _ = w.also.Write(b)
	}
	return len(b), nil
}

func (w *tailWriter) String() string {
	w.lock.Lock()
	defer w.lock.Unlock()
	return string(w.tail)
}
