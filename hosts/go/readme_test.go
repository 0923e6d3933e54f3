package lean_test

// The examples of the READMEs run as they stand there.

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func examples(t *testing.T, file string) []string {
	data, err := os.ReadFile(file)
	must(t, err)
	var all []string
	for _, m := range regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(data), -1) {
		all = append(all, m[1])
	}
	return all
}

// runProgram builds a program that uses this module from outside, and runs it.
func runProgram(t *testing.T, source, model string) string {
	folder := t.TempDir()
	here, err := filepath.Abs(".")
	must(t, err)
	must(t, os.WriteFile(filepath.Join(folder, "main.go"), []byte(source), 0o600))
	module := "module example\n\ngo 1.23\n\nrequire lean v0.0.0\n\nreplace lean => " + here + "\n"
	must(t, os.WriteFile(filepath.Join(folder, "go.mod"), []byte(module), 0o600))
	run := exec.Command("go", "run", ".")
	run.Dir = folder
	run.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOWORK=off", "MODEL="+model)
	out, err := run.Output()
	if err != nil {
		if e, is := err.(*exec.ExitError); is {
			t.Fatal(err, string(e.Stderr))
		}
		t.Fatal(err)
	}
	return string(out)
}

func TestReadme(t *testing.T) {
	all := examples(t, "README.md")
	equal(t, runProgram(t, all[0], "echo"), "Ada\n")
	equal(t, len(all), 2)
	streaming := regexp.MustCompile(`(?s)func main\(\) \{.*`).ReplaceAllString(all[0], "")
	streaming = strings.Replace(streaming, "type User struct", "type _ struct", 1) + `func main() {
	ctx := context.Background()
	engine, err := lean.Spawn(ctx, nil)
	if err != nil { log.Fatal(err) }
	model, err := engine.Load(ctx, cmp.Or(os.Getenv("MODEL"), "echo"), nil)
	if err != nil { log.Fatal(err) }
` + all[1] + "}\n"
	equal(t, runProgram(t, streaming, "echo"), "Tell a story.")
}

func TestTheRepositorysExample(t *testing.T) {
	file, err := filepath.Abs(smolFile(t))
	must(t, err)
	all := examples(t, filepath.Join(repository, "README.md"))
	equal(t, len(all), 1)
	if out := runProgram(t, strings.Replace(all[0], "smollm2.gguf", file, 1), ""); strings.TrimSpace(out) == "" {
		t.Fatal("it printed nothing")
	}
}
