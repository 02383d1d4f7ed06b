package workloadtest

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/rollout"
)

// Step lets one tick pass: pods start and stop, and each controller does one round of work.
func (s *Sim) Step() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = s.now.Add(s.Tick)
	for _, w := range s.sets {
		s.pods(w)
		if behind := w.facts.ObservedGeneration < w.facts.Generation; behind && w.late < s.Lag {
			w.late++
		} else if w.late = 0; behind {
			w.facts.ObservedGeneration = w.facts.Generation
			w.facts.UpdateRevision = w.facts.Template
		} else {
			s.control(w)
		}
		w.status()
	}
}

func (s *Sim) pods(w *set) {
	w.pods = slices.DeleteFunc(w.pods, func(p *pod) bool {
		if p.Terminating {
			p.going++
		}
		return p.going > s.StopSteps
	})
	for _, p := range w.pods {
		if p.age++; !p.Ready && !p.Terminating && p.age >= s.StartSteps && !s.broken[p.Revision] {
			p.Ready, p.ReadySince = true, s.now
		}
		if s.broken[p.Revision] {
			p.Ready = false
		}
	}
}

// status is what the controller writes at the end of a round.
func (w *set) status() {
	f := &w.facts
	f.StatusReplicas = len(w.pods)
	if f.ObservedGeneration < f.Generation {
		return
	}
	for _, p := range w.pods {
		if p.Revision != f.UpdateRevision || !p.Ready {
			return
		}
	}
	if len(w.pods) == f.Replicas {
		f.CurrentRevision = f.UpdateRevision
	}
}

func (s *Sim) control(w *set) {
	switch w.facts.Kind {
	case rollout.StatefulSet, rollout.AdvancedStatefulSet:
		s.controlOrdinals(w)
	case rollout.CloneSet:
		s.controlCloneSet(w)
	case rollout.Deployment:
		s.controlDeployment(w)
	}
}

// ordinals are those that the set wants.
func (w *set) ordinals() []int {
	var all []int
	for o := w.facts.FirstOrdinal; len(all) < w.facts.Replicas; o++ {
		if !slices.ContainsFunc(w.facts.Reserved, func(r string) bool { return reserves(r, o) }) {
			all = append(all, o)
		}
	}
	return all
}

// reserves reports whether a reserved ordinal, or a range such as 2-4, has the ordinal.
func reserves(text string, ordinal int) bool {
	from, to, isRange := strings.Cut(text, "-")
	first, err := strconv.Atoi(from)
	if err != nil || !isRange {
		return err == nil && first == ordinal
	}
	last, err := strconv.Atoi(to)
	return err == nil && first <= ordinal && ordinal <= last
}

func (w *set) at(ordinal int) *pod {
	for _, p := range w.pods {
		if p.Ordinal == ordinal {
			return p
		}
	}
	return nil
}

func (s *Sim) controlOrdinals(w *set) {
	wanted := w.ordinals()
	ordered := !w.facts.Parallel
	for position, o := range wanted {
		p := w.at(o)
		if p == nil {
			revision, kept := w.facts.UpdateRevision, position < w.facts.Partition
			if w.facts.Unordered {
				kept = w.old() < w.facts.Partition
			}
			if kept && w.facts.UpdateType != rollout.OnDelete {
				revision = w.facts.CurrentRevision
			}
			w.pods = append(w.pods, s.newPod(w, o, revision))
			if ordered {
				return
			}
			continue
		}
		if ordered && (!p.Ready || p.Terminating) { // it waits, even for a pod that will never be ready
			return
		}
	}
	for i := len(w.pods) - 1; i >= 0; i-- { // the highest go first
		if p := highest(w.pods, wanted); p != nil {
			if p.Terminating {
				if ordered {
					return
				}
				break
			}
			p.Terminating, p.Ready = true, false
			if ordered {
				return
			}
		}
	}
	if w.facts.UpdateType == rollout.OnDelete || w.facts.Paused {
		return
	}
	if w.facts.Unordered {
		s.replaceOne(w, w.old()-min(w.facts.Partition, w.facts.Replicas))
		return
	}
	away := 0
	for _, p := range w.pods {
		if !p.Ready || p.Terminating {
			away++
		}
	}
	for position := len(wanted) - 1; position >= w.facts.Partition; position-- {
		p := w.at(wanted[position])
		if p == nil || p.Terminating {
			return
		}
		if p.Revision == w.facts.UpdateRevision {
			if !p.Ready && ordered {
				return
			}
			continue
		}
		if p.Ready && away > 0 {
			return
		}
		p.Terminating, p.Ready = true, false
		return
	}
}

func highest(pods []*pod, wanted []int) *pod {
	var found *pod
	for _, p := range pods {
		if !slices.Contains(wanted, p.Ordinal) && (found == nil || p.Ordinal > found.Ordinal) {
			found = p
		}
	}
	return found
}

func (s *Sim) controlCloneSet(w *set) {
	f := &w.facts
	alive, old := 0, w.old()
	for _, p := range w.pods {
		if !p.Terminating {
			alive++
		}
	}
	keep := min(f.Partition, f.Replicas)
	for ; alive < f.Replicas; alive++ {
		revision := f.UpdateRevision
		if old < keep {
			revision = f.CurrentRevision
			old++
		}
		w.pods = append(w.pods, s.newPod(w, -1, revision))
	}
	for ; alive > f.Replicas; alive-- {
		s.stopOne(w, "")
	}
	if f.Paused || f.UpdateType == rollout.OnDelete {
		return
	}
	s.replaceOne(w, old-keep)
}

// old is how many pods do not have the revision of the template, and do not go.
func (w *set) old() (n int) {
	for _, p := range w.pods {
		if p.Revision != w.facts.UpdateRevision && !p.Terminating {
			n++
		}
	}
	return n
}

// replaceOne stops old pods, most of them: those that were named first, then those that are not ready.
// One that is ready stops while no other is away.
func (s *Sim) replaceOne(w *set, most int) {
	var old []*pod
	away := 0
	for _, p := range w.pods {
		if p.Terminating || !p.Ready {
			away++
		}
		if p.Revision != w.facts.UpdateRevision && !p.Terminating {
			old = append(old, p)
		}
	}
	slices.SortStableFunc(old, func(a, b *pod) int {
		return cmp.Compare(rank(w, a), rank(w, b))
	})
	for _, p := range old[:max(0, min(most, len(old)))] {
		if p.Ready {
			if away > 0 {
				return
			}
			away++
		}
		p.Terminating, p.Ready = true, false
	}
}

func rank(w *set, p *pod) int {
	switch i := slices.Index(w.facts.First, p.Name); {
	case i >= 0:
		return i - len(w.facts.First)
	case !p.Ready:
		return 1
	default:
		return 2
	}
}

// stopOne stops one pod that does not have the revision, first those that are not ready.
func (s *Sim) stopOne(w *set, except string) {
	for _, ready := range []bool{false, true} {
		for _, p := range w.pods {
			if !p.Terminating && p.Ready == ready && p.Revision != except {
				p.Terminating, p.Ready = true, false
				return
			}
		}
	}
}

func (s *Sim) controlDeployment(w *set) {
	f := &w.facts
	alive := 0
	for _, p := range w.pods {
		if !p.Terminating {
			alive++
		}
	}
	for ; alive < f.Replicas; alive++ {
		w.pods = append(w.pods, s.newPod(w, -1, f.UpdateRevision))
	}
	for ; alive > f.Replicas; alive-- {
		s.stopOne(w, "")
	}
}
