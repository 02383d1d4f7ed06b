package providertest

import (
	"errors"
	"slices"
	"testing"

	"github.com/pawl-dev/pawl/cluster"
)

func (r *fixture) needs() cluster.Need {
	return cluster.Need{Owner: r.Owner, Zone: r.Zone, Offering: r.Offering, Template: r.Template, Nodes: 1}
}

func noCapacity(t *testing.T, r *fixture) {
	if r.Full == nil {
		t.Skip("the capacity of this provider has no limit")
	}
	w := r.desired(cluster.VM)
	r.cleanUp(w)
	r.Full(t, true)
	_, err := r.create(w)
	findings, checkErr := r.p.Check(r.ctx(), r.needs())
	r.Full(t, false)
	r.checkFault("create without capacity", err, cluster.CapacityExhausted)
	if checkErr != nil || !slices.ContainsFunc(findings, func(f cluster.Finding) bool { return f.Code == cluster.CapacityExhausted.Code }) {
		t.Errorf("check without capacity: %+v, %v", findings, checkErr)
	}
	if _, err := r.create(w); err != nil {
		t.Errorf("the same resource, with capacity: %v", err)
	}
	r.exactlyOne(w)
}

func conflict(t *testing.T, r *fixture) {
	for _, k := range []cluster.Kind{cluster.Firewall, cluster.Forward, cluster.Balancer} {
		t.Run(string(k), func(t *testing.T) {
			r := newFixture(t, r.Setup)
			if !r.supports(k) {
				t.Skipf("this provider makes no %s", k)
			}
			w := r.desired(k)
			first := r.mustCreate(w)
			second := r.desired(cluster.KeyPair) // a fresh name and key
			second.Kind, second.Spec = k, w.Spec
			_, err := r.create(second)
			r.checkFault("a rule where there is one", err, cluster.RuleConflict)
			if got, err := r.p.Get(r.ctx(), first.Ref()); err != nil || got.Identity != first.Identity {
				t.Errorf("the first rule: %s, %v", show(got), err)
			}
		})
	}
}

func inUse(t *testing.T, r *fixture) {
	if !r.supports(cluster.Network) {
		t.Skip("this provider makes no networks")
	}
	vm := r.mustCreate(r.desired(cluster.VM))
	err := r.act(r.network.Ref(), cluster.Destroy)
	r.checkFault("destroy of a network with a VM", err, cluster.ResourceInUse)
	if _, err := r.p.Get(r.ctx(), vm.Ref()); err != nil {
		t.Errorf("the VM: %v", err)
	}
	r.mustAct(vm.Ref(), cluster.Destroy)
	r.mustBeGone(vm.Ref())
	r.mustAct(r.network.Ref(), cluster.Destroy)
	r.mustBeGone(r.network.Ref())
}

func check(t *testing.T, r *fixture) {
	findings, err := r.p.Check(r.ctx(), r.needs())
	if err != nil || len(findings) > 0 {
		t.Errorf("a plan that fits: %+v, %v", findings, err)
	}
	for name, change := range map[string]func(*cluster.Need){
		"zone":     func(n *cluster.Need) { n.Zone = "no-such-zone" },
		"offering": func(n *cluster.Need) { n.Offering = "no-such-offering" },
		"template": func(n *cluster.Need) { n.Template = "no-such-template" },
	} {
		n := r.needs()
		change(&n)
		findings, err := r.p.Check(r.ctx(), n)
		if err != nil || len(findings) == 0 {
			t.Errorf("an unknown %s: %+v, %v; want a finding", name, findings, err)
		}
		for _, f := range findings {
			if f.Type != cluster.PlanObstacle || f.Code == "" || f.Evidence == "" {
				t.Errorf("an unknown %s: the finding has no type, code or evidence: %+v", name, f)
			}
		}
	}
	if got := r.listOwn(cluster.VM); len(got) > 0 {
		t.Errorf("check has made %d VMs", len(got))
	}
}

func catalogue(t *testing.T, r *fixture) {
	for kind, id := range map[cluster.Kind]string{
		cluster.Zone: r.Zone, cluster.Offering: r.Offering, cluster.Template: r.Template, cluster.NetworkOffering: r.NetworkOffering,
	} {
		if id == "" {
			continue
		}
		entries, err := r.p.Catalog(r.ctx(), r.Owner, kind)
		if err != nil {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		at := slices.IndexFunc(entries, func(e cluster.Entry) bool { return e.ID == id })
		if at < 0 {
			t.Errorf("%s: %s is not in %+v", kind, id, entries)
			continue
		}
		if e := entries[at]; e.Kind != kind || e.Name == "" || e.Disabled {
			t.Errorf("%s: %+v", kind, e)
		}
		if e := entries[at]; kind == cluster.Offering && (e.Cores < 1 || e.MemoryMB < 1) {
			t.Errorf("the offering has no size: %+v", e)
		}
	}
	if r.supports(cluster.Network) {
		network := r.networkID()
		r.eventually("the catalogue of networks", func() error {
			entries, err := r.p.Catalog(r.ctx(), r.Owner, cluster.Network)
			if err != nil {
				return err
			}
			if !slices.ContainsFunc(entries, func(e cluster.Entry) bool { return e.ID == network && e.Name != "" }) {
				return errors.New("the owner's network is not in it")
			}
			return nil
		})
	}
	if r.supports(cluster.KeyPair) {
		pair := r.mustCreate(r.desired(cluster.KeyPair))
		r.eventually("the catalogue of key pairs", func() error {
			entries, err := r.p.Catalog(r.ctx(), r.Owner, cluster.KeyPair)
			if err != nil {
				return err
			}
			if !slices.ContainsFunc(entries, func(e cluster.Entry) bool { return e.Name == pair.Name }) {
				return errors.New("the owner's key pair is not in it")
			}
			return nil
		})
	}
}
