package lean

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

func binaryName() string {
	if runtime.GOOS == "windows" {
		return "lean-bridge.exe"
	}
	return "lean-bridge"
}

// FindBridge is the binary that [Spawn] starts: the one given, else the one that the environment variable LEAN_BRIDGE
// names, else the one beside this program's executable, else lean-bridge on the PATH. If there is none, the error is
// [ErrBridgeNotFound] and says what to install.
func FindBridge(given string) (string, error) {
	for _, named := range []struct{ path, source string }{{given, "SpawnOptions.Bridge"}, {os.Getenv("LEAN_BRIDGE"), "LEAN_BRIDGE"}} {
		if named.path == "" {
			continue
		}
		if isFile(named.path) {
			return filepath.Abs(named.path)
		}
		return "", like(ErrBridgeNotFound, fmt.Sprintf("%s names %s, where there is no file", named.source, named.path))
	}
	name := binaryName()
	beside := name
	if executable, err := os.Executable(); err == nil {
		beside = filepath.Join(filepath.Dir(executable), name)
		if isFile(beside) {
			return beside, nil
		}
	}
	if found, err := exec.LookPath(name); err == nil {
		return filepath.Abs(found)
	}
	return "", like(ErrBridgeNotFound, fmt.Sprintf("no %s was found: not as %s, and not on the PATH. Build it with "+
		"`cargo build --release -p lean-bridge`, and put it there or set LEAN_BRIDGE to where it is.", name, beside))
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.IsDir()
}
