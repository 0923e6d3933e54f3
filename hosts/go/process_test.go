package lean_test

// How the process lives and dies.

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"lean"
)

// What this test binary does where it is started as a bridge or as a host.
var plays = map[string]func() int{
	"dies": func() int {
		fmt.Fprintln(os.Stderr, "cannot map the frobnicator")
		return 7
	},
	"chatty": func() int {
		fmt.Println("Hello from a library")
		time.Sleep(time.Minute)
		return 0
	},
	"newer": func() int {
		greet(2, 0, 5)
		return untilTheEnd()
	},
	"malformed": func() int {
		greet(1, 0, 0)
		untilARequest()
		_, _ = os.Stdout.Write(bytes.Repeat([]byte{255}, 16))
		return untilTheEnd()
	},
	"spendthrift": func() int {
		greet(1, 0, 0)
		untilARequest()
		for range 100 {
			writeFrame(1, 0x8002, []byte{1, 1})
		}
		return untilTheEnd()
	},
	"host": func() int {
		e, err := lean.Spawn(background, nil)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		m, _ := e.Load(background, "echo?step_ms=60000", nil)
		fmt.Println(e.Pid())
		_, _ = lean.Generate[string](background, m, lean.Text("one two"))
		return 0
	},
}

func greet(major, minorMin, minorMax byte) {
	_, _ = os.Stdout.Write([]byte("\x89LEAN\r\n\x1a"))
	head := []byte{major, minorMin, minorMax, 9}
	head = append(head, "pretender"...)
	head = binary.AppendUvarint(head, 1<<20)
	writeFrame(0, 0x8001, append(head, 0))
}

func writeFrame(request uint32, kind uint16, head []byte) {
	var b []byte
	b = binary.LittleEndian.AppendUint32(b, uint32(len(head)))
	b = binary.LittleEndian.AppendUint32(b, request)
	b = binary.LittleEndian.AppendUint16(b, kind)
	b = binary.LittleEndian.AppendUint16(b, 0)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(head)))
	_, _ = os.Stdout.Write(append(b, head...))
}

// untilARequest reads HELLO_ACK, which has 19 bytes, and the beginning of what follows.
func untilARequest() { _, _ = io.ReadFull(os.Stdin, make([]byte, 20)) }

