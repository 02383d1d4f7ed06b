package tool

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

const leftoverVariable = "PAWL_TEST_TOOL_FOLDER"

// TestLeftovers: the folder of an operator that was killed is removed by the next one, and that of one that lives stays.
func TestLeftovers(t *testing.T) {
	if within := os.Getenv(leftoverVariable); within != "" { // the operator that will be killed
		d, err := New(Options{TempDir: within})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(d.root, credentialsFile), []byte("secret"), 0o600); err != nil {
			t.Fatal(err)
		}
		fmt.Println(d.root)
		_, _ = io.ReadAll(os.Stdin)
		return
	}

	within := t.TempDir()
	other := filepath.Join(within, "pawl-fdb-other")
	if err := os.Mkdir(other, 0o700); err != nil {
		t.Fatal(err)
	}
	operator := exec.Command(os.Args[0], "-test.run=^TestLeftovers$")
	operator.Env = append(os.Environ(), leftoverVariable+"="+within)
	stdin, err := operator.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	stdout, err := operator.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := operator.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	root := line[:len(line)-1]

	start := func() *Database {
		t.Helper()
		d, err := New(Options{TempDir: within})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	beside := start()
	if _, err := os.Stat(filepath.Join(root, credentialsFile)); err != nil {
		t.Fatalf("the folder of an operator that lives: %v", err)
	}
	if err := operator.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = operator.Wait()
	if _, err := os.Stat(root); err != nil {
		t.Fatalf("what a killed operator leaves: %v", err)
	}
	next := start()
	if _, err := os.Stat(root); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", root, err)
	}
	for _, d := range []*Database{beside, next} {
		if _, err := os.Stat(d.root); err != nil {
			t.Error(err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
	left, err := os.ReadDir(within)
	if err != nil || len(left) != 1 || left[0].Name() != filepath.Base(other) {
		t.Errorf("left: %v, %v", left, err)
	}
}
