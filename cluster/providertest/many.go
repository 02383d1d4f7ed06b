package providertest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/cluster"
)

func paging(t *testing.T, r *rig) {
	steady := map[string]bool{}
	for range r.Many / 2 {
		steady[r.make(r.want(cluster.VM)).ID] = true
	}
	r.until("list of what was made", func() error {
		seen := r.mine(cluster.VM)
		for id := range steady {
			if _, there := seen[id]; !there {
				return fmt.Errorf("%s is missing", id)
			}
		}
		return nil
	})

	// Others come and go meanwhile, before and behind every page.
	stop, done := make(chan struct{}), make(chan error, 1)
	wants := []cluster.Want{r.want(cluster.VM), r.want(cluster.VM)}
	go func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			w := wants[i%len(wants)]
			w.Key, w.Name, w.CallID = fmt.Sprintf("%s/%d", w.Key, i), fmt.Sprintf("%s-%d", w.Name, i), uuid()
			w.Tags = map[string]string{cluster.TagInstallation: r.Installation, cluster.TagCluster: r.cluster, cluster.TagKey: w.Key}
			if err := r.comeAndGo(w); err != nil {
				done <- err
				return
			}
		}
	}()
	for pass := range 5 {
		for _, f := range []cluster.Filter{{Cluster: r.cluster, Size: 3}, {Size: 3}} {
			all, err := pages(r.ctx(), r.p, f)
			if err != nil {
				t.Errorf("pass %d: %v", pass, err)
				continue
			}
			seen := map[string]int{}
			for _, got := range all {
				seen[got.ID]++
			}
			for id := range steady {
				if seen[id] != 1 {
					t.Errorf("pass %d of %+v: %s, which was there all the time, is listed %d times", pass, f, id, seen[id])
				}
			}
		}
	}
	close(stop)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func (r *rig) comeAndGo(w cluster.Want) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.t.Context()), 4*r.Settle)
	defer cancel()
	call, err := r.p.Create(ctx, w)
	if err != nil {
		return fmt.Errorf("create %s: %w", w.Name, err)
	}
	ref, err := r.end(ctx, r.p, call)
	if err != nil {
		return fmt.Errorf("create %s: %w", w.Name, err)
	}
	if call, err = r.p.Act(ctx, ref, cluster.Destroy); err == nil {
		_, err = r.end(ctx, r.p, call)
	}
	if err != nil {
		return fmt.Errorf("destroy %s: %w", w.Name, err)
	}
	return nil
}

func filters(t *testing.T, r *rig) {
	vm := r.make(r.want(cluster.VM))
	other := newRig(t, r.Setup)
	theirs := other.make(other.want(cluster.VM))
	has := func(f cluster.Filter, id string) bool {
		for _, got := range r.list(f) {
			if got.ID == id {
				return true
			}
		}
		return false
	}
	r.until("both in the list of all", func() error {
		if !has(cluster.Filter{}, vm.ID) || !has(cluster.Filter{}, theirs.ID) {
			return errors.New("one is missing")
		}
		return nil
	})
	for name, c := range map[string]struct {
		f           cluster.Filter
		mine, their bool
	}{
		"kind":             {cluster.Filter{Kind: cluster.VM}, true, true},
		"zone":             {cluster.Filter{Zone: r.Zone}, true, true},
		"cluster":          {cluster.Filter{Cluster: r.cluster}, true, false},
		"zone and cluster": {cluster.Filter{Zone: r.Zone, Cluster: other.cluster}, false, true},
		"unknown cluster":  {cluster.Filter{Cluster: uuid()}, false, false},
	} {
		if got := has(c.f, vm.ID); got != c.mine {
			t.Errorf("%s: the VM is listed: %t", name, got)
		}
		if got := has(c.f, theirs.ID); got != c.their {
			t.Errorf("%s: the other cluster's VM is listed: %t", name, got)
		}
	}
	if r.makes(cluster.Network) {
		if f := (cluster.Filter{Network: r.net()}); !has(f, vm.ID) || has(f, theirs.ID) {
			t.Error("the list of a network is not what is in it")
		}
	}
}

func foreign(t *testing.T, r *rig) {
	if r.Foreign == nil {
		t.Skip("nobody else can make things at this provider")
	}
	network := r.net()
	alien := r.Foreign(t, network)
	w := r.want(cluster.VM)
	vm := r.make(w)

	lives := func() bool {
		if r.ForeignLives != nil {
			return r.ForeignLives(t, alien)
		}
		_, err := r.p.Get(r.ctx(), alien)
		return err == nil
	}
	for _, f := range []cluster.Filter{{}, {Cluster: r.cluster}} {
		for _, got := range r.list(f) {
			if got.ID == alien.ID {
				t.Errorf("%+v lists the foreign VM as ours", f)
			}
		}
	}
	r.until("foreign VM in the list of all that is to be seen", func() error {
		ours := false
		var theirs *cluster.Resource
		for _, got := range r.list(cluster.Filter{Zone: r.Zone, Foreign: true}) {
			ours = ours || got.ID == vm.ID
			if got.ID == alien.ID {
				theirs = &got
			}
		}
		switch {
		case theirs == nil || !ours:
			return fmt.Errorf("the foreign VM is listed: %t, ours: %t", theirs != nil, ours)
		case theirs.Tags[cluster.TagInstallation] == r.Installation || theirs.Spec.Network != network:
			t.Errorf("it is in network %q, listed as %s", network, show(*theirs))
		}
		return nil
	})
	r.mustAct(vm.Ref(), cluster.Destroy)
	r.gone(vm.Ref())
	if network != "" {
		r.until("list of the network", func() error {
			for _, got := range r.list(cluster.Filter{Network: network}) {
				if got.ID != alien.ID {
					continue
				}
				if got.Tags[cluster.TagInstallation] == r.Installation {
					t.Errorf("it carries our tag: %s", show(got))
				}
				return nil
			}
			return errors.New("the foreign VM is not in it")
		})
		err := r.act(r.network.Ref(), cluster.Destroy)
		r.fails("destroy of a network with a foreign VM", err, cluster.ResourceInUse)
	}
	if !lives() {
		t.Error("the foreign VM is gone or changed")
	}
}

