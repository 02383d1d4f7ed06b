// Package workloadtest has a simulated workload, and the conformance suite of every
// rollout.Workload.
//
//	sim := workloadtest.NewSim(rollout.StatefulSet, 5)
//	sim.SetTemplate("r2")
//	at := rollout.Position{}
//	for !at.State.Terminal() {
//		f, _ := sim.Observe(ctx)
//		d := rollout.Next(plan, at, f, sim.Now())
//		at = d.Position
//		for _, a := range d.Acts {
//			_ = sim.Apply(ctx, a)
//		}
//		sim.Answer(d.Asks)
//		sim.Step()
//	}
package workloadtest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/rollout"
)

// Sim is a workload with pods in memory. It behaves like the real controllers: its status lags behind
// its spec, pods take time to come and to go, ordered sets wait for pods that are not ready, and a
// pod below the partition comes back with the old revision.
type Sim struct {
	// Wanted is what the Rollout asks for. The target revision is the template's unless it is named.
	Wanted rollout.Wanted
	// Tick is how much time a step takes; default 1s. StartSteps is how long a pod takes to become
	// ready, StopSteps how long it takes to go; default 1 each.
	Tick                  time.Duration
	StartSteps, StopSteps int
	// Lag is how many steps more than one pass before a controller observes a spec.
	Lag int
	// Roles gives each pod its role when it is observed.
	Roles func(rollout.Pod) string
	// Labels gives each pod labels of its own when it is observed; nil: all have app=db.
	Labels func(rollout.Pod) map[string]string
	// Answers answers an ask; nil: every hook, gate, metric and handover passes.
	Answers func(rollout.Ask) rollout.Answer
	// Budgets are the PodDisruptionBudgets.
	Budgets []rollout.PodBudget
	// GateProblem is why the expression of a gate cannot be evaluated.
	GateProblem string

	mu       sync.Mutex
	now      time.Time
	sets     []*set // the target first
	broken   map[string]bool
	answers  map[string]rollout.Answer
	uids     int
	recorded []rollout.Act
}

// UID is that of the Rollout in the facts of a Sim.
const UID = "11111111-1111-1111-1111-111111111111"

type set struct {
	facts rollout.WorkloadFacts
	pods  []*pod
	late  int // steps in which the newest spec was not observed
}

type pod struct {
	rollout.Pod
	age, going int
}

// NewSim is a workload whose pods are ready and have revision r1.
func NewSim(kind rollout.Kind, replicas int) *Sim {
	s := &Sim{
		Wanted: rollout.Wanted{Kind: kind}, Tick: time.Second, StartSteps: 1, StopSteps: 1,
		now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), broken: map[string]bool{}, answers: map[string]rollout.Answer{},
	}
	s.sets = []*set{s.newSet(kind, "db", "r1", replicas)}
	return s
}

func (s *Sim) newSet(kind rollout.Kind, name, revision string, replicas int) *set {
	s.uids++
	w := &set{facts: rollout.WorkloadFacts{
		Kind: kind, Name: name, UID: "workload-" + strconv.Itoa(s.uids), Generation: 1, ObservedGeneration: 1, Replicas: replicas, StatusReplicas: replicas,
		UpdateType: rollout.RollingUpdate, Strategy: "{}", Template: revision, CurrentRevision: revision, UpdateRevision: revision, Guarded: true,
	}}
	for i := range replicas {
		p := s.newPod(w, i, revision)
		p.Ready, p.ReadySince, p.age = true, s.now, 1000
		w.pods = append(w.pods, p)
	}
	return w
}

func (s *Sim) newPod(w *set, ordinal int, revision string) *pod {
	s.uids++
	p := &pod{Pod: rollout.Pod{
		UID: "pod-" + strconv.Itoa(s.uids), ResourceVersion: "1", Workload: w.facts.UID, Ordinal: ordinal, Revision: revision,
		Zone: "zone-" + string(rune('a'+ordinal%3)), Labels: map[string]string{"app": "db"},
	}}
	p.Name = w.facts.Name + "-" + strconv.Itoa(ordinal)
	if w.facts.Kind == rollout.CloneSet || w.facts.Kind == rollout.Deployment {
		p.Name, p.Ordinal = w.facts.Name+"-"+strconv.Itoa(s.uids), -1
		p.Zone = "zone-" + string(rune('a'+s.uids%3))
	}
	return p
}

