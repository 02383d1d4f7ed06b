package cloudstack_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/provider/cloudstack"
	"github.com/pawl-dev/pawl/provider/cloudstack/cloudstacktest"
	"github.com/pawl-dev/pawl/provider/sim"
)

func has(entries []cluster.Entry, id string) bool {
	return slices.ContainsFunc(entries, func(e cluster.Entry) bool { return e.ID == id })
}

// If all owners share one account, the network that Pawl created for one owner is not
// offered to others; if each owner has an account, the owner's networks are offered.
func TestNetworksOfOthersAreNotOffered(t *testing.T) {
	other := cluster.Owner{AccountID: "other", DomainID: "d1"}
	for name, p := range map[string]func(r *fixture) *cloudstack.Provider{
		"one account": func(r *fixture) *cloudstack.Provider { return r.client() },
		"an account each": func(r *fixture) *cloudstack.Provider {
			return r.client(func(o *cloudstack.Options) {
				o.Account = func(owner cluster.Owner) (string, string) { return owner.AccountID, owner.DomainID }
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newFixture(t, sim.Options{}, cloudstacktest.Options{})
			client := p(r)
			u := &retryingClient{t: t, p: client}
			net, err := u.make(want(cluster.Network, "net", cluster.Spec{Offering: "isolated"}))
			if err != nil {
				t.Fatal(err)
			}
			theirs := want(cluster.Network, "theirs", cluster.Spec{Offering: "isolated"})
			theirs.Owner = other
			foreign, err := u.make(theirs)
			if err != nil {
				t.Fatal(err)
			}
			given, err := r.cloud.AddNetwork("given", owner)
			if err != nil {
				t.Fatal(err)
			}
			entries, err := client.Catalog(t.Context(), owner, cluster.Network)
			if err != nil || !has(entries, net.ID) || !has(entries, given.ID) || has(entries, foreign.ID) {
				t.Errorf("%+v, %v", entries, err)
			}
			page, err := client.List(t.Context(), cluster.Filter{Kind: cluster.Network}, "")
			if err != nil || len(page.Items) != 2 {
				t.Errorf("ours are %+v, %v", page.Items, err)
			}
		})
	}
}

func TestARuleOnTheEndpointIsSeen(t *testing.T) {
	r := newFixture(t, sim.Options{}, cloudstacktest.Options{})
	p := r.client()
	u := &retryingClient{t: t, p: p}
	created, err := u.createCluster()
	if err != nil {
		t.Fatal(err)
	}
	free, err := r.cloud.AddNetwork("free", owner)
	if err != nil {
		t.Fatal(err)
	}
	entries, err := p.Catalog(t.Context(), owner, cluster.Network)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if used := e.ID == created[0].ID; e.Port6443InUse != used || (e.InUse == "c1") != used || !slices.Contains(e.Services, "SourceNat") {
			t.Errorf("%+v (free is %s)", e, free.ID)
		}
	}
}

// A resource with our name but foreign tags, or in another account, is not ours; one
// without tags is ours and gets the tags.
func TestOwnerOfAResource(t *testing.T) {
	w := want(cluster.VM, "vm", cluster.Spec{Offering: "small", Template: "node-image"})
	for name, c := range map[string]struct {
		owner cluster.Owner
		tags  map[string]string
		mine  bool
	}{
		"no tags":              {owner, nil, true},
		"tags of other people": {owner, map[string]string{"team": "blue"}, true},
		"ours":                 {owner, w.Tags, true},
		"another cluster":      {owner, map[string]string{cluster.TagInstallation: installation, cluster.TagCluster: "c2", cluster.TagKey: w.Key}, false},
		"another installation": {owner, map[string]string{cluster.TagInstallation: "else", cluster.TagCluster: "c1", cluster.TagKey: w.Key}, false},
		"half of our tags":     {owner, map[string]string{cluster.TagCluster: "c1"}, false},
		"another account":      {cluster.Owner{AccountID: "mallory", DomainID: "d1"}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newFixture(t, sim.Options{}, cloudstacktest.Options{})
			created, err := r.cloud.Add(cluster.DesiredResource{Kind: cluster.VM, Name: "vm", Owner: c.owner, Tags: c.tags, Spec: w.Spec})
			if err != nil {
				t.Fatal(err)
			}
			got, err := r.client().Find(t.Context(), w)
			if c.mine != (err == nil) || !c.mine && !errors.Is(err, cluster.ErrGone) {
				t.Fatalf("%+v, %v", got, err)
			}
			is, _ := r.cloud.Lookup(cluster.VM, created.ID)
			if tagged := is.Tags[cluster.TagKey] == w.Key && is.Tags[cluster.TagCluster] == "c1" && is.Tags[cluster.TagInstallation] == installation; tagged != c.mine {
				t.Errorf("tags are %v", is.Tags)
			}
		})
	}
}

