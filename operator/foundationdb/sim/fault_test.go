package sim_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/fdb"
	fdbsim "github.com/pawl-dev/pawl/fdb/sim"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb/port"
	"github.com/pawl-dev/pawl/operator/foundationdb/sim"
)

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

// TestFaults: each fault hits what it says, and nothing else, and it can be seen that it has.
func TestFaults(t *testing.T) {
	for kind, fires := range map[sim.FaultKind]func(*fixture, func(sim.Fault) *sim.Fault) error{
		sim.FaultConflict: func(f *fixture, inject func(sim.Fault) *sim.Fault) error {
			fault1 := inject(sim.Fault{Verb: "SaveStatus", Times: 1})
			c := lookup(f, &v1beta2.FoundationDBCluster{}, "sample")
			if err := f.Objects().SaveStatus(f.t.Context(), c); fault.Of(err) != fault.WriteConflict {
				return fmt.Errorf("the first status: %w", err)
			}
			if fault1.Fired() != 1 {
				return errors.New("it has not fired")
			}
			return f.Objects().SaveStatus(f.t.Context(), c)
		},
		sim.FaultUnavailable: func(f *fixture, inject func(sim.Fault) *sim.Fault) error {
			inject(sim.Fault{Verb: "Create", Name: "before", Before: true, Times: 1})
			inject(sim.Fault{Verb: "Create", Name: "after", Times: 1})
			for _, name := range []string{"before", "after"} {
				if err := f.Objects().Create(f.t.Context(), configMap(name)); fault.Of(err) != fault.APIUnavailable {
					return fmt.Errorf("%s: %w", name, err)
				}
			}
			if lookup(f, configMap(""), "before") != nil || lookup(f, configMap(""), "after") == nil {
				return errors.New("a call is done that was lost before, or not done that was lost after")
			}
			return f.Objects().Create(f.t.Context(), configMap("before"))
		},
		sim.FaultRefused: func(f *fixture, inject func(sim.Fault) *sim.Fault) error {
			inject(sim.Fault{Object: "ConfigMap", For: time.Minute})
			if err := f.Objects().Create(f.t.Context(), configMap("m")); err == nil || fault.Of(err) == fault.APIUnavailable {
				return fmt.Errorf("a refused create: %w", err)
			}
			f.Advance(time.Minute)
			return f.Objects().Create(f.t.Context(), configMap("m"))
		},
		sim.FaultQuota: func(f *fixture, inject func(sim.Fault) *sim.Fault) error {
			quota := inject(sim.Fault{})
			refused := 0
			for n := range 6 {
				if f.Objects().Create(f.t.Context(), f.pod(fdb.ClassStateless, fmt.Sprintf("stateless-%d", 100+n))) != nil {
					refused++
				}
			}
			if refused != 3 || quota.Fired() != 3 {
				return fmt.Errorf("of 6 pods %d are refused", refused)
			}
			return f.Objects().Create(f.t.Context(), configMap("m"))
		},
		sim.FaultStaleList: func(f *fixture, inject func(sim.Fault) *sim.Fault) error {
			inject(sim.Fault{Object: "ConfigMap", Lag: 5 * time.Second})
			f.must(f.Objects().Create(f.t.Context(), configMap("m")))
			f.must(f.Objects().Delete(f.t.Context(), lookup(f, configMap(""), "sample-config")))
			names := func() (names []string) {
				var list corev1.ConfigMapList
				f.must(f.Objects().List(f.t.Context(), &list, namespace, nil))
				for _, m := range list.Items {
					names = append(names, m.Name)
				}
				return names
			}
			if got := names(); !slices.Equal(got, []string{"sample-config"}) {
				return fmt.Errorf("the late list is %v", got)
			}
			f.Advance(5 * time.Second)
			if got := names(); !slices.Equal(got, []string{"m"}) {
				return fmt.Errorf("the list is %v", got)
			}
			return nil
		},
		sim.FaultClaimUnbound: func(f *fixture, inject func(sim.Fault) *sim.Fault) error {
			inject(sim.Fault{Name: "sample-storage-6-data", For: time.Minute})
			f.add(fdb.ClassStorage, 6)
			f.Advance(50 * time.Second)
			if p := f.get("sample-storage-6"); p.Status.Phase != corev1.PodPending || p.Spec.NodeName == "" {
				return fmt.Errorf("the pod is %s", p.Status.Phase)
			}
			f.Advance(20 * time.Second)
			if p := f.get("sample-storage-6"); !ready(p) {
				return fmt.Errorf("the pod is %s after the fault", p.Status.Phase)
			}
			return nil
		},
		sim.FaultClaimStuck: func(f *fixture, inject func(sim.Fault) *sim.Fault) error {
			inject(sim.Fault{})
			f.DeletePod(namespace, "sample-storage-5")
			f.must(f.Objects().Delete(f.t.Context(), lookup(f, &corev1.PersistentVolumeClaim{}, "sample-storage-5-data")))
			f.Advance(time.Minute)
			if c := lookup(f, &corev1.PersistentVolumeClaim{}, "sample-storage-5-data"); c == nil || c.DeletionTimestamp == nil {
				return fmt.Errorf("the claim is %v", c)
			}
			f.Clear(sim.FaultClaimStuck)
			if lookup(f, &corev1.PersistentVolumeClaim{}, "sample-storage-5-data") != nil {
				return errors.New("the claim stays after the fault")
			}
			return nil
		},
		sim.FaultEventLost: func(f *fixture, inject func(sim.Fault) *sim.Fault) error {
			inject(sim.Fault{Times: 1})
			f.Objects().Tell(f.cluster, port.Event{Reason: "One"})
			f.Objects().Tell(f.cluster, port.Event{Reason: "Two", Warning: true})
			want := sim.Event{At: f.Now(), Owner: sim.Operator, Kind: "FoundationDBCluster", Namespace: namespace, Name: "sample", Event: port.Event{Reason: "Two", Warning: true}}
			if got := f.Events(); !slices.Equal(got, []sim.Event{want}) {
				return fmt.Errorf("the events are %v", got)
			}
			return nil
		},
		sim.FaultSidecarSilent: func(f *fixture, inject func(sim.Fault) *sim.Fault) error {
			inject(sim.Fault{Name: "sample-log-1", Verb: "Hash"})
			if _, err := f.Sidecars().Hash(f.t.Context(), f.get("sample-log-1"), "fdb.cluster"); err == nil {
				return errors.New("a silent sidecar answers")
			}
			_, err := f.Sidecars().Hash(f.t.Context(), f.get("sample-log-2"), "fdb.cluster")
			return err
		},
	} {
		t.Run(string(kind), func(t *testing.T) {
			f := newFixture(t, sim.Options{Seed: 1}, v1beta2.ImageTypeSplit)
			f.create(5, 3, 4)
			var injected []*sim.Fault
			err := fires(f, func(fault sim.Fault) *sim.Fault {
				fault.Kind = kind
				injected = append(injected, f.Inject(fault))
				return injected[len(injected)-1]
			})
			if err != nil {
				t.Error(err)
			}
			for _, fault := range injected {
				if fault.Fired() == 0 {
					t.Errorf("the fault %+v was not seen to fire", fault)
				}
			}
		})
	}
}

