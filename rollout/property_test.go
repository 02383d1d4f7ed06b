package rollout_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/rollout"
	"github.com/pawl-dev/pawl/rollout/workloadtest"
	"pgregory.net/rapid"
)

// TestWhateverHappens plays random plans through random troubles: foreign resizes, pauses, partition
// moves, pods that fall, templates that change, and processes that die before and after each write.
// No release breaks the quorum, a forward partition never rises, an end stays, and every wait has a
// reason. A template is released only after it was observed and recorded. When the trouble is over, the rollout ends.
func TestWhateverHappens(t *testing.T) {
	kinds := []rollout.Kind{rollout.StatefulSet, rollout.CloneSet, rollout.AdvancedStatefulSet}
	rapid.Check(t, func(t *rapid.T) {
		replicas := rapid.IntRange(3, 7).Draw(t, "replicas")
		sim := workloadtest.NewSim(rapid.SampledFrom(kinds).Draw(t, "kind"), replicas)
		switch rapid.IntRange(0, 2).Draw(t, "parallel") {
		case 1:
			sim.Parallel()
		case 2:
			if sim.Wanted.Kind == rollout.AdvancedStatefulSet {
				sim.Unordered()
			}
		}
		sim.Wanted.HoldAlways = true
		sim.Lag = rapid.IntRange(0, 3).Draw(t, "lag")
		plan := rollout.Plan{
			NumBatches: new(rapid.IntRange(1, 4).Draw(t, "batches")),
			Disruption: &rollout.Disruption{Quorum: &rollout.Quorum{Selector: rollout.Selector{MatchLabels: map[string]string{"app": "db"}}, MinHealthy: rollout.Majority}},
			Soak:       rollout.Duration(rapid.SampledFrom([]time.Duration{0, 3 * time.Second}).Draw(t, "soak")),
		}
		w := &world{t: t, sim: sim, plan: plan}
		if rapid.Bool().Draw(t, "order") {
			w.elect()
			w.plan.Order = &rollout.Order{RoleLabel: "role", Roles: []string{"replica", "leader"}, Handover: &rollout.Handover{
				Exec: &rollout.ExecProbe{Command: []string{"hand-over"}}, Retries: new(1000),
			}}
		}
		if n := *plan.NumBatches; n > 1 && rapid.Bool().Draw(t, "pods") {
			first := w.facts().Pods[rapid.IntRange(0, replicas-1).Draw(t, "first pod")].Name
			w.plan.RolloutBatches = append([]rollout.Batch{{PodList: []string{first}}}, make([]rollout.Batch, n-1)...)
			for i := 1; i < n-1; i++ {
				w.plan.RolloutBatches[i].Replicas = rollout.Int(0)
			}
		}
		for i := range rapid.IntRange(5, 60).Draw(t, "passes") {
			if i == 3 {
				sim.SetTemplate("r2")
			}
			w.trouble(i)
			w.pass(rapid.SampledFrom([]string{"", "", "", "", "before the save", "before the act", "before the answers"}).Draw(t, fmt.Sprint("crash ", i)))
		}
		w.plan.Paused, w.plan.BatchPartition = false, nil
		for i := range 600 {
			if w.at.Pause != nil {
				sim.Wanted.Request = &rollout.Request{ID: fmt.Sprint("end ", i), Verb: rollout.Resume}
			}
			w.heal()
			w.pass("")
			f := w.facts()
			if w.at.State == rollout.Locating && w.last.Outcome.Reason() == "NothingToRoll" || rollout.Settled(f.Wanted, w.at) && w.last.Outcome.IsDone() {
				w.ended(f)
				return
			}
		}
		t.Fatalf("it does not end: %s/%s batch %d, %s; %s", w.at.State, w.at.BatchState, w.at.CurrentBatch, w.last.Outcome, sim)
	})
}

type world struct {
	t        *rapid.T
	sim      *workloadtest.Sim
	plan     rollout.Plan
	at       rollout.Position
	last     rollout.Decision
	requests int
	failed   []string // UIDs
	leader   string   // UID
	ready    []string // UIDs, in the newest facts
}

// elect gives the pods roles: one that is ready leads, until it gives its role up or is not ready.
func (w *world) elect() {
	w.sim.Roles = func(p rollout.Pod) string {
		if p.UID == w.leader {
			return "leader"
		}
		return "replica"
	}
	w.sim.Answers = func(a rollout.Ask) rollout.Answer {
		if a.Kind == rollout.AskHandover {
			if i := slices.IndexFunc(w.ready, func(uid string) bool { return uid != w.leader }); i >= 0 {
				w.leader = w.ready[i]
			}
		}
		return rollout.Answer{Status: 200, Open: true}
	}
}

