package rollouttest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/rollout"
	core "github.com/pawl-dev/pawl/rollout"
)

// replayed is the namespace at one version.
type replayed struct {
	grace    time.Duration
	now      time.Time
	rollouts map[string]*api.Rollout // by UID
	sets     map[string]*appsv1.StatefulSet
	pods     map[string]*corev1.Pod
	budgets  map[string]*policyv1.PodDisruptionBudget
	healthy  map[string]time.Time // when a pod was healthy last, by UID
	allowed  map[string]time.Time // when a budget allowed a disruption last
	claims   map[string]claim     // the newest of each set, by its UID
	found    []string
}

// claim is when a Rollout had a set last.
type claim struct {
	by *api.Rollout
	at time.Time
}

// replay judges versions in the order of the API server. What was true a moment (grace) ago may be what
// an operator has decided on.
func replay(seen []sighting, grace time.Duration) []string {
	slices.SortStableFunc(seen, func(a, b sighting) int { return int(int64(a.version) - int64(b.version)) }) //nolint:gosec // versions of one test
	r := &replayed{grace: grace, rollouts: map[string]*api.Rollout{}, sets: map[string]*appsv1.StatefulSet{}, pods: map[string]*corev1.Pod{},
		budgets: map[string]*policyv1.PodDisruptionBudget{}, healthy: map[string]time.Time{}, allowed: map[string]time.Time{}, claims: map[string]claim{}}
	for _, s := range seen {
		r.see(s)
	}
	return r.found
}

func (r *replayed) see(s sighting) {
	r.now = s.at
	key := s.object.GetName()
	switch o := s.object.(type) {
	case *api.Rollout:
		put(r.rollouts, string(o.UID), o, s.gone)
	case *policyv1.PodDisruptionBudget:
		put(r.budgets, key, o, s.gone)
	case *corev1.Pod:
		if was := r.pods[key]; was != nil && was.UID == o.UID && was.DeletionTimestamp == nil && o.DeletionTimestamp != nil {
			r.deleted(was)
		}
		put(r.pods, key, o, s.gone)
	case *appsv1.StatefulSet:
		if was := r.sets[key]; was != nil && !s.gone && was.UID == o.UID {
			r.changed(was, o)
		}
		put(r.sets, key, o, s.gone)
	}
	for _, p := range r.pods {
		if ready(p) {
			r.healthy[string(p.UID)] = s.at
		}
	}
	for name, b := range r.budgets {
		if b.Status.DisruptionsAllowed > 0 {
			r.allowed[name] = s.at
		}
	}
}

func put[T any](all map[string]T, key string, o T, gone bool) {
	if all[key] = o; gone {
		delete(all, key)
	}
}

func (r *replayed) complain(format string, args ...any) {
	r.found = append(r.found, fmt.Sprintf(format, args...))
}

