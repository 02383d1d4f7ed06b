package application

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/rollout"
)

func part(kind, name, image string, replicas int) api.ApplicationComponent {
	text, err := json.Marshal(map[string]any{"replicas": replicas, "template": map[string]any{"image": image}})
	if err != nil {
		panic(err)
	}
	return api.ApplicationComponent{Name: name, Workload: api.ApplicationWorkload{APIVersion: "apps/v1", Kind: kind, Spec: runtime.RawExtension{Raw: text}}}
}

func db(image string, replicas int) api.ApplicationComponent {
	return part("StatefulSet", "db", image, replicas)
}

func web(image string, replicas int) api.ApplicationComponent {
	return part("Deployment", "web", image, replicas)
}

// revisions makes revisions of the Application shop as the controller does. Each is reached.
func revisions(t *testing.T, all ...[]api.ApplicationComponent) (made []api.ApplicationRevision) {
	t.Helper()
	a := &api.Application{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	for _, components := range all {
		a.Spec.Components = components
		r, err := next(a, made)
		if err != nil || r == nil {
			t.Fatalf("revision %d: %v, %v", len(made)+1, r, err)
		}
		made = append(made, *r)
		a.Status.ReachedRevision = r.Name
	}
	return made
}

func parts(all ...api.ApplicationComponent) []api.ApplicationComponent { return all }

func TestJudge(t *testing.T) {
	plan := &api.RolloutPlan{}
	five := &api.RolloutPlan{TargetSize: new(int32(5))}
	ended := func(component, target, source string, size *int32, succeeded bool) *driven {
		return &driven{Component: component, Target: target, Source: source, Size: size, Ended: true, Succeeded: succeeded}
	}
	moving := func(component, target, source string, size *int32) *driven {
		return &driven{Component: component, Target: target, Source: source, Size: size}
	}
	scale := func(target string, size int32) movement {
		return movement{Component: "db", Target: target, Size: &size}
	}
	roll := func(target, source string) movement {
		return movement{Component: "db", Rolls: true, Target: target, Source: source}
	}
	done := movement{Component: "db", Done: true}
	scaled := func(target string, size int32) movement {
		m := scale(target, size)
		m.Done = true
		return m
	}
	r1, r2, r3 := parts(db("r1", 3)), parts(db("r2", 3)), parts(db("r3", 3))
	for _, test := range []struct {
		name      string
		revisions [][]api.ApplicationComponent
		s         situation
		want      movement
	}{
		{"the first is a scale", [][]api.ApplicationComponent{r1}, situation{Plan: plan}, scale("shop-v1", 3)},
		{"absent replicas are 1", [][]api.ApplicationComponent{{{Name: "db", Workload: api.ApplicationWorkload{Kind: "StatefulSet", Spec: runtime.RawExtension{Raw: []byte(`{}`)}}}}}, situation{Plan: plan}, scale("shop-v1", 1)},
		{"the size of the plan wins", [][]api.ApplicationComponent{r1}, situation{Plan: five}, scale("shop-v1", 5)},
		{"the scale is under way", [][]api.ApplicationComponent{r1}, situation{Plan: plan, Rollout: moving("db", "shop-v1", "", new(int32(3)))}, scale("shop-v1", 3)},
		{"the scale has succeeded", [][]api.ApplicationComponent{r1}, situation{Plan: plan, Rollout: ended("db", "shop-v1", "", new(int32(3)), true)}, scaled("shop-v1", 3)},
		{"the scale has failed", [][]api.ApplicationComponent{r1}, situation{Plan: plan, Rollout: ended("db", "shop-v1", "", new(int32(3)), false)}, scale("shop-v1", 3)},
		{"none was reached: again a scale", [][]api.ApplicationComponent{r1, r2}, situation{Plan: plan, Rollout: moving("db", "shop-v1", "", new(int32(3)))}, scale("shop-v2", 3)},
		{"a template is rolled", [][]api.ApplicationComponent{r1, r2}, situation{Plan: plan, Reached: "shop-v1"}, roll("shop-v2", "shop-v1")},
		{"it is under way", [][]api.ApplicationComponent{r1, r2}, situation{Plan: plan, Reached: "shop-v1", Rollout: moving("db", "shop-v2", "shop-v1", nil)}, roll("shop-v2", "shop-v1")},
		{"it has succeeded", [][]api.ApplicationComponent{r1, r2}, situation{Plan: plan, Reached: "shop-v1", Rollout: ended("db", "shop-v2", "shop-v1", nil, true)}, done},
		{"it has failed", [][]api.ApplicationComponent{r1, r2}, situation{Plan: plan, Reached: "shop-v1", Rollout: ended("db", "shop-v2", "shop-v1", nil, false)}, roll("shop-v2", "shop-v1")},
		{"the source is the previous one, reached or not", [][]api.ApplicationComponent{r1, r2, r3}, situation{Plan: plan, Reached: "shop-v1", Rollout: moving("db", "shop-v2", "shop-v1", nil)}, roll("shop-v3", "shop-v2")},
		{"only the size is a scale", [][]api.ApplicationComponent{r1, parts(db("r1", 4))}, situation{Plan: plan, Reached: "shop-v1"}, scale("shop-v2", 4)},
		{"another size while a scale is under way", [][]api.ApplicationComponent{r1, parts(db("r1", 4)), parts(db("r1", 5))}, situation{Plan: plan, Reached: "shop-v1", Rollout: moving("db", "shop-v2", "", new(int32(4)))}, scale("shop-v3", 5)},
		{"both: first the template", [][]api.ApplicationComponent{r1, parts(db("r2", 4))}, situation{Plan: plan, Reached: "shop-v1"}, roll("shop-v2", "shop-v1")},
		{"both: then the size", [][]api.ApplicationComponent{r1, parts(db("r2", 4))}, situation{Plan: plan, Reached: "shop-v1", Rollout: ended("db", "shop-v2", "shop-v1", nil, true)}, scale("shop-v2", 4)},
		{"both: the scale is under way", [][]api.ApplicationComponent{r1, parts(db("r2", 4))}, situation{Plan: plan, Reached: "shop-v1", Rollout: moving("db", "shop-v2", "", new(int32(4)))}, scale("shop-v2", 4)},
		{"nothing changed for the pods", [][]api.ApplicationComponent{r1}, situation{Plan: plan, Reached: "shop-v1"}, done},
		{"the size of the plan was edited", [][]api.ApplicationComponent{r1}, situation{Plan: five, Reached: "shop-v1", Sizes: map[string]int32{"db": 3}, Rollout: ended("db", "shop-v1", "", new(int32(3)), true)}, scale("shop-v1", 5)},
		{"the size of the plan was reached", [][]api.ApplicationComponent{r1}, situation{Plan: five, Reached: "shop-v1", Sizes: map[string]int32{"db": 5}}, done},
		{"taken back while it rolls", [][]api.ApplicationComponent{r1, r2, r1}, situation{Plan: plan, Reached: "shop-v1", Rollout: moving("db", "shop-v2", "shop-v1", nil)}, roll("shop-v3", "shop-v2")},
		{"taken back, and gone back", [][]api.ApplicationComponent{r1, r2, r1}, situation{Plan: plan, Reached: "shop-v1", Rollout: &driven{Component: "db", Target: "shop-v2", Source: "shop-v1", Ended: true, RolledBackTo: "shop-v1"}}, done},
		{"gone back to something else", [][]api.ApplicationComponent{r1, r2, r3, r1}, situation{Plan: plan, Reached: "shop-v1", Rollout: &driven{Component: "db", Target: "shop-v3", Source: "shop-v2", Ended: true, RolledBackTo: "shop-v2"}}, roll("shop-v4", "shop-v3")},
		{"abandoned half way, and taken back", [][]api.ApplicationComponent{r1, r2, r1}, situation{Plan: plan, Reached: "shop-v1", Rollout: ended("db", "shop-v2", "shop-v1", nil, false)}, roll("shop-v3", "shop-v2")},
		{"rolled but not scaled, and taken back", [][]api.ApplicationComponent{r1, parts(db("r2", 4)), r1}, situation{Plan: plan, Reached: "shop-v1", Rollout: moving("db", "shop-v2", "", new(int32(4)))}, roll("shop-v3", "shop-v2")},
		{"the only one that changed", [][]api.ApplicationComponent{parts(db("r1", 3), web("r1", 1)), parts(db("r2", 3), web("r1", 1))}, situation{Plan: plan, Reached: "shop-v1"}, roll("shop-v2", "shop-v1")},
		{"none of two has changed", [][]api.ApplicationComponent{parts(db("r1", 3), web("r1", 1))}, situation{Plan: plan, Reached: "shop-v1"}, movement{Done: true}},
		{"the named one", [][]api.ApplicationComponent{parts(db("r1", 3), web("r1", 1)), parts(db("r2", 3), web("r2", 1))}, situation{Plan: plan, Named: "db", Reached: "shop-v1"}, roll("shop-v2", "shop-v1")},
		{"another one waits", [][]api.ApplicationComponent{parts(db("r1", 3), web("r1", 1)), parts(db("r2", 3), web("r1", 1))}, situation{Plan: plan, Named: "web", Reached: "shop-v1", Rollout: moving("db", "shop-v2", "shop-v1", nil)}, movement{Component: "web", Busy: "db"}},
		{"one of two is taken back", [][]api.ApplicationComponent{parts(db("r1", 3), web("r1", 1)), parts(db("r2", 3), web("r1", 1)), parts(db("r1", 3), web("r1", 1))}, situation{Plan: plan, Reached: "shop-v1", Rollout: moving("db", "shop-v2", "shop-v1", nil)}, roll("shop-v3", "shop-v2")},
	} {
		test.s.Revisions = revisions(t, test.revisions...)
		got, err := judge(test.s)
		if err != nil || !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %+v, %v\nexpected %+v", test.name, got, err, test.want)
		}
	}
}

