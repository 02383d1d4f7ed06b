package runstore_test

import (
	"sync"
	"testing"
	"time"

	kuberuns "github.com/pawl-dev/pawl/kube/runstore"
	"github.com/pawl-dev/pawl/kube/runstore/kubetest"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runstore/storetest"
)

// The conformance suite of stores, on Run objects and on ConfigMaps.
func TestConformance(t *testing.T) {
	plane := suite.Plane(t)
	for _, kind := range []kuberuns.Kind{kuberuns.Run, kuberuns.ConfigMap} {
		t.Run(string(kind), func(t *testing.T) {
			client := plane.Client()
			var spaces, wires sync.Map // by store
			openIn := func(t testing.TB, space string) runstore.Store {
				s, wire := open(t, plane.Config(), kind, space)
				spaces.Store(s, space)
				wires.Store(s, wire)
				return s
			}
			storetest.Run(t, storetest.Harness{
				Open: func(t testing.TB) runstore.Store { return openIn(t, namespace(t, client)) },
				Reopen: func(t testing.TB, s runstore.Store) runstore.Store {
					s.(*kuberuns.Store).Close() // no graceful shutdown
					space, _ := spaces.Load(s)
					return openIn(t, space.(string))
				},
				DiskFull: func(_ testing.TB, s runstore.Store) func() {
					wire, _ := wires.Load(s)
					wire.(*kubetest.FaultyTransport).Fill(true)
					return func() { wire.(*kubetest.FaultyTransport).Fill(false) }
				},
				Slow:  true,
				Lease: time.Second,
			})
		})
	}
}
