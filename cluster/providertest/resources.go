package providertest

import (
	"errors"
	"fmt"
	"testing"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/fault"
)

// eachKind runs a test for every kind that the provider creates.
func (r *fixture) eachKind(t *testing.T, test func(t *testing.T, r *fixture, k cluster.Kind)) {
	if len(r.caps.Kinds) == 0 || !r.supports(cluster.VM) {
		t.Fatalf("the provider makes %v, no VM", r.caps.Kinds)
	}
	for _, k := range r.caps.Kinds {
		t.Run(string(k), func(t *testing.T) {
			test(t, newFixture(t, r.Setup), k)
		})
	}
}

func readsAgree(t *testing.T, r *fixture) {
	r.eachKind(t, func(t *testing.T, r *fixture, k cluster.Kind) {
		w := r.desired(k)
		if _, err := r.p.Find(r.ctx(), w); !errors.Is(err, cluster.ErrGone) {
			t.Errorf("find before create: %v, want ErrGone", err)
		}
		got := r.mustCreate(w)
		if got.Kind != k || got.ID == "" || got.Identity == "" {
			t.Errorf("get returns no kind, id or identity: %s", show(got))
		}
		if got.Name != w.Name {
			t.Errorf("name %q, want %q", got.Name, w.Name)
		}
		r.checkTags(w, got)
		if got.Power != cluster.PoweredOn {
			t.Errorf("power of the new resource: %q", got.Power)
		}
		if k != cluster.KeyPair && got.Zone != r.Zone {
			t.Errorf("zone %q, want %q", got.Zone, r.Zone)
		}
		r.checkSame("get and find", got, r.mustFind(r.p, w))
		r.eventually("list of the cluster", func() error {
			listed, there := r.listOwn(k)[got.ID]
			if !there {
				return fmt.Errorf("%s is not in it", w.Name)
			}
			r.checkSame("get and list", got, listed)
			return nil
		})
		r.checkSpec(w, got)

		if got.SourceNAT {
			return // it is deleted with its network
		}
		r.mustAct(got.Ref(), cluster.Destroy)
		r.mustBeGone(got.Ref())
		r.eventually("find of the destroyed", func() error {
			if _, err := r.p.Find(r.ctx(), w); !errors.Is(err, cluster.ErrGone) {
				return fmt.Errorf("find: %w", errOr(err, "it is there"))
			}
			if _, there := r.listOwn(k)[got.ID]; there {
				return errors.New("it is listed")
			}
			return nil
		})
	})
}

func errOr(err error, text string) error {
	if err == nil {
		return errors.New(text)
	}
	return err
}

// checkSpec compares the fields that decide about a rule: if the provider shows
// them, they must be as requested.
func (r *fixture) checkSpec(w cluster.DesiredResource, got cluster.Resource) {
	r.t.Helper()
	a, b := w.Spec, got.Spec
	switch w.Kind {
	case cluster.Firewall, cluster.Forward, cluster.Balancer:
		if b.Port != a.Port || b.Address != a.Address {
			r.t.Errorf("the rule has port %d of %s, want %d of %s", b.Port, b.Address, a.Port, a.Address)
		}
		if w.Kind == cluster.Firewall && fmt.Sprint(b.CIDRs) != fmt.Sprint(a.CIDRs) {
			r.t.Errorf("the rule is open to %v, want %v", b.CIDRs, a.CIDRs)
		}
		if w.Kind == cluster.Forward && b.VM != a.VM {
			r.t.Errorf("the rule leads to %s, want %s", b.VM, a.VM)
		}
	case cluster.VM:
		if a.Network != "" && b.Network != a.Network {
			r.t.Errorf("the VM is in network %q, want %q", b.Network, a.Network)
		}
	case cluster.Address:
		if got.Address == "" {
			r.t.Error("the address has no IP")
		}
	}
}

func sameKey(t *testing.T, r *fixture) {
	r.eachKind(t, func(t *testing.T, r *fixture, k cluster.Kind) {
		w := r.desired(k)
		first := r.mustCreate(w)
		again, err := r.create(w)
		if err != nil {
			t.Fatalf("the same resource again: %v", err)
		}
		if again.ID != first.ID {
			t.Errorf("the same resource again gave %s, not %s", again.ID, first.ID)
		}
		w.CallID = uuid() // a caller that lost the answer may not know the old id
		other, err := r.create(w)
		if err != nil {
			t.Fatalf("the same key with another call id: %v", err)
		}
		if other.ID != first.ID {
			t.Errorf("the same key with another call id gave %s, not %s", other.ID, first.ID)
		}
		r.exactlyOne(w)
	})
}