func (w *world) facts() rollout.Facts {
	f, err := w.sim.Observe(context.Background())
	if err != nil {
		w.t.Fatal(err)
	}
	if f.Target.ObservedGeneration < f.Target.Generation && w.at.TargetRevision != "" { // as the operator has it
		f.Wanted.TargetRevision = w.at.TargetRevision
	}
	w.ready = nil
	for _, p := range f.Pods {
		if p.Ready && !p.Terminating {
			w.ready = append(w.ready, p.UID)
		}
	}
	if w.sim.Roles == nil || slices.Contains(w.ready, w.leader) {
		return f
	}
	w.leader = ""
	if w.ready != nil {
		w.leader = w.ready[len(w.ready)-1]
	}
	for i, p := range f.Pods {
		f.Pods[i].Role = w.sim.Roles(p)
	}
	return f
}

func (w *world) trouble(i int) {
	label := func(what string) string { return fmt.Sprint(what, " ", i) }
	f := w.facts()
	if len(f.Pods) == 0 {
		return
	}
	switch rapid.SampledFrom([]string{"", "", "", "", "pause", "partition", "pod", "delete", "template", "resize", "request"}).Draw(w.t, label("trouble")) {
	case "pause":
		w.plan.Paused = !w.plan.Paused
	case "partition":
		w.plan.BatchPartition = nil
		if k := rapid.IntRange(-1, *w.plan.NumBatches-1).Draw(w.t, label("partition")); k >= 0 {
			w.plan.BatchPartition = &k
		}
	case "pod":
		p := f.Pods[rapid.IntRange(0, 6).Draw(w.t, label("pod"))%len(f.Pods)]
		w.sim.Fail(p.Name)
		w.failed = append(w.failed, p.UID)
	case "delete":
		w.sim.DeletePod(f.Pods[rapid.IntRange(0, 6).Draw(w.t, label("pod"))%len(f.Pods)].Name)
	case "template":
		revision := rapid.SampledFrom([]string{"r2", "r3"}).Draw(w.t, label("template"))
		if f.Target.Held && revision != f.Target.Template { // the guard adds the full hold
			w.sim.Edit(func(t *rollout.WorkloadFacts) { t.Template, t.Partition = revision, rollout.HoldAll })
		}
	case "resize":
		size := rapid.IntRange(3, 7).Draw(w.t, label("size"))
		if f.Target.Held {
			w.sim.Edit(func(t *rollout.WorkloadFacts) { t.Replicas = size })
		}
	case "request":
		w.requests++
		verb := rapid.SampledFrom([]rollout.Verb{rollout.Approve, rollout.Resume, rollout.Retry, rollout.RollBackVerb, rollout.Abandon, "dance"}).Draw(w.t, label("verb"))
		w.sim.Wanted.Request = &rollout.Request{ID: fmt.Sprint(w.requests), Verb: verb, Argument: rapid.SampledFrom([]string{"", "next", "all", "0", "99"}).Draw(w.t, label("argument"))}
	}
}

// heal replaces pods that somebody made fail: a person does that.
func (w *world) heal() {
	for _, p := range w.facts().Pods {
		if !p.Ready && !p.Terminating && slices.Contains(w.failed, p.UID) {
			w.sim.DeletePod(p.Name)
			return
		}
	}
}

// saved is the position as it comes back from a status.
func saved(t *rapid.T, at rollout.Position) rollout.Position {
	text, err := json.Marshal(at)
	if err != nil {
		t.Fatal(err)
	}
	var back rollout.Position
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	return back
}

