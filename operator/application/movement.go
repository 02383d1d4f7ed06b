package application

import (
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/fault"
	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/rollout"
)

// driven is the Rollout of an Application, as far as it is judged.
type driven struct {
	Component, Target, Source string
	Size                      *int32
	Ended                     bool   // nothing newer is asked of it
	Succeeded                 bool   // all pods have the target, and the size
	RolledBackTo              string // the revision that the pods went back to; empty: none
}

// drivenBy reads a Rollout; nil: there is none.
func drivenBy(r *api.Rollout) *driven {
	if r == nil || r.Spec.Application == nil {
		return nil
	}
	a, s := r.Spec.Application, r.Status
	d := &driven{Component: a.Component, Target: a.TargetRevision, Source: a.SourceRevision, Size: r.Spec.RolloutPlan.TargetSize}
	d.Ended = rollout.State(s.RollingState).Terminal() && s.ObservedGeneration == r.Generation && recorded(r)
	nothing := s.Waiting != nil && s.Waiting.Reason == rollout.NothingToRoll.Reason() || s.Failure != nil && s.Failure.Reason == rollout.NothingToRoll.Reason()
	if nothing && s.RollingState == string(rollout.Locating) {
		d.Ended = s.ObservedGeneration == r.Generation
	}
	if d.Ended {
		// A target with another name than the recorded one that ends a rollback is what the pods had.
		back := s.Rollback != nil && a.TargetRevision != s.LastTargetRevision && a.TargetRevision != s.LastSourceRevision
		d.Succeeded = s.RollingState == string(rollout.Succeeded) || nothing || back
		if s.Rollback != nil && !d.Succeeded {
			d.RolledBackTo = s.LastSourceRevision
		}
	}
	return d
}

// recorded reports whether a status is about what the spec asks for: while the Rollout controller does not
// see a workload yet, it has observed the spec, and the status still tells of the earlier rollout. One
// that went back stays that of the earlier pair when its source is asked for by another name.
func recorded(r *api.Rollout) bool {
	a, s := r.Spec.Application, r.Status
	if s.Rollback != nil {
		return true
	}
	size, want := s.RolloutTargetSize, r.Spec.RolloutPlan.TargetSize
	sized := s.RollingState != string(rollout.Succeeded) || s.Mode != string(rollout.Scale) || want == nil || size != nil && *size == *want
	return s.LastTargetRevision == a.TargetRevision && s.LastSourceRevision == a.SourceRevision && sized
}

// situation is what a movement is judged by.
type situation struct {
	Named     string // spec.rolloutComponent
	Plan      *api.RolloutPlan
	Revisions []api.ApplicationRevision // in order
	Reached   string
	Sizes     map[string]int32 // of the reached revision
	Rollout   *driven
}

// movement is what the plan does with an Application.
type movement struct {
	Component string // the one that the plan moves; empty: none
	Busy      string // the component that is still moved; the other one waits for it
	Rolls     bool   // its pods get another template, in batches
	// Target and Source are the pair of the Rollout; no Target: it stays as it is.
	Target, Source string
	Size           *int32 // of a scale
	Done           bool   // the newest revision is reached
}

func (s situation) newest() *api.ApplicationRevision { return &s.Revisions[len(s.Revisions)-1] }

func (s situation) reached() *api.ApplicationRevision { return find(s.Revisions, s.Reached) }

// judge says which component is moved, from which revision to which, and to which size. The fault is
// COMPONENT_AMBIGUOUS.
func judge(s situation) (movement, error) {
	name, err := s.chosen()
	if err != nil {
		return movement{}, err
	}
	r := s.Rollout
	if r != nil && !r.Ended && name == "" { // the change was taken back in the middle
		name = r.Component
	}
	c := componentOf(s.newest(), name)
	switch {
	case r != nil && !r.Ended && (name != r.Component || c == nil):
		return movement{Component: name, Busy: r.Component}, nil
	case c == nil:
		return movement{Done: true}, nil
	}
	m := movement{Component: name}
	size, was := sizeOf(s.Plan, *c), componentOf(s.reached(), name)
	if r != nil && r.Component == name && r.Target == s.newest().Name && r.Source == "" || was == nil {
		return s.scale(m, size), nil
	}
	if !sameTemplate(*c, *was) || s.unsettled(name) {
		rolled := r != nil && r.Component == name && r.Target == s.newest().Name && r.Ended && r.Succeeded
		if !rolled {
			m.Rolls = true
			m.Source, m.Target = rollout.Revisions(application(*s.newest()), numberOf(application(*s.newest()), s.newest().Name))
			return m, nil
		}
	}
	if size == s.sizeReached(*was) {
		m.Done = true
		return m, nil
	}
	return s.scale(m, size), nil
}

// application is the name in that of a revision.
func application(r api.ApplicationRevision) string {
	return r.Name[:strings.LastIndex(r.Name, "-v")]
}

