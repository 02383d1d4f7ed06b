package e2e_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/pawl-dev/pawl/test/controlplane"
	"github.com/pawl-dev/pawl/test/demo/kube"
	"github.com/pawl-dev/pawl/test/demo/stage"
)

// The acts of `make demo-kubernetes` on a real control plane: Pawl from
// deploy/install.yaml as pods, PostgreSQL in others, and a client that writes.
func TestPawlOnKubernetes(t *testing.T) {
	root, err := controlplane.Root()
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"/usr/lib/postgresql/15/bin/postgres", filepath.Join(root, "bin", "pawl"), filepath.Join(root, "bin", "kube-apiserver")} {
		if _, err := os.Stat(file); err != nil {
			t.Skipf("%v: apt-get install postgresql-15; make build controlplane", err)
		}
	}
	log.SetLogger(logr.Discard())
	d, err := kube.New(t.Context(), stage.Options{Root: root, Out: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}()
	for _, act := range d.Acts() {
		if !t.Run(act.Name, func(t *testing.T) {
			if err := d.Play(t.Context(), act); err != nil {
				t.Fatal(err)
			}
		}) {
			return
		}
	}
	facts := d.Facts()
	t.Logf("%+v", facts)
	if facts.Rows < 500 || facts.Missing != 0 {
		t.Errorf("%d of %d rows are missing whose commits were answered", facts.Missing, facts.Rows)
	}
	if facts.Switch > time.Minute || facts.Failover > 2*time.Minute { // they take seconds; a busy machine more
		t.Errorf("the client waited %s for the switch and %s for the failover", facts.Switch, facts.Failover)
	}
}