func TestAmbiguous(t *testing.T) {
	all := revisions(t, parts(db("r1", 3), web("r1", 1)), parts(db("r2", 3), web("r2", 1)))
	for _, s := range []situation{{Revisions: all[:1]}, {Revisions: all, Reached: "shop-v1"}, {Revisions: all, Named: "none"}} {
		if m, err := judge(s); !invalid(err) {
			t.Errorf("%+v, %v", m, err)
		}
	}
}

func TestReachedBy(t *testing.T) {
	all := revisions(t, parts(db("r1", 3)), parts(db("r2", 3)), parts(db("r3", 4)), parts(db("r4", 3)))
	for _, test := range []struct {
		name    string
		reached string
		r       *driven
		want    string
		sizes   map[string]int32
	}{
		{"there is no Rollout", "", nil, "", nil},
		{"it is under way", "shop-v1", &driven{Component: "db", Target: "shop-v2", Source: "shop-v1"}, "", nil},
		{"it has failed", "shop-v1", &driven{Component: "db", Target: "shop-v2", Source: "shop-v1", Ended: true}, "", nil},
		{"a rollout that was overtaken", "shop-v1", &driven{Component: "db", Target: "shop-v2", Source: "shop-v1", Ended: true, Succeeded: true}, "shop-v2", nil},
		{"its scale did not come", "shop-v2", &driven{Component: "db", Target: "shop-v3", Source: "shop-v2", Ended: true, Succeeded: true}, "", nil},
		{"its scale came", "shop-v2", &driven{Component: "db", Target: "shop-v3", Size: new(int32(4)), Ended: true, Succeeded: true}, "shop-v3", map[string]int32{"db": 4}},
		{"an older one", "shop-v3", &driven{Component: "db", Target: "shop-v2", Source: "shop-v1", Ended: true, Succeeded: true}, "", nil},
	} {
		s := situation{Revisions: all, Reached: test.reached, Sizes: map[string]int32{"db": 3}, Rollout: test.r}
		if got, sizes := s.reachedBy(); got != test.want || !maps.Equal(sizes, test.sizes) {
			t.Errorf("%s: %q, %v, expected %q, %v", test.name, got, sizes, test.want, test.sizes)
		}
	}
}