// WithSource makes the Deployment the source of a rollout, and adds a target without pods.
func (s *Sim) WithSource() *Sim {
	source := s.sets[0]
	s.sets = []*set{s.newSet(source.facts.Kind, "db-new", "r2", 0), source}
	s.Wanted.HasSource = true
	return s
}

// Parallel makes pods start and stop without order.
func (s *Sim) Parallel() *Sim {
	s.sets[0].facts.Parallel = true
	return s
}

// Unordered makes a set with ordinals update pods without regard to them.
func (s *Sim) Unordered() *Sim {
	s.sets[0].facts.Parallel, s.sets[0].facts.Unordered = true, true
	return s
}

// Target returns the facts of the target: a test reads them, or edits what is no spec.
func (s *Sim) Target() *rollout.WorkloadFacts { return &s.sets[0].facts }

// Edit changes the spec of the target as anybody may.
func (s *Sim) Edit(change func(*rollout.WorkloadFacts)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.sets[0].facts)
	s.sets[0].facts.Generation++
}

// SetTemplate writes a template as its user does.
func (s *Sim) SetTemplate(revision string) {
	s.Edit(func(w *rollout.WorkloadFacts) { w.Template = revision })
}

// Scale writes the number of replicas as kubectl does.
func (s *Sim) Scale(replicas int) {
	s.Edit(func(w *rollout.WorkloadFacts) { w.Replicas = replicas })
}

// Own makes another controller the owner of the target; gone: one that does not exist any more.
func (s *Sim) Own(gone bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sets[0].facts.Controller = &rollout.Owner{Kind: "Rollout", Name: "another", UID: "another", Gone: gone}
}

// Work is Step.
func (s *Sim) Work() { s.Step() }

// Break makes pods of a revision never ready.
func (s *Sim) Break(revision string) { s.broken[revision] = true }

// Fail makes a pod not ready until it is replaced, and reports whether there is such a pod.
func (s *Sim) Fail(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.sets {
		for _, p := range w.pods {
			if p.Name == name {
				p.Ready, p.age = false, -1<<30
				return true
			}
		}
	}
	return false
}

// DeletePod deletes a pod as anybody may.
func (s *Sim) DeletePod(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.sets {
		for _, p := range w.pods {
			if p.Name == name {
				p.Terminating, p.Ready = true, false
			}
		}
	}
}

// Now is the time of the simulation.
func (s *Sim) Now() time.Time { return s.now }

// Sleep lets time pass in which no controller works.
func (s *Sim) Sleep(d time.Duration) { s.now = s.now.Add(d) }

// Applied are the writes so far.
func (s *Sim) Applied() []rollout.Act { return slices.Clone(s.recorded) }

// Observe returns the facts.
func (s *Sim) Observe(context.Context) (rollout.Facts, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := rollout.Facts{
		Now: s.now, Rollout: rollout.Identity{Namespace: "default", Name: "db", UID: UID}, Wanted: s.Wanted,
		Answers: maps.Clone(s.answers), Budgets: slices.Clone(s.Budgets), GateProblem: s.GateProblem,
	}
	for i, w := range s.sets {
		facts := w.facts
		if i == 0 {
			f.Target = &facts
		} else {
			f.Sources = append(f.Sources, facts)
		}
		for _, p := range w.pods {
			seen := p.Pod
			if s.Roles != nil {
				seen.Role = s.Roles(seen)
			}
			if s.Labels != nil {
				seen.Labels = s.Labels(seen)
			}
			f.Pods = append(f.Pods, seen)
		}
	}
	if !f.Wanted.Named && f.Wanted.TargetRevision == "" {
		f.Wanted.TargetRevision = f.Target.Template
	}
	return f, nil
}

