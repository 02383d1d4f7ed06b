package rollout

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/operator/rollout/outside"
	"github.com/pawl-dev/pawl/rollout"
)

// freshPause is at least between two probes of a pod whose answer is needed now.
const freshPause = 200 * time.Millisecond

// probeOf is one probe of one pod.
type probeOf struct{ probe, uid string }

// probing is what a probe of a pod has shown.
type probing struct {
	underWay          bool
	ready             bool // the pod was ready, once
	asked, next       time.Time
	succeeded, failed int // in a row
	facts             rollout.ProbeFacts
}

// addresses are those of pods, as the watch of what moves shows them. Pods that it does not show are
// left out.
func (p *pass) addresses(names []string) (all []outside.Pod) {
	for _, name := range names {
		pod := &corev1.Pod{}
		for _, watched := range p.reader.dependents {
			if err := watched.Get(context.Background(), client.ObjectKey{Namespace: p.key.Namespace, Name: name}, pod); err != nil {
				continue
			}
			a := outside.Pod{Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID), IP: pod.Status.PodIP}
			for _, c := range pod.Status.Conditions {
				a.Ready = a.Ready || c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
			}
			if len(pod.Spec.Containers) > 0 {
				a.Container = pod.Spec.Containers[0].Name
			}
			all = append(all, a)
			break
		}
	}
	return all
}

// probed completes the pods with what their probes have shown, and with the role that a probe tells.
func (p *pass) probed() {
	mine := p.memory.asked
	mine.mu.Lock()
	defer mine.mu.Unlock()
	pods := p.facts.Pods
	for i := range pods {
		for _, r := range p.plan.Probes {
			state := mine.probes[probeOf{r.Name, pods[i].UID}]
			if state == nil || state.facts.At.IsZero() {
				continue
			}
			if pods[i].Probes == nil {
				pods[i].Probes = map[string]rollout.ProbeFacts{}
			}
			pods[i].Probes[r.Name] = state.facts
			if o := p.plan.Order; o != nil && o.RoleProbe == r.Name && state.facts.Passing {
				pods[i].Role = state.facts.Value
			}
		}
	}
}

// probe asks the pods whose time has come.
func (p *pass) probe(a rollout.Ask) {
	mine := p.memory.asked
	mine.mu.Lock()
	defer mine.mu.Unlock()
	for _, pod := range p.addresses(a.Pods) {
		of := probeOf{a.Probe.Name, pod.UID}
		state := mine.probes[of]
		if state == nil {
			state = &probing{}
			mine.probes[of] = state
		}
		if mine.resting && (state.facts.Passing || state.facts.Failed) { // it is asked anew when the hold ends
			continue
		}
		next := state.next
		if a.Fresh || pod.Ready && !state.ready { // it is ready since a moment ago
			next = state.asked.Add(min(freshPause, time.Duration(a.Probe.Period)))
		}
		if state.underWay || p.now.Before(next) {
			p.again(next.Sub(p.now))
			continue
		}
		state.underWay, state.ready = true, state.ready || pod.Ready
		p.sendProbe(*a.Probe, pod, state)
	}
}

func (p *pass) sendProbe(r rollout.Probe, pod outside.Pod, state *probing) {
	o, mine, key := p.Operator, p.memory.asked, p.key
	o.calls.Add(key, func(ctx context.Context) {
		asked := o.now()
		value, err := o.outside.Probe(ctx, r, pod)
		if ctx.Err() != nil {
			return
		}
		o.metrics.asked(rollout.Ask{Kind: rollout.AskProbe}, rollout.Answer{Open: err == nil})
		mine.mu.Lock()
		state.result(r, value, err, asked)
		state.underWay, state.asked, state.next = false, asked, o.now().Add(time.Duration(r.Period))
		mine.mu.Unlock()
		o.rollouts.wake(key) // for its facts, and for its next turn
	})
}

// result counts one answer, as the thresholds of the probe say. Until they are reached the value stays
// what it was: a role is none the less known because one attempt fails. A pod that starts may fail as
// often as it likes: that it is not ready is counted without a probe.
func (s *probing) result(r rollout.Probe, value string, err error, asked time.Time) {
	if err == nil {
		s.succeeded, s.failed, s.facts.Value, s.facts.At = s.succeeded+1, 0, value, asked
		if s.succeeded >= r.SuccessThreshold {
			s.facts.Passing, s.facts.Failed = true, false
		}
		return
	}
	s.succeeded = 0
	if s.ready {
		s.failed++
	} else {
		s.facts.Passing = false
	}
	if s.failed >= r.FailureThreshold {
		s.facts.Passing, s.facts.Failed = false, true
	}
	if !s.facts.Passing {
		s.facts.Value, s.facts.At = fault.Message(err), asked
	}
}