// chosen is the component that the plan moves: the named one, the only one, or the only one that has
// changed since a revision was reached.
func (s situation) chosen() (string, error) {
	all := s.newest().Spec.Components
	switch {
	case s.Named != "":
		return rollout.Component(s.Named, namesOf(all), nil)
	case len(all) == 1:
		return all[0].Name, nil
	}
	var changed []string
	for _, c := range all {
		was := componentOf(s.reached(), c.Name)
		if was == nil || !sameTemplate(c, *was) || sizeOf(nil, c) != sizeOf(nil, *was) {
			changed = append(changed, c.Name)
		}
	}
	switch len(changed) {
	case 0:
		return "", nil
	case 1:
		return changed[0], nil
	}
	return "", rollout.ComponentAmbiguous.Errorf("%s have changed: name the one that the plan moves in spec.rolloutComponent", strings.Join(changed, ", "))
}

func namesOf(all []api.ApplicationRevisionComponent) (names []string) {
	for _, c := range all {
		names = append(names, c.Name)
	}
	return names
}

// sizeOf is the size that is asked for.
func sizeOf(plan *api.RolloutPlan, c api.ApplicationRevisionComponent) int32 {
	if plan != nil && plan.TargetSize != nil {
		return *plan.TargetSize
	}
	if n := replicasOf(c); n != nil {
		return *n
	}
	return 1
}

func (s situation) sizeReached(c api.ApplicationRevisionComponent) int32 {
	if n, ok := s.Sizes[c.Name]; ok {
		return n
	}
	return sizeOf(nil, c)
}

// unsettled reports whether pods may have another template than that of the reached revision: the last
// rollout has ended elsewhere, or has not ended.
func (s situation) unsettled(component string) bool {
	r := s.Rollout
	if r == nil || r.Component != component {
		return false
	}
	if r.Source == "" || r.Succeeded {
		target, was := componentOf(find(s.Revisions, r.Target), component), componentOf(s.reached(), component)
		return target == nil || was == nil || !sameTemplate(*target, *was)
	}
	return r.RolledBackTo == "" || r.RolledBackTo != s.Reached
}

// scale is a movement without a source.
func (s situation) scale(m movement, size int32) movement {
	r := s.Rollout
	m.Target, m.Size = s.newest().Name, &size
	m.Done = r != nil && r.Component == m.Component && r.Target == m.Target && r.Source == "" && r.Size != nil && *r.Size == size && r.Ended && r.Succeeded
	return m
}

// reachedBy is the newest revision that a Rollout has reached, with the size of its component; the
// pair that the Application asked for before a newer revision came counts too.
func (s situation) reachedBy() (revision string, sizes map[string]int32) {
	r := s.Rollout
	if r == nil || !r.Ended || !r.Succeeded {
		return "", nil
	}
	target := find(s.Revisions, r.Target)
	if target == nil || numberOf(application(*target), r.Target) <= numberOf(application(*target), s.Reached) {
		return "", nil
	}
	c := componentOf(target, r.Component)
	switch {
	case c == nil:
		return "", nil
	case r.Source == "" && r.Size != nil:
		return r.Target, map[string]int32{r.Component: *r.Size}
	case r.Target != s.newest().Name && sizeOf(nil, *c) == s.sizeReached(*c):
		return r.Target, nil
	}
	return "", nil
}

// treatment is how a component is applied.
type treatment int

const (
	untouched treatment = iota
	created             // if it does not exist, without pods; otherwise the Rollout changes it
	keepSize            // all but the size
	atOnce              // all
)

// treatmentOf says how a component is applied while the plan moves one.
func (m movement) treatmentOf(component string, planned, named bool) treatment {
	switch {
	case !planned:
		return atOnce
	case component == m.Busy, component == m.Component && m.Busy != "":
		return untouched
	case component == m.Component && m.Rolls:
		return created
	case component == m.Component, !named:
		return keepSize
	}
	return atOnce
}

// inUse are the revisions that must stay: the newest with the one before it, the reached one, those of
// the Rollout, and those whose Deployments exist.
func (s situation) inUse(r *api.Rollout, workloads []string) func(string) bool {
	keep := []string{s.newest().Name, s.Reached}
	source, _ := rollout.Revisions(application(*s.newest()), numberOf(application(*s.newest()), s.newest().Name))
	keep = append(keep, source)
	if r != nil && r.Spec.Application != nil {
		keep = append(keep, r.Spec.Application.TargetRevision, r.Spec.Application.SourceRevision, r.Status.LastTargetRevision, r.Status.LastSourceRevision)
	}
	for _, name := range workloads {
		for _, revision := range slices.Backward(s.Revisions) {
			if slices.ContainsFunc(revision.Spec.Components, func(c api.ApplicationRevisionComponent) bool { return c.WorkloadName == name }) {
				keep = append(keep, revision.Name)
				break
			}
		}
	}
	return func(name string) bool { return slices.Contains(keep, name) }
}

// invalid reports a fault that only another spec ends.
func invalid(err error) bool { return err != nil && fault.Of(err).Class == fault.Invalid }
