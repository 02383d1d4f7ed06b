package workloadtest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/rollout"
)

// Subject is a workload under test, with the hands of its user and of others. Sim is one; on a real
// API server it is a workload with its real controller.
type Subject interface {
	rollout.Workload
	// SetTemplate writes a template as the user does. The same text gives the same revision.
	SetTemplate(template string)
	// Scale writes the number of replicas as kubectl does.
	Scale(replicas int)
	// Break makes pods of a template never ready.
	Break(template string)
	// Own makes another controller the owner of the workload; gone: one that does not exist.
	Own(gone bool)
	// Work lets the controllers work for a moment; pods become ready meanwhile.
	Work()
	// Now is the time of the workload's world.
	Now() time.Time
}

// Options are the suite's.
type Options struct {
	// New makes a workload whose pods are ready, with template "r1". It is removed at the end of t.
	New func(t *testing.T, kind rollout.Kind, replicas int, parallel bool) Subject
	// Kinds to test; empty: all but Deployment, whose rollout is a pair.
	Kinds []rollout.Kind
	// Patience is how long a condition is waited for by the time of the subject. Default 2m.
	Patience time.Duration
	// Parallel runs the tests at the same time.
	Parallel bool
}

// Run is the conformance suite of rollout.Workload.
func Run(t *testing.T, o Options) {
	if o.Kinds == nil {
		o.Kinds = []rollout.Kind{rollout.StatefulSet, rollout.CloneSet, rollout.AdvancedStatefulSet}
	}
	if o.Patience == 0 {
		o.Patience = 2 * time.Minute
	}
	for _, kind := range o.Kinds {
		for _, test := range tests {
			if !test.fits(kind) {
				continue
			}
			t.Run(string(kind)+"/"+test.name, func(t *testing.T) {
				if o.Parallel {
					t.Parallel()
				}
				test.run(&suite{TB: t, kind: kind, o: o, Subject: o.New(t, kind, 3, test.parallel)})
			})
		}
	}
}

type suiteTest struct {
	name     string
	kinds    []rollout.Kind // nil: all
	parallel bool
	run      func(*suite)
}

func (s suiteTest) fits(k rollout.Kind) bool { return s.kinds == nil || slices.Contains(s.kinds, k) }

var ordered = []rollout.Kind{rollout.StatefulSet, rollout.AdvancedStatefulSet}

var tests = []suiteTest{
	{name: "the hold keeps every pod and those that are born", run: (*suite).hold},
	{name: "claim, template and hold are one write", run: (*suite).oneWrite},
	{name: "the partition moves as many pods as it says", run: (*suite).partition},
	{name: "a write on old facts is refused", run: (*suite).staleFacts},
	{name: "the same write again changes nothing", run: (*suite).again},
	{name: "a claim is taken and released with its anchor", run: (*suite).claim},
	{name: "another controller is seen", run: (*suite).foreignClaim},
	{name: "a controller that is gone keeps no claim away", run: (*suite).staleClaim},
	{name: "a template that is put back takes back the changed pods", parallel: true, run: (*suite).revert},
	{name: "an ordered set waits for a broken pod until it is deleted", kinds: ordered, run: (*suite).stuck},
	{name: "the pods that are named move first", run: (*suite).first},
	{name: "pods are chosen and the order is put back", run: (*suite).chosen},
	{name: "a reserved ordinal leaves", kinds: []rollout.Kind{rollout.AdvancedStatefulSet}, run: (*suite).reserve},
	{name: "a pod with another UID is not deleted", run: (*suite).anotherPod},
	{name: "a rollout ends", run: (*suite).rollout},
	{name: "a rollout goes on with another size", run: (*suite).resize},
	{name: "a broken revision is taken back", run: (*suite).rollback},
	{name: "a scale ends", run: (*suite).scale},
}

// suite is one test under way.
type suite struct {
	testing.TB
	Subject
	kind rollout.Kind
	o    Options
}

func (s *suite) facts() rollout.Facts {
	s.Helper()
	f, err := s.Observe(context.Background())
	if err != nil {
		s.Fatal(err)
	}
	if f.Target == nil {
		s.Fatal("the workload is not there")
	}
	f.Now = s.Now()
	return f
}

