// Package budget judges how many pods of a workload may be away at once.
package budget

import (
	"fmt"
	"slices"
)

// Amount is a number of pods out of a total.
type Amount interface {
	Of(total int) int
	String() string
}

// Selector selects pods by their labels.
type Selector interface {
	Matches(labels map[string]string) bool
}

// Budgets are the limits. One that is nil does not limit.
type Budgets struct {
	Unavailable        Amount // how many pods of the workload may be away
	UnavailablePerZone Amount // how many of one zone
	Quorum             *Quorum
	Disruptions        []Disruption
}

// Quorum keeps members healthy, those of other workloads too.
type Quorum struct {
	Selector Selector
	Healthy  Amount // how many of the members must be
	Members  *int   // nil: those that are selected
}

// Disruption is a PodDisruptionBudget.
type Disruption struct {
	Name     string
	Allowed  int // lacks pods that may go and are not disturbed yet
	Selector Selector
}

// Pod is what budgets see of a pod.
type Pod struct {
	Name   string
	Zone   string // empty: unknown
	Labels map[string]string
	Serves bool // it is ready, and does not terminate
	Down   bool // it is away, or may go at any moment
}

// Pods are those of the workload, and the others that a quorum may select.
type Pods struct {
	Own      []Pod
	Others   []Pod // one with the name of an own pod is that pod
	Replicas int   // how many own pods there should be
}

// Missing is how many pods do not exist.
func (p Pods) Missing() int { return max(0, p.Replicas-len(p.Own)) }

// Away is how many own pods are down, or do not exist.
func (p Pods) Away() int {
	away := p.Missing()
	for i := range p.Own {
		if p.Own[i].Down {
			away++
		}
	}
	return away
}

// Refusal is the budget that does not let a pod go. The zero Refusal is none.
type Refusal struct {
	Reason  string
	Message string
}

// ByKubernetes is the reason of a PodDisruptionBudget. The others end when pods become ready.
const ByKubernetes = "DisruptionBudget"

// Refuses is why the next pod, which is not down, may not go; the first budget that refuses counts.
func (b Budgets) Refuses(next Pod, pods Pods) Refusal {
	for _, refuses := range []func(Pod, Pods) Refusal{b.workload, b.zones, b.quorum, b.disruptions} {
		if r := refuses(next, pods); r != (Refusal{}) {
			return r
		}
	}
	return Refusal{}
}

func (b Budgets) workload(next Pod, pods Pods) Refusal {
	if b.Unavailable == nil {
		return Refusal{}
	}
	if away, most := pods.Away(), b.Unavailable.Of(pods.Replicas); away+1 > most {
		return Refusal{"MaxUnavailable", fmt.Sprintf("%d pods are away, %d may be: %s waits", away, most, next.Name)}
	}
	return Refusal{}
}

// zones counts a pod whose zone is unknown, and one that is missing, in every zone.
func (b Budgets) zones(next Pod, pods Pods) Refusal {
	if b.UnavailablePerZone == nil {
		return Refusal{}
	}
	zones := []string{next.Zone}
	if next.Zone == "" {
		for _, p := range pods.Own {
			if p.Zone != "" && !slices.Contains(zones, p.Zone) {
				zones = append(zones, p.Zone)
			}
		}
	}
	for _, zone := range zones {
		size, away := 0, pods.Missing()
		for _, p := range pods.Own {
			if p.Zone != zone && p.Zone != "" && zone != "" {
				continue
			}
			size++
			if p.Down {
				away++
			}
		}
		if most := b.UnavailablePerZone.Of(size + pods.Missing()); away+1 > most {
			return Refusal{"MaxUnavailablePerZone", fmt.Sprintf("%d pods of zone %q are away, %d may be: %s waits", away, zone, most, next.Name)}
		}
	}
	return Refusal{}
}

func (b Budgets) quorum(next Pod, pods Pods) Refusal {
	if b.Quorum == nil {
		return Refusal{}
	}
	g := b.Quorum.count(pods, next.Name)
	if !g.has { // nobody knows what it is to the group: it counts as a member, and so does each like it that is down
		for i := range pods.Own {
			if p := &pods.Own[i]; p.Down && !b.Quorum.Selector.Matches(p.Labels) {
				g.healthy--
			}
		}
	}
	if least := b.Quorum.Healthy.Of(g.members); g.healthy-1 < least {
		return Refusal{"Quorum", fmt.Sprintf("%d of %d members are healthy, %d must stay: %s waits", g.healthy, g.members, least, next.Name)}
	}
	return Refusal{}
}

// Left is how many members of the quorum are healthy, and stay so.
func (q Quorum) Left(pods Pods) int { return q.count(pods, "").healthy }

// group is what a quorum selects.
type group struct {
	members int // those that are missing too
	healthy int // and stay so
	has     bool
}

// count counts the pods that the quorum selects, and whether one of them has a name. Own pods that are
// missing belong to the group.
func (q Quorum) count(pods Pods, name string) group {
	var g group
	known := map[string]bool{}
	selected := 0
	add := func(p *Pod) {
		selected++
		g.has = g.has || p.Name == name
		if p.Serves && !p.Down {
			g.healthy++
		}
	}
	for i := range pods.Own {
		if p := &pods.Own[i]; q.Selector.Matches(p.Labels) {
			add(p)
			if len(pods.Others) > 0 {
				known[p.Name] = true
			}
		}
	}
	if selected > 0 || len(pods.Own) == 0 {
		g.members = pods.Missing()
	}
	for i := range pods.Others {
		if p := &pods.Others[i]; !known[p.Name] && q.Selector.Matches(p.Labels) {
			add(p)
			known[p.Name] = true
		}
	}
	g.members += selected
	if q.Members != nil {
		g.members = *q.Members
	}
	return g
}

func (b Budgets) disruptions(next Pod, pods Pods) Refusal {
	for _, d := range b.Disruptions {
		if !d.Selector.Matches(next.Labels) {
			continue
		}
		going := 0
		for _, p := range pods.Own {
			if p.Down && p.Serves && d.Selector.Matches(p.Labels) {
				going++
			}
		}
		if d.Allowed-going < 1 {
			return Refusal{ByKubernetes, fmt.Sprintf("PodDisruptionBudget %s allows no disruption: %s waits", d.Name, next.Name)}
		}
	}
	return Refusal{}
}

// Impossible is a limit under which no pod may ever go, by the name of its field; empty: there is none.
func (b Budgets) Impossible(pods Pods) (field, why string) {
	size := max(pods.Replicas, 1)
	if m := b.Unavailable; m != nil && m.Of(size) < 1 {
		return "maxUnavailable", fmt.Sprintf("%s of %d pods is none", m, size)
	}
	if m := b.UnavailablePerZone; m != nil && m.Of(size) < 1 {
		return "maxUnavailablePerZone", fmt.Sprintf("%s of %d pods is none", m, size)
	}
	if q := b.Quorum; q != nil {
		if len(pods.Own) > 0 && !slices.ContainsFunc(pods.Own, func(p Pod) bool { return q.Selector.Matches(p.Labels) }) {
			return "quorum.selector", fmt.Sprintf("it selects none of the %d pods of the workload: name labels that they have", len(pods.Own))
		}
		members := q.count(pods, "").members
		if least := q.Healthy.Of(members); least >= members && members > 0 {
			return "quorum.minHealthy", fmt.Sprintf("%s of %d members is %d: none may ever be away", q.Healthy, members, least)
		}
	}
	return "", ""
}
