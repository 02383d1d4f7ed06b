package sim_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/provider/sim"
)

// Each effect: the result of the call, and its actual effect.
func TestEffects(t *testing.T) {
	full := cluster.CapacityExhausted.Errorf("no host")
	for name, c := range map[string]struct {
		rule    sim.Rule
		code    *fault.Kind // of the call
		job     *fault.Kind // of its job
		created bool
	}{
		"refused before":      {sim.Rule{Do: sim.Fail, Err: full}, cluster.CapacityExhausted, nil, false},
		"refused, by default": {sim.Rule{Do: sim.Fail}, cluster.ProviderRefused, nil, false},
		"an error after":      {sim.Rule{Do: sim.Fail, Err: full, When: sim.After}, cluster.CapacityExhausted, nil, true},
		"timeout before":      {sim.Rule{Do: sim.Timeout}, cluster.ProviderUnreachable, nil, false},
		"timeout after":       {sim.Rule{Do: sim.Timeout, When: sim.After}, cluster.ProviderUnreachable, nil, true},
		"lost answer":         {sim.Rule{Do: sim.Lost}, cluster.ProviderUnreachable, nil, true},
		"throttle":            {sim.Rule{Do: sim.Throttle}, cluster.ProviderThrottled, nil, false},
		"401":                 {sim.Rule{Do: sim.Unauthorized}, cluster.CredentialsRefused, nil, false},
		"duplicate":           {sim.Rule{Do: sim.Duplicate}, nil, nil, true},
		"failing job":         {sim.Rule{Do: sim.FailJob, Err: full}, nil, cluster.CapacityExhausted, true},
	} {
		t.Run(name, func(t *testing.T) {
			cloud := open(t, sim.Options{})
			c.rule.Call = sim.Create
			cloud.Inject(c.rule)
			call, err := cloud.Create(t.Context(), vm("one"))
			if fault.Of(err) != c.code {
				t.Errorf("got %v, want %v", err, c.code)
			}
			if err != nil && call != (cluster.Call{}) {
				t.Errorf("an answer came beside the error: %+v", call)
			}
			r, created := cloud.Lookup(cluster.VM, "one")
			if created != c.created {
				t.Errorf("created: %t", created)
			}
			if c.job != nil {
				p, err := cloud.Poll(t.Context(), call)
				if err != nil || !p.Done || fault.Of(p.Err) != c.job {
					t.Errorf("the job: %+v, %v", p, err)
				}
				if r.Power != cluster.PowerBroken {
					t.Errorf("what a failed create leaves is %s", r.State)
				}
			}
			if n := len(cloud.All(cluster.VM)); n > 1 {
				t.Errorf("%d VMs", n)
			}
			log := cloud.Calls()
			if len(log) == 0 || log[0].Fault == "" || cloud.Fired("") != 1 {
				t.Errorf("the log does not name the rule: %+v", log)
			}
			if c.code != nil && log[0].Code != c.code.Code {
				t.Errorf("logged as %s", log[0].Code)
			}
		})
	}
}

func TestStuckJob(t *testing.T) {
	at := newClock()
	cloud := open(t, sim.Options{Now: at.now, Times: sim.Times{Create: time.Minute, Stop: time.Minute}})
	cloud.Inject(sim.Rule{Call: sim.Create, Name: "one", Do: sim.Stuck})
	one, err := cloud.Create(t.Context(), vm("one"))
	if err != nil {
		t.Fatal(err)
	}
	two, err := cloud.Create(t.Context(), vm("two"))
	if err != nil {
		t.Fatal(err)
	}
	at.at = at.at.Add(time.Hour)
	done := func(c cluster.Call) bool {
		p, err := cloud.Poll(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		return p.Done
	}
	if done(one) || !done(two) {
		t.Errorf("after an hour: stuck job done %t, the other %t", done(one), done(two))
	}
	if r, _ := cloud.Lookup(cluster.VM, "one"); r.Power != cluster.PoweringOn {
		t.Errorf("its VM is %s", r.State)
	}
	if _, err := cloud.Act(t.Context(), one.Ref, cluster.Stop); fault.Of(err) != cluster.ResourceInUse {
		t.Errorf("stop of a VM that starts: %v", err)
	}
	cloud.Unstick()
	if r, _ := cloud.Lookup(cluster.VM, "one"); !done(one) || r.Power != cluster.PoweredOn {
		t.Errorf("after Unstick: %s", r.State)
	}
}

// A destroy replaces the current job.
func TestDestroyOfStuck(t *testing.T) {
	cloud := open(t, sim.Options{})
	cloud.Inject(sim.Rule{Call: sim.Create, Do: sim.Stuck})
	created, err := cloud.Create(t.Context(), vm("one"))
	if err != nil {
		t.Fatal(err)
	}
	if call, err := cloud.Act(t.Context(), created.Ref, cluster.Destroy); err != nil || !call.Done {
		t.Fatalf("%+v, %v", call, err)
	}
	if _, err := cloud.Get(t.Context(), created.Ref); !errors.Is(err, cluster.ErrGone) {
		t.Error(err)
	}
	cloud.Unstick()
	if p, err := cloud.Poll(t.Context(), created); err != nil || !p.Done || p.Err == nil {
		t.Errorf("the job of what is gone: %+v, %v", p, err)
	}
}

func TestRuleMatches(t *testing.T) {
	for name, c := range map[string]struct {
		rule sim.Rule
		want []int // the failing calls
	}{
		"all":             {sim.Rule{}, []int{0, 1, 2, 3, 4, 5, 6}},
		"call":            {sim.Rule{Call: sim.Create}, []int{0, 1, 2}},
		"kind":            {sim.Rule{Kind: cluster.Network}, []int{2}},
		"name":            {sim.Rule{Name: "one"}, []int{0, 3, 4}},
		"pattern":         {sim.Rule{Name: "*o*", Call: sim.Create}, []int{0, 1}},
		"action":          {sim.Rule{Action: cluster.Start}, []int{4}},
		"nth":             {sim.Rule{Call: sim.Create, Nth: 2}, []int{1}},
		"times":           {sim.Rule{Times: 2}, []int{0, 1}},
		"list":            {sim.Rule{Call: sim.List}, []int{5}},
		"catalogue":       {sim.Rule{Call: sim.Catalog, Kind: cluster.Zone}, []int{6}},
		"nothing matches": {sim.Rule{Call: sim.Check}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			cloud := open(t, sim.Options{})
			c.rule.Do = sim.Throttle
			ref := cluster.Ref{Kind: cluster.VM, ID: "id", Name: "one"}
			cloud.Inject(c.rule)
			var failed []int
			for i, call := range []func() error{
				func() error { _, err := cloud.Create(t.Context(), vm("one")); return err },
				func() error { _, err := cloud.Create(t.Context(), vm("two")); return err },
				func() error {
					_, err := cloud.Create(t.Context(), want(cluster.Network, "net", cluster.Spec{Zone: "zone-1", Offering: "isolated"}))
					return err
				},
				func() error { _, err := cloud.Get(t.Context(), ref); return err },
				func() error { _, err := cloud.Act(t.Context(), ref, cluster.Start); return err },
				func() error { _, err := cloud.List(t.Context(), cluster.Filter{}, ""); return err },
				func() error { _, err := cloud.Catalog(t.Context(), owner, cluster.Zone); return err },
			} {
				if fault.Of(call()) == cluster.ProviderThrottled {
					failed = append(failed, i)
				}
			}
			if !slices.Equal(failed, c.want) {
				t.Errorf("calls %v failed, want %v", failed, c.want)
			}
		})
	}
}

