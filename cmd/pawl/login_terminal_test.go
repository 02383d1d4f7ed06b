package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// A server that wants a token has it asked for at the terminal; what is typed is not shown, and kept for its owner only.
func TestLoginAtTheTerminal(t *testing.T) {
	dir := t.TempDir()
	contexts := filepath.Join(dir, "contexts.yaml")
	t.Setenv("PAWL_CONTEXTS", contexts)
	const token = "0123456789abcdef0123456789abcdef"
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	server := exec.Command("pawl", "server", "--listen", "127.0.0.1:0", "--dsn", "pawl.db", "--token-file", "token")
	server.Dir = dir
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Signal(syscall.SIGTERM) // it may have ended
		_ = server.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	url := regexp.MustCompile(`http://\S+`).FindString(line)
	if url == "" {
		t.Fatalf("%q, %v", line, err)
	}

	e := atTerminal(t, dir, "login", url)
	e.answers("Token for "+url+": ", "not-the-token-of-the-server")
	if code := e.code(); code != 1 || !strings.Contains(e.text(), "UNAUTHENTICATED") {
		t.Errorf("exit code %d: %s", code, e.text())
	}
	if _, err := os.Stat(contexts); err == nil {
		t.Error("a token that was refused was kept")
	}
	e = atTerminal(t, dir, "login", url)
	e.answers("Token for "+url+": ", token)
	if code := e.code(); code != 0 || strings.Contains(e.text(), token) || !strings.Contains(e.text(), "as operator") {
		t.Errorf("exit code %d: %s", code, e.text())
	}
	e = atTerminal(t, dir, "get")
	if code := e.code(); code != 0 || !strings.Contains(e.text(), "no runs") {
		t.Errorf("exit code %d: %s", code, e.text())
	}
	data, err := os.ReadFile(contexts)
	if info, _ := os.Stat(contexts); err != nil || info.Mode().Perm() != 0o600 || !strings.Contains(string(data), token) {
		t.Errorf("%v: %s", err, data)
	}
}
