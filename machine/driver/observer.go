package driver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
)

// ObservationWaits is the fault of an observation that does not answer.
var ObservationWaits = fault.Declare(fault.Kind{
	Code: "OBSERVATION_WAITS", Class: fault.Blocked,
	Title:  "the action of an observation waits instead of answering",
	Remedy: "Let the observation use an action that answers at once.",
})

// looks makes the observations of all machines. A look is a key of its queue:
// <kind>/<namespace>/<name>#<observation>.
type observer struct {
	d     *Driver
	mu    sync.Mutex
	queue *control.Queue // of this run, or of the next: a pass may plan a look before Run has begun
}

func newObserver(d *Driver) *observer {
	l := &observer{d: d}
	l.queue = l.newQueue()
	return l
}

func (l *observer) newQueue() *control.Queue {
	return control.NewQueue(control.QueueOptions{Name: "observe", Metrics: l.d.options.Metrics})
}

// Run implements control.Runner. When the context ends no look begins, and
// those under way are cancelled.
func (l *observer) Run(ctx context.Context) error {
	l.mu.Lock()
	queue := l.queue
	l.mu.Unlock()
	var workers sync.WaitGroup
	for range l.d.options.MaxObservations {
		workers.Go(func() {
			for key, ok := queue.Get(); ok; key, ok = queue.Get() {
				if ctx.Err() == nil {
					l.serve(ctx, queue, key)
				}
				queue.Done(key)
			}
		})
	}
	<-ctx.Done()
	l.mu.Lock()
	l.queue = l.newQueue()
	l.mu.Unlock()
	queue.Discard()
	workers.Wait()
	return nil
}

// plan sees to it that a resting object is looked at.
func (l *observer) plan(k *kind, ref control.Ref, pass machine.Report[*machine.Subject]) {
	l.mu.Lock()
	queue := l.queue
	l.mu.Unlock()
	for _, o := range k.machine.Observe {
		if !o.AppliesIn(k.machine.Table, pass.Position.State) {
			continue
		}
		key := ref.String() + "#" + o.Name
		first := spread(key, o.Every)
		if !observed(pass.Object.Object, o.Name) {
			first = min(first, time.Duration(float64(time.Second)*float64(first)/float64(o.Every))+time.Millisecond)
		}
		queue.AddAfter(key, first) // an earlier look that is planned already stays
	}
}

// spread is a share of every that differs between objects, so that they are
// not all looked at in one moment.
func spread(key string, every time.Duration) time.Duration {
	h := fnv.New32a()
	h.Write([]byte(key))
	return time.Duration(float64(every) * float64(h.Sum32()) / (1 << 32))
}

func observed(o control.Object, name string) bool {
	var status struct {
		Observed map[string]json.RawMessage `json:"observed"`
	}
	return json.Unmarshal(o.Status, &status) == nil && status.Observed[name] != nil
}

// serve makes one look and plans the next.
func (l *observer) serve(ctx context.Context, queue *control.Queue, key string) {
	name, observation, _ := strings.Cut(key, "#")
	ref, err := control.ParseRef(name)
	if err != nil {
		return
	}
	k := l.d.kinds[ref.Kind]
	i := slices.IndexFunc(k.machine.Observe, func(o machine.Observation) bool { return o.Name == observation })
	o := k.machine.Observe[i]
	loaded, err := k.objects.Load(ctx, ref)
	switch s := loaded.Object; {
	case isGone(err):
		return
	case err == nil:
		p, bad := k.objects.Position(s)
		if p.State == "" {
			p.State = k.machine.Table.Initial
		}
		if bad != nil || !o.AppliesIn(k.machine.Table, p.State) {
			return // the pass that brings the object to rest plans the next look
		}
		fact := l.observe(ctx, k, o, s)
		if ctx.Err() != nil {
			return // what was cut short says nothing
		}
		err = l.store(ctx, ref, s.Object.UID, o.Name, fact)
		if fault.Of(err) == control.Invalid { // it does not fit: what was seen before is not true any more
			err = l.store(ctx, ref, s.Object.UID, o.Name, failed(err))
		}
		if isGone(err) {
			return
		}
	}
	if err != nil && ctx.Err() == nil {
		l.d.options.Logger.Log(ctx, control.LogLevel(err), "an observation was not kept", "object", name, "observation", o.Name, "error", err)
	}
	queue.AddAfter(key, o.Every)
}

