package queryapi

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// CloudMonkey, the CLI of CloudStack: it reads listApis literally, signs with
// GET, waits for jobs, and tries to log in after a 401. The test needs its
// binary as cmk in the PATH or in bin/, and is skipped without.
func TestCloudMonkey(t *testing.T) {
	cmk, err := exec.LookPath("cmk")
	if err != nil {
		if cmk, err = filepath.Abs("../../bin/cmk"); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(cmk); err != nil {
			t.Skip("cmk is neither in the PATH nor in bin/")
		}
	}
	h := newFixture(t, false)
	home := t.TempDir()
	run := func(args ...string) (string, error) {
		c := exec.CommandContext(t.Context(), cmk, append([]string{"-o", "json"}, args...)...)
		c.Env = append(os.Environ(), "HOME="+home)
		out, err := c.CombinedOutput()
		return string(out), err
	}
	ask := func(out any, args ...string) {
		t.Helper()
		text, err := run(args...)
		if err != nil || strings.Contains(text, "panic") {
			t.Fatalf("cmk %s: %v\n%s", strings.Join(args, " "), err, text)
		}
		if at := strings.IndexByte(text, '{'); out != nil {
			if at < 0 {
				t.Fatalf("cmk %s: %s", strings.Join(args, " "), text)
			}
			if err := json.NewDecoder(bytes.NewReader([]byte(text[at:]))).Decode(out); err != nil {
				t.Fatalf("cmk %s: %v\n%s", strings.Join(args, " "), err, text)
			}
		}
	}
	for _, setting := range [][2]string{{"url", h.url}, {"apikey", h.key.ID}, {"secretkey", h.key.Secret.Reveal()}, {"asyncblock", "true"}} {
		ask(nil, "set", setting[0], setting[1])
	}
	ask(nil, "sync")
	var zones struct {
		Count int
		Zone  []struct{ ID, Name string }
	}
	ask(&zones, "list", "zones")
	if zones.Count != 2 {
		t.Errorf("zones: %+v", zones)
	}
	var created struct {
		Containercluster struct{ ID, State, Size string }
	}
	ask(&created, "create", "containercluster", "name=blue", "zoneid=z1", "serviceofferingid=o1", "size=3", "description=a ~ b * c")
	if c := created.Containercluster; c.State != "Running" || c.Size != "3" {
		t.Fatalf("create: %+v", created)
	}
	var list struct {
		Count            int
		Containercluster []struct{ ID, Description string }
	}
	ask(&list, "list", "containercluster")
	if list.Count != 1 || list.Containercluster[0].Description != "a ~ b * c" {
		t.Errorf("list: %+v", list)
	}
	var gone struct{ Success bool }
	ask(&gone, "delete", "containercluster", "id="+created.Containercluster.ID)
	if !gone.Success {
		t.Errorf("delete: %+v", gone)
	}
	ask(nil, "set", "secretkey", "wrong")
	if text, err := run("list", "zones"); err == nil {
		t.Errorf("a wrong secret: %s", text)
	}
}