func TestTreatment(t *testing.T) {
	rolls, scales := movement{Component: "db", Rolls: true}, movement{Component: "db"}
	for _, test := range []struct {
		m              movement
		component      string
		planned, named bool
		want           treatment
	}{
		{movement{}, "db", false, false, atOnce},
		{rolls, "db", true, false, created},
		{scales, "db", true, false, keepSize},
		{rolls, "web", true, true, atOnce},
		{rolls, "web", true, false, keepSize},
		{movement{Component: "web", Busy: "db"}, "db", true, true, untouched},
		{movement{Component: "web", Busy: "db"}, "web", true, true, untouched},
		{movement{Component: "web", Busy: "db"}, "cache", true, true, atOnce},
	} {
		if got := test.m.treatmentOf(test.component, test.planned, test.named); got != test.want {
			t.Errorf("%+v, %s: %d, expected %d", test.m, test.component, got, test.want)
		}
	}
}

func TestDrivenBy(t *testing.T) {
	r := &api.Rollout{ObjectMeta: metav1.ObjectMeta{Generation: 2}, Spec: api.RolloutSpec{Application: &api.RolloutApplication{Name: "shop", TargetRevision: "shop-v2", SourceRevision: "shop-v1"}, RolloutPlan: api.RolloutPlan{TargetSize: new(int32(3))}}}
	for _, test := range []struct {
		name   string
		status api.RolloutStatus
		want   driven
	}{
		{"not seen yet", api.RolloutStatus{RollingState: "rolloutSucceed", ObservedGeneration: 1}, driven{}},
		{"under way", api.RolloutStatus{RollingState: "rollingInBatches", ObservedGeneration: 2}, driven{}},
		{"the workload of the new pair is not seen", api.RolloutStatus{RollingState: "rolloutSucceed", ObservedGeneration: 2, LastTargetRevision: "shop-v1"}, driven{}},
		{"another size is asked for", api.RolloutStatus{RollingState: "rolloutSucceed", ObservedGeneration: 2, Mode: "Scale", LastTargetRevision: "shop-v2", LastSourceRevision: "shop-v1", RolloutTargetSize: new(int32(2))}, driven{}},
		{"succeeded", api.RolloutStatus{LastTargetRevision: "shop-v2", LastSourceRevision: "shop-v1", RollingState: "rolloutSucceed", ObservedGeneration: 2}, driven{Ended: true, Succeeded: true}},
		{"failed", api.RolloutStatus{LastTargetRevision: "shop-v2", LastSourceRevision: "shop-v1", RollingState: "rolloutFailed", ObservedGeneration: 2}, driven{Ended: true}},
		{"rolled back", api.RolloutStatus{RollingState: "rolloutFailed", ObservedGeneration: 2, LastTargetRevision: "shop-v2", LastSourceRevision: "shop-v1", Rollback: &api.RolloutRollbackStatus{}}, driven{Ended: true, RolledBackTo: "shop-v1"}},
		{"the target is what the pods had before", api.RolloutStatus{RollingState: "rolloutFailed", ObservedGeneration: 2, LastTargetRevision: "shop-v1", LastSourceRevision: "shop-v0", Rollback: &api.RolloutRollbackStatus{}}, driven{Ended: true, Succeeded: true}},
		{"all pods have it", api.RolloutStatus{RollingState: "locatingTargetApp", ObservedGeneration: 2, Waiting: &api.RolloutWaiting{Reason: rollout.NothingToRoll.Reason()}}, driven{Ended: true, Succeeded: true}},
		{"it waits for a revision", api.RolloutStatus{RollingState: "locatingTargetApp", ObservedGeneration: 2, Waiting: &api.RolloutWaiting{Reason: "TargetRevisionMissing"}}, driven{}},
		{"another scale had nothing to do", api.RolloutStatus{LastTargetRevision: "shop-v2", LastSourceRevision: "shop-v1", RollingState: "rolloutFailed", ObservedGeneration: 2, Failure: &api.RolloutFailure{Reason: rollout.NothingToRoll.Reason()}}, driven{Ended: true, Succeeded: true}},
	} {
		r.Status = test.status
		test.want.Target, test.want.Source, test.want.Size = "shop-v2", "shop-v1", r.Spec.RolloutPlan.TargetSize
		if got := drivenBy(r); *got != test.want {
			t.Errorf("%s: %+v, expected %+v", test.name, *got, test.want)
		}
	}
	if drivenBy(nil) != nil {
		t.Error("no Rollout drives nothing")
	}
}

