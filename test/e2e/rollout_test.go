package e2e_test

import (
	"testing"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/pawl-dev/pawl/test/controlplane/kubelet"
	"github.com/pawl-dev/pawl/test/demo/rollout"
	"github.com/pawl-dev/pawl/test/demo/stage"
)

// The acts of `make demo-rollout`: Pawl from deploy/install.yaml, the commands of examples/rollout, real
// etcd members, and a client that writes.
func TestRolloutOnKubernetes(t *testing.T) {
	root := built(t, "pawl", "kube-apiserver")
	if err := kubelet.CanMount(); err != nil {
		t.Skip("members find each other by names: ", err)
	}
	log.SetLogger(logr.Discard())
	d, err := rollout.New(t.Context(), stage.Options{Root: root, Out: t.Output()})
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
	if facts.Acked < 500 || facts.Lost != 0 {
		t.Errorf("%d of %d acknowledged keys are lost", facts.Lost, facts.Acked)
	}
	if facts.Least < 4 || facts.Rounds < 50 {
		t.Errorf("only %d members answered at once, in %d rounds", facts.Least, facts.Rounds)
	}
	if facts.Gap > 30*time.Second { // it takes a part of a second; a busy machine more
		t.Errorf("the client waited %s", facts.Gap)
	}
}
