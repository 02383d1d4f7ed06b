package runstore_test

import (
	"testing"
	"time"

	kuberuns "github.com/pawl-dev/pawl/kube/runstore"
	"github.com/pawl-dev/pawl/kube/runstore/kubetest"
	"github.com/pawl-dev/pawl/workflow/limit"
)

// TestOldKeys: the object of the limits does not grow with keys that nobody uses any more.
func TestOldKeys(t *testing.T) {
	s, err := kuberuns.Open(t.Context(), kuberuns.Options{Config: kubetest.NewServer(t).Config(), Namespace: "space", SingleNamespace: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	put := func(key string, state limit.State) {
		t.Helper()
		err := s.ChangeStepLimits(t.Context(), []string{key}, func(time.Time, [][]byte) ([][]byte, error) { return [][]byte{state.Encode()}, nil })
		if err != nil {
			t.Fatal(err)
		}
	}
	at := time.Now().Add(-time.Hour).UnixNano()
	put("old", limit.State{Clock: at, Longest: time.Minute, Starts: []int64{at}})
	put("counts", limit.State{Clock: at, Longest: 2 * time.Hour, Starts: []int64{at}})
	put("held", limit.State{Clock: at, Holders: []limit.Holder{{Run: "a", Step: "S", Epoch: 1}}})
	list, err := s.StepLimits(t.Context(), "", 0)
	if err != nil || len(list) != 2 || list[0].Key != "counts" || list[1].Key != "held" {
		t.Errorf("%v, %v", list, err)
	}
}