func TestNext(t *testing.T) {
	all := revisions(t,
		parts(web("r1", 3), db("r1", 1)), parts(web("r2", 3), db("r1", 1)), parts(web("r2", 5), db("r1", 1)), parts(web("r1", 3), db("r1", 1)))
	var got []string
	for _, r := range all {
		got = append(got, fmt.Sprint(r.Name, " ", componentOf(&r, "web").WorkloadName, " ", componentOf(&r, "db").WorkloadName))
	}
	want := []string{"shop-v1 web-v1 db", "shop-v2 web-v2 db", "shop-v3 web-v2 db", "shop-v4 web-v4 db"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, expected %q", got, want)
	}
	if all[0].Spec.Hash != all[3].Spec.Hash || all[0].Spec.Hash == all[1].Spec.Hash {
		t.Error("a hash is that of the content")
	}
	a := &api.Application{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	a.Spec.Components = parts(db("r1", 1), web("r1", 3)) // another order
	if r, err := next(a, all); r != nil || err != nil {
		t.Errorf("the same content makes %v, %v", r, err)
	}
	// The content that was reached, while another one is rolled out, keeps the Deployment.
	a.Status.ReachedRevision = "shop-v1"
	if r, err := next(a, all[:2]); err != nil || componentOf(r, "web").WorkloadName != "web-v1" {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestRemovable(t *testing.T) {
	all := revisions(t, parts(web("r1", 1)), parts(web("r2", 1)), parts(web("r3", 1)), parts(web("r4", 1)), parts(web("r5", 1)), parts(web("r6", 1)))
	s := situation{Revisions: all, Reached: "shop-v4"}
	r := &api.Rollout{Spec: api.RolloutSpec{Application: &api.RolloutApplication{TargetRevision: "shop-v6", SourceRevision: "shop-v5"}}}
	for _, test := range []struct {
		limit     int
		workloads []string
		want      []string
	}{
		{10, nil, nil},
		{5, nil, []string{"shop-v1"}},
		{1, nil, []string{"shop-v1", "shop-v2", "shop-v3"}},
		{1, []string{"web-v2", "web-v6"}, []string{"shop-v1", "shop-v3"}},
	} {
		if got := removable(all, test.limit, s.inUse(r, test.workloads)); !slices.Equal(got, test.want) {
			t.Errorf("%d, %v: %v, expected %v", test.limit, test.workloads, got, test.want)
		}
	}
	if got := inOrder("shop", append([]api.ApplicationRevision{{ObjectMeta: metav1.ObjectMeta{Name: "shop-vx"}}}, all[4], all[0])); len(got) != 2 || got[0].Name != "shop-v1" {
		t.Errorf("in order: %v", got)
	}
}

func TestDepart(t *testing.T) {
	now := metav1.Now()
	a := &api.Application{ObjectMeta: metav1.ObjectMeta{Name: "shop", UID: "1", DeletionTimestamp: &now}}
	orphaning := a.DeepCopy()
	orphaning.Finalizers = []string{Finalizer, metav1.FinalizerOrphanDependents}
	owned := &api.Rollout{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{owner(a)}}}
	going := &api.Rollout{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &now}}
	for _, test := range []struct {
		a    *api.Application
		r    *api.Rollout
		want departure
	}{
		{orphaning, owned, waitForOrphans}, {a, nil, letGo}, {a, owned, takeAlong}, {a, going, takeAlong}, {a, &api.Rollout{}, letGo},
	} {
		if got := depart(test.a, test.r); got != test.want {
			t.Errorf("%v, %v: %s, expected %s", test.a.Finalizers, test.r, got, test.want)
		}
	}
}
