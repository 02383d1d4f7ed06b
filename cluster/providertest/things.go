package providertest

import (
	"errors"
	"fmt"
	"testing"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/fault"
)

// each asks a question for every kind that the provider makes.
func (r *rig) each(t *testing.T, ask func(t *testing.T, r *rig, k cluster.Kind)) {
	if len(r.caps.Kinds) == 0 || !r.makes(cluster.VM) {
		t.Fatalf("the provider makes %v, no VM", r.caps.Kinds)
	}
	for _, k := range r.caps.Kinds {
		t.Run(string(k), func(t *testing.T) {
			ask(t, newRig(t, r.Setup), k)
		})
	}
}

func agree(t *testing.T, r *rig) {
	r.each(t, func(t *testing.T, r *rig, k cluster.Kind) {
		w := r.want(k)
		if _, err := r.p.Find(r.ctx(), w); !errors.Is(err, cluster.ErrGone) {
			t.Errorf("find before create: %v, want ErrGone", err)
		}
		got := r.make(w)
		if got.Kind != k || got.ID == "" || got.Identity == "" {
			t.Errorf("get lacks kind, id or identity: %s", show(got))
		}
		if got.Name != w.Name {
			t.Errorf("name %q, want %q", got.Name, w.Name)
		}
		r.carries(w, got)
		if got.Power != cluster.Up {
			t.Errorf("power of the new thing: %q", got.Power)
		}
		if k != cluster.KeyPair && got.Zone != r.Zone {
			t.Errorf("zone %q, want %q", got.Zone, r.Zone)
		}
		r.same("get and find", got, r.found(r.p, w))
		r.until("list of the cluster", func() error {
			listed, there := r.mine(k)[got.ID]
			if !there {
				return fmt.Errorf("%s is not in it", w.Name)
			}
			r.same("get and list", got, listed)
			return nil
		})
		r.spec(w, got)

		if got.SourceNAT {
			return // it goes with its network
		}
		r.mustAct(got.Ref(), cluster.Destroy)
		r.gone(got.Ref())
		r.until("find of the destroyed", func() error {
			if _, err := r.p.Find(r.ctx(), w); !errors.Is(err, cluster.ErrGone) {
				return fmt.Errorf("find: %w", errOr(err, "it is there"))
			}
			if _, there := r.mine(k)[got.ID]; there {
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

// spec compares what rules are judged by: where the provider shows it, it must be what was asked for.
func (r *rig) spec(w cluster.Want, got cluster.Resource) {
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

func sameKey(t *testing.T, r *rig) {
	r.each(t, func(t *testing.T, r *rig, k cluster.Kind) {
		w := r.want(k)
		first := r.make(w)
		again, err := r.create(w)
		if err != nil {
			t.Fatalf("the same want again: %v", err)
		}
		if again.ID != first.ID {
			t.Errorf("the same want again gave %s, not %s", again.ID, first.ID)
		}
		w.CallID = uuid() // a caller whose answer was lost may not know the old one
		other, err := r.create(w)
		if err != nil {
			t.Fatalf("the same key with another call id: %v", err)
		}
		if other.ID != first.ID {
			t.Errorf("the same key with another call id gave %s, not %s", other.ID, first.ID)
		}
		r.one(w)
	})
}

// one sees exactly one thing of the want's name in the list.
func (r *rig) one(w cluster.Want) {
	r.t.Helper()
	r.until("list of the cluster", func() error {
		n := 0
		for _, got := range r.mine(w.Kind) {
			if got.Name == w.Name {
				n++
			}
		}
		if n != 1 {
			return fmt.Errorf("%d things of the name %s", n, w.Name)
		}
		return nil
	})
}

func lostAnswer(t *testing.T, r *rig) {
	if r.LoseAnswer == nil {
		t.Skip("this provider's answers cannot be lost on demand")
	}
	r.each(t, func(t *testing.T, r *rig, k cluster.Kind) {
		w := r.want(k)
		r.clean(w)
		r.LoseAnswer(t)
		_, err := r.p.Create(r.ctx(), w)
		r.fails("create without an answer", err, cluster.ProviderUnreachable)
		got := r.found(r.p, w)
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
		r.one(w)
	})
}

func twice(t *testing.T, r *rig) {
	vm := r.make(r.want(cluster.VM)).Ref()
	for _, step := range []struct {
		do   cluster.Action
		want cluster.Power
	}{
		{cluster.Start, cluster.Up}, {cluster.Stop, cluster.Down}, {cluster.Stop, cluster.Down}, {cluster.ForceStop, cluster.Down},
		{cluster.Start, cluster.Up}, {cluster.Start, cluster.Up}, {cluster.ForceStop, cluster.Down},
	} {
		r.mustAct(vm, step.do)
		r.until("power after "+string(step.do), func() error {
			got, err := r.p.Get(r.ctx(), vm)
			if err == nil && got.Power != step.want {
				err = fmt.Errorf("it is %s (%s), want %s", got.Power, got.State, step.want)
			}
			return err
		})
	}
}

func identity(t *testing.T, r *rig) {
	w := r.want(cluster.VM)
	vm := r.make(w)
	for _, do := range []cluster.Action{cluster.Stop, cluster.Start} {
		r.mustAct(vm.Ref(), do)
		got, err := r.p.Get(r.ctx(), vm.Ref())
		if err != nil || got.Identity != vm.Identity || got.ID != vm.ID {
			t.Errorf("after %s: %s, %v; it was %s", do, show(got), err, show(vm))
		}
	}
	other := r.make(r.want(cluster.VM))
	if other.Identity == vm.Identity {
		t.Errorf("two VMs have the identity %s", vm.Identity)
	}
}

func destroyGone(t *testing.T, r *rig) {
	r.each(t, func(t *testing.T, r *rig, k cluster.Kind) {
		got := r.make(r.want(k))
		if got.SourceNAT {
			t.Skip("the address belongs to its network")
		}
		for range 3 {
			r.mustAct(got.Ref(), cluster.Destroy)
		}
		r.gone(got.Ref())
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

func toldApart(t *testing.T, r *rig) {
	w, lost := r.want(cluster.VM), r.want(cluster.VM)
	vm, gone := r.make(w).Ref(), r.make(lost).Ref()
	r.mustAct(gone, cluster.Destroy)
	r.gone(gone)

	t.Run("gone", func(t *testing.T) {
		if _, err := r.p.Get(r.ctx(), gone); !errors.Is(err, cluster.ErrGone) {
			t.Errorf("get of what is gone: %v", err)
		}
		if _, err := r.p.Find(r.ctx(), r.want(cluster.VM)); !errors.Is(err, cluster.ErrGone) {
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
			r := newRig(t, r.Setup)
			r.network = network
			_, err := r.p.Get(r.ctx(), vm)
			r.fails("get", err, kind)
			_, err = r.p.Get(r.ctx(), gone)
			r.fails("get of what is gone", err, kind)
			_, err = r.p.Find(r.ctx(), w)
			r.fails("find", err, kind)
			_, err = r.p.Find(r.ctx(), lost)
			r.fails("find of what is gone", err, kind)
			_, err = r.p.List(r.ctx(), cluster.Filter{}, "")
			r.fails("list", err, kind)
			_, err = r.p.Act(r.ctx(), gone, cluster.Destroy)
			r.fails("destroy of what is gone", err, kind)
			_, err = r.p.Act(r.ctx(), vm, cluster.Destroy)
			r.fails("destroy", err, kind)
			_, err = r.p.Catalog(r.ctx(), r.Owner, cluster.Zone)
			r.fails("catalogue", err, kind)
			_, err = r.p.Check(r.ctx(), r.need())
			r.fails("check", err, kind)
			refused := r.want(cluster.VM)
			_, err = r.p.Create(r.ctx(), refused)
			r.fails("create", err, kind)
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

func unchanged(t *testing.T, r *rig) {
	w := r.want(cluster.VM)
	w.Tags["exam-note"] = `ünïcode, "quotes" & =signs; 100 % <ok> + more`
	if r.UserData == nil {
		for i := range 256 {
			w.Spec.UserData = append(w.Spec.UserData, byte(i))
		}
		w.Spec.UserData = append(w.Spec.UserData, "\r\n\x00 end without a line break"...)
	}
	sent := string(w.Spec.UserData)
	vm := r.make(w)
	r.carries(w, vm)
	r.carries(w, r.found(r.p, w))
	r.until("list of the cluster", func() error {
		listed, there := r.mine(cluster.VM)[vm.ID]
		if !there {
			return errors.New("it is not listed")
		}
		r.carries(w, listed)
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

func tooMuch(t *testing.T, r *rig) {
	if r.caps.UserData == 0 {
		t.Skip("this provider knows no limit of user data")
	}
	w := r.want(cluster.VM)
	w.Spec.UserData = make([]byte, r.caps.UserData+1)
	_, err := r.create(w)
	r.fails("create with a byte too much", err, cluster.ProviderRefused)
	if got, err := r.p.Find(r.ctx(), w); !errors.Is(err, cluster.ErrGone) {
		t.Errorf("it was made all the same: %s, %v", show(got), err)
	}
	if r.UserData != nil {
		t.Log("this provider's VMs do not start with any user data: the longest is not tried")
		return
	}
	w = r.want(cluster.VM)
	w.Spec.UserData = make([]byte, r.caps.UserData)
	for i := range w.Spec.UserData {
		w.Spec.UserData[i] = byte(i * 7)
	}
	vm := r.make(w)
	if data, ok := r.userDataOf(vm.Ref()); ok {
		equalBytes(t, "the longest user data", data, w.Spec.UserData)
	}
}