// until lets the controllers work until a condition holds.
func (s *suite) until(what string, holds func(rollout.Facts) bool) rollout.Facts {
	s.Helper()
	end := s.Now().Add(s.o.Patience)
	for {
		f := s.facts()
		if holds(f) {
			return f
		}
		if s.Now().After(end) {
			s.Fatalf("%s: it did not come: %s", what, describe(f))
		}
		s.Work()
	}
}

func describe(f rollout.Facts) string {
	var pods []string
	for _, p := range f.Pods {
		pods = append(pods, fmt.Sprintf("%s %s ready=%v going=%v", p.Name, p.Revision, p.Ready, p.Terminating))
	}
	return fmt.Sprintf("%+v; %s", *f.Target, strings.Join(pods, ", "))
}

// act does one write on fresh facts.
func (s *suite) act(edit func(f rollout.Facts, a *rollout.Act)) {
	s.Helper()
	for range 20 { // the controller may have written meanwhile
		f := s.facts()
		a := rollout.Act{Workload: f.Target.UID, Name: f.Target.Name, Kind: f.Target.Kind, Generation: f.Target.Generation, Why: "the suite"}
		edit(f, &a)
		err := s.Apply(context.Background(), a)
		if err == nil {
			return
		}
		if fault.Of(err) != fault.WriteConflict {
			s.Fatal(err)
		}
		s.Work()
	}
	s.Fatal("each write met a conflict")
}

func (s *suite) setPartition(n int) {
	s.Helper()
	s.act(func(_ rollout.Facts, a *rollout.Act) { a.Partition = &n })
}

func settled(f rollout.Facts) bool {
	if f.Target.ObservedGeneration < f.Target.Generation || len(f.Pods) != f.Target.Replicas {
		return false
	}
	return !slices.ContainsFunc(f.Pods, func(p rollout.Pod) bool { return !p.Ready || p.Terminating })
}

func revisions(f rollout.Facts) map[string]int {
	all := map[string]int{}
	for _, p := range f.Pods {
		all[p.Revision]++
	}
	return all
}

// held brings the workload to a new template under the full hold, and returns both revisions.
func (s *suite) held() (was, is string) {
	s.Helper()
	was = s.facts().Target.UpdateRevision
	s.setPartition(rollout.HoldAll)
	s.SetTemplate("r2")
	f := s.until("the new revision", func(f rollout.Facts) bool { return settled(f) && f.Target.UpdateRevision != was })
	return was, f.Target.UpdateRevision
}

func (s *suite) hold() {
	was, is := s.held()
	if got := revisions(s.facts()); got[is] != 0 || got[was] != 3 {
		s.Fatalf("under the hold the pods have %v", got)
	}
	s.Scale(5)
	f := s.until("five pods", func(f rollout.Facts) bool { return settled(f) && f.Target.Replicas == 5 })
	if got := revisions(f); got[was] != 5 {
		s.Errorf("pods that were born under the hold have %v", got)
	}
}

func (s *suite) oneWrite() {
	was, is := s.held()
	s.SetTemplate("r1")
	s.until("the old revision", func(f rollout.Facts) bool { return settled(f) && f.Target.UpdateRevision == was })
	s.act(func(_ rollout.Facts, a *rollout.Act) {
		a.Claim, a.Template, a.Partition, a.Held = rollout.TakeClaim, is, new(rollout.HoldAll), new(true)
	})
	f := s.until("the template", func(f rollout.Facts) bool { return settled(f) && f.Target.UpdateRevision == is })
	if w := f.Target; w.Controller == nil || w.Controller.UID != f.Rollout.UID || !w.Anchored || !w.Held || w.Partition != rollout.HoldAll || w.Template != is {
		s.Errorf("it is %+v", *w)
	}
	if got := revisions(f); got[was] != 3 {
		s.Errorf("the pods have %v", got)
	}
}