// The VM of a failed deployment is removed before the next try, and nothing else.
func TestFailedDeploymentIsRemoved(t *testing.T) {
	r := newFixture(t, sim.Options{Script: []sim.Rule{{Call: sim.Create, Kind: cluster.VM, Nth: 1, Do: sim.FailJob, Err: cluster.CapacityExhausted.Errorf("full")}},
		Times: sim.Times{Create: time.Millisecond, Destroy: time.Millisecond}}, cloudstacktest.Options{})
	u := &retryingClient{t: t, p: r.client()}
	w := want(cluster.VM, "vm", cluster.Spec{Offering: "small", Template: "node-image"})
	call, err := u.p.Create(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := u.follow(t.Context(), call); fault.Of(err) != cluster.CapacityExhausted {
		t.Fatalf("%v", err)
	}
	broken, err := u.p.Find(t.Context(), w)
	if err != nil || broken.Power != cluster.PowerBroken {
		t.Fatalf("%+v, %v", broken, err)
	}
	got, err := u.make(w)
	if err != nil || got.ID == broken.ID || got.Power != cluster.PoweredOn {
		t.Errorf("%+v, %v", got, err)
	}
	if all, err := allButSourceNAT(t, r, cluster.VM); err != nil || len(all) != 1 {
		t.Errorf("%d VMs, %v", len(all), err)
	}
	if err := r.cloud.TrashVM("vm"); err != nil {
		t.Fatal(err)
	}
	if call, err := u.p.Create(t.Context(), w); err != nil || call.Ref.ID != got.ID {
		t.Errorf("a VM in the bin is replaced: %+v, %v", call, err)
	}
	if is, err := u.p.Get(t.Context(), got.Ref()); err != nil || is.Power != cluster.PowerGone {
		t.Errorf("destroyed and not expunged is not gone: %+v, %v", is, err)
	}
}

func TestAJobNobodyKnows(t *testing.T) {
	r := newFixture(t, sim.Options{}, cloudstacktest.Options{})
	p := r.client()
	call := cluster.Call{Job: "00000000-0000-4000-8000-000000000000"}
	if _, err := p.Poll(t.Context(), call); !errors.Is(err, cluster.ErrGone) {
		t.Errorf("%v", err)
	}
	r.cloud.RefuseCredentials(true)
	if _, err := p.Poll(t.Context(), call); fault.Of(err) != cluster.CredentialsRefused {
		t.Errorf("%v", err)
	}
}

func TestWhatIsRefusedIsNotSent(t *testing.T) {
	r := newFixture(t, sim.Options{}, cloudstacktest.Options{})
	p := r.client(func(o *cloudstack.Options) { o.Zones = []string{"zone-1"} })
	good := func() cluster.DesiredResource {
		return want(cluster.VM, "vm", cluster.Spec{Offering: "small", Template: "node-image"})
	}
	for name, change := range map[string]func(*cluster.DesiredResource){
		"no name":              func(w *cluster.DesiredResource) { w.Name = "" },
		"a long name":          func(w *cluster.DesiredResource) { w.Name = strings.Repeat("x", 64) },
		"no key":               func(w *cluster.DesiredResource) { w.Key = "" },
		"another installation": func(w *cluster.DesiredResource) { w.Tags[cluster.TagInstallation] = "other" },
		"no cluster":           func(w *cluster.DesiredResource) { delete(w.Tags, cluster.TagCluster) },
		"a tag of another key": func(w *cluster.DesiredResource) { w.Tags[cluster.TagKey] = "other" },
		"another zone":         func(w *cluster.DesiredResource) { w.Spec.Zone = "zone-9" },
		"too much user data":   func(w *cluster.DesiredResource) { w.Spec.UserData = make([]byte, 24<<10+1) },
		"a key pair":           func(w *cluster.DesiredResource) { w.Kind = cluster.KeyPair },
	} {
		w := good()
		change(&w)
		if _, err := p.Create(t.Context(), w); fault.Of(err) != cluster.ProviderRefused {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := len(r.requests()); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
}

func TestKeyPairsAndDefaults(t *testing.T) {
	r := newFixture(t, sim.Options{Templates: []cluster.Entry{{ID: "old", Name: "old"}, {ID: "node-image", Name: "node-image"}}}, cloudstacktest.Options{})
	p := r.client()
	if _, err := r.cloud.As("").Create(t.Context(), cluster.DesiredResource{Kind: cluster.KeyPair, Name: "mine", Owner: owner}); err != nil {
		t.Fatal(err)
	}
	pairs, err := p.Catalog(t.Context(), owner, cluster.KeyPair)
	if err != nil || len(pairs) != 1 || pairs[0].ID != "mine" {
		t.Errorf("%+v, %v", pairs, err)
	}
	for _, kind := range []cluster.Kind{cluster.Template, cluster.NetworkOffering} {
		entries, err := p.Catalog(t.Context(), owner, kind)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if e.Default != (e.ID == "node-image" || e.ID == "isolated") {
				t.Errorf("%+v", e)
			}
		}
	}
	w := want(cluster.VM, "vm", cluster.Spec{Offering: "small", Template: "node-image", KeyPair: "mine"})
	if got, err := (&retryingClient{t: t, p: p}).make(w); err != nil || got.Spec.KeyPair != "mine" {
		t.Errorf("%+v, %v", got, err)
	}
}

// The root disk size is sent if the API accepts it; otherwise Check reports it before the
// create.
func TestSizeOfRootDisks(t *testing.T) {
	r := newFixture(t, sim.Options{}, cloudstacktest.Options{})
	p := r.client()
	w := want(cluster.VM, "vm", cluster.Spec{Offering: "small", Template: "node-image", DiskGB: 40})
	got, err := (&retryingClient{t: t, p: p}).make(w)
	if err != nil {
		t.Fatal(err)
	}
	if created, ok := r.cloud.LookupView(cluster.VM, got.ID); !ok || created.Spec.DiskGB != 40 {
		t.Errorf("the cloud has created %+v", created)
	}
	w = want(cluster.VM, "plain", cluster.Spec{Offering: "small", Template: "node-image"})
	if _, err := (&retryingClient{t: t, p: p}).make(w); err != nil {
		t.Fatal(err)
	}
	for _, asked := range r.requests() {
		if asked.command == "deployVirtualMachine" && asked.params.Has("rootdisksize") != (asked.params.Get("name") == "vm") {
			t.Errorf("%v", asked.params)
		}
	}
	need := cluster.Need{Owner: owner, Zone: "zone-1", Offering: "small", Template: "node-image", Nodes: 1, DiskGB: 40}
	if found, err := p.Check(t.Context(), need); err != nil || len(found) > 0 || !p.Capabilities().DiskSize {
		t.Errorf("%+v, %v, %+v", found, err, p.Capabilities())
	}
	old := newFixture(t, sim.Options{}, cloudstacktest.Options{NoRootDiskSize: true})
	p = old.client()
	found, err := p.Check(t.Context(), need)
	if err != nil || len(found) != 1 || found[0].Code != cluster.EntityRefused.Code || p.Capabilities().DiskSize {
		t.Errorf("an API without the parameter: %+v, %v, %+v", found, err, p.Capabilities())
	}
	need.DiskGB = 0
	if found, err := p.Check(t.Context(), need); err != nil || len(found) > 0 {
		t.Errorf("without a size: %+v, %v", found, err)
	}
}

func TestCheckKnowsTheLimits(t *testing.T) {
	need := cluster.Need{Owner: owner, Zone: "zone-1", Offering: "small", Template: "node-image", Nodes: 3}
	for name, c := range map[string]struct {
		o    sim.Options
		want fault.Code
	}{
		"fits":             {sim.Options{Quota: sim.Quota{VMs: 3, Cores: 3, MemoryMB: 3072, Networks: 1, Addresses: 1}, Zones: []sim.Zone{{ID: "zone-1", Name: "z", Cores: 3, MemoryMB: 3072}}}, ""},
		"VMs of the owner": {sim.Options{Quota: sim.Quota{VMs: 2}}, cluster.QuotaExceeded.Code},
		"cores":            {sim.Options{Quota: sim.Quota{Cores: 2}}, cluster.QuotaExceeded.Code},
		"memory":           {sim.Options{Quota: sim.Quota{MemoryMB: 3071}}, cluster.QuotaExceeded.Code},
		"cores of a zone":  {sim.Options{Zones: []sim.Zone{{ID: "zone-1", Name: "z", Cores: 2}}}, cluster.CapacityExhausted.Code},
		"memory of a zone": {sim.Options{Zones: []sim.Zone{{ID: "zone-1", Name: "z", MemoryMB: 3071}}}, cluster.CapacityExhausted.Code},
		"a disabled zone":  {sim.Options{Zones: []sim.Zone{{ID: "zone-1", Name: "z", Disabled: true}}}, cluster.EntityRefused.Code},
	} {
		found, err := newFixture(t, c.o, cloudstacktest.Options{}).client().Check(t.Context(), need)
		if err != nil || (len(found) == 0) != (c.want == "") || len(found) > 0 && !slices.ContainsFunc(found, func(f cluster.Finding) bool { return f.Code == c.want }) {
			t.Errorf("%s: %+v, %v; want %q", name, found, err, c.want)
		}
	}
}
