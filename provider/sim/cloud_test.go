package sim_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/provider/sim"
)

func TestSameSeedSameCloud(t *testing.T) {
	world := func(seed uint64) []cluster.Resource {
		cloud := open(t, sim.Options{Seed: seed, Now: newClock().now})
		newClusterNetwork(t, cloud)
		return cloud.All()
	}
	one, again, other := world(1), world(1), world(2)
	if fmt.Sprint(one) != fmt.Sprint(again) {
		t.Errorf("the same seed gave\n%v\n%v", one, again)
	}
	if slices.Equal(ids(one), ids(other)) {
		t.Error("another seed gives the same ids")
	}
}

// A reused name creates another resource.
func TestIdentityIsNeverUsedAgain(t *testing.T) {
	cloud := open(t, sim.Options{})
	w := vm("one")
	first := mustMake(t, cloud, w)
	if _, err := cloud.Act(t.Context(), first.Ref(), cluster.Destroy); err != nil {
		t.Fatal(err)
	}
	w.CallID = "another"
	second := mustMake(t, cloud, w)
	if second.ID == first.ID || second.Identity == first.Identity {
		t.Errorf("id %s, identity %s twice", second.ID, second.Identity)
	}
	mixed := second.Ref()
	mixed.Identity = first.Identity
	if _, err := cloud.Act(t.Context(), mixed, cluster.Destroy); fault.Of(err) != cluster.ProviderRefused {
		t.Errorf("destroy with the identity of another: %v", err)
	}
	mustGet(t, cloud, second.Ref())
}

func TestNamesAreUnique(t *testing.T) {
	cloud := open(t, sim.Options{})
	mustMake(t, cloud, vm("one"))
	w := vm("one")
	w.Key, w.CallID = "other", "other"
	if _, err := cloud.Create(t.Context(), w); fault.Of(err) != cluster.ProviderRefused {
		t.Error(err)
	}
	w.Tags = map[string]string{cluster.TagInstallation: "pawl", cluster.TagCluster: "c2", cluster.TagKey: "other"}
	if _, err := cloud.Find(t.Context(), w); !errors.Is(err, cluster.ErrGone) {
		t.Errorf("another cluster's VM of that name was found: %v", err)
	}
}

func TestCapacityAndQuota(t *testing.T) {
	for name, c := range map[string]struct {
		zone  sim.Zone
		quota sim.Quota
		fit   int
		want  *fault.Kind
	}{
		"cores":           {sim.Zone{Cores: 5}, sim.Quota{}, 2, cluster.CapacityExhausted},
		"memory":          {sim.Zone{MemoryMB: 13000}, sim.Quota{}, 3, cluster.CapacityExhausted},
		"VMs":             {sim.Zone{VMs: 4}, sim.Quota{}, 4, cluster.CapacityExhausted},
		"quota of VMs":    {sim.Zone{VMs: 4}, sim.Quota{VMs: 3}, 3, cluster.QuotaExceeded},
		"quota of cores":  {sim.Zone{}, sim.Quota{Cores: 2}, 1, cluster.QuotaExceeded},
		"quota of memory": {sim.Zone{}, sim.Quota{MemoryMB: 4096}, 1, cluster.QuotaExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			c.zone.ID, c.zone.Name = "zone-1", "zone-1"
			cloud := open(t, sim.Options{Zones: []sim.Zone{c.zone}, Quotas: map[string]sim.Quota{owner.AccountID: c.quota}})
			created := 0
			var last error
			var first cluster.Ref
			for i := range c.fit + 2 {
				w := vm(fmt.Sprintf("vm-%d", i))
				w.Spec.Offering = "medium"
				call, err := cloud.Create(t.Context(), w)
				if err != nil {
					last = err
					continue
				}
				if created++; created == 1 {
					first = call.Ref
				}
			}
			if created != c.fit || fault.Of(last) != c.want {
				t.Fatalf("%d fitted, want %d; then %v", created, c.fit, last)
			}
			need := cluster.Need{Owner: owner, Zone: "zone-1", Offering: "medium", Template: "node-image", Nodes: 1}
			found, err := cloud.Check(t.Context(), need)
			if err != nil || len(found) != 1 || found[0].Code != c.want.Code {
				t.Errorf("check: %+v, %v", found, err)
			}
			if _, err := cloud.Act(t.Context(), first, cluster.Destroy); err != nil {
				t.Fatal(err)
			}
			w := vm("again")
			w.Spec.Offering = "medium"
			mustMake(t, cloud, w)
		})
	}
}