func ready(p *corev1.Pod) bool {
	return p.DeletionTimestamp == nil && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// kept is how many of the pods of a set keep their revision.
func kept(s *appsv1.StatefulSet) int {
	replicas := replicasOf(s)
	switch u := s.Spec.UpdateStrategy; {
	case u.Type == appsv1.OnDeleteStatefulSetStrategyType:
		return replicas
	case u.RollingUpdate == nil || u.RollingUpdate.Partition == nil:
		return 0
	default:
		return min(int(*u.RollingUpdate.Partition), replicas)
	}
}

func replicasOf(s *appsv1.StatefulSet) int {
	if s.Spec.Replicas == nil {
		return 1
	}
	return int(*s.Spec.Replicas)
}

// claimant is the Rollout that has claimed a set; nil: none.
func (r *replayed) claimant(s *appsv1.StatefulSet) *api.Rollout {
	if owner := metav1.GetControllerOf(s); owner != nil {
		return r.rollouts[string(owner.UID)]
	}
	return nil
}

// changed judges a new version of a set.
func (r *replayed) changed(was, is *appsv1.StatefulSet) {
	before, after := r.claimant(was), r.claimant(is)
	if before != nil {
		r.claims[string(is.UID)] = claim{before, r.now}
	} else if last := r.claims[string(is.UID)]; last.by != nil && r.now.Sub(last.at) < r.grace { // somebody has taken it away a moment ago
		before = r.rollouts[string(last.by.UID)]
	}
	rolled := fmt.Sprintf("%s, version %s: its partition keeps %d of %d pods, and kept %d before", is.Name, is.ResourceVersion, kept(is), replicasOf(is), kept(was))
	sameTemplate := reflect.DeepEqual(was.Spec.Template, is.Spec.Template)
	if before != nil && after != nil && sameTemplate && replicasOf(was) == replicasOf(is) && kept(is) > kept(was) && before.Status.RollingState == string(core.InBatch) {
		r.complain("a forward partition rises: %s", rolled)
	}
	if kept(is) >= kept(was) || replicasOf(is) != replicasOf(was) {
		return
	}
	old := r.old(is, kept(is), kept(was))
	switch {
	case before == nil:
		held := was.Labels["pawl.dev/held"] != "" && is.Labels["pawl.dev/held"] != "" && is.Annotations[rollout.UnguardedAnnotation] == ""
		if held && len(old) > 0 {
			r.complain("what is held is released without a claim: %s", rolled)
		}
	case moving(before):
		if n := before.Status.RolloutTargetSize; before.Status.RollingState == string(core.InBatch) && n != nil && int(*n) == replicasOf(is) {
			b := before.Status.Batches[strconv.Itoa(int(before.Status.CurrentBatch))]
			if replicasOf(is)-kept(is) > int(b.Target) {
				r.complain("batch %d ends at %d pods: %s", before.Status.CurrentBatch, b.Target, rolled)
			}
		}
		r.judgeRelease(before, is, kept(was), old, rolled)
	case len(old) > 0:
		r.complain("pods are released in state %s: %s", before.Status.RollingState, rolled)
	}
}

func moving(r *api.Rollout) bool {
	return r.Status.RollingState == string(core.InBatch) || r.Status.RollingState == string(core.RollingBack)
}

// old are the pods of some positions that have another revision than the newest.
func (r *replayed) old(s *appsv1.StatefulSet, from, to int) (all []*corev1.Pod) {
	for i := from; i < to; i++ {
		p := r.pods[fmt.Sprintf("%s-%d", s.Name, i+firstOrdinal(s))]
		if p != nil && p.Labels[appsv1.ControllerRevisionHashLabelKey] != s.Status.UpdateRevision {
			all = append(all, p)
		}
	}
	return all
}

func firstOrdinal(s *appsv1.StatefulSet) int {
	if s.Spec.Ordinals == nil {
		return 0
	}
	return int(s.Spec.Ordinals.Start)
}

// deleted judges the deletion of a pod of a set that is moved pod by pod.
func (r *replayed) deleted(p *corev1.Pod) {
	for _, s := range r.sets {
		if owner := r.claimant(s); owner != nil && metav1.IsControlledBy(p, s) && s.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType && moving(owner) {
			r.judgeRelease(owner, s, replicasOf(s), []*corev1.Pod{p}, "pod "+p.Name+" is deleted")
		}
	}
}

// judgeRelease judges the budgets of a Rollout before some pods are let go. A pod that is away already
// may always be replaced.
func (r *replayed) judgeRelease(owner *api.Rollout, s *appsv1.StatefulSet, keeps int, old []*corev1.Pod, what string) {
	going := slices.DeleteFunc(slices.Clone(old), func(p *corev1.Pod) bool { return !ready(p) })
	plan, err := planOf(owner)
	if err != nil || len(going) == 0 {
		return
	}
	risk := r.atRisk(s, keeps)
	well := func(p *corev1.Pod) bool {
		return !risk[p.Name] && (ready(p) || p.DeletionTimestamp == nil && r.now.Sub(r.healthy[string(p.UID)]) < r.grace)
	}
	var d core.Disruption
	if plan.Disruption != nil {
		d = *plan.Disruption
	}
	own, away := 0, 0
	for _, p := range r.pods {
		if metav1.IsControlledBy(p, s) {
			if own++; !well(p) {
				away++
			}
		}
	}
	missing := max(0, replicasOf(s)-own)
	if m := d.MaxUnavailable; m != nil && away+missing+len(going) > m.Of(replicasOf(s)) {
		r.complain("%d pods would be away, maxUnavailable is %s: %s", away+missing+len(going), m, what)
	}
	if q := d.Quorum; q != nil {
		members, fine := missing, 0
		for _, p := range r.pods {
			if q.Selector.Matches(p.Labels) {
				if members++; well(p) {
					fine++
				}
			}
		}
		if q.Members != nil {
			members = *q.Members
		}
		if least := q.MinHealthy.Of(members); fine-len(going) < least {
			r.complain("%d of %d members would be healthy, %d must be: %s", fine-len(going), members, least, what)
		}
	}
	if d.RespectPodDisruptionBudgets != nil && !*d.RespectPodDisruptionBudgets {
		return
	}
	for name, b := range r.budgets {
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err != nil || !slices.ContainsFunc(going, func(p *corev1.Pod) bool { return selector.Matches(labels.Set(p.Labels)) }) {
			continue
		}
		if b.Status.DisruptionsAllowed == 0 && r.now.Sub(r.allowed[name]) >= r.grace {
			r.complain("PodDisruptionBudget %s allows no disruption: %s", name, what)
		}
	}
}

// atRisk are the pods of all sets that may go at any moment; of one set, those at or above a position.
func (r *replayed) atRisk(of *appsv1.StatefulSet, keeps int) map[string]bool {
	all := map[string]bool{}
	for _, s := range r.sets {
		from := kept(s)
		if s.UID == of.UID {
			from = keeps
		}
		for _, p := range r.old(s, from, replicasOf(s)) {
			all[p.Name] = true
		}
	}
	return all
}

func planOf(r *api.Rollout) (core.Plan, error) {
	text, err := json.Marshal(r.Spec.RolloutPlan)
	if err != nil {
		return core.Plan{}, err
	}
	return core.ParsePlan(text)
}
