package sim_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/provider/sim"
)

// The effect of each method as clients see it.
func TestMutations(t *testing.T) {
	for name, c := range map[string]struct {
		do    func(*sim.Cloud) error
		power cluster.Power // of VM one; empty: gone
		state string
	}{
		"StopVM":    {func(c *sim.Cloud) error { return c.StopVM("one") }, cluster.PoweredOff, "Stopped"},
		"StartVM":   {func(c *sim.Cloud) error { return errors.Join(c.StopVM("one"), c.StartVM("one")) }, cluster.PoweredOn, "Running"},
		"BreakVM":   {func(c *sim.Cloud) error { return c.BreakVM("one") }, cluster.PowerBroken, "Error"},
		"TrashVM":   {func(c *sim.Cloud) error { return c.TrashVM("one") }, cluster.PowerGone, "Destroyed"},
		"SetState":  {func(c *sim.Cloud) error { return c.SetState("one", "Haunted") }, cluster.UnknownPower, "Haunted"},
		"Migrate":   {func(c *sim.Cloud) error { return c.Migrate("one") }, cluster.PoweringOn, "Migrating"},
		"DestroyVM": {func(c *sim.Cloud) error { return c.DestroyVM("one") }, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			cloud := open(t, sim.Options{Times: sim.Times{Migrate: time.Hour}})
			one := newClusterNetwork(t, cloud)["one"]
			if err := c.do(cloud); err != nil {
				t.Fatal(err)
			}
			mutations := cloud.Mutations()
			if last := mutations[len(mutations)-1]; c.power != "" && (last.Op != sim.Changed || last.ID != one.ID) {
				t.Errorf("the log says %+v", last)
			}
			if c.power == "" {
				isGone(t, cloud, one)
				return
			}
			if got := mustGet(t, cloud, one.Ref()); got.Power != c.power || got.State != c.state || got.Identity != one.Identity {
				t.Errorf("%s, %s, %s", got.Power, got.State, got.Identity)
			}
		})
	}
}

func TestMutationsOfUnknownResources(t *testing.T) {
	cloud := open(t, sim.Options{})
	for _, err := range []error{
		cloud.StopVM("x"), cloud.DestroyVM("x"), cloud.Migrate("x"), cloud.DeleteNetwork("x"), cloud.StripTags(cluster.VM, "x"),
		cloud.ChangeRule(cluster.Firewall, "x", func(*cluster.Spec) {}), cloud.Silence("x", true),
	} {
		if err == nil {
			t.Error("a verb on nothing succeeded")
		}
	}
}

func TestMigrationEnds(t *testing.T) {
	at := newClock()
	cloud := open(t, sim.Options{Now: at.now, Times: sim.Times{Migrate: time.Minute}})
	one := mustMake(t, cloud, vm("one"))
	if err := cloud.Migrate("one"); err != nil {
		t.Fatal(err)
	}
	if _, err := cloud.Act(t.Context(), one.Ref(), cluster.Stop); fault.Of(err) != cluster.ResourceInUse {
		t.Errorf("stop while it migrates: %v", err)
	}
	at.at = at.at.Add(time.Minute)
	if got := mustGet(t, cloud, one.Ref()); got.Power != cluster.PoweredOn || got.ID != one.ID || got.Identity != one.Identity {
		t.Errorf("%+v", got)
	}
}

