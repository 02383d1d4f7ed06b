package host

import (
	"io"
	"os"
	"os/exec"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "large" { // a process that takes a while to end
		memory := make([]byte, 256<<20)
		for n := 0; n < len(memory); n += os.Getpagesize() {
			memory[n] = 1
		}
		println("ready")
		_, _ = io.Copy(io.Discard, os.Stdin) // until it is killed
		return
	}
	goleak.VerifyTestMain(m)
}

// A killed process loses its arguments before it is gone. Until then it must not be taken
// for another process.
func TestProcessThatEnds(t *testing.T) {
	if !hasProc() {
		t.Skip("this machine has no /proc")
	}
	for range 5 { // how far its end has come is chance
		killed(t)
	}
}

func killed(t *testing.T) {
	t.Helper()
	child := exec.Command(os.Args[0], "large", "argument")
	out, err := child.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil { // it is ready
		t.Fatal(err)
	}
	p := Of("", child.Process.Pid)
	if !p.IsRunning() || !p.HasArgument("argument") || p.HasArgument("another") {
		t.Errorf("it runs: %t, with its argument: %t", p.IsRunning(), p.HasArgument("argument"))
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for p.IsRunning() {
		if !p.HasArgument("argument") && p.IsRunning() {
			t.Error("it runs, and is not found")
			break
		}
	}
	if err := child.Wait(); err == nil {
		t.Error("it was killed")
	}
}