// TestDatabaseFaults: those of the database reach the port.
func TestDatabaseFaults(t *testing.T) {
	f := unified(t)
	f.Cluster().Inject(fdbsim.Fault{Kind: fdbsim.FaultStatusLate, Takes: time.Minute, For: 2 * time.Minute})
	at := f.Now()
	if s, err := f.Database().Status(t.Context(), f.at(), port.Short); fault.Of(err) != port.DatabaseSilent {
		t.Errorf("a late status is %v, %v", s, err)
	}
	if took := f.Now().Sub(at); took < fdb.CallTimeout || took > 2*fdb.CallTimeout {
		t.Errorf("it has taken %s", took)
	}
	f.Cluster().Clear("")
	f.Cluster().Inject(fdbsim.Fault{Kind: fdbsim.FaultReplyLost, Command: "exclude"})
	call := fdb.Exclude([]string{"locality_instance_id:stateless-4"}, true)
	if a := f.Database().Run(t.Context(), f.at(), call); a.Outcome != fdb.Unknown || len(f.Cluster().Exclusions()) != 1 {
		t.Errorf("a lost reply is %s, and excluded is %v", a.Result, f.Cluster().Exclusions())
	}
	f.Cluster().Inject(fdbsim.Fault{Kind: fdbsim.FaultCommitUnknown})
	result := f.Database().Transact(t.Context(), f.at(), nil, func(fdb.Values) ([]fdb.Write, error) { return []fdb.Write{fdb.Set("\xff\x02/x", nil)}, nil })
	if result.Outcome != fdb.Unknown {
		t.Errorf("an unknown commit is %s", result)
	}
}