// look runs the action and gives the fact: its output, or {error, code}.
func (l *observer) observe(ctx context.Context, k *kind, o machine.Observation, s *machine.Subject) json.RawMessage {
	ctx, cancel := context.WithTimeoutCause(ctx, o.Timeout, workflow.Timeout)
	defer cancel()
	output, err := l.runAction(ctx, k, o, s)
	if err != nil && errors.Is(context.Cause(ctx), workflow.Timeout) {
		err = workflow.Timeout.Errorf("it took longer than %s", o.Timeout)
	}
	if err == nil {
		if output == nil {
			output = json.RawMessage("null")
		}
		return output
	}
	return failed(err)
}

// failed is the fact of an observation that gave none.
func failed(err error) json.RawMessage {
	fact, _ := json.Marshal(map[string]string{"error": fault.Message(err), "code": string(fault.Of(err).Code)})
	return fact
}

func (l *observer) runAction(ctx context.Context, k *kind, o machine.Observation, s *machine.Subject) (output json.RawMessage, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fault.Panic.Errorf("%v", r)
			l.d.options.Logger.Error("an observation panicked", "observation", o.Name, "panic", r, "stack", string(debug.Stack()))
		}
	}()
	input, err := s.Input()
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(input)
	if err != nil {
		return nil, err
	}
	facts := workflow.TaskFacts{Run: "observe-" + Subject(s.Object), Flow: k.machine.Table.Name, Subject: Subject(s.Object), Step: o.Name,
		Input: raw, With: o.With, Secrets: o.Secrets, Resolver: l.d.options.Secrets, Logger: l.d.options.Logger}
	if o.Resolve != nil {
		if facts.With, err = o.Resolve(workflow.NewTask(ctx, facts).View()); err != nil {
			return nil, err
		}
	}
	task := workflow.NewTask(ctx, facts)
	i := slices.IndexFunc(l.d.options.Actions, func(a workflow.Action) bool { return a.Name == o.Uses })
	var out outcome.Outcome
	if out = l.d.options.Actions[i].Do(ctx, task); out.IsWait() || out.IsLater() {
		return nil, ObservationWaits.Errorf("%s: %s", out.Reason(), out.Message())
	}
	return task.Result(), out.Err()
}

// keep merges the fact into the status if it is another one than before.
func (l *observer) store(ctx context.Context, ref control.Ref, uid, name string, fact json.RawMessage) error {
	_, err := control.Modify(ctx, l.d.options.Objects, ref, func(o *control.Object) error {
		if o.UID != uid {
			return control.NotFound.Errorf("%s of uid %s is gone", ref, uid)
		}
		return observe(o, name, fact)
	})
	return err
}

func observe(o *control.Object, name string, fact json.RawMessage) error {
	status, err := decodeNumbers(o.Status)
	if err != nil {
		return err
	}
	value, err := decodeNumbers(fact)
	if err != nil {
		return err
	}
	all, _ := status.(map[string]any)
	if all == nil {
		all = map[string]any{}
	}
	seen, _ := all["observed"].(map[string]any)
	if seen == nil {
		seen = map[string]any{}
	}
	seen[name] = value
	all["observed"] = seen
	o.Status, err = json.Marshal(all)
	return err
}

// decodeNumbers reads JSON and keeps its numbers as they are written.
func decodeNumbers(raw json.RawMessage) (any, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, fmt.Errorf("no valid JSON: %w", err)
	}
	return v, nil
}
