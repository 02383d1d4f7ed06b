package cloudstack_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/provider/cloudstack/cloudstacktest"
	"github.com/pawl-dev/pawl/provider/sim"
)

// retryingClient works as the service does: it repeats a failed request under the same
// key, name and call id.
type retryingClient struct {
	t   *testing.T
	p   cluster.Provider
	log []string
}

const patience = 50

// retry repeats do until it succeeds.
func (u *retryingClient) retry(what string, do func(context.Context) error) error {
	var err error
	for range patience {
		if err = do(u.t.Context()); err == nil {
			return nil
		}
		u.log = append(u.log, what+": "+err.Error())
		if fault.Of(err) == fault.Unknown && !errors.Is(err, cluster.ErrGone) {
			return fmt.Errorf("%s: no declared fault: %w", what, err)
		}
	}
	return fmt.Errorf("%s, %d times: %w", what, patience, err)
}

func (u *retryingClient) follow(ctx context.Context, call cluster.Call) (cluster.Ref, error) {
	for range 1000 {
		progress, err := u.p.Poll(ctx, call)
		if err != nil {
			return cluster.Ref{}, err
		}
		if progress.Done {
			return progress.Ref, progress.Err
		}
		time.Sleep(200 * time.Microsecond)
	}
	return cluster.Ref{}, errors.New("the job does not end")
}

func (u *retryingClient) make(w cluster.DesiredResource) (got cluster.Resource, err error) {
	err = u.retry("create "+w.Name, func(ctx context.Context) error {
		call, err := u.p.Create(ctx, w)
		if err != nil {
			return err
		}
		ref, err := u.follow(ctx, call)
		if err != nil {
			return err
		}
		got, err = u.p.Get(ctx, ref)
		return err
	})
	return got, err
}

func (u *retryingClient) act(r cluster.Resource, a cluster.Action) error {
	return u.retry(string(a)+" "+r.Name, func(ctx context.Context) error {
		call, err := u.p.Act(ctx, r.Ref(), a)
		if err == nil {
			_, err = u.follow(ctx, call)
		}
		return err
	})
}

func want(k cluster.Kind, name string, spec cluster.Spec) cluster.DesiredResource {
	spec.Zone = "zone-1"
	return cluster.DesiredResource{
		Kind: k, Name: name, Key: "key/" + name, CallID: callID(name), Owner: owner, Spec: spec,
		Tags: map[string]string{cluster.TagInstallation: installation, cluster.TagCluster: "c1", cluster.TagKey: "key/" + name},
	}
}

// callID returns the same uuid for the same name.
func callID(name string) string {
	return fmt.Sprintf("%08x-0000-4000-8000-%012x", len(name), []byte((name + "------")[:6]))
}

// createCluster creates the resources of a cluster.
func (u *retryingClient) createCluster() (created []cluster.Resource, err error) {
	put := func(k cluster.Kind, name string, spec cluster.Spec) string {
		if err != nil {
			return ""
		}
		var r cluster.Resource
		if r, err = u.make(want(k, name, spec)); err == nil {
			created = append(created, r)
		}
		return r.ID
	}
	net := put(cluster.Network, "net", cluster.Spec{Offering: "isolated"})
	ip := put(cluster.Address, "ip", cluster.Spec{Network: net})
	vm := cluster.Spec{Network: net, Offering: "small", Template: "node-image", UserData: []byte("hello")}
	one, two := put(cluster.VM, "one", vm), put(cluster.VM, "two", vm)
	put(cluster.Firewall, "fw", cluster.Spec{Network: net, Address: ip, Port: 6443, CIDRs: []string{"192.0.2.0/24", "198.51.100.0/24"}})
	put(cluster.Forward, "pf", cluster.Spec{Network: net, Address: ip, Port: 6443, VM: one})
	put(cluster.Balancer, "lb", cluster.Spec{Network: net, Address: ip, Port: 443, VMs: []string{one, two}})
	return created, err
}

func (u *retryingClient) stopAndStart(vm cluster.Resource) error {
	for _, a := range []cluster.Action{cluster.Stop, cluster.Start} {
		if err := u.act(vm, a); err != nil {
			return err
		}
	}
	return nil
}

