package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/stores"
)

// typist is a command of pawl with a person at its terminal.
type typist struct {
	t    *testing.T
	cmd  *exec.Cmd
	file *os.File // the person's end

	mu    sync.Mutex
	shown bytes.Buffer
	more  chan struct{}
	ended chan struct{}
}

func atTerminal(t *testing.T, dir string, args ...string) *typist {
	t.Helper()
	e := &typist{t: t, cmd: exec.Command("pawl", args...), more: make(chan struct{}, 1), ended: make(chan struct{})}
	e.cmd.Dir, e.cmd.Env = dir, append(os.Environ(), "XDG_STATE_HOME="+filepath.Join(dir, "state"), "PAWL_SERVER=", "PAWL_TOKEN=")
	var err error
	if e.file, err = pty.Start(e.cmd); err != nil {
		t.Skipf("there are no pseudo-terminals here: %v", err)
	}
	go func() {
		defer close(e.ended)
		page := make([]byte, 4096)
		for {
			n, err := e.file.Read(page)
			e.mu.Lock()
			e.shown.Write(page[:n])
			e.mu.Unlock()
			select {
			case e.more <- struct{}{}:
			default:
			}
			if err != nil { // the other end was closed
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = e.cmd.Process.Kill() // it may have ended
		<-e.ended
		e.file.Close()
	})
	return e
}

func (e *typist) text() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.shown.String()
}

// answers waits for a prompt and until nothing typed is shown, and types a line.
func (e *typist) answers(prompt, line string) {
	e.t.Helper()
	limit := time.After(waitTimeout)
	tick := time.NewTicker(time.Millisecond) // a terminal does not tell of its modes
	defer tick.Stop()
	for {
		modes, err := unix.IoctlGetTermios(int(e.file.Fd()), readModes)
		if err != nil {
			e.t.Fatal(err)
		}
		if strings.HasSuffix(e.text(), prompt) && modes.Lflag&unix.ECHO == 0 {
			break
		}
		select {
		case <-e.more:
		case <-tick.C:
		case <-e.ended:
			e.t.Fatalf("it ended before it asked %q: %s", prompt, e.text())
		case <-limit:
			e.t.Fatalf("it does not ask %q without showing what is typed: %s", prompt, e.text())
		}
	}
	if _, err := e.file.WriteString(line + "\n"); err != nil {
		e.t.Fatal(err)
	}
}

// code waits for the end of the command.
func (e *typist) code() int {
	e.t.Helper()
	select {
	case <-e.ended:
	case <-time.After(waitTimeout):
		e.t.Fatalf("it does not end: %s", e.text())
	}
	err := e.cmd.Wait()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		e.t.Fatal(err)
	}
	return e.cmd.ProcessState.ExitCode()
}

// Without --passphrase-file the passphrase is asked for at the terminal: twice
// for a new one, once to take the key back; what is typed is not shown.
func TestFinding8PassphraseAtTheTerminal(t *testing.T) {
	dir := t.TempDir()
	created := exec.Command("pawl", "key", "create", "--dsn", "pawl.db") // its secret is sealed, so there is a master key
	created.Dir, created.Env = dir, append(os.Environ(), "PAWL_SERVER=", "PAWL_TOKEN=")
	if out, err := created.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	const good = "correct horse battery staple"
	absent := func(names ...string) {
		t.Helper()
		for _, name := range names {
			if _, err := os.Lstat(filepath.Join(dir, name)); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	for _, c := range []struct{ name, first, again, says string }{
		{"differ", good, "correct horse battery stable", "the two passphrases differ"},
		{"short", "too short", "too short", "has 9 characters, at least 12"},
	} {
		e := atTerminal(t, dir, "store", "backup", c.name+".db", "--dsn", "pawl.db", "--with-key")
		e.answers("Passphrase of the key backup: ", c.first)
		e.answers("The same again: ", c.again)
		if code := e.code(); code == 0 || !strings.Contains(e.text(), "PASSPHRASE_WRONG") || !strings.Contains(e.text(), c.says) {
			t.Errorf("%s: exit code %d: %s", c.name, code, e.text())
		}
		if strings.Contains(e.text(), c.first) {
			t.Errorf("%s: the passphrase was shown: %s", c.name, e.text())
		}
		absent(c.name+".db", c.name+".db"+stores.KeyBackup)
	}

	e := atTerminal(t, dir, "store", "backup", "copy.db", "--dsn", "pawl.db", "--with-key")
	e.answers("Passphrase of the key backup: ", good)
	e.answers("The same again: ", good)
	if code := e.code(); code != 0 || strings.Contains(e.text(), good) {
		t.Fatalf("exit code %d: %s", code, e.text())
	}
	e = atTerminal(t, dir, "store", "restore", "copy.db", "--dsn", "new.db", "--with-key")
	e.answers("Passphrase of the key backup: ", good)
	if code := e.code(); code != 0 || strings.Contains(e.text(), good) || strings.Contains(e.text(), "again") {
		t.Fatalf("exit code %d: %s", code, e.text())
	}
	was, err := os.ReadFile(filepath.Join(dir, "pawl.db.key"))
	is, err2 := os.ReadFile(filepath.Join(dir, "new.db.key"))
	if err := errors.Join(err, err2); err != nil || !bytes.Equal(bytes.TrimSpace(was), bytes.TrimSpace(is)) {
		t.Errorf("the key that came back is another one: %v", err)
	}
}