func (s *suite) partition() {
	was, is := s.held()
	for _, keep := range []int{2, 1, 0} {
		s.setPartition(keep)
		f := s.until("the release", func(f rollout.Facts) bool { return settled(f) && revisions(f)[is] == 3-keep })
		if got := revisions(f); got[was] != keep {
			s.Errorf("with partition %d the pods have %v", keep, got)
		}
		if counts(f) {
			continue
		}
		for _, p := range f.Pods {
			if updated := p.Ordinal >= keep; updated != (p.Revision == is) {
				s.Errorf("with partition %d pod %d has %s", keep, p.Ordinal, p.Revision)
			}
		}
	}
	s.until("the revision is taken over", func(f rollout.Facts) bool { return f.Target.CurrentRevision == is })
}

func (s *suite) staleFacts() {
	f := s.facts()
	s.Scale(4)
	err := s.Apply(context.Background(), rollout.Act{Workload: f.Target.UID, Kind: s.kind, Name: f.Target.Name, Generation: f.Target.Generation, Partition: new(1)})
	if fault.Of(err) != fault.WriteConflict {
		s.Errorf("a write on old facts gave %v", err)
	}
	err = s.Apply(context.Background(), rollout.Act{Workload: "another", Kind: s.kind, Name: f.Target.Name, Generation: s.facts().Target.Generation, Partition: new(1)})
	if fault.Of(err) != fault.WriteConflict {
		s.Errorf("a write for another workload gave %v", err)
	}
	if got := s.facts().Target; got.Partition == 1 {
		s.Errorf("it was written: %+v", *got)
	}
}

func (s *suite) again() {
	s.setPartition(2)
	f := s.facts()
	s.setPartition(2)
	if got := s.facts().Target.Generation; got != f.Target.Generation {
		s.Errorf("the generation went from %d to %d", f.Target.Generation, got)
	}
}

func (s *suite) claim() {
	s.act(func(_ rollout.Facts, a *rollout.Act) { a.Claim = rollout.TakeClaim })
	if f := s.facts(); f.Target.Controller == nil || f.Target.Controller.UID != f.Rollout.UID || !f.Target.Anchored {
		s.Fatalf("it is %+v", *f.Target)
	}
	s.act(func(_ rollout.Facts, a *rollout.Act) { a.Claim = rollout.ReleaseClaim })
	if f := s.facts(); f.Target.Controller != nil || f.Target.Anchored {
		s.Errorf("it is %+v", *f.Target)
	}
}

func (s *suite) foreignClaim() {
	s.Own(false)
	f := s.until("the owner", func(f rollout.Facts) bool { return f.Target.Controller != nil })
	if o := f.Target.Controller; o.UID == f.Rollout.UID || o.Gone {
		s.Errorf("the owner is %+v", *o)
	}
}

func (s *suite) staleClaim() {
	s.Own(true)
	s.until("the owner is gone", func(f rollout.Facts) bool { // a garbage collector may have removed the reference already
		return f.Target.Controller == nil || f.Target.Controller.Gone
	})
	s.act(func(_ rollout.Facts, a *rollout.Act) { a.Claim = rollout.TakeClaim })
	if f := s.facts(); f.Target.Controller == nil || f.Target.Controller.UID != f.Rollout.UID {
		s.Errorf("it is %+v", *f.Target)
	}
}

func (s *suite) revert() {
	was, is := s.held()
	s.setPartition(2)
	f := s.until("one pod", func(f rollout.Facts) bool { return settled(f) && revisions(f)[is] == 1 })
	keep := 2 // ordinals below it
	if counts(f) {
		keep = 0 // pods that are not back yet
	}
	s.act(func(_ rollout.Facts, a *rollout.Act) { a.Template, a.Partition = was, &keep })
	f = s.until("the revert", func(f rollout.Facts) bool { return settled(f) && revisions(f)[was] == 3 })
	if f.Target.Template != was {
		s.Errorf("the template is %s, not %s", f.Target.Template, was)
	}
}

