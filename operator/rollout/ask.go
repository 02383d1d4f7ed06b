package rollout

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pawl-dev/pawl/fault"
	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/rollout/gate"
	"github.com/pawl-dev/pawl/operator/rollout/outside"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/rollout"
)

// callLimit is the longest that a call may take with all that it reads before; its own timeout is shorter.
const callLimit = 6 * time.Minute

// asked is what this process has asked for one Rollout, and what has come back. Calls run beside the
// passes; the next pass finds their answers.
type asked struct {
	mu         sync.Mutex
	underWay   map[string]bool // calls, by key
	answers    map[string]rollout.Answer
	looked     map[string]time.Time // at runs of flows, by key
	probes     map[probeOf]*probing
	deliveries map[string]*delivery // event hooks, by name
	resting    bool                 // probes rest while a rollout is held
}

func newAsked() *asked {
	return &asked{underWay: map[string]bool{}, answers: map[string]rollout.Answer{}, looked: map[string]time.Time{}, probes: map[probeOf]*probing{}, deliveries: map[string]*delivery{}}
}

// begin reports whether a call is to be made: it is not under way, and its answer is not here. Runs of
// flows are looked at again.
func (a *asked) begin(ask rollout.Ask, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	got, answered := a.answers[ask.Key]
	answered = answered && got.Attempt == ask.Attempt
	if ask.Kind == rollout.AskFlow {
		answered = now.Sub(a.looked[ask.Key]) < flowPoll
	}
	if a.underWay[ask.Key] || answered {
		return false
	}
	a.underWay[ask.Key] = true
	if ask.Kind == rollout.AskFlow {
		a.looked[ask.Key] = now
	}
	return true
}

func (a *asked) end(key string, answer rollout.Answer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.underWay, key)
	a.answers[key] = answer
}

// lookAgain lets the run of a flow be looked at before its time.
func (a *asked) lookAgain(key string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.looked, key)
}

// facts are the answers that a decision sees.
func (a *asked) facts() map[string]rollout.Answer {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.answers)
}

// forget drops the answers that a saved position has taken in, and those of batches that have ended.
func (a *asked) forget(at rollout.Position) {
	a.mu.Lock()
	defer a.mu.Unlock()
	maps.DeleteFunc(a.answers, func(key string, answer rollout.Answer) bool {
		so, known := at.Answers[key]
		return !moves(at.State) || known && (so.Verdict != "" || so.Attempts >= answer.Attempt)
	})
	if !moves(at.State) {
		clear(a.probes)
		clear(a.looked)
	}
}

// rest lets probes rest while a rollout is held, and reports whether the hold has ended in which they
// did: what they showed before is old then, and is forgotten.
func (a *asked) rest(held bool) (ended bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	ended = a.resting && !held
	if a.resting = held; ended {
		clear(a.probes)
	}
	return ended
}

func (a *asked) forgetProbes() {
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.probes)
}

// judge asks rollout.Next. Gates are evaluated on the way, in this process.
func (p *pass) judge(ctx context.Context) rollout.Decision {
	f := p.facts
	f.Answers = p.memory.asked.facts()
	d := rollout.Next(p.plan, p.was, f, p.now)
	for {
		unanswered := slices.DeleteFunc(slices.Clone(d.Asks), func(a rollout.Ask) bool {
			_, ok := f.Answers[a.Key]
			return ok || a.Kind != rollout.AskGate
		})
		if len(unanswered) == 0 {
			return d
		}
		v := gate.VariablesOf(p.plan, d.Position, f, p.now)
		for _, a := range unanswered {
			f.Answers[a.Key] = p.gates.Evaluate(ctx, *a.Gate, v)
			p.metrics.asked(a, f.Answers[a.Key])
		}
		d = rollout.Next(p.plan, p.was, f, p.now)
	}
}

