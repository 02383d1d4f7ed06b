package kube

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestRewrite: the script writes the cluster file and ends the servers, once; what looks like a command stays text.
func TestRewrite(t *testing.T) {
	for name, connection := range map[string]string{
		"IPs":     "main:abc@10.0.0.1:4501,10.0.0.2:4501",
		"IPv6":    "main:abc@[fd00::1]:4500:tls",
		"command": "main:abc@$(touch broken);`touch broken`",
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			fake := "#!/bin/sh\necho \"$*\" >> " + filepath.Join(dir, "ended") + "\nexit 1\n"      // none was running
			if err := os.WriteFile(filepath.Join(dir, "pkill"), []byte(fake), 0o700); err != nil { //nolint:gosec // it is run
				t.Fatal(err)
			}
			file := filepath.Join(dir, "fdb.cluster")
			if err := os.WriteFile(file, []byte("# DO NOT EDIT!\nmain:abc@10.0.0.9:4501\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				argv := rewriteCommand(connection, file)
				c := exec.CommandContext(context.Background(), argv[0], argv[1:]...) //nolint:gosec // it is ours
				c.Dir = dir
				c.Env = []string{"PATH=" + dir + ":" + os.Getenv("PATH")}
				if out, err := c.CombinedOutput(); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
			}
			read := func(name string) string {
				text, err := os.ReadFile(filepath.Join(dir, name))
				if err != nil {
					t.Fatal(err)
				}
				return strings.TrimSpace(string(text))
			}
			if got := read("fdb.cluster"); got != connection {
				t.Errorf("the file has %q", got)
			}
			if got := read("ended"); got != "-x fdbserver" {
				t.Errorf("ended: %q", got)
			}
			if _, err := os.Stat(filepath.Join(dir, "broken")); err == nil {
				t.Error("the connection string was run")
			}
		})
	}
}