func (s *suite) stuck() {
	if s.facts().Target.Parallel {
		s.Skip("the set has no order")
	}
	was, is := s.held()
	s.Break("r2")
	s.setPartition(2)
	broken := func(f rollout.Facts) int {
		return slices.IndexFunc(f.Pods, func(p rollout.Pod) bool { return p.Revision == is && !p.Ready && !p.Terminating })
	}
	s.until("the broken pod", func(f rollout.Facts) bool { return broken(f) >= 0 })
	s.act(func(_ rollout.Facts, a *rollout.Act) { a.Template, a.Partition = was, new(2) })
	for range 5 {
		s.Work()
	}
	s.act(func(f rollout.Facts, a *rollout.Act) {
		i := broken(f)
		if i < 0 {
			s.Fatalf("the set has replaced the broken pod by itself: %s", describe(f))
		}
		p := f.Pods[i]
		a.Delete = &rollout.PodRef{Name: p.Name, UID: p.UID, ResourceVersion: p.ResourceVersion}
	})
	s.until("the replacement", func(f rollout.Facts) bool { return settled(f) && revisions(f)[was] == 3 })
}

// counts reports whether the partition counts pods without regard to ordinals.
func counts(f rollout.Facts) bool { return f.Target.Kind == rollout.CloneSet || f.Target.Unordered }

func (s *suite) first() {
	if !counts(s.facts()) {
		s.Skip("its partition follows the ordinals")
	}
	_, is := s.held()
	strategy, chosen := s.facts().Target.Strategy, ""
	for keep := 2; keep >= 0; keep-- {
		s.act(func(f rollout.Facts, a *rollout.Act) {
			chosen = ""
			for _, p := range f.Pods { // the first by name: no controller prefers it
				if p.Revision != is && (chosen == "" || p.Name < chosen) {
					chosen = p.Name
				}
			}
			a.First, a.Partition = []string{chosen}, &keep
		})
		if got := s.facts().Target.First; !slices.Equal(got, []string{chosen}) {
			s.Fatalf("%v are named, not %s", got, chosen)
		}
		f := s.until("the release", func(f rollout.Facts) bool { return settled(f) && revisions(f)[is] == 3-keep })
		if slices.ContainsFunc(f.Pods, func(p rollout.Pod) bool { return p.Name == chosen && p.Revision != is }) {
			s.Errorf("pod %s did not move first: %s", chosen, describe(f))
		}
	}
	s.act(func(_ rollout.Facts, a *rollout.Act) { a.Strategy = strategy })
	if f := s.facts(); len(f.Target.First) > 0 || f.Target.Priority || f.Target.Partition != 0 {
		s.Errorf("after the end it is %+v", *f.Target)
	}
}

// chosen: the batches name their pods, the last by name first.
func (s *suite) chosen() {
	_, is := s.held()
	f := s.facts()
	strategy := f.Target.Strategy
	names := []string{f.Pods[1].Name, f.Pods[0].Name}
	var moved []string
	at, f := s.play(rollout.Plan{RolloutBatches: []rollout.Batch{{PodList: names[:1]}, {PodList: names[1:]}, {}}}, nil, func(d rollout.Decision, _ rollout.Facts) {
		for _, a := range d.Acts {
			if ref := a.Evict; ref != nil {
				moved = append(moved, ref.Name)
			} else if n := len(a.First); n > 0 {
				moved = append(moved, a.First[n-1])
			}
		}
	})
	s.ended(at, rollout.Succeeded)
	moved = slices.Compact(moved) // a write that met a conflict was sent again
	if got := revisions(f); got[is] != 3 || len(moved) != 3 || moved[0] != names[0] || moved[1] != names[1] {
		s.Errorf("%v were chosen; %s", moved, describe(f))
	}
	if w := f.Target; len(w.First) > 0 || w.Priority || w.UpdateType != rollout.RollingUpdate || w.Partition != rollout.HoldAll {
		s.Errorf("the strategy was %s, and is %s", strategy, w.Strategy)
	}
}

func (s *suite) reserve() {
	s.act(func(_ rollout.Facts, a *rollout.Act) { a.Reserve, a.Replicas = []string{"1"}, new(2) })
	f := s.until("two pods", func(f rollout.Facts) bool { return settled(f) && len(f.Pods) == 2 })
	for _, p := range f.Pods {
		if p.Ordinal == 1 {
			s.Errorf("pod 1 is there: %s", describe(f))
		}
	}
}