func (u *retryingClient) destroyCluster(created []cluster.Resource) error {
	for i := len(created) - 1; i >= 0; i-- {
		if err := u.act(created[i], cluster.Destroy); err != nil {
			return err
		}
		err := u.retry("proof of "+created[i].Name, func(ctx context.Context) error {
			got, err := u.p.Get(ctx, created[i].Ref())
			if errors.Is(err, cluster.ErrGone) {
				return nil
			}
			if err == nil {
				err = cluster.ResourceInUse.Errorf("it is there, %s", got.State)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// The ways in which a request can fail. after: it has taken effect.
var wireFaults = map[string]answer{
	"lost before":     {lost: true},
	"lost after":      {lost: true, after: true},
	"500 before":      {status: 500, body: "<html>"},
	"503 after":       {status: 503, after: true},
	"bad JSON after":  {status: 200, body: `{"x":`, after: true},
	"empty after":     {status: 200, body: `{}`, after: true},
	"401 before":      {status: 401, body: `{"errorresponse":{"errorcode":401,"errortext":"unable to verify user credentials"}}`},
	"429 before":      {status: 429, body: `{"errorresponse":{"errorcode":429}}`, header: http.Header{"Retry-After": {"0"}}},
	"530 before":      {status: 530, body: `{"errorresponse":{"errorcode":530}}`},
	"530 after":       {status: 530, body: `{"errorresponse":{"errorcode":530}}`, after: true},
	"delivered twice": {twice: true},
}

var others = slices.Sorted(maps.Keys(wireFaults))

// Each request of a cluster's lifecycle fails once, before or after its effect: each
// resource is created once, has its tags, and nothing remains at the end.
func TestEachRequestMayFail(t *testing.T) {
	for _, c := range []struct {
		name string
		o    sim.Options
		w    cloudstacktest.Options
		step int
	}{
		{"at once", sim.Options{}, cloudstacktest.Options{Enforce: true}, 1},
		{"jobs", sim.Options{Times: sim.Times{Create: time.Millisecond, Start: time.Millisecond, Stop: time.Millisecond, Destroy: time.Millisecond, Network: time.Millisecond, Rule: time.Millisecond}}, cloudstacktest.Options{}, 4},
		{"no customjobid", sim.Options{}, cloudstacktest.Options{NoCustomJobID: true}, 3},
	} {
		for _, series := range []string{"lost before", "lost after", "others in turn"} {
			t.Run(c.name+"/"+series, func(t *testing.T) {
				t.Parallel()
				for n := 1; ; n += c.step {
					trouble := series
					if series == "others in turn" {
						trouble = others[n%len(others)]
					}
					what := wireFaults[trouble]
					if what.twice && c.w.NoCustomJobID {
						continue // such a server creates two addresses, and no client can know it
					}
					r := newFixture(t, c.o, c.w)
					hit := ""
					r.intercept(func(command string, i int) answer {
						if i != n {
							return answer{}
						}
						hit = command
						return what
					})
					runLifecycle(t, r, fmt.Sprintf("%s, request %d", trouble, n), &hit)
					if hit == "" {
						if n < 50 {
							t.Errorf("the lifecycle of a cluster has only %d requests", n)
						}
						return
					}
				}
			})
		}
	}
}

// runLifecycle creates and destroys a cluster and checks that nothing remains.
func runLifecycle(t *testing.T, r *fixture, what string, hit *string) {
	t.Helper()
	u := &retryingClient{t: t, p: r.client()}
	fail := func(format string, args ...any) {
		t.Helper()
		t.Fatalf("%s (%s): %s\n%s", what, *hit, fmt.Sprintf(format, args...), strings.Join(u.log, "\n"))
	}
	created, err := u.createCluster()
	if err != nil {
		fail("%v", err)
	}
	vms := 0
	for _, m := range created {
		all, err := allButSourceNAT(t, r, m.Kind)
		if err != nil {
			fail("%v", err)
		}
		same := 0
		for _, x := range all {
			if x.Kind == cluster.VM {
				vms++
			}
			if x.ID != m.ID {
				continue
			}
			same++
			for key, value := range want(m.Kind, m.Name, cluster.Spec{}).Tags {
				if x.Tags[key] != value {
					fail("%s has tag %s %q, want %q", m.Name, key, x.Tags[key], value)
				}
			}
		}
		if same != 1 || m.Kind != cluster.VM && len(all) != 1 || m.Kind == cluster.VM && len(all) != 2 {
			fail("%d resources are named %s, %d of its kind", same, m.Name, len(all))
		}
		if m.Kind == cluster.Balancer && len(all[0].Spec.VMs) != 2 {
			fail("the balancer leads to %v", all[0].Spec.VMs)
		}
	}
	if err := u.stopAndStart(created[2]); err != nil {
		fail("%v", err)
	}
	if err := u.destroyCluster(created); err != nil {
		fail("%v", err)
	}
	for _, k := range r.client().Capabilities().Kinds {
		if all, err := allButSourceNAT(t, r, k); err != nil || len(all) > 0 {
			fail("%d %ss are left, %v", len(all), k, err)
		}
	}
}

// allButSourceNAT returns all resources of a kind in the cloud except source NAT
// addresses. The tests have no foreign resources.
func allButSourceNAT(t *testing.T, r *fixture, k cluster.Kind) (all []cluster.Resource, err error) {
	var shown []sim.View
	for range patience { // injected faults affect this read too
		if shown, _, err = r.cloud.As("").Select(t.Context(), sim.Query{Kind: k}); err == nil {
			break
		}
	}
	for _, x := range shown {
		if !x.SourceNAT {
			all = append(all, x.Resource)
		}
	}
	return all, err
}

// Injected faults of the cloud, repeatedly: each becomes a declared fault, and no resource
// is lost.
func TestScriptedFaults(t *testing.T) {
	for name, script := range map[string][]sim.Rule{
		"throttled":     {{P: 0.2, Times: 5, Do: sim.Throttle}},
		"unauthorized":  {{P: 0.2, Do: sim.Unauthorized}},
		"lost":          {{P: 0.2, Do: sim.Lost}},
		"timeouts":      {{P: 0.2, Do: sim.Timeout}},
		"failing jobs":  {{Call: sim.Create, Kind: cluster.VM, Nth: 1, Do: sim.FailJob, Err: cluster.CapacityExhausted.Errorf("full")}},
		"failing rules": {{Call: sim.Create, Kind: cluster.Firewall, Nth: 1, Do: sim.FailJob, Err: cluster.ProviderUnreachable.Errorf("router away")}},
		"twice":         {{Do: sim.Duplicate, Call: sim.Act}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newFixture(t, sim.Options{Script: script, Times: sim.Times{Create: time.Millisecond, Rule: time.Millisecond}}, cloudstacktest.Options{})
			hit := name
			runLifecycle(t, r, "script", &hit)
			if r.cloud.Fired("") == 0 {
				t.Error("the script never struck")
			}
		})
	}
}