// A new resource appears late in lists; Get by id returns it at once.
func TestVisibleLate(t *testing.T) {
	at := newClock()
	cloud := open(t, sim.Options{Now: at.now, Visible: time.Minute, NoCallIDs: true})
	created := mustMake(t, cloud, vm("one"))
	sees := func() bool {
		page, err := cloud.List(t.Context(), cluster.Filter{}, "")
		if err != nil {
			t.Fatal(err)
		}
		_, err = cloud.Find(t.Context(), vm("one"))
		if (err == nil) != (len(page.Items) == 1) {
			t.Fatalf("find %v, list %v", err, page.Items)
		}
		return err == nil
	}
	if sees() {
		t.Error("seen at once")
	}
	at.at = at.at.Add(time.Minute)
	if !sees() {
		t.Error("not seen after a minute")
	}
	mustGet(t, cloud, created.Ref())
}

func TestSourceNAT(t *testing.T) {
	cloud := open(t, sim.Options{})
	resources := newClusterNetwork(t, cloud)
	page, err := cloud.List(t.Context(), cluster.Filter{Kind: cluster.Address, Network: resources["net"].ID}, "")
	if err != nil || len(page.Items) != 2 || !page.Items[0].SourceNAT || page.Items[1].SourceNAT {
		t.Fatalf("%+v, %v", page.Items, err)
	}
	nat := page.Items[0]
	if _, err := cloud.Act(t.Context(), nat.Ref(), cluster.Destroy); fault.Of(err) != cluster.ProviderRefused {
		t.Errorf("release of the source NAT: %v", err)
	}
	for _, name := range []string{"one", "two", "net"} {
		if _, err := cloud.Act(t.Context(), resources[name].Ref(), cluster.Destroy); err != nil {
			t.Fatal(err)
		}
	}
	if left := cloud.All(); len(left) > 0 {
		t.Errorf("a network takes all of its own with it, but %v", left)
	}
}

func TestCatalogueOfNetworks(t *testing.T) {
	cloud := open(t, sim.Options{})
	given, err := cloud.AddNetwork("given", owner)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cloud.AddNetwork("theirs", cluster.Owner{AccountID: "other"}); err != nil {
		t.Fatal(err)
	}
	resources := newClusterNetwork(t, cloud)
	entries, err := cloud.Catalog(t.Context(), owner, cluster.Network)
	if err != nil || len(entries) != 2 {
		t.Fatalf("%+v, %v", entries, err)
	}
	if e := entries[0]; e.ID != given.ID || e.InUse != "" || e.Port6443InUse || !slices.Contains(e.Services, "SourceNat") {
		t.Errorf("the given network: %+v", e)
	}
	if e := entries[1]; e.ID != resources["net"].ID || e.InUse != "c1" || !e.Port6443InUse {
		t.Errorf("the used network: %+v", e)
	}
}

// The failed job of a call id does not prevent another try.
func TestCallIDOfAFailedJob(t *testing.T) {
	cloud := open(t, sim.Options{RefuseInJob: true, Zones: []sim.Zone{{ID: "zone-1", VMs: 1}}})
	mustMake(t, cloud, vm("one"))
	call, err := cloud.Create(t.Context(), vm("two"))
	if err != nil {
		t.Fatal(err)
	}
	if p, err := cloud.Poll(t.Context(), call); err != nil || !p.Done || fault.Of(p.Err) != cluster.CapacityExhausted {
		t.Errorf("%+v, %v", p, err)
	}
	cloud.SetZone(sim.Zone{ID: "zone-1"})
	second := mustMake(t, cloud, vm("two"))
	if second.Power != cluster.PoweredOn || len(cloud.All(cluster.VM)) != 2 {
		t.Errorf("%v", cloud.All(cluster.VM))
	}
}