// exactlyOne checks that the list has exactly one resource of this name.
func (r *fixture) exactlyOne(w cluster.DesiredResource) {
	r.t.Helper()
	r.eventually("list of the cluster", func() error {
		n := 0
		for _, got := range r.listOwn(w.Kind) {
			if got.Name == w.Name {
				n++
			}
		}
		if n != 1 {
			return fmt.Errorf("%d resources have the name %s", n, w.Name)
		}
		return nil
	})
}

func lostAnswer(t *testing.T, r *fixture) {
	if r.LoseAnswer == nil {
		t.Skip("this provider's answers cannot be lost on demand")
	}
	r.eachKind(t, func(t *testing.T, r *fixture, k cluster.Kind) {
		w := r.desired(k)
		r.cleanUp(w)
		r.LoseAnswer(t)
		_, err := r.p.Create(r.ctx(), w)
		r.checkFault("create without an answer", err, cluster.ProviderUnreachable)
		got := r.mustFind(r.p, w)
		if got.Name != w.Name {
			t.Errorf("found %s", show(got))
		}
		again, err := r.create(w)
		if err != nil {
			t.Fatalf("create again: %v", err)
		}
		if again.ID != got.ID {
			t.Errorf("create again gave %s, find gave %s", again.ID, got.ID)
		}
		r.exactlyOne(w)
	})
}

func startAndStopTwice(t *testing.T, r *fixture) {
	vm := r.mustCreate(r.desired(cluster.VM)).Ref()
	for _, step := range []struct {
		do   cluster.Action
		want cluster.Power
	}{
		{cluster.Start, cluster.PoweredOn}, {cluster.Stop, cluster.PoweredOff}, {cluster.Stop, cluster.PoweredOff}, {cluster.ForceStop, cluster.PoweredOff},
		{cluster.Start, cluster.PoweredOn}, {cluster.Start, cluster.PoweredOn}, {cluster.ForceStop, cluster.PoweredOff},
	} {
		r.mustAct(vm, step.do)
		r.eventually("power after "+string(step.do), func() error {
			got, err := r.p.Get(r.ctx(), vm)
			if err == nil && got.Power != step.want {
				err = fmt.Errorf("it is %s (%s), want %s", got.Power, got.State, step.want)
			}
			return err
		})
	}
}

func identity(t *testing.T, r *fixture) {
	w := r.desired(cluster.VM)
	vm := r.mustCreate(w)
	for _, do := range []cluster.Action{cluster.Stop, cluster.Start} {
		r.mustAct(vm.Ref(), do)
		got, err := r.p.Get(r.ctx(), vm.Ref())
		if err != nil || got.Identity != vm.Identity || got.ID != vm.ID {
			t.Errorf("after %s: %s, %v; it was %s", do, show(got), err, show(vm))
		}
	}
	other := r.mustCreate(r.desired(cluster.VM))
	if other.Identity == vm.Identity {
		t.Errorf("two VMs have the identity %s", vm.Identity)
	}
}

func destroyGone(t *testing.T, r *fixture) {
	r.eachKind(t, func(t *testing.T, r *fixture, k cluster.Kind) {
		got := r.mustCreate(r.desired(k))
		if got.SourceNAT {
			t.Skip("the address belongs to its network")
		}
		for range 3 {
			r.mustAct(got.Ref(), cluster.Destroy)
		}
		r.mustBeGone(got.Ref())
		r.mustAct(got.Ref(), cluster.Destroy)
		if k != cluster.VM {
			return
		}
		if err := r.act(got.Ref(), cluster.Start); !errors.Is(err, cluster.ErrGone) {
			t.Errorf("start of a gone VM: %v, want ErrGone", err)
		}
		if err := r.act(got.Ref(), cluster.Stop); err != nil && !errors.Is(err, cluster.ErrGone) {
			t.Errorf("stop of a gone VM: %v", err)
		}
	})
}

