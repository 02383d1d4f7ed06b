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

func paging(t *testing.T, r *fixture) {
	steady := map[string]bool{}
	for range r.MaxVMs / 2 {
		steady[r.mustCreate(r.desired(cluster.VM)).ID] = true
	}
	r.eventually("list of what was made", func() error {
		seen := r.listOwn(cluster.VM)
		for id := range steady {
			if _, there := seen[id]; !there {
				return fmt.Errorf("%s is missing", id)
			}
		}
		return nil
	})

	// Meanwhile other VMs are created and destroyed, before and after every page.
	stop, done := make(chan struct{}), make(chan error, 1)
	wants := []cluster.DesiredResource{r.desired(cluster.VM), r.desired(cluster.VM)}
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
			if err := r.createAndDestroy(w); err != nil {
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

func (r *fixture) createAndDestroy(w cluster.DesiredResource) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.t.Context()), 4*r.SettleTimeout)
	defer cancel()
	call, err := r.p.Create(ctx, w)
	if err != nil {
		return fmt.Errorf("create %s: %w", w.Name, err)
	}
	ref, err := r.await(ctx, r.p, call)
	if err != nil {
		return fmt.Errorf("create %s: %w", w.Name, err)
	}
	if call, err = r.p.Act(ctx, ref, cluster.Destroy); err == nil {
		_, err = r.await(ctx, r.p, call)
	}
	if err != nil {
		return fmt.Errorf("destroy %s: %w", w.Name, err)
	}
	return nil
}

func filters(t *testing.T, r *fixture) {
	vm := r.mustCreate(r.desired(cluster.VM))
	other := newFixture(t, r.Setup)
	theirs := other.mustCreate(other.desired(cluster.VM))
	has := func(f cluster.Filter, id string) bool {
		for _, got := range r.list(f) {
			if got.ID == id {
				return true
			}
		}
		return false
	}
	r.eventually("both in the list of all", func() error {
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
	if r.supports(cluster.Network) {
		if f := (cluster.Filter{Network: r.networkID()}); !has(f, vm.ID) || has(f, theirs.ID) {
			t.Error("the list of a network is not what is in it")
		}
	}
}

func foreign(t *testing.T, r *fixture) {
	if r.CreateForeign == nil {
		t.Skip("nobody else can create resources at this provider")
	}
	network := r.networkID()
	foreignVM := r.CreateForeign(t, network)
	w := r.desired(cluster.VM)
	vm := r.mustCreate(w)

	lives := func() bool {
		if r.ForeignExists != nil {
			return r.ForeignExists(t, foreignVM)
		}
		_, err := r.p.Get(r.ctx(), foreignVM)
		return err == nil
	}
	for _, f := range []cluster.Filter{{}, {Cluster: r.cluster}} {
		for _, got := range r.list(f) {
			if got.ID == foreignVM.ID {
				t.Errorf("%+v lists the foreign VM as ours", f)
			}
		}
	}
	r.eventually("foreign VM in the list of all visible VMs", func() error {
		ours := false
		var theirs *cluster.Resource
		for _, got := range r.list(cluster.Filter{Zone: r.Zone, Foreign: true}) {
			ours = ours || got.ID == vm.ID
			if got.ID == foreignVM.ID {
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
	r.mustBeGone(vm.Ref())
	if network != "" {
		r.eventually("list of the network", func() error {
			for _, got := range r.list(cluster.Filter{Network: network}) {
				if got.ID != foreignVM.ID {
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
		r.checkFault("destroy of a network with a foreign VM", err, cluster.ResourceInUse)
	}
	if !lives() {
		t.Error("the foreign VM is gone or changed")
	}
}

func cancelled(t *testing.T, r *fixture) {
	for i := range r.MaxVMs / 2 {
		w := r.desired(cluster.VM)
		r.cleanUp(w)
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
			_, err = r.await(ctx, r.p, call)
		}
		if i == 0 && err == nil {
			t.Error("a call under an ended context succeeded")
		}
		if errors.Is(err, cluster.ErrGone) {
			t.Errorf("a cancelled create claims that the resource is gone: %v", err)
		}
		cancel()

		// Whatever the cancelled call did: the same desired resource leads to one
		// resource.
		ref, err := r.create(w)
		if err != nil {
			t.Fatalf("create after the cancelled one: %v", err)
		}
		if got := r.mustFind(r.p, w); got.ID != ref.ID {
			t.Errorf("found %s, created %s", got.ID, ref.ID)
		}
		r.exactlyOne(w)
	}
	for id, got := range r.listOwn(cluster.VM) {
		ctx, cancel := context.WithCancel(r.ctx())
		cancel()
		if _, err := r.p.Get(ctx, got.Ref()); err == nil || errors.Is(err, cluster.ErrGone) {
			t.Errorf("get of %s under an ended context: %v", id, err)
		}
	}
}

func parallel(t *testing.T, r *fixture) {
	wants := make([]cluster.DesiredResource, min(r.MaxVMs, 25))
	for i := range wants {
		wants[i] = r.desired(cluster.VM)
		r.cleanUp(wants[i])
	}
	ctx := r.ctx()
	ids := make([]string, 50)
	errs := make([]error, 50)
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			// Each resource is requested at least twice at the same time, between
			// reads.
			w := wants[i%len(wants)]
			call, err := r.p.Create(ctx, w)
			if err != nil {
				errs[i] = fmt.Errorf("create %s: %w", w.Name, err)
				return
			}
			ref, err := r.await(ctx, r.p, call)
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
	r.eventually("list of the cluster", func() error {
		if seen := r.listOwn(cluster.VM); len(seen) != len(wants) {
			return fmt.Errorf("it has %d VMs, want %d", len(seen), len(wants))
		}
		return nil
	})
}

func restarted(t *testing.T, r *fixture) {
	if r.Restart == nil {
		t.Skip("this provider's client has no life of its own")
	}
	w := r.desired(cluster.VM)
	r.cleanUp(w)
	call, err := r.p.Create(r.ctx(), w)
	if err != nil {
		t.Fatal(err)
	}
	second := r.Restart(t)
	ref := r.mustAwait(second, call)
	before, err := second.Get(r.ctx(), ref)
	if err != nil {
		t.Fatalf("get by the second client: %v", err)
	}
	stop, err := second.Act(r.ctx(), ref, cluster.Stop)
	if err != nil {
		t.Fatal(err)
	}
	third := r.Restart(t)
	r.mustAwait(third, stop)
	after := r.mustFind(third, w)
	r.checkSame("before and after", before, after)
	again, err := third.Create(r.ctx(), w)
	if err != nil {
		t.Fatalf("the same resource after the restart: %v", err)
	}
	if got := r.mustAwait(third, again); got.ID != ref.ID {
		t.Errorf("the third client made %s beside %s", got.ID, ref.ID)
	}
	r.p = third
	r.exactlyOne(w)
	r.mustAct(ref, cluster.Destroy)
	r.mustBeGone(ref)
}