// Jobs are known for a day.
func TestJobsAreForgotten(t *testing.T) {
	at := newClock()
	cloud := open(t, sim.Options{Now: at.now, Times: sim.Times{Create: time.Minute}})
	call, err := cloud.Create(t.Context(), vm("one"))
	if err != nil {
		t.Fatal(err)
	}
	at.at = at.at.Add(23 * time.Hour)
	if p, err := cloud.Poll(t.Context(), call); err != nil || !p.Done {
		t.Errorf("%+v, %v", p, err)
	}
	at.at = at.at.Add(2 * time.Hour)
	if _, err := cloud.Poll(t.Context(), call); fault.Of(err) != cluster.ProviderRefused || errors.Is(err, cluster.ErrGone) {
		t.Error(err)
	}
	if again, err := cloud.Create(t.Context(), vm("one")); err != nil || again.Ref.ID != call.Ref.ID {
		t.Errorf("the key outlives its job: %+v, %v", again, err)
	}
}

// Calls in random order keep the cloud's invariants, and reading its file returns the same
// cloud.
func TestInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := newClock()
		o := sim.Options{
			Seed: rapid.Uint64().Draw(t, "seed"), Now: at.now, Zones: []sim.Zone{{ID: "zone-1", Name: "zone-1", VMs: 4}},
			Times: sim.Times{Create: 3 * time.Second, Stop: 2 * time.Second, Destroy: 2 * time.Second},
		}
		cloud, err := sim.New(o)
		if err != nil {
			t.Fatal(err)
		}
		names := rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f"})
		find := func() (cluster.Resource, bool) { return cloud.Lookup(cluster.VM, names.Draw(t, "name")) }
		t.Repeat(map[string]func(*rapid.T){
			"create": func(t *rapid.T) {
				w := vm(names.Draw(t, "name"))
				w.CallID = ""
				if _, err := cloud.Create(t.Context(), w); err != nil && fault.Of(err) != cluster.CapacityExhausted {
					t.Fatal(err)
				}
			},
			"act": func(t *rapid.T) {
				a := rapid.SampledFrom([]cluster.Action{cluster.Start, cluster.Stop, cluster.ForceStop, cluster.Destroy}).Draw(t, "action")
				if r, ok := find(); ok {
					_, _ = cloud.Act(t.Context(), r.Ref(), a)
				}
			},
			"verb": func(t *rapid.T) {
				verb := rapid.SampledFrom([]func(string) error{cloud.StopVM, cloud.StartVM, cloud.BreakVM, cloud.DestroyVM, cloud.Migrate, cloud.TrashVM}).Draw(t, "verb")
				if r, ok := find(); ok {
					_ = verb(r.ID)
				}
			},
			"tags": func(t *rapid.T) {
				if r, ok := find(); ok {
					tags := rapid.SampledFrom([]map[string]string{nil, vm(r.Name).Tags, {cluster.TagInstallation: "other"}}).Draw(t, "tags")
					if err := cloud.SetTags(cluster.VM, r.ID, tags); err != nil {
						t.Fatal(err)
					}
				}
			},
			"time": func(t *rapid.T) { at.at = at.at.Add(time.Duration(rapid.IntRange(0, 5).Draw(t, "s")) * time.Second) },
			"": func(t *rapid.T) {
				all := cloud.All(cluster.VM)
				if len(all) > 4 {
					t.Fatalf("%d VMs in a zone for 4", len(all))
				}
				tagged := 0
				seen := map[string]bool{}
				for _, r := range all {
					if seen[r.Name] {
						t.Fatalf("two VMs are named %s", r.Name)
					}
					seen[r.Name] = true
					if r.Tags[cluster.TagInstallation] == "pawl" {
						tagged++
					}
				}
				listed := 0
				for at := cluster.Cursor(""); ; {
					page, err := cloud.List(t.Context(), cluster.Filter{Size: 2}, at)
					if err != nil {
						t.Fatal(err)
					}
					listed += len(page.Items)
					if at = page.Next; at == "" {
						break
					}
				}
				if listed != tagged {
					t.Fatalf("%d carry our tag, %d are listed", tagged, listed)
				}
				created, destroyed := 0, 0
				for _, d := range cloud.Mutations() {
					switch d.Op {
					case sim.Made:
						created++
					case sim.Destroyed:
						destroyed++
					}
				}
				if created-destroyed != len(all) {
					t.Fatalf("%d created, %d destroyed, %d exist", created, destroyed, len(all))
				}
			},
		})
	})
}