func cancelled(t *testing.T, r *rig) {
	for i := range r.Many / 2 {
		w := r.want(cluster.VM)
		r.clean(w)
		ctx, cancel := context.WithCancel(r.ctx())
		switch {
		case i == 0:
			cancel()
		default:
			wait := time.Duration(rand.Int64N(int64(4 * r.Poll)))
			time.AfterFunc(wait, cancel)
		}
		call, err := r.p.Create(ctx, w)
		if err == nil {
			_, err = r.end(ctx, r.p, call)
		}
		if i == 0 && err == nil {
			t.Error("a call under an ended context succeeded")
		}
		if errors.Is(err, cluster.ErrGone) {
			t.Errorf("a cancelled create claims that the thing is gone: %v", err)
		}
		cancel()

		// Whatever became of it: the same want leads to one thing.
		ref, err := r.create(w)
		if err != nil {
			t.Fatalf("create after the cancelled one: %v", err)
		}
		if got := r.found(r.p, w); got.ID != ref.ID {
			t.Errorf("found %s, created %s", got.ID, ref.ID)
		}
		r.one(w)
	}
	for id, got := range r.mine(cluster.VM) {
		ctx, cancel := context.WithCancel(r.ctx())
		cancel()
		if _, err := r.p.Get(ctx, got.Ref()); err == nil || errors.Is(err, cluster.ErrGone) {
			t.Errorf("get of %s under an ended context: %v", id, err)
		}
	}
}

func parallel(t *testing.T, r *rig) {
	wants := make([]cluster.Want, min(r.Many, 25))
	for i := range wants {
		wants[i] = r.want(cluster.VM)
		r.clean(wants[i])
	}
	ctx := r.ctx()
	ids := make([]string, 50)
	errs := make([]error, 50)
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			// Each want is asked for at least twice at once, between reads.
			w := wants[i%len(wants)]
			call, err := r.p.Create(ctx, w)
			if err != nil {
				errs[i] = fmt.Errorf("create %s: %w", w.Name, err)
				return
			}
			ref, err := r.end(ctx, r.p, call)
			if err != nil {
				errs[i] = fmt.Errorf("create %s: %w", w.Name, err)
				return
			}
			ids[i] = ref.ID
			if _, err := r.p.Get(ctx, ref); err != nil {
				errs[i] = fmt.Errorf("get %s: %w", w.Name, err)
				return
			}
			if _, err := r.p.List(ctx, cluster.Filter{Cluster: r.cluster, Size: 5}, ""); err != nil {
				errs[i] = fmt.Errorf("list: %w", err)
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	for i, id := range ids {
		if id != ids[i%len(wants)] {
			t.Errorf("%s was made as %s and as %s", wants[i%len(wants)].Name, id, ids[i%len(wants)])
		}
	}
	r.until("list of the cluster", func() error {
		if seen := r.mine(cluster.VM); len(seen) != len(wants) {
			return fmt.Errorf("it has %d VMs, want %d", len(seen), len(wants))
		}
		return nil
	})
}

func restarted(t *testing.T, r *rig) {
	if r.Restart == nil {
		t.Skip("this provider's client has no life of its own")
	}
	w := r.want(cluster.VM)
	r.clean(w)
	call, err := r.p.Create(r.ctx(), w)
	if err != nil {
		t.Fatal(err)
	}
	second := r.Restart(t)
	ref := r.follow(second, call)
	before, err := second.Get(r.ctx(), ref)
	if err != nil {
		t.Fatalf("get by the second client: %v", err)
	}
	stop, err := second.Act(r.ctx(), ref, cluster.Stop)
	if err != nil {
		t.Fatal(err)
	}
	third := r.Restart(t)
	r.follow(third, stop)
	after := r.found(third, w)
	r.same("before and after", before, after)
	again, err := third.Create(r.ctx(), w)
	if err != nil {
		t.Fatalf("the same want after the restart: %v", err)
	}
	if got := r.follow(third, again); got.ID != ref.ID {
		t.Errorf("the third client made %s beside %s", got.ID, ref.ID)
	}
	r.p = third
	r.one(w)
	r.mustAct(ref, cluster.Destroy)
	r.gone(ref)
}
