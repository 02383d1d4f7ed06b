package e2e_test

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/pawl-dev/pawl/test/demo/foundationdb"
	"github.com/pawl-dev/pawl/test/demo/stage"
)

// The acts of `make demo-fdb`: the commands of the guide, an operator that is killed, and a client that writes.
func TestFoundationDBOnKubernetes(t *testing.T) {
	if os.Getenv("PAWL_TEST_FDB") == "" {
		t.Skip("it takes two minutes: make test-fdb has it")
	}
	root := built(t, "pawl", "kube-apiserver")
	log.SetLogger(logr.Discard())
	d, err := foundationdb.New(t.Context(), stage.Options{Root: root, Out: t.Output()})
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
	if facts.Acked < 500 || facts.Lost != 0 || len(facts.Violations) > 0 {
		t.Errorf("%d of %d acknowledged keys are lost; violated: %v", facts.Lost, facts.Acked, facts.Violations)
	}
	if facts.Excluded != 0 || facts.Restarts != 1 {
		t.Errorf("the second operator excluded %d groups anew, and the upgrade restarted all servers %d times", facts.Excluded, facts.Restarts)
	}
	if want := []int{1000, 1000}; !slices.Equal(facts.Restored, want) {
		t.Errorf("the table has %v rows after the restores, want %v", facts.Restored, want)
	}
	if facts.Gap > 30*time.Second || facts.Locked > time.Minute { // it takes seconds; a busy machine more
		t.Errorf("the client waited %s, and %s for restores", facts.Gap, facts.Locked)
	}
}
