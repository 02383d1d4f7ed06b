package rollout_test

import (
	"slices"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/rollout"
)

// TestProbesAfterAPause: what was probed before a pause of the user is forgotten. A batch that was
// verified must show again that it is ready before the next one begins; inside a batch budgets, roles and
// gates need fresh answers, and a plan without them releases the batch as one.
func TestProbesAfterAPause(t *testing.T) {
	passing, failing := rollout.ProbeFacts{Passing: true}, rollout.ProbeFacts{Failed: true}
	atMost := func(p *rollout.Plan) { p.Disruption = &rollout.Disruption{MaxUnavailable: rollout.Int(1)} }
	byRole := func(p *rollout.Plan) {
		p.Order = &rollout.Order{RoleProbe: "up", Roles: []string{"replica", "leader"}}
	}
	for _, c := range []struct {
		name    string
		edit    func(*rollout.Plan) // nil: a plan without budgets
		state   rollout.BatchState  // in which the user has paused
		known   *rollout.ProbeFacts // of every pod that is asked; nil: nobody has answered yet
		waits   string              // empty: it releases
		evicted bool                // one pod, where roles decide; else by the partition
	}{
		{name: "the batch before is asked again", state: rollout.BatchReady, waits: "BatchNotReady"},
		{name: "it fails", state: rollout.BatchReady, known: &failing, waits: "BatchNotReady"},
		{name: "it is ready still", state: rollout.BatchReady, known: &passing},
		{name: "inside a batch nothing hangs on probes", state: rollout.BatchInRolling},
		{name: "but a budget does", edit: atMost, state: rollout.BatchInRolling, waits: "MaxUnavailable"},
		{name: "and lets go when they have answered", edit: atMost, state: rollout.BatchInRolling, known: &passing},
		{name: "roles are read again", edit: byRole, state: rollout.BatchInRolling, waits: "RolePending"},
		{name: "and then a pod goes", edit: byRole, state: rollout.BatchInRolling, known: &passing, evicted: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
			p, at, f := in(func(p *rollout.Plan, at *rollout.Position, f *rollout.Facts) {
				p.Probes = []rollout.Probe{{Name: "up", TCP: &rollout.TCPProbe{Port: 1}}}
				at.Pause = &rollout.Pause{ID: "pause-1", By: rollout.ByUser, Reason: "PausedByUser", Since: now.Add(-time.Hour)}
				if at.BatchState = c.state; c.state == rollout.BatchInRolling {
					at.CurrentBatch = 1
				}
				if c.edit != nil {
					c.edit(p)
				}
				f.Target.Partition = 3
				if p.Order != nil {
					f.Target.UpdateType = rollout.OnDelete
				}
				for i := range f.Pods {
					if i >= 3 {
						f.Pods[i].Revision = "r2"
					}
					if c.known != nil && (i >= 3 || p.Order != nil) {
						f.Pods[i].Probes = map[string]rollout.ProbeFacts{"up": *c.known}
					}
				}
			})
			d := rollout.Next(p, at, f, now)
			if d.Position.Pause != nil || !slices.ContainsFunc(d.Records, func(r rollout.Record) bool { return r.Event == rollout.ResumedEvent }) {
				t.Errorf("the pause lasts: %+v", d.Position.Pause)
			}
			released := slices.ContainsFunc(d.Acts, func(a rollout.Act) bool {
				return c.evicted && a.Evict != nil || !c.evicted && a.Partition != nil && *a.Partition < 3
			})
			if released != (c.waits == "") || !released && d.Outcome.Reason() != c.waits {
				t.Errorf("it does %+v and waits: %s", d.Acts, d.Outcome)
			}
			if asks := slices.ContainsFunc(d.Asks, func(a rollout.Ask) bool { return a.Kind == rollout.AskProbe && slices.Contains(a.Pods, "db-4") }); !asks {
				t.Errorf("it asks %+v", d.Asks)
			}
		})
	}
}
