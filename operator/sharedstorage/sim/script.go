package sim

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"path"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// Effect is what goes wrong with a call.
type Effect string

// The effects.
const (
	Fail    Effect = "fail"    // the call returns Rule.Err without effect
	Timeout Effect = "timeout" // no answer and no effect
	Lost    Effect = "lost"    // applied, and the answer is lost
	Slow    Effect = "slow"    // the call takes Rule.Delay longer
	Hang    Effect = "hang"    // until the caller's context ends, without effect
)

// Rule injects a fault. Empty fields match everything; the first rule that matches is applied.
type Rule struct {
	Label    string // for Fired and the log; empty: derived from the other fields
	Port     string // Storage, Instances, Engine, Manager
	Method   string
	Cluster  string // path.Match pattern for the name of the cluster
	Instance string // path.Match pattern for the name of the instance

	Nth   int     // only the nth matching call, from 1; 0: each
	Times int     // limit of how often it is applied; 0: none
	P     float64 // probability; 0: always. It depends on the seed and the call, not on the order of calls

	Do    Effect
	Err   error // error of Fail; nil: an error that is no fault
	Delay time.Duration
}

type rule struct {
	Rule
	number         int
	matched, fired int
	seen           map[string]uint64
}

var errNoAnswer = errors.New("no answer")

// Inject adds rules.
func (w *Simulation) Inject(rules ...Rule) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range rules {
		if r.Label == "" {
			r.Label = fmt.Sprintf("%s %s.%s %s/%s", r.Do, r.Port, r.Method, r.Cluster, r.Instance)
		}
		w.rules = append(w.rules, &rule{Rule: r, number: len(w.rules), seen: map[string]uint64{}})
	}
}

// Heal removes all rules.
func (w *Simulation) Heal() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rules = nil
}

// Fired returns how often the rules of a label were applied; an empty label counts all rules.
func (w *Simulation) Fired(label string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, r := range w.rules {
		if label == "" || r.Label == label {
			n += r.fired
		}
	}
	return n
}

func matches(pattern, name string) bool {
	if pattern == "" {
		return true
	}
	ok, err := path.Match(pattern, name)
	return err == nil && ok
}

func (r *rule) hits(seed uint64, c *Call) bool {
	if r.Port != "" && r.Port != c.Port || r.Method != "" && r.Method != c.Method || !matches(r.Cluster, c.Ref.Name) || !matches(r.Instance, c.Ref.Instance) {
		return false
	}
	r.matched++
	switch {
	case r.Nth > 0 && r.matched != r.Nth, r.Times > 0 && r.fired >= r.Times:
		return false
	case r.P > 0:
		key := fmt.Sprintf("%d/%s/%s/%s", r.number, c.Port, c.Method, c.Ref)
		r.seen[key]++
		sum := sha256.Sum256(fmt.Appendf(nil, "%d/%d/%s", seed, r.seen[key], key))
		return float64(binary.BigEndian.Uint64(sum[:])>>11)/(1<<53) < r.P
	}
	return true
}

// Call is one call of a port.
type Call struct {
	Seq    int64
	At     time.Time
	Port   string
	Method string
	Ref    port.Ref // Instance is set in calls about an instance
	Detail string   // the arguments in a few words
	Key    string
	Fault  string     // label of the rule that was applied
	Code   fault.Code // code of its failure
	Err    string
}

// String returns the call as one line.
func (c Call) String() string {
	text := fmt.Sprintf("%s.%s %s %s", c.Port, c.Method, c.Ref, c.Detail)
	if c.Err != "" {
		text += ": " + c.Err
	}
	return text
}

// Changes reports whether a call may change something.
func (c Call) Changes() bool {
	switch c.Method {
	case "Look", "List", "Nodes", "Status", "Topology":
		return false
	}
	return true
}

// When is the moment before or after the effect of a call.
type When int

// The two moments.
const (
	Before When = iota
	After
)

// do makes a call: it applies rules, latency, hooks and the log around the effect.
func do[T any](ctx context.Context, w *Simulation, call Call, effect func(c *cluster) (T, error)) (T, error) {
	var none T
	w.mu.Lock()
	w.seq++
	call.Seq, call.At = w.seq, w.o.Now()
	var struck *rule
	for _, r := range w.rules {
		if r.hits(w.o.Seed, &call) {
			r.fired++
			call.Fault, struck = r.Label, r
			break
		}
	}
	hung := w.hung[call.Ref.Namespace+"/"+call.Ref.Name]
	w.mu.Unlock()

	var err error
	defer func() {
		if err != nil {
			call.Err, call.Code = err.Error(), fault.Of(err).Code
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.note(call)
	}()
	err = ctx.Err()
	if err != nil {
		return none, err
	}
	if w.o.Around != nil {
		err = w.o.Around(call, Before)
		if err != nil {
			return none, err
		}
	}
	delay := w.o.Latency / 2
	if struck != nil {
		switch struck.Do {
		case Fail:
			if err = struck.Err; err == nil {
				err = errors.New("refused by the script")
			}
			return none, err
		case Timeout:
			err = errNoAnswer
			return none, err
		case Hang:
			hung = true
		case Slow:
			delay += struck.Delay
		}
	}
	if hung {
		<-ctx.Done()
		err = context.Cause(ctx)
		return none, err
	}
	if delay > 0 {
		err = w.o.Sleep(ctx, delay)
		if err != nil {
			return none, err
		}
	}
	w.mu.Lock()
	c := w.cluster(call.Ref)
	w.advance(c)
	answer, failed := effect(c)
	err = failed
	w.check(c, call)
	w.mu.Unlock()
	if w.o.Latency > 0 {
		if slept := w.o.Sleep(ctx, w.o.Latency/2); slept != nil {
			err = slept
			return none, err
		}
	}
	if struck != nil && struck.Do == Lost {
		err = errNoAnswer
		return none, err
	}
	if w.o.Around != nil {
		if after := w.o.Around(call, After); after != nil {
			err = after
			return none, err
		}
	}
	return answer, err
}

func (w *Simulation) note(c Call) {
	if w.o.Log < 0 {
		return
	}
	if len(w.calls) >= 2*w.o.Log {
		w.calls = append(w.calls[:0:0], w.calls[w.o.Log:]...)
	}
	w.calls = append(w.calls, c)
}