func errorsAreDistinct(t *testing.T, r *fixture) {
	w, lost := r.desired(cluster.VM), r.desired(cluster.VM)
	vm, gone := r.mustCreate(w).Ref(), r.mustCreate(lost).Ref()
	r.mustAct(gone, cluster.Destroy)
	r.mustBeGone(gone)

	t.Run("gone", func(t *testing.T) {
		if _, err := r.p.Get(r.ctx(), gone); !errors.Is(err, cluster.ErrGone) {
			t.Errorf("get of what is gone: %v", err)
		}
		if _, err := r.p.Find(r.ctx(), r.desired(cluster.VM)); !errors.Is(err, cluster.ErrGone) {
			t.Errorf("find of what never was: %v", err)
		}
		if _, err := r.p.Get(r.ctx(), vm); err != nil {
			t.Errorf("get of what is there: %v", err)
		}
	})
	part := func(name string, off func(*testing.T, bool), why string, kind *fault.Kind) {
		t.Run(name, func(t *testing.T) {
			if off == nil {
				t.Skip(why)
			}
			off(t, true)
			back := func() { off(t, false) }
			defer func() { back() }()
			network := r.network
			r := newFixture(t, r.Setup)
			r.network = network
			_, err := r.p.Get(r.ctx(), vm)
			r.checkFault("get", err, kind)
			_, err = r.p.Get(r.ctx(), gone)
			r.checkFault("get of what is gone", err, kind)
			_, err = r.p.Find(r.ctx(), w)
			r.checkFault("find", err, kind)
			_, err = r.p.Find(r.ctx(), lost)
			r.checkFault("find of what is gone", err, kind)
			_, err = r.p.List(r.ctx(), cluster.Filter{}, "")
			r.checkFault("list", err, kind)
			_, err = r.p.Act(r.ctx(), gone, cluster.Destroy)
			r.checkFault("destroy of what is gone", err, kind)
			_, err = r.p.Act(r.ctx(), vm, cluster.Destroy)
			r.checkFault("destroy", err, kind)
			_, err = r.p.Catalog(r.ctx(), r.Owner, cluster.Zone)
			r.checkFault("catalogue", err, kind)
			_, err = r.p.Check(r.ctx(), r.needs())
			r.checkFault("check", err, kind)
			refused := r.desired(cluster.VM)
			_, err = r.p.Create(r.ctx(), refused)
			r.checkFault("create", err, kind)
			off(t, false)
			back = func() {}
			if _, err := r.p.Get(r.ctx(), vm); err != nil {
				t.Errorf("get, after it: %v", err)
			}
			if got, err := r.p.Find(r.ctx(), refused); !errors.Is(err, cluster.ErrGone) {
				t.Errorf("what was refused was made: %s, %v", show(got), err)
			}
		})
	}
	part("forbidden", r.Refuse, "this provider has no credentials that could be refused", cluster.CredentialsRefused)
	part("unreachable", r.Unreachable, "this provider cannot be cut off", cluster.ProviderUnreachable)
}

func unchanged(t *testing.T, r *fixture) {
	w := r.desired(cluster.VM)
	w.Tags["test-note"] = `ünïcode, "quotes" & =signs; 100 % <ok> + more`
	if r.UserData == nil {
		for i := range 256 {
			w.Spec.UserData = append(w.Spec.UserData, byte(i))
		}
		w.Spec.UserData = append(w.Spec.UserData, "\r\n\x00 end without a line break"...)
	}
	sent := string(w.Spec.UserData)
	vm := r.mustCreate(w)
	r.checkTags(w, vm)
	r.checkTags(w, r.mustFind(r.p, w))
	r.eventually("list of the cluster", func() error {
		listed, there := r.listOwn(cluster.VM)[vm.ID]
		if !there {
			return errors.New("it is not listed")
		}
		r.checkTags(w, listed)
		return nil
	})
	if string(w.Spec.UserData) != sent {
		t.Error("the caller's user data was changed")
	}
	if data, ok := r.userDataOf(vm.Ref()); ok {
		equalBytes(t, "user data", data, w.Spec.UserData)
	} else {
		t.Log("this provider does not show user data")
	}
}

func tooMuchUserData(t *testing.T, r *fixture) {
	if r.caps.UserData == 0 {
		t.Skip("this provider knows no limit of user data")
	}
	w := r.desired(cluster.VM)
	w.Spec.UserData = make([]byte, r.caps.UserData+1)
	_, err := r.create(w)
	r.checkFault("create with a byte too much", err, cluster.ProviderRefused)
	if got, err := r.p.Find(r.ctx(), w); !errors.Is(err, cluster.ErrGone) {
		t.Errorf("it was made all the same: %s, %v", show(got), err)
	}
	if r.UserData != nil {
		t.Log("this provider's VMs do not start with any user data: the longest is not tried")
		return
	}
	w = r.desired(cluster.VM)
	w.Spec.UserData = make([]byte, r.caps.UserData)
	for i := range w.Spec.UserData {
		w.Spec.UserData[i] = byte(i * 7)
	}
	vm := r.mustCreate(w)
	if data, ok := r.userDataOf(vm.Ref()); ok {
		equalBytes(t, "the longest user data", data, w.Spec.UserData)
	}
}
