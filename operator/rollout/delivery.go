package rollout

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/rollout/outside"
	"github.com/pawl-dev/pawl/rollout"
)

// delivery is what one event hook has got.
type delivery struct {
	upTo     int // the newest record that was delivered or given up
	attempts int // of the next one
	after    time.Time
	underWay bool
}

// eventBody is one record of the history as an event hook gets it.
type eventBody struct {
	api.RolloutRecord
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	UID       string `json:"uid"`
	// Metadata is that of the hook.
	Metadata map[string]string `json:"metadata,omitempty"`
}

// IdempotencyKey is the number of the record, below the Rollout.
func (b eventBody) IdempotencyKey() string {
	return b.UID + "/" + strconv.Itoa(int(b.Sequence))
}

func eventHooks(p rollout.Plan) []rollout.Hook {
	return slices.DeleteFunc(slices.Clone(p.RolloutWebhooks), func(h rollout.Hook) bool { return h.Type != rollout.EventHook })
}

// delivered is how far the event hooks are, for the status. A hook that is new gets the records from
// this decision on.
func (p *pass) delivered(s *api.RolloutStatus) map[string]int32 {
	mine := p.memory.asked
	mine.mu.Lock()
	defer mine.mu.Unlock()
	all := map[string]int32{}
	for _, h := range eventHooks(p.plan) {
		d := mine.deliveries[h.Name]
		if d == nil {
			d = &delivery{upTo: int(s.Sequence) - len(p.decision.Records)}
			if upTo, ok := s.Delivered[h.Name]; ok {
				d.upTo = int(upTo)
			}
			mine.deliveries[h.Name] = d
		}
		all[h.Name] = int32(d.upTo) //nolint:gosec // a number of records
	}
	maps.DeleteFunc(mine.deliveries, func(name string, _ *delivery) bool { _, named := all[name]; return !named })
	if len(all) == 0 {
		return nil
	}
	return all
}

// deliver sends each event hook the oldest record that it has not got.
func (p *pass) deliver() {
	mine := p.memory.asked
	mine.mu.Lock()
	defer mine.mu.Unlock()
	for _, h := range eventHooks(p.plan) {
		d := mine.deliveries[h.Name]
		switch {
		case d == nil || d.underWay || d.upTo >= int(p.rollout().Status.Sequence):
		case p.now.Before(d.after):
			p.again(d.after.Sub(p.now))
		default:
			d.underWay = true
			p.sendRecord(h, d.upTo+1, d.attempts+1)
		}
	}
}

// undelivered reports whether records wait for an event hook, or the status does not say yet that they
// were delivered.
func (p *pass) undelivered() bool {
	mine, s := p.memory.asked, p.rollout().Status
	mine.mu.Lock()
	defer mine.mu.Unlock()
	return slices.ContainsFunc(eventHooks(p.plan), func(h rollout.Hook) bool {
		d := mine.deliveries[h.Name]
		return d == nil || d.upTo < int(s.Sequence) || int(s.Delivered[h.Name]) != d.upTo
	})
}

// lost is how many records event hooks do not get any more, when their Rollout is gone.
func (p *pass) lost() (n int) {
	mine, newest := p.memory.asked, int(p.rollout().Status.Sequence)
	mine.mu.Lock()
	defer mine.mu.Unlock()
	for _, d := range mine.deliveries {
		n += max(0, newest-d.upTo)
	}
	return n
}

// sendRecord makes one attempt to deliver a record. After the last one the record is counted as
// undelivered, and the next is tried.
func (p *pass) sendRecord(h rollout.Hook, sequence, attempt int) {
	o, mine, key, r := p.Operator, p.memory.asked, p.key, p.rollout().DeepCopy()
	o.calls.Add(key, func(ctx context.Context) {
		v := rollout.Verdict{Done: true} // of a record that is not kept any more
		record, err := o.history.record(ctx, r, sequence)
		switch {
		case err != nil:
			v = h.Judge(attempt, outside.Failed(outside.Unreadable("history of", r.Name, err)))
		case record != nil:
			v = h.Judge(attempt, o.callEvent(ctx, r, h, *record))
		}
		if ctx.Err() != nil {
			return
		}
		mine.mu.Lock()
		if d := mine.deliveries[h.Name]; d != nil {
			d.underWay = false
			if v.Done || v.Outcome.IsFail() {
				d.upTo, d.attempts, d.after = sequence, 0, time.Time{}
			} else {
				d.attempts, d.after = attempt, o.now().Add(v.Outcome.After())
			}
		}
		mine.mu.Unlock()
		o.metrics.delivered(v)
		o.rollouts.wake(key)
	})
}

func (o *Operator) callEvent(ctx context.Context, r *api.Rollout, h rollout.Hook, record api.RolloutRecord) rollout.Answer {
	client, err := o.outside.HTTP(ctx, r.Namespace, h.TLS)
	if err != nil {
		return outside.Failed(err)
	}
	return Caller{Client: client}.Call(ctx, h, eventBody{record, r.Name, r.Namespace, string(r.UID), h.Metadata})
}