// TestDeath: an instance that dies at an effect has done it or not, and does nothing more until it is started again.
func TestDeath(t *testing.T) {
	for _, after := range []bool{false, true} {
		for n := 1; n <= 4; n++ {
			f := unified(t)
			ctx := t.Context()
			m := lookup(f, configMap(""), "sample-config")
			at := f.at()
			f.DieAt(n, after)
			effects := f.Effects()
			steps := []func() bool{
				func() bool { return f.Objects().Create(ctx, configMap("m")) == nil },
				func() bool { return f.Objects().Patch(ctx, m, []byte(`{"data":{"x":"y"}}`)) == nil },
				func() bool {
					return f.Database().Run(ctx, at, fdb.Exclude([]string{"locality_instance_id:stateless-4"}, true)).Outcome == fdb.Ok
				},
				func() bool { return f.Objects().Delete(ctx, f.cluster) == nil },
			}
			var done []bool
			for _, step := range steps {
				done = append(done, step())
			}
			for i, ok := range done {
				if ok != (i+1 < n) {
					t.Errorf("death %v effect %d: step %d has answered %v", after, n, i+1, ok)
				}
			}
			if f.Effects() != effects+n || !f.Dead(sim.Operator) {
				t.Errorf("death %v effect %d: %d effects, dead: %v", after, n, f.Effects()-effects, f.Dead(sim.Operator))
			}
			if _, err := f.Database().Status(ctx, at, port.Short); err == nil {
				t.Error("a dead instance reads a status")
			}
			f.Revive(sim.Operator)
			seen := []bool{
				lookup(f, configMap(""), "m") != nil, lookup(f, configMap(""), "sample-config").Data["x"] == "y",
				len(f.Cluster().Exclusions()) == 1, lookup(f, &v1beta2.FoundationDBCluster{}, "sample") == nil,
			}
			for i, happened := range seen {
				if happened != (i+1 < n || after && i+1 == n) {
					t.Errorf("death %v effect %d: effect %d has happened: %v", after, n, i+1, happened)
				}
			}
		}
	}
}

// TestHooks: they see each effect of an instance, and none of a person; what they panic with comes out, and the world
// goes on.
func TestHooks(t *testing.T) {
	f := newFixture(t, sim.Options{Seed: 1}, v1beta2.ImageTypeUnified)
	var seen []string
	f.Before(func(e sim.Effect) error { seen = append(seen, "before "+e.String()); return nil })
	f.After(func(e sim.Effect) error { seen = append(seen, "after "+e.String()); return nil })
	f.must(f.Objects().Create(t.Context(), configMap("m")))
	f.must(f.As("").Objects.Create(t.Context(), configMap("person")))
	lookup(f, configMap(""), "m")
	if want := []string{"before Create ConfigMap demo/m", "after Create ConfigMap demo/m"}; !slices.Equal(seen, want) {
		t.Errorf("the hooks have seen %q", seen)
	}
	f.Unhook()
	f.Before(func(sim.Effect) error { panic("dead") })
	func() {
		defer func() {
			if r := recover(); r != "dead" {
				t.Errorf("the hook's panic is %v", r)
			}
		}()
		_ = f.Objects().Delete(t.Context(), lookup(f, configMap(""), "m"))
	}()
	f.Unhook()
	if lookup(f, configMap(""), "m") == nil {
		t.Error("the effect has happened though the program died before it")
	}
	f.Before(func(sim.Effect) error { return errors.New("no") })
	if err := f.Objects().Create(t.Context(), configMap("n")); err == nil || err.Error() != "no" {
		t.Errorf("the hook's error is %v", err)
	}
}

// TestCalls: calls are counted by verb and kind.
func TestCalls(t *testing.T) {
	f := newFixture(t, sim.Options{Seed: 1}, v1beta2.ImageTypeUnified)
	f.ResetCalls()
	f.must(f.Objects().Create(t.Context(), configMap("m")))
	f.must(f.Objects().Patch(t.Context(), configMap("m"), []byte(`{}`)))
	lookup(f, configMap(""), "m")
	f.must(f.Objects().List(t.Context(), &corev1.PodList{}, namespace, nil))
	f.must(f.As("").Objects.Create(t.Context(), configMap("person")))
	calls := f.Calls()
	for call, want := range map[sim.Call]int{{Verb: "Create", Kind: "ConfigMap"}: 1, {Verb: "Patch", Kind: "ConfigMap"}: 1, {Verb: "Get", Kind: "ConfigMap"}: 1, {Verb: "List", Kind: "Pod"}: 1} {
		if calls[call] != want {
			t.Errorf("%+v: %d, want %d", call, calls[call], want)
		}
	}
	if len(calls) != 4 || f.Writes() != 2 {
		t.Errorf("the calls are %v, %d writes", calls, f.Writes())
	}
}
