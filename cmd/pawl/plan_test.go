package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/backend"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/serve"
	"github.com/pawl-dev/pawl/machine/driver"
)

// A kind that a chain serves has a plan: `pawl plan` shows it through a server, of a manifest
// and of a stored object. A kind without a plan says so.
func TestPlanOfAKindWithAChain(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_STATE_HOME", filepath.Join(dir, "state"))
	ready := make(chan net.Addr, 1)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- serve.Run(ctx, serve.Options{
			Store: backend.StoreOptions{Kind: "memory"}, Listen: "127.0.0.1:0", Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
			Kinds: []driver.ServedKind{garden(), {Kind: "mute"}}, Ready: func(addr net.Addr, _, _ int) { ready <- addr },
		})
	}()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	var url string
	select {
	case addr := <-ready:
		url = "http://" + addr.String()
	case err := <-ended:
		ended <- nil
		t.Fatal(err)
	}
	manifest := filepath.Join(dir, "garden.yaml")
	if err := os.WriteFile(manifest, []byte("kind: garden\nmetadata: {name: g}\nspec: {plants: 1}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out, errs := called(t, "", "--server", url, "plan", "-f", manifest); code != 0 || out != gardenPlan {
		t.Errorf("the plan of a manifest: %d\n%s\n%s", code, out, errs)
	}
	if code, _, errs := called(t, "", "--server", url, "plan", "garden", "g"); code != 1 || !strings.Contains(errs, "OBJECT_NOT_FOUND") {
		t.Errorf("the plan has stored the object: %d, %s", code, errs)
	}
	if code, _, errs := called(t, "", "--server", url, "apply", "-f", manifest); code != 0 {
		t.Fatalf("apply: %s", errs)
	}
	if code, out, errs := called(t, "", "--server", url, "plan", "garden", "g"); code != 0 || out != gardenPlan {
		t.Errorf("the plan of the object: %d\n%s\n%s", code, out, errs)
	}
	code, out, errs := called(t, "", "--server", url, "plan", "garden", "g", "-o", "json")
	var plan map[string]any
	if err := json.Unmarshal([]byte(out), &plan); code != 0 || err != nil {
		t.Fatalf("-o json: %d, %v, %s", code, err, errs)
	}
	if _, is := plan["machine"]; is || len(plan["links"].([]any)) != 3 {
		t.Errorf("as JSON it is %s", out)
	}
	if code, _, errs := called(t, "kind: mute\nmetadata: {name: m}\n", "--server", url, "plan", "-f", "-"); code != 1 && code != 2 || !strings.Contains(errs, "KIND_UNPLANNED") {
		t.Errorf("a kind without a plan: %d, %s", code, errs)
	}
	if code, _, errs := called(t, "kind: gardn\nmetadata: {name: m}\n", "--server", url, "plan", "-f", "-"); code != 2 || !strings.Contains(errs, "did you mean garden?") {
		t.Errorf("an unknown kind: %d, %s", code, errs)
	}
}