func (s *suite) anotherPod() {
	f := s.facts()
	p := f.Pods[0]
	err := s.Apply(context.Background(), rollout.Act{
		Workload: f.Target.UID, Kind: s.kind, Name: f.Target.Name, Generation: f.Target.Generation, Delete: &rollout.PodRef{Name: p.Name, UID: "another", ResourceVersion: p.ResourceVersion},
	})
	if fault.Of(err) != fault.WriteConflict {
		s.Errorf("the deletion of another pod gave %v", err)
	}
	if got := s.facts(); len(got.Pods) != 3 || got.Pods[0].Terminating {
		s.Errorf("it was deleted: %s", describe(got))
	}
}

// play moves a rollout by Next until it has ended.
func (s *suite) play(plan rollout.Plan, wanted func(*rollout.Wanted), after func(rollout.Decision, rollout.Facts)) (rollout.Position, rollout.Facts) {
	s.Helper()
	at := rollout.Position{}
	end := s.Now().Add(4 * s.o.Patience)
	for {
		f := s.facts()
		f.Wanted = rollout.Wanted{Kind: s.kind, TargetRevision: f.Target.Template, TargetSize: plan.TargetSize, HoldAlways: true}
		if wanted != nil {
			wanted(&f.Wanted)
		}
		d := rollout.Next(plan, at, f, s.Now())
		at = d.Position
		for _, a := range d.Acts {
			if err := s.Apply(context.Background(), a); err != nil && fault.Of(err) != fault.WriteConflict {
				s.Fatalf("%s: %v", a.Why, err)
			}
		}
		if after != nil {
			after(d, f)
		}
		if at.State.Terminal() && d.Outcome.IsDone() {
			return at, s.facts()
		}
		if s.Now().After(end) {
			s.Fatalf("it does not end: %s/%s batch %d, %s; %s", at.State, at.BatchState, at.CurrentBatch, d.Outcome, describe(f))
		}
		s.Work()
	}
}

func (s *suite) ended(at rollout.Position, want rollout.State) {
	s.Helper()
	if at.State != want {
		s.Fatalf("it ended as %s: %+v", at.State, at.Failure)
	}
}

func oneAndTheRest() []rollout.Batch { return []rollout.Batch{{Replicas: rollout.Int(1)}, {}} }

func (s *suite) rollout() {
	_, is := s.held()
	at, f := s.play(rollout.Plan{RolloutBatches: oneAndTheRest()}, nil, nil)
	s.ended(at, rollout.Succeeded)
	if got := revisions(f); got[is] != 3 || f.Target.Controller != nil || f.Target.Partition != rollout.HoldAll || !f.Target.Held {
		s.Errorf("%s", describe(f))
	}
}

func (s *suite) resize() {
	_, is := s.held()
	scaled := false
	at, f := s.play(rollout.Plan{RolloutBatches: oneAndTheRest()}, nil, func(d rollout.Decision, _ rollout.Facts) {
		if !scaled && d.Position.CurrentBatch == 1 {
			scaled = true
			s.Scale(5)
		}
	})
	s.ended(at, rollout.Succeeded)
	if got := revisions(f); got[is] != 5 || at.Replans == 0 {
		s.Errorf("%d replans; %s", at.Replans, describe(f))
	}
}

func (s *suite) rollback() {
	was, _ := s.held()
	s.Break("r2")
	deadline := rollout.Duration(s.o.Patience / 4)
	at, f := s.play(rollout.Plan{RolloutBatches: oneAndTheRest(), BatchDeadline: &deadline, OnFailure: rollout.OnFailureRollback}, nil, nil)
	s.ended(at, rollout.Failed)
	if got := revisions(f); at.Rollback == nil || got[was] != 3 {
		s.Errorf("rollback %+v; %s", at.Rollback, describe(f))
	}
}

func (s *suite) scale() {
	for _, to := range []int{5, 2} {
		at, f := s.play(rollout.Plan{TargetSize: &to, NumBatches: new(2)}, nil, nil)
		s.ended(at, rollout.Succeeded)
		if len(f.Pods) != to || f.Target.Controller != nil {
			s.Errorf("to %d: %s", to, describe(f))
		}
	}
}
