package sharedstorage_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/test/controlplane"
)

// pawl runs kubectl pawl in the namespace of the fixture.
func (w *fixture) pawl(args ...string) (out, said string, code int) {
	w.t.Helper()
	root, err := controlplane.Root()
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(root, "bin", "kubectl-pawl"), append(args[:2:2], append([]string{"--kubeconfig", w.plane.Kubeconfig(), "-n", w.namespace}, args[2:]...)...)...)
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+w.t.TempDir(), "USER=ann")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		code = exit.ExitCode()
	} else if err != nil {
		w.t.Fatal(err)
	}
	w.t.Logf("$ kubectl pawl %s (%d)\n%.3000s%.3000s", strings.Join(args, " "), code, stdout.String(), stderr.String())
	return stdout.String(), stderr.String(), code
}

// says checks the answer of kubectl pawl.
func (w *fixture) says(code int, want string, args ...string) string {
	w.t.Helper()
	out, said, got := w.pawl(args...)
	if got != code || !strings.Contains(out+said, want) {
		w.t.Errorf("kubectl pawl %s: exit code %d, not %d, or not %q in\n%s%s", strings.Join(args, " "), got, code, want, out, said)
	}
	return out
}

// The verbs of pawl pg on a cluster of pods: what they read goes through the API server, and so do their programs.
func TestVerbs(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	manifest := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(manifest, []byte("apiVersion: pawl.dev/v1alpha1\nkind: SharedStorageCluster\nmetadata: {name: shop}\nspec: {readers: 2, storage: {size: 1Gi, onDelete: Delete}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.kubectl("apply", "-f", manifest)
	w.awaitRunning("shop", 2, nil)
	w.await(time.Minute, "status finds nothing", func(context.Context) error {
		if out, said, code := w.pawl("pg", "status", "shop"); code != 0 || strings.Count(out, "streaming, sync") != 2 {
			return fmt.Errorf("%d: %s%s", code, out, said)
		}
		return nil
	})
	if out := w.says(0, `"whyNot": []`, "pg", "status", "shop", "-o", "json"); !strings.Contains(out, `"active": true`) {
		t.Errorf("no slot is active: %s", out)
	}
	w.says(1, "OBJECT_NOT_FOUND", "pg", "status", "nothing")

	w.says(0, "f", "pg", "psql", "shop", "--", "-Atc", "CREATE TABLE cards (number text PRIMARY KEY); INSERT INTO cards VALUES ('4111-1111'); SELECT pg_is_in_recovery()")
	w.await(time.Minute, "the row is on a reader", func(context.Context) error {
		if out, _, code := w.pawl("pg", "psql", "shop", "--reader", "--", "-Atc", "SELECT number FROM cards"); code != 0 || out != "4111-1111\n" {
			return fmt.Errorf("%d: %s", code, out)
		}
		return nil
	})
	w.says(1, "already exists", "pg", "psql", "shop", "--", "-c", "INSERT INTO cards VALUES ('4111-1111')")
	w.says(0, "shop-3-", "pg", "psql", "shop", "--instance", "3", "--", "-Atc", "SELECT current_setting('cluster_name')")
	w.says(0, "done in", "pg", "pgbench", "shop", "--", "-i", "-q", "-s", "1")
	w.says(0, "actually processed: 10/10", "pg", "pgbench", "shop", "--", "-n", "-t", "10")

	logs := w.says(0, "database system is ready to accept connections", "pg", "logs", "shop", "--manager")
	for _, id := range []string{`"id":"1"`, `"id":"2"`, `"id":"3"`, `"logger":"postgres"`, `"msg":"engine"`} {
		if !strings.Contains(logs, id) {
			t.Errorf("the logs have no %s", id)
		}
	}
	var last time.Time
	for line := range strings.Lines(logs) {
		var l struct{ Time time.Time }
		if err := json.Unmarshal([]byte(line), &l); err != nil || l.Time.Before(last) {
			t.Errorf("after %s came %s (%v)", last, line, err)
		}
		last = l.Time
	}

	w.says(2, "UNCONFIRMED", "pg", "promote", "shop", "2")
	w.says(0, "the writer is instance 2", "pg", "promote", "shop", "2", "-y", "--wait=4m")
	w.awaitRunning("shop", 2, func(c *v1alpha1.SharedStorageCluster) error {
		if c.Status.Writer != "2" {
			return fmt.Errorf("the writer is %s", c.Status.Writer)
		}
		return nil
	})

	file := filepath.Join(t.TempDir(), "report.tar.gz")
	w.says(0, "Passwords, tokens, keys", "pg", "report", "shop", "--file", file)
	text, err := exec.Command("tar", "xOzf", file).Output()
	if err != nil {
		t.Fatal(err)
	}
	password, err := w.password(t.Context(), "shop")
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{password, "4111-1111"} {
		if bytes.Contains(text, []byte(secret)) {
			t.Errorf("the report holds %q", secret)
		}
	}
	for _, part := range []string{`"flow": "SwitchWriter"`, `"reason": "Succeeded"`, `"phase": "Running"`, `"logger":"postgres"`, `"cluster": "` + w.namespace + `/shop"`} {
		if !bytes.Contains(text, []byte(part)) {
			t.Errorf("the report has no %s", part)
		}
	}
}
