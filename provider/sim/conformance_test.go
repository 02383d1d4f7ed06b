package sim_test

import (
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/providertest"
	"github.com/pawl-dev/pawl/provider/sim"
)

// The conformance suite of providers over an immediate cloud, a slow one, one with late
// lists, and one that is stored and reloaded at every restart.
func TestProvider(t *testing.T) {
	slow := sim.Times{
		Create: 4 * time.Millisecond, Start: 2 * time.Millisecond, Stop: 3 * time.Millisecond, Destroy: 2 * time.Millisecond,
		Network: 2 * time.Millisecond, Rule: time.Millisecond,
	}
	for name, c := range map[string]struct {
		o    sim.Options
		file bool
	}{
		"at once":         {sim.Options{}, false},
		"jobs":            {sim.Options{Times: slow, Latency: time.Millisecond}, false},
		"seen late":       {sim.Options{Times: slow, Visible: 20 * time.Millisecond}, false},
		"no call ids":     {sim.Options{NoCallIDs: true, Visible: 5 * time.Millisecond}, false},
		"refused in jobs": {sim.Options{RefuseInJob: true, LateSourceNAT: true, Times: slow}, false},
		"in a file":       {sim.Options{Times: slow}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			providertest.Run(t, func(t *testing.T) providertest.Setup { return setup(t, c.o, c.file) })
		})
	}
}

func setup(t *testing.T, o sim.Options, inFile bool) providertest.Setup {
	o.Installation = "exam"
	if inFile {
		o.File = filepath.Join(t.TempDir(), "cloud")
	}
	cloud, err := sim.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cloud.Close() }) // the last one
	var aliens atomic.Int64
	s := providertest.Setup{
		Provider: cloud, Installation: "exam", Owner: cluster.Owner{AccountID: "a1", DomainID: "d1"},
		Zone: "zone-1", Offering: "small", Template: "node-image", NetworkOffering: "isolated",
		CreateForeign: func(t *testing.T, network string) cluster.Ref {
			name := "alien-" + string(rune('0'+aliens.Add(1)))
			r, err := cloud.AddForeignVM(name, network)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := cloud.DestroyVM(r.ID); err != nil {
					t.Error(err)
				}
			})
			return r.Ref()
		},
		ForeignExists: func(_ *testing.T, vm cluster.Ref) bool {
			r, ok := cloud.Lookup(cluster.VM, vm.ID)
			return ok && r.Power == cluster.PoweredOn && len(r.Tags) == 0
		},
		Restart:     func(*testing.T) cluster.Provider { return cloud.As("exam") },
		Unreachable: func(_ *testing.T, off bool) { cloud.Unreachable(off) },
		Refuse:      func(_ *testing.T, off bool) { cloud.RefuseCredentials(off) },
		LoseAnswer: func(*testing.T) {
			cloud.ClearRules()
			cloud.Inject(sim.Rule{Call: sim.Create, Nth: 1, Do: sim.Lost})
		},
		Full: func(_ *testing.T, full bool) {
			zone := sim.Zone{ID: "zone-1", Name: "zone-1"}
			if full {
				zone.VMs = 1
				if _, err := cloud.AddForeignVM("the only one", ""); err != nil {
					t.Error(err)
				}
			}
			cloud.SetZone(zone)
		},
		MaxVMs: 25, Poll: time.Millisecond,
	}
	if inFile {
		s.Restart = func(t *testing.T) cluster.Provider {
			if err := cloud.Close(); err != nil {
				t.Fatal(err)
			}
			if cloud, err = sim.New(o); err != nil {
				t.Fatal(err)
			}
			return cloud
		}
	}
	return s
}

func open(t testing.TB, o sim.Options) *sim.Cloud {
	t.Helper()
	cloud, err := sim.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cloud.Close() })
	return cloud
}