// ask sends what the saved decision asks, and what event hooks have not got yet.
func ask(_ context.Context, p *pass) outcome.Outcome {
	if !p.postponed {
		p.memory.asked.forget(p.decision.Position)
	}
	for _, a := range p.decision.Asks {
		switch a.Kind {
		case rollout.AskGate: // answered by judge
		case rollout.AskProbe:
			p.probe(a)
		case rollout.AskWebhook, rollout.AskMetric, rollout.AskHandover, rollout.AskFlow:
			if p.memory.asked.begin(a, p.now) {
				p.send(a)
			}
			if a.Kind == rollout.AskFlow {
				p.again(flowPoll)
			}
		}
	}
	p.deliver()
	return outcome.Done()
}

// send makes one call beside the passes. Its answer wakes the Rollout.
func (p *pass) send(a rollout.Ask) {
	o, mine, key, q := p.Operator, p.memory.asked, p.key, p.question(a)
	o.calls.Add(key, func(process context.Context) {
		ctx, cancel := context.WithTimeout(process, callLimit)
		defer cancel()
		answer := o.answer(ctx, q)
		if process.Err() != nil {
			return // the process ends; the next one asks again under the same key
		}
		answer.Attempt = a.Attempt
		o.metrics.asked(a, answer)
		mine.end(a.Key, answer)
		o.rollouts.wake(key)
	})
}

// again lets the next pass come no later than after d.
func (p *pass) again(d time.Duration) {
	if p.soonest == 0 || d < p.soonest {
		p.soonest = max(d, time.Millisecond)
	}
}

// question is an ask with what its answer needs beside it.
type question struct {
	rollout.Ask
	asked   *asked
	rollout types.NamespacedName
	body    HookBody
	words   *strings.Replacer // of queries
	pods    []outside.Pod
}

func (p *pass) question(a rollout.Ask) question {
	at, r := p.decision.Position, p.rollout()
	q := question{Ask: a, asked: p.memory.asked, rollout: p.key, pods: p.addresses(a.Pods)}
	q.body = HookBody{
		Key: a.Key, Name: r.Name, Namespace: r.Namespace, UID: string(r.UID), Phase: a.Phase, Rollback: at.Rollback != nil,
		Rollout: HookRevisions{Source: at.SourceRevision, Target: at.TargetRevision}, Batch: HookBatch{Index: a.Batch, Count: len(at.Batches)},
	}
	if a.Hook != nil {
		q.body.Metadata = a.Hook.Metadata
	}
	if a.Metric != nil {
		q.words = words(r, at, a.Batch)
	}
	return q
}

// answer asks, and waits for the answer.
func (o *Operator) answer(ctx context.Context, q question) rollout.Answer {
	switch q.Kind {
	case rollout.AskWebhook:
		client, err := o.outside.HTTP(ctx, q.rollout.Namespace, q.Hook.TLS)
		if err != nil {
			return outside.Failed(err)
		}
		return Caller{Client: client}.Call(ctx, *q.Hook, q.body)
	case rollout.AskMetric:
		return o.outside.Measure(ctx, q.rollout.Namespace, *q.Metric, q.words)
	case rollout.AskHandover:
		return o.handOver(ctx, q)
	case rollout.AskFlow:
		return o.runFlow(ctx, q)
	case rollout.AskGate, rollout.AskProbe:
	}
	return rollout.Answer{}
}

// handOver asks a pod to give up its role.
func (o *Operator) handOver(ctx context.Context, q question) rollout.Answer {
	if len(q.pods) == 0 {
		return outside.Failed(rollout.HandoverFailed.Errorf("the pod is not there"))
	}
	said, err := o.outside.HandOver(ctx, *q.Handover, q.Key, q.pods[0])
	if err != nil {
		return outside.Failed(rollout.HandoverFailed.Errorf("%s", fault.Message(err)))
	}
	return rollout.Answer{Message: said}
}

// words replaces the names of a query. Nothing else of it is a template.
func words(r *api.Rollout, at rollout.Position, batch int) *strings.Replacer {
	return strings.NewReplacer("{{rollout}}", r.Name, "{{namespace}}", r.Namespace, "{{workload}}", workloadName(r),
		"{{revision}}", at.TargetRevision, "{{batch}}", strconv.Itoa(batch))
}