func TestStripTags(t *testing.T) {
	cloud := open(t, sim.Options{})
	one := mustMake(t, cloud, vm("one"))
	list := func(f cluster.Filter) int {
		page, err := cloud.List(t.Context(), f, "")
		if err != nil {
			t.Fatal(err)
		}
		return len(page.Items)
	}
	if err := cloud.StripTags(cluster.VM, "one"); err != nil {
		t.Fatal(err)
	}
	if list(cluster.Filter{}) != 0 || list(cluster.Filter{Cluster: "c1"}) != 0 {
		t.Error("it is listed without tags")
	}
	if got := mustGet(t, cloud, one.Ref()); len(got.Tags) != 0 {
		t.Errorf("tags %v", got.Tags)
	}
	if call, err := cloud.Create(t.Context(), vm("one")); err != nil || call.Ref.ID != one.ID {
		t.Errorf("its key still leads to it: %+v, %v", call, err)
	}
	if err := cloud.SetTags(cluster.VM, "one", vm("one").Tags); err != nil {
		t.Fatal(err)
	}
	if list(cluster.Filter{}) != 1 || list(cluster.Filter{Cluster: "c1"}) != 1 {
		t.Error("it is not listed with its tags")
	}
}

func TestForeignVM(t *testing.T) {
	cloud := open(t, sim.Options{})
	resources := newClusterNetwork(t, cloud)
	alien, err := cloud.AddForeignVM("alien", resources["net"].ID)
	if err != nil {
		t.Fatal(err)
	}
	page, err := cloud.List(t.Context(), cluster.Filter{Network: resources["net"].ID}, "")
	if err != nil || len(page.Items) != 3 || !slices.Contains(ids(page.Items), alien.ID) {
		t.Errorf("%v, %v", page.Items, err)
	}
	for _, name := range []string{"one", "two"} {
		if _, err := cloud.Act(t.Context(), resources[name].Ref(), cluster.Destroy); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := cloud.Act(t.Context(), resources["net"].Ref(), cluster.Destroy); fault.Of(err) != cluster.ResourceInUse {
		t.Errorf("destroy of its network: %v", err)
	}
	if got := mustGet(t, cloud, alien.Ref()); got.Power != cluster.PoweredOn || len(got.Tags) != 0 {
		t.Errorf("%+v", got)
	}
	w := vm("alien") // a resource of somebody else with our name
	if _, err := cloud.Find(t.Context(), w); !errors.Is(err, cluster.ErrGone) {
		t.Errorf("find: %v", err)
	}
}

func TestDeleteNetwork(t *testing.T) {
	cloud := open(t, sim.Options{})
	resources := newClusterNetwork(t, cloud)
	if err := cloud.DeleteNetwork("net"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"net", "ip", "fw", "pf", "lb"} {
		isGone(t, cloud, resources[name])
	}
	if got := mustGet(t, cloud, resources["one"].Ref()); got.Power != cluster.PoweredOn {
		t.Errorf("its VM is %s", got.State)
	}
}

func TestChangeRule(t *testing.T) {
	cloud := open(t, sim.Options{})
	resources := newClusterNetwork(t, cloud)
	if err := cloud.ChangeRule(cluster.Firewall, "fw", func(s *cluster.Spec) { s.CIDRs, s.Port = []string{"10.0.0.0/8"}, 22 }); err != nil {
		t.Fatal(err)
	}
	got := mustGet(t, cloud, resources["fw"].Ref())
	if got.Spec.Port != 22 || !slices.Equal(got.Spec.CIDRs, []string{"10.0.0.0/8"}) || got.Spec.Address != resources["ip"].ID {
		t.Errorf("%+v", got.Spec)
	}
	if err := cloud.Delete(cluster.Forward, "pf"); err != nil {
		t.Fatal(err)
	}
	isGone(t, cloud, resources["pf"])
}

// Rules that lead to a VM do not outlive it.
func TestRulesOfADestroyedVM(t *testing.T) {
	cloud := open(t, sim.Options{})
	resources := newClusterNetwork(t, cloud)
	if err := cloud.DestroyVM("one"); err != nil {
		t.Fatal(err)
	}
	isGone(t, cloud, resources["pf"])
	if got := mustGet(t, cloud, resources["lb"].Ref()); !slices.Equal(got.Spec.VMs, []string{resources["two"].ID}) {
		t.Errorf("the balancer leads to %v", got.Spec.VMs)
	}
}