func untilTheEnd() int {
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

// pretend is a bridge that this test binary plays.
func pretend(play string) *lean.SpawnOptions {
	return &lean.SpawnOptions{Bridge: os.Args[0], Env: append(os.Environ(), "LEAN_TEST_PLAY="+play)}
}

func alive(pid int) bool {
	// A zombie that nobody waits for is dead, too.
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err == nil {
		return !strings.Contains(string(stat), ") Z ")
	}
	p, err := os.FindProcess(pid)
	return runtime.GOOS != "linux" && err == nil && p.Signal(syscall.Signal(0)) == nil
}

func kill(t *testing.T, pid int) {
	t.Helper()
	must(t, value[*os.Process](t)(os.FindProcess(pid)).Kill())
}

func gone(pid int) bool {
	for range 200 {
		if !alive(pid) {
			return true
		}
		time.Sleep(10 * time.Millisecond)
	}
	return false
}

func TestAHostThatIsKilledTakesItsBridgeAlong(t *testing.T) {
	host := exec.Command(os.Args[0])
	host.Env = append(os.Environ(), "LEAN_TEST_PLAY=host")
	out := value[io.ReadCloser](t)(host.StdoutPipe())
	must(t, host.Start())
	var pid int
	_, err := fmt.Fscan(out, &pid)
	must(t, err)
	if !alive(pid) {
		t.Fatal("the bridge is not running")
	}
	must(t, host.Process.Kill())
	_ = host.Wait()
	if !gone(pid) {
		t.Fatal("an orphan is left")
	}
}

func TestAKilledBridgeEndsEveryPendingCallWithAnAccountAndANewOneGoesOn(t *testing.T) {
	e := spawn(t, nil)
	m := load(t, e, "echo", nil)
	kept := value[*lean.Result[string]](t)(lean.Run[string](background, m, lean.Text("one"), lean.Keep())).Checkpoint
	file := filepath.Join(t.TempDir(), "kept.lean")
	value[int64](t)(kept.Save(background, file, nil))

	slow := load(t, e, "echo?step_ms=60000", nil)
	ends := make(chan error)
	for i := range 3 {
		go func() {
			_, err := lean.Generate[string](background, slow, lean.Text(fmt.Sprint("call ", i)))
			ends <- err
		}()
	}
	stream := value[*lean.Stream[string]](t)(lean.Iterate[string](background, slow, lean.Text("stream")))
	go func() { _, err := stream.Result(); ends <- err }()
	time.Sleep(50 * time.Millisecond)
	kill(t, e.Pid())
	for range 4 {
		err := <-ends
		if got := fails(t, err, lean.ErrBridgeExited, "killed by SIGKILL"); !got.Retryable {
			t.Fatal(got)
		}
		var how *lean.BridgeExited
		if !errors.As(err, &how) || how.Signal != "SIGKILL" || how.Status != -1 {
			t.Fatal(how)
		}
	}
	_, err := lean.Generate[string](background, m)
	fails(t, err, lean.ErrBridgeExited)
	_, err = e.Load(background, "echo", nil)
	fails(t, err, lean.ErrBridgeExited)
	must(t, m.Unload())
	must(t, e.Close())

	again := loadEcho(t, "echo")
	from := value[*lean.Checkpoint](t)(again.RestoreFile(background, file, nil))
	equal(t, say(t, again, lean.From(from), lean.Text(" two")), " two")
}

func TestBridgesKilledAtRandomLeaveNoOrphanAndNoTornCheckpoint(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state.lean")
	m := load(t, spawn(t, nil), "echo", &lean.LoadOptions{Context: 100_000})
	for round := range 20 {
		e := spawn(t, nil)
		echo := load(t, e, "echo", &lean.LoadOptions{Context: 100_000})
		s := value[*lean.Session](t)(echo.Session(background, nil))
		must(t, s.Append(background, lean.Text(strings.Repeat("x", 200_000))))
		c := value[*lean.Checkpoint](t)(s.Checkpoint(background))
		saved := make(chan error)
		go func() {
			var err error
			for err == nil {
				_, err = c.Save(background, file, nil)
			}
			saved <- err
		}()
		time.Sleep(time.Duration(round) * time.Millisecond)
		kill(t, e.Pid())
		fails(t, <-saved, lean.ErrBridgeExited)
		if !gone(e.Pid()) {
			t.Fatal("an orphan is left")
		}
		if _, err := os.Stat(file); err == nil {
			must(t, value[*lean.Checkpoint](t)(m.RestoreFile(background, file, nil)).Drop())
		}
	}
}

func TestLastWordsAreInTheError(t *testing.T) {
	var also bytes.Buffer
	options := pretend("dies")
	options.Stderr = &also
	_, err := lean.Spawn(background, options)
	fails(t, err, lean.ErrBridgeExited, "status 7\nIts last words:\ncannot map the frobnicator")
	var how *lean.BridgeExited
	if !errors.As(err, &how) || how.Status != 7 || !strings.Contains(also.String(), "frobnicator") {
		t.Fatal(how, also.String())
	}
}

func TestWhatIsNoProtocolIsAnErrorAndNoHang(t *testing.T) {
	protocol := &lean.Error{Code: 600, Name: "protocol", Class: lean.ClassProtocol}
	version := &lean.Error{Code: 601, Name: "version", Class: lean.ClassProtocol}
	_, err := lean.Spawn(background, pretend("chatty"))
	fails(t, err, protocol, "Hello from a library")
	_, err = lean.Spawn(background, pretend("newer"))
	fails(t, err, version, "1.0", "pretender", "2.0 to 2.5")

	for play, words := range map[string]string{"malformed": "a frame of 4294967295 bytes", "spendthrift": "more events than there was credit for"} {
		e := spawn(t, pretend(play))
		// A listener that does not come back gives no credit back either.
		stuck := func(_, _ uint64) { gone(e.Pid()) }
		_, err = e.Load(background, "echo", &lean.LoadOptions{OnProgress: stuck})
		fails(t, err, protocol, words)
		var how *lean.BridgeExited
		if !errors.As(err, &how) {
			t.Fatal("no account of the end")
		}
		if !gone(e.Pid()) {
			t.Fatal("it goes on")
		}
	}
}

func TestAMissingBridgeSaysWhatToDo(t *testing.T) {
	_, err := lean.Spawn(background, &lean.SpawnOptions{Bridge: "nowhere/lean-bridge"})
	fails(t, err, lean.ErrBridgeNotFound, "nowhere/lean-bridge")
	t.Setenv("LEAN_BRIDGE", "nowhere/else")
	_, err = lean.FindBridge("")
	fails(t, err, lean.ErrBridgeNotFound, "LEAN_BRIDGE names nowhere/else")
	t.Setenv("LEAN_BRIDGE", "")
	t.Setenv("PATH", t.TempDir())
	_, err = lean.FindBridge("")
	fails(t, err, lean.ErrBridgeNotFound, "cargo build --release -p lean-bridge", "LEAN_BRIDGE", "PATH")

	file := filepath.Join(t.TempDir(), "plain.txt")
	must(t, os.WriteFile(file, []byte("no program"), 0o600))
	_, err = lean.Spawn(background, &lean.SpawnOptions{Bridge: file})
	fails(t, err, lean.ErrBridgeExited, "could not be started")
}

func TestWhereTheBridgeIsLookedFor(t *testing.T) {
	real := os.Getenv("LEAN_BRIDGE")
	t.Setenv("LEAN_BRIDGE", "")
	folder := t.TempDir()
	must(t, os.Symlink(real, filepath.Join(folder, "lean-bridge")))
	t.Setenv("PATH", folder)
	equal(t, value[string](t)(lean.FindBridge("")), filepath.Join(folder, "lean-bridge"))

	self := value[string](t)(os.Executable())
	beside := filepath.Join(filepath.Dir(self), "lean-bridge")
	must(t, os.Symlink(real, beside))
	defer os.Remove(beside)
	equal(t, value[string](t)(lean.FindBridge("")), beside)
	equal(t, value[string](t)(lean.FindBridge(real)), real)
}

func TestCloseCancelsWhatRunsAndWaitsForTheEnd(t *testing.T) {
	e := spawn(t, nil)
	slow := load(t, e, "echo?step_ms=60000", nil)
	ends := make(chan error)
	go func() { _, err := lean.Generate[string](background, slow, lean.Text("one")); ends <- err }()
	time.Sleep(50 * time.Millisecond)
	must(t, e.Close())
	fails(t, <-ends, lean.ErrCancelled)
	if alive(e.Pid()) {
		t.Fatal("it goes on")
	}
	must(t, e.Close())
	_, err := e.Load(background, "echo", nil)
	fails(t, err, lean.ErrBridgeExited, "closed by this program")
	must(t, slow.Unload())
}

func TestAnEngineThatIsForgottenEnds(t *testing.T) {
	pid := func() int {
		e := value[*lean.Engine](t)(lean.Spawn(background, nil))
		equal(t, say(t, load(t, e, "echo", nil), lean.Text("hi")), "hi")
		return e.Pid()
	}()
	for range 300 {
		runtime.GC()
		time.Sleep(10 * time.Millisecond)
		if !alive(pid) {
			return
		}
	}
	t.Fatal("it goes on")
}

func TestNoGoroutineIsLeft(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 3 {
		e := value[*lean.Engine](t)(lean.Spawn(background, nil))
		say(t, load(t, e, "echo", nil), lean.Text("hi"))
		must(t, e.Close())
	}
	for range 100 {
		if runtime.NumGoroutine() <= before {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	all := make([]byte, 1<<16)
	t.Fatalf("%d goroutines, %d before\n%s", runtime.NumGoroutine(), before, all[:runtime.Stack(all, true)])
}
