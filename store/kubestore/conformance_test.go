package kubestore_test

import (
	"sync"
	"testing"

	"github.com/pawl-dev/pawl/store/kubestore"
	"github.com/pawl-dev/pawl/store/kubestore/kubetest"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runstore/storetest"
)

// The conformance suite on the test API server; test/kubestore runs it on a real one.
func TestConformance(t *testing.T) {
	for _, kind := range []kubestore.Kind{kubestore.Run, kubestore.ConfigMap} {
		t.Run(string(kind), func(t *testing.T) {
			var servers, wires sync.Map // by store
			open := func(t testing.TB, server *kubetest.Server) runstore.Store {
				wire := kubetest.NewFaultyTransport(1)
				s, err := kubestore.Open(t.Context(), kubestore.Options{Config: wire.Config(server.Config()), Kind: kind, Namespace: "space", SingleNamespace: true})
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
					s.(*kubestore.Store).Close()
					server, _ := servers.Load(s)
					return open(t, server.(*kubetest.Server))
				},
				DiskFull: func(_ testing.TB, s runstore.Store) func() {
					wire, _ := wires.Load(s)
					wire.(*kubetest.FaultyTransport).Fill(true)
					return func() { wire.(*kubetest.FaultyTransport).Fill(false) }
				},
				Slow: kind == kubestore.ConfigMap,
			})
		})
	}
}