// Answer keeps the answers of asks for the next observation.
func (s *Sim) Answer(asks []rollout.Ask) {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.answers)
	for _, a := range asks {
		answer := rollout.Answer{Status: 200, Open: true, Samples: []string{"1"}, Run: "Succeeded"}
		if s.Answers != nil {
			answer = s.Answers(a)
		}
		answer.Attempt = a.Attempt
		s.answers[a.Key] = answer
		if a.Kind == rollout.AskProbe {
			for _, w := range s.sets {
				for _, p := range w.pods {
					if slices.Contains(a.Pods, p.Name) && p.Ready {
						p.Probes = maps.Clone(p.Probes) // facts that were observed stay
						if p.Probes == nil {
							p.Probes = map[string]rollout.ProbeFacts{}
						}
						p.Probes[a.Name] = rollout.ProbeFacts{Passing: answer.Open, Failed: !answer.Open, At: s.now}
					}
				}
			}
		}
	}
}

// Apply does one write. It is refused with WRITE_CONFLICT when the spec or the pod has changed since
// the facts.
func (s *Sim) Apply(_ context.Context, a rollout.Act) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.sets, func(w *set) bool { return w.facts.UID == a.Workload })
	if i < 0 {
		return fault.WriteConflict.Errorf("there is no workload %s", a.Workload)
	}
	w := s.sets[i]
	if ref := cmp.Or(a.Evict, a.Delete); ref != nil {
		return s.remove(w, *ref, a)
	}
	if a.Generation != w.facts.Generation {
		return fault.WriteConflict.Errorf("%s has generation %d, the write expects %d", w.facts.Name, w.facts.Generation, a.Generation)
	}
	s.recorded = append(s.recorded, a)
	f := &w.facts
	switch a.Claim {
	case rollout.TakeClaim:
		f.Controller, f.Anchored = &rollout.Owner{Kind: "Rollout", Name: "db", UID: UID}, true
	case rollout.ReleaseClaim:
		f.Controller, f.Anchored = nil, false
	}
	if a.Held != nil {
		f.Held = *a.Held
	}
	before := *f
	if a.Template != "" {
		f.Template = a.Template
	}
	assign(&f.Replicas, a.Replicas)
	assign(&f.Partition, a.Partition)
	assign(&f.Paused, a.Paused)
	if a.UpdateType != "" {
		f.UpdateType = a.UpdateType
	}
	if a.Reserve != nil {
		f.Reserved = a.Reserve
	}
	if a.First != nil || a.Strategy != "" {
		f.First = a.First
	}
	if f.Template != before.Template || f.Replicas != before.Replicas || f.Partition != before.Partition || f.Paused != before.Paused ||
		f.UpdateType != before.UpdateType || len(f.Reserved) != len(before.Reserved) || !slices.Equal(f.First, before.First) {
		f.Generation++
	}
	return nil
}

func assign[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

func (s *Sim) remove(w *set, ref rollout.PodRef, a rollout.Act) error {
	for _, p := range w.pods {
		if p.Name != ref.Name {
			continue
		}
		if p.UID != ref.UID {
			return fault.WriteConflict.Errorf("pod %s is another one now", ref.Name)
		}
		s.recorded = append(s.recorded, a)
		p.Terminating, p.Ready = true, false
		return nil
	}
	return fault.WriteConflict.Errorf("there is no pod %s", ref.Name)
}

func (s *Sim) String() string {
	text := s.now.Format("15:04:05")
	for _, w := range s.sets {
		text += fmt.Sprintf(" %s %d/%d", w.facts.Name, len(w.pods), w.facts.Replicas)
		if w.facts.Partition > 0 {
			text += " partition " + strconv.Itoa(w.facts.Partition)
		}
		for _, p := range w.pods {
			text += fmt.Sprintf(" %d:%s", p.Ordinal, p.Revision)
			if p.Terminating {
				text += "-"
			} else if !p.Ready {
				text += "!"
			}
		}
	}
	return text
}
