package cloudstack_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/providertest"
	"github.com/pawl-dev/pawl/provider/cloudstack"
	"github.com/pawl-dev/pawl/provider/cloudstack/cloudstacktest"
	"github.com/pawl-dev/pawl/provider/sim"
)

// The conformance suite of providers against cloudstacktest: with immediate jobs, with slow
// jobs, as an older server, and with a key that is not an admin's.
func TestProvider(t *testing.T) {
	slow := sim.Times{
		Create: 4 * time.Millisecond, Start: 2 * time.Millisecond, Stop: 3 * time.Millisecond, Destroy: 2 * time.Millisecond,
		Network: 2 * time.Millisecond, Rule: time.Millisecond,
	}
	for name, c := range map[string]struct {
		o   sim.Options
		w   cloudstacktest.Options
		key string
	}{
		"at once":              {sim.Options{}, cloudstacktest.Options{Enforce: true}, "ADMIN"},
		"jobs":                 {sim.Options{Times: slow}, cloudstacktest.Options{Enforce: true}, "ADMIN"},
		"no customjobid":       {sim.Options{Times: slow}, cloudstacktest.Options{NoCustomJobID: true}, "ADMIN"},
		"refused in jobs":      {sim.Options{RefuseInJob: true, LateSourceNAT: true, Times: slow}, cloudstacktest.Options{}, "ADMIN"},
		"refused, no job ids":  {sim.Options{RefuseInJob: true, Times: slow}, cloudstacktest.Options{NoCustomJobID: true}, "ADMIN"},
		"the key of a user":    {sim.Options{Times: slow}, cloudstacktest.Options{}, "KEY"},
		"seen late, by job id": {sim.Options{Times: slow, Visible: 5 * time.Millisecond}, cloudstacktest.Options{}, "ADMIN"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			providertest.Run(t, func(t *testing.T) providertest.Setup { return setup(t, c.o, c.w, c.key) })
		})
	}
}

func setup(t *testing.T, o sim.Options, w cloudstacktest.Options, key string) providertest.Setup {
	r := newFixture(t, o, w)
	client := func() *cloudstack.Provider { return r.client(func(o *cloudstack.Options) { o.APIKey = key }) }
	var aliens atomic.Int64
	s := providertest.Setup{
		Provider: client(), Installation: installation, Owner: owner,
		Zone: "zone-1", Offering: "small", Template: "node-image", NetworkOffering: "isolated",
		ReadUserData: func(t *testing.T, vm cluster.Ref) []byte {
			got, err := r.cloud.Get(t.Context(), vm)
			if err != nil {
				t.Fatal(err)
			}
			return got.UserData
		},
		CreateForeign: func(t *testing.T, network string) cluster.Ref {
			alien, err := r.cloud.Add(cluster.DesiredResource{
				Kind: cluster.VM, Name: fmt.Sprintf("alien-%d", aliens.Add(1)), Owner: owner,
				Spec: cluster.Spec{Network: network, Offering: "small", Template: "node-image", Zone: "zone-1"},
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := r.cloud.DestroyVM(alien.ID); err != nil {
					t.Error(err)
				}
			})
			return alien.Ref()
		},
		ForeignExists: func(_ *testing.T, vm cluster.Ref) bool {
			got, ok := r.cloud.Lookup(cluster.VM, vm.ID)
			return ok && got.Power == cluster.PoweredOn && len(got.Tags) == 0
		},
		Restart:     func(*testing.T) cluster.Provider { return client() },
		Unreachable: func(_ *testing.T, off bool) { r.cloud.Unreachable(off) },
		Refuse:      func(_ *testing.T, off bool) { r.cloud.RefuseCredentials(off) },
		LoseAnswer: func(*testing.T) {
			lost := false
			r.intercept(func(command string, _ int) answer {
				if lost || !isCreate(command) {
					return answer{}
				}
				lost = true
				return answer{after: true, lost: true}
			})
		},
		Full: func(t *testing.T, full bool) {
			zone := sim.Zone{ID: "zone-1", Name: "zone-1"}
			if full {
				zone.Cores = 1
				if _, err := r.cloud.AddForeignVM("the only one", ""); err != nil {
					t.Error(err)
				}
			}
			r.cloud.SetZone(zone)
		},
		MaxVMs: 25, Poll: time.Millisecond,
	}
	if key != "ADMIN" {
		s.Full = nil // only admins see the capacity
	}
	return s
}

// isCreate reports whether a command creates a resource.
func isCreate(command string) bool {
	return command == "deployVirtualMachine" || command == "associateIpAddress" || strings.HasPrefix(command, "create") && command != "createTags"
}
