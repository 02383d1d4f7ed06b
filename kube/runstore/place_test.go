package runstore_test

import (
	"testing"
	"time"

	kuberuns "github.com/pawl-dev/pawl/kube/runstore"
	"github.com/pawl-dev/pawl/kube/runstore/kubetest"
	"github.com/pawl-dev/pawl/workflow/places"
)

// TestPlacesOfOldKeys: the object of the places does not grow with keys that nobody uses any more.
func TestPlacesOfOldKeys(t *testing.T) {
	s, err := kuberuns.Open(t.Context(), kuberuns.Options{Config: kubetest.NewServer(t).Config(), Namespace: "space", SingleNamespace: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	put := func(key string, state places.State) {
		t.Helper()
		err := s.ChangePlaces(t.Context(), []string{key}, func(time.Time, [][]byte) ([][]byte, error) { return [][]byte{state.Encode()}, nil })
		if err != nil {
			t.Fatal(err)
		}
	}
	at := time.Now().Add(-time.Hour).UnixNano()
	put("old", places.State{Clock: at, Longest: time.Minute, Starts: []int64{at}})
	put("counts", places.State{Clock: at, Longest: 2 * time.Hour, Starts: []int64{at}})
	put("held", places.State{Clock: at, Holders: []places.Holder{{Run: "a", Step: "S", Epoch: 1}}})
	list, err := s.Places(t.Context(), "", 0)
	if err != nil || len(list) != 2 || list[0].Key != "counts" || list[1].Key != "held" {
		t.Errorf("%v, %v", list, err)
	}
}