func text(t *rapid.T, d rollout.Decision) string {
	text, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func (w *world) pass(crash string) {
	f := w.facts()
	was := w.at
	d := rollout.Next(w.plan, was, f, w.sim.Now())
	w.last = d
	switch o := d.Outcome; {
	case o.IsWait() && (o.Reason() == "" || o.Message() == "" || d.Position.Waiting == nil):
		w.t.Fatalf("a wait without a reason: %s", o)
	case o.IsFail():
		w.t.Fatalf("it fails: %s", o)
	}
	if was.State.Terminal() && !rollout.Modified(f.Wanted, was) && d.Position.State != was.State {
		w.t.Fatalf("%s became %s by itself", was.State, d.Position.State)
	}
	again := rollout.Next(w.plan, was, f, w.sim.Now())
	if first, second := text(w.t, d), text(w.t, again); first != second {
		w.t.Fatalf("the same look gives another decision:\n%s\n%s", first, second)
	}
	if crash != "before the save" {
		w.at = saved(w.t, d.Position)
	}
	if crash == "" || crash == "before the answers" {
		for _, a := range d.Acts {
			w.check(f, d.Position, a)
			if err := w.sim.Apply(context.Background(), a); err != nil {
				w.t.Fatalf("%s: %v", a.Why, err)
			}
		}
	}
	if crash == "" {
		w.sim.Answer(d.Asks)
	} else {
		w.sim.Answer(nil)
	}
	w.sim.Step()
}

// checkTemplate judges that a write releases nothing but the recorded template.
func (w *world) checkTemplate(f rollout.Facts, at rollout.Position, a rollout.Act) {
	template := at.TargetRevision
	if at.Rollback != nil {
		template = at.SourceRevision
	}
	releases := a.Evict != nil || a.Delete != nil || a.Partition != nil && *a.Partition < f.Target.Partition && *a.Partition < f.Target.Replicas
	if releases && f.Target.Template != template {
		w.t.Fatalf("%s: template %s is released, and %s was recorded: %s", a.Why, f.Target.Template, template, w.sim)
	}
}

// check judges a release by itself: what it lets go must leave a majority, and the leader goes last.
func (w *world) check(f rollout.Facts, at rollout.Position, a rollout.Act) {
	w.checkTemplate(f, at, a)
	if at.State != rollout.InBatch && at.State != rollout.RollingBack {
		return
	}
	if a.Evict != nil || a.Delete != nil {
		w.checkGoing(f, a, []string{cmp.Or(a.Evict, a.Delete).Name})
		return
	}
	if a.Partition == nil {
		return
	}
	if at.State == rollout.InBatch && *a.Partition > f.Target.Partition {
		w.t.Fatalf("the partition rises from %d to %d", f.Target.Partition, *a.Partition)
	}
	if *a.Partition >= f.Target.Partition || *a.Partition >= f.Target.Replicas {
		return
	}
	kept := min(f.Target.Partition, f.Target.Replicas)
	old := func(p rollout.Pod) bool { return p.Revision != f.Target.UpdateRevision && !p.Terminating }
	var going []string
	if f.Target.Kind == rollout.CloneSet || f.Target.Unordered {
		n := 0
		for _, p := range f.Pods {
			if old(p) {
				n++
			}
			if old(p) && slices.Contains(a.First, p.Name) {
				going = append(going, p.Name)
			}
		}
		if n-*a.Partition > max(len(going), 0) && len(f.Pods) == f.Target.Replicas {
			w.t.Fatalf("%d of %d old pods are kept, and %v are named: %s", *a.Partition, n, going, w.sim)
		}
	}
	fresh := len(going) > 0 // else the write moves no pod: those that it passes are updated
	if f.Target.Kind != rollout.CloneSet && !f.Target.Unordered {
		for _, p := range f.Pods {
			if old(p) && p.Ordinal >= *a.Partition {
				going = append(going, p.Name)
				fresh = fresh || p.Ordinal < kept
			}
		}
	}
	if fresh && kept-*a.Partition > 1 {
		w.t.Fatalf("%d pods are released at once", kept-*a.Partition)
	}
	w.checkGoing(f, a, going)
}

// checkGoing judges pods that may go after a release.
func (w *world) checkGoing(f rollout.Facts, a rollout.Act, going []string) {
	healthy, goes := 0, false
	for _, p := range f.Pods {
		if !p.Ready || p.Terminating {
			continue
		}
		if slices.Contains(going, p.Name) {
			before := slices.Contains(f.Target.First, p.Name) // it was judged then
			if f.Target.Kind != rollout.CloneSet && !f.Target.Unordered && a.Partition != nil {
				before = p.Ordinal >= min(f.Target.Partition, f.Target.Replicas)
			}
			goes = goes || !before
			continue
		}
		healthy++
	}
	members := max(f.Target.Replicas, len(f.Pods))
	if goes && healthy < members/2+1 && healthy < f.Target.Replicas/2+1 {
		w.t.Fatalf("%s leaves %d of %d members healthy: %s", a.Why, healthy, members, w.sim)
	}
	if w.plan.Order == nil || w.plan.RolloutBatches != nil || w.at.Rollback != nil || f.Target.Replicas == 1 {
		return
	}
	for _, p := range f.Pods {
		if p.Role != "leader" || !p.Ready || !slices.Contains(going, p.Name) || slices.Contains(f.Target.First, p.Name) {
			continue
		}
		w.t.Fatalf("%s: the leader goes without a handover: %s", a.Why, w.sim)
	}
}

func (w *world) ended(f rollout.Facts) {
	if f.Target.Controller != nil || f.Target.Anchored {
		w.t.Fatalf("the claim is left: %+v", *f.Target)
	}
	if w.at.State == rollout.Succeeded && w.at.Mode == rollout.Rollout {
		if i := slices.IndexFunc(f.Pods, func(p rollout.Pod) bool { return p.Revision != f.Target.UpdateRevision && !p.Terminating }); i >= 0 {
			w.t.Fatalf("pod %s has revision %s: %s", f.Pods[i].Name, f.Pods[i].Revision, w.sim)
		}
	}
}