// A rule with a probability depends on the seed and the call, not on the order.
func TestProbability(t *testing.T) {
	struck := func(seed uint64, backwards bool) map[string]bool {
		cloud := open(t, sim.Options{Seed: seed, Script: []sim.Rule{{Call: sim.Create, P: 0.3, Do: sim.Throttle}}})
		names := make([]string, 200)
		for i := range names {
			names[i] = fmt.Sprintf("vm-%d", i)
		}
		if backwards {
			slices.Reverse(names)
		}
		all := map[string]bool{}
		for _, name := range names {
			_, err := cloud.Create(t.Context(), vm(name))
			all[name] = err != nil
		}
		return all
	}
	count := func(all map[string]bool) (n int) {
		for _, yes := range all {
			if yes {
				n++
			}
		}
		return n
	}
	one, again, other := struck(1, false), struck(1, true), struck(2, false)
	if n := count(one); n < 30 || n > 90 {
		t.Errorf("%d of 200 at 0.3", n)
	}
	differ := 0
	for name := range one {
		if one[name] != again[name] {
			t.Errorf("%s: backwards it is another", name)
		}
		if one[name] != other[name] {
			differ++
		}
	}
	if differ == 0 {
		t.Error("another seed strikes the same")
	}
}

// Latency and delays take virtual time in a bubble, and end with the context.
func TestSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := open(t, sim.Options{Latency: 2 * time.Second})
		cloud.Inject(sim.Rule{Call: sim.Get, Do: sim.Slow, Delay: 3 * time.Second})
		began := time.Now()
		created := mustMake(t, cloud, vm("one"))
		if took := time.Since(began); took != 7*time.Second {
			t.Errorf("create and get took %s", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		began = time.Now()
		call, err := cloud.Act(ctx, created.Ref(), cluster.Stop)
		if fault.Of(err) != cluster.ProviderUnreachable || !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 1500*time.Millisecond {
			t.Errorf("%+v, %v after %s", call, err, time.Since(began))
		}
		if r, _ := cloud.Lookup(cluster.VM, "one"); r.Power != cluster.PoweredOff {
			t.Error("the call was accepted before its caller went away")
		}
		ctx, cancel = context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		if _, err := cloud.Act(ctx, created.Ref(), cluster.Start); err == nil {
			t.Error("it succeeded")
		}
		if r, _ := cloud.Lookup(cluster.VM, "one"); r.Power != cluster.PoweredOff {
			t.Error("a call whose caller went away before it was accepted had an effect")
		}
	})
}

// Around is called twice per call; its error simulates a crash before or after the effect.
func TestAround(t *testing.T) {
	killed := errors.New("killed")
	var seen []string
	var kill string
	cloud := open(t, sim.Options{Around: func(call sim.Entry, when sim.When) error {
		text := fmt.Sprintf("%s %s", when, call)
		seen = append(seen, text)
		if text == kill {
			return killed
		}
		if kill == "panic" {
			panic("killed")
		}
		return nil
	}})
	for _, c := range []struct {
		kill    string
		created bool
	}{{"before create vm one", false}, {"after create vm one", true}} {
		kill = c.kill
		if _, err := cloud.Create(t.Context(), vm("one")); !errors.Is(err, killed) {
			t.Errorf("%s: %v", c.kill, err)
		}
		if _, created := cloud.Lookup(cluster.VM, "one"); created != c.created {
			t.Errorf("%s: created %t", c.kill, created)
		}
	}
	if want := []string{"before create vm one", "before create vm one", "after create vm one"}; !slices.Equal(seen, want) {
		t.Errorf("seen %q", seen)
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		kill = "panic"
		cloud.Create(t.Context(), vm("two"))
	}()
	kill = ""
	mustMake(t, cloud, vm("two")) // nothing is locked
}
