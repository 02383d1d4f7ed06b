package sim

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"path"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/fault"
)

// Effect is the fault that a rule injects into a call.
type Effect string

// The effects.
const (
	Fail         Effect = "fail"      // the call returns Rule.Err
	Timeout      Effect = "timeout"   // no answer within Rule.Delay: PROVIDER_UNREACHABLE
	Lost         Effect = "lost"      // a timeout after the effect
	Throttle     Effect = "throttle"  // PROVIDER_THROTTLED
	Unauthorized Effect = "401"       // CREDENTIALS_REFUSED
	Stuck        Effect = "stuck"     // accepted, and its job never ends (until Unstick)
	FailJob      Effect = "fail job"  // accepted, and its job ends with Rule.Err
	Duplicate    Effect = "duplicate" // the request arrives twice; the caller gets the second answer
	Slow         Effect = "slow"      // the call takes Rule.Delay longer
)

// Rule injects a fault. Empty fields match everything. The first matching rule applies.
type Rule struct {
	Label  string // for the log and Fired; empty: built from the other fields
	Call   Verb
	Action cluster.Action
	Kind   cluster.Kind
	Name   string // path.Match pattern for the resource's name or id

	Nth   int     // only the nth matching call, from 1; 0: each
	Times int     // maximum number of applications; 0: no limit
	P     float64 // probability per call; 0: always. It depends on seed, call and name, not on the order of calls

	Do    Effect
	When  When  // of Fail and Timeout
	Err   error // of Fail and FailJob; nil: PROVIDER_REFUSED
	Delay time.Duration
}

type rule struct {
	Rule
	number  int
	matched int
	fired   int
	seen    map[string]uint64 // number of calls by call and name, for P
}

// Faults are what the calls of clients meet.
type Faults struct {
	world *world

	rules       []*rule
	unreachable bool
	refused     bool
}

// Inject adds rules.
func (f *Faults) Inject(rules ...Rule) {
	f.world.mu.Lock()
	defer f.world.mu.Unlock()
	for _, r := range rules {
		if r.Do == Lost {
			r.When = After
		}
		if r.Label == "" {
			r.Label = fmt.Sprintf("%s %s%s %s %s", r.Do, r.Call, r.Action, r.Kind, r.Name)
		}
		f.rules = append(f.rules, &rule{Rule: r, number: len(f.rules), seen: map[string]uint64{}})
	}
}

// ClearRules removes all rules. Stuck jobs stay stuck.
func (f *Faults) ClearRules() {
	f.world.mu.Lock()
	defer f.world.mu.Unlock()
	f.rules = nil
}

// Fired returns how often the rules of a label were applied; an empty label: all rules.
func (f *Faults) Fired(label string) int {
	f.world.mu.Lock()
	defer f.world.mu.Unlock()
	n := 0
	for _, r := range f.rules {
		if label == "" || r.Label == label {
			n += r.fired
		}
	}
	return n
}

// Unreachable cuts off all clients, or connects them again.
func (f *Faults) Unreachable(off bool) { f.world.mutate(func(time.Time) { f.unreachable = off }) }

// RefuseCredentials makes the credentials of all clients invalid, or valid again.
func (f *Faults) RefuseCredentials(off bool) { f.world.mutate(func(time.Time) { f.refused = off }) }

// Outage returns the values that Unreachable and RefuseCredentials have set.
func (f *Faults) Outage() (unreachable, refused bool) {
	f.world.mu.Lock()
	defer f.world.mu.Unlock()
	return f.unreachable, f.refused
}

// outage returns the error of a call that no part of the cloud sees; nil: there is none.
func (f *Faults) outage(e *Entry) error {
	switch {
	case f.unreachable:
		return cluster.ProviderUnreachable.Errorf("%s: connection refused", e)
	case f.refused:
		return cluster.CredentialsRefused.Errorf("%s: unable to verify the credentials", e)
	default:
		return nil
	}
}

// match returns the rule that applies to a call, or nil.
func (f *Faults) match(e *Entry) *rule {
	for _, r := range f.rules {
		if r.matches(e) && r.applies(f.world.o.Seed, e) {
			r.fired++
			e.Fault = r.Label
			return r
		}
	}
	return nil
}

func (r *rule) matches(e *Entry) bool {
	if r.Call != "" && r.Call != e.Call || r.Action != "" && r.Action != e.Action || r.Kind != "" && r.Kind != e.Kind {
		return false
	}
	if r.Name == "" || r.Name == e.ID {
		return true
	}
	ok, err := path.Match(r.Name, e.Name)
	return err == nil && ok
}

func (r *rule) applies(seed uint64, e *Entry) bool {
	r.matched++
	switch {
	case r.Nth > 0 && r.matched != r.Nth, r.Times > 0 && r.fired >= r.Times:
		return false
	case r.P > 0:
		key := fmt.Sprintf("%d/%s/%s/%s/%s", r.number, e.Call, e.Action, e.Kind, e.Name)
		r.seen[key]++
		sum := sha256.Sum256(fmt.Appendf(nil, "%d/%d/%s", seed, r.seen[key], key))
		return float64(binary.BigEndian.Uint64(sum[:])>>11)/(1<<53) < r.P
	}
	return true
}

// answerError returns the error that replaces the result of the call; nil: none.
func (r *rule) answerError(e *Entry) error {
	switch r.Do {
	case Fail:
		return r.err()
	case Timeout, Lost:
		return cluster.ProviderUnreachable.Errorf("%s: no answer", e)
	case Throttle:
		return cluster.ProviderThrottled.Errorf("%s: too many calls", e)
	case Unauthorized:
		return cluster.CredentialsRefused.Errorf("%s: unable to verify the credentials", e)
	default:
		return nil
	}
}

func (r *rule) err() error {
	if r.Err != nil {
		return r.Err
	}
	return cluster.ProviderRefused.Errorf("injected by a rule")
}

func codeOf(err error) fault.Code {
	if kind := fault.Of(err); kind != nil {
		return kind.Code
	}
	return ""
}
