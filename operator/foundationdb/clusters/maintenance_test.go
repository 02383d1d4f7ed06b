package clusters_test

import (
	"testing"
	"time"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb/sim"
)

// maintained is one object whose pods are made anew under maintenance.
func maintained(t *testing.T) (*fleet, *unit) {
	t.Helper()
	f := newFleet(t, shared(12, 3))
	c := &v1beta2.FoundationDBCluster{}
	c.Namespace, c.Name = namespace, "main"
	c.Spec.Version = "7.3.69"
	c.Spec.ProcessGroupIDPrefix = "main"
	c.Spec.LockOptions.DisableLocks = new(false)
	c.Spec.AutomationOptions.MaintenanceModeOptions.UseMaintenanceModeChecker = new(true)
	c.Spec.AutomationOptions.MaintenanceModeOptions.ResetMaintenanceMode = new(true)
	u := f.add(c)
	f.settle(time.Hour)
	f.writes()
	return f, u
}

// enter writes an entry of the maintenance list.
func (f *fleet) enter(group string, at time.Time) {
	f.t.Helper()
	f.set(fdb.Set(fdb.Keys("").Maintenance(group), fdb.EncodeMaintenance(at)))
}

// TestMaintenance: storage pods are made anew zone by zone, each zone under maintenance, once.
func TestMaintenance(t *testing.T) {
	t.Parallel()
	f, u := maintained(t)
	var begun []string
	deleted := map[string]int{}
	f.Before(func(e sim.Effect) error {
		switch {
		case e.Verb == "Run" && e.Call.Command == fdb.CommandMaintenanceOn:
			begun = append(begun, e.Call.Zone)
		case e.Verb == "Delete" && e.Kind == "Pod":
			deleted[e.Name]++
			zone := u.status().Cluster.MaintenanceZone
			for _, g := range u.object().Status.ProcessGroups {
				if "main-"+string(g.ProcessGroupID)[len("main-"):] == e.Name && zone != g.FaultDomain {
					f.fail("%s in zone %s is deleted while %q is under maintenance", e.Name, g.FaultDomain, zone)
				}
			}
		}
		return nil
	})
	since := len(f.acts)
	f.costs("pods made anew", 0, 4*time.Hour, func() {
		u.edit(`{"spec":{"processes":{"storage":{"podTemplate":{"spec":{"terminationGracePeriodSeconds":60}}}}}}`)
	})
	for name, n := range deleted {
		if n != 1 {
			f.fail("%s was deleted %d times", name, n)
		}
	}
	if off := f.commands(fdb.CommandMaintenanceOff, since); len(deleted) != 3 || len(begun) != 3 || off != 3 {
		f.fail("%d pods deleted, maintenance of %v, ended %d times", len(deleted), begun, off)
	}
	if zone := u.status().Cluster.MaintenanceZone; zone != "" {
		f.fail("%s is still under maintenance", zone)
	}
	f.tidy()
	f.kept()
}

// TestMaintenanceOfAnother: the maintenance of a zone by another operator is waited for as long as its entries say,
// and ended when they are finished or stale.
func TestMaintenanceOfAnother(t *testing.T) {
	t.Parallel()
	f, u := maintained(t)
	on := fdb.MaintenanceOn("node-9", 6*time.Hour)
	on.Timeout = fdb.CallTimeout
	v, err := fdb.ParseVersion("7.3.69")
	if err != nil {
		t.Fatal(err)
	}
	f.Cluster().Call(on, v, f.Cluster().Connection())
	f.enter("other-storage-1", f.Now()) // it does not report, and is not ours
	f.enter("main-storage-99999", f.Now())
	began := f.Now()
	f.goOn(3 * time.Hour)
	if zone := u.status().Cluster.MaintenanceZone; zone != "node-9" || u.last.Reason() != "MaintenanceWaits" {
		f.fail("zone %q, %s", zone, u.last)
	}
	f.until("the maintenance has ended", 2*time.Hour, func() bool { return u.status().Cluster.MaintenanceZone == "" })
	if took := f.Now().Sub(began); took < 4*time.Hour {
		f.fail("ended after %s", took)
	}
	f.settle(time.Hour)
	f.settled()
	f.tidy()
	f.kept()
}

// TestMaintenanceOfSeveral: operators of several objects take turns, one zone under maintenance at a time.
func TestMaintenanceOfSeveral(t *testing.T) {
	t.Parallel()
	f := kubernetesClusters(t, shared(24, 3), func(c *v1beta2.FoundationDBCluster) {
		c.Spec.AutomationOptions.MaintenanceModeOptions.UseMaintenanceModeChecker = new(true)
		c.Spec.AutomationOptions.MaintenanceModeOptions.ResetMaintenanceMode = new(true)
	})
	var zones []string
	f.Before(func(e sim.Effect) error {
		if e.Verb != "Run" || e.Call.Command != fdb.CommandMaintenanceOn {
			return nil
		}
		if zone := f.units[0].status().Cluster.MaintenanceZone; zone != "" {
			f.fail("%s begins with %s while %s is under maintenance", e.Owner, e.Call.Zone, zone)
		}
		zones = append(zones, e.Call.Zone)
		return nil
	})
	f.costs("pods made anew", 0, 4*time.Hour, func() {
		f.edit(`{"spec":{"processes":{"storage":{"podTemplate":{"spec":{"terminationGracePeriodSeconds":60}}}}}}`)
	})
	if len(zones) != 3 {
		f.fail("maintenance of %v", zones)
	}
	f.tidy()
	f.kept()
}
