package runstore_test

import (
	"sync"
	"testing"

	kuberuns "github.com/pawl-dev/pawl/kube/runstore"
	"github.com/pawl-dev/pawl/kube/runstore/kubetest"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runstore/storetest"
)

// The conformance suite on the test API server; test/runstore runs it on a real one.
func TestConformance(t *testing.T) {
	for _, kind := range []kuberuns.Kind{kuberuns.Run, kuberuns.ConfigMap} {
		t.Run(string(kind), func(t *testing.T) {
			var servers, wires sync.Map // by store
			open := func(t testing.TB, server *kubetest.Server) runstore.Store {
				wire := kubetest.NewFaultyTransport(1)
				s, err := kuberuns.Open(t.Context(), kuberuns.Options{Config: wire.Config(server.Config()), Kind: kind, Namespace: "space", SingleNamespace: true})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { s.Close() })
				servers.Store(s, server)
				wires.Store(s, wire)
				return s
			}
			storetest.Run(t, storetest.Harness{
				Open: func(t testing.TB) runstore.Store { return open(t, kubetest.NewServer(t)) },
				Reopen: func(t testing.TB, s runstore.Store) runstore.Store {
					s.(*kuberuns.Store).Close()
					server, _ := servers.Load(s)
					return open(t, server.(*kubetest.Server))
				},
				DiskFull: func(_ testing.TB, s runstore.Store) func() {
					wire, _ := wires.Load(s)
					wire.(*kubetest.FaultyTransport).Fill(true)
					return func() { wire.(*kubetest.FaultyTransport).Fill(false) }
				},
				Slow: kind == kuberuns.ConfigMap,
			})
		})
	}
}
