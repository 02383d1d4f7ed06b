package rollout_test

import (
	"slices"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/rollout"
)

// TestRolesAreReadBeforeEachRelease: a pod goes only when the role of each pod that may go was read
// after the last release; until then the pods are asked at once.
func TestRolesAreReadBeforeEachRelease(t *testing.T) {
	released := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	read := func(ago time.Duration) rollout.ProbeFacts {
		return rollout.ProbeFacts{Passing: true, At: released.Add(-ago)}
	}
	for _, c := range []struct {
		name   string
		probes []rollout.ProbeFacts // of db-0 to db-4
		roles  []string
		asked  []string // anew
		evict  string
	}{
		{"nobody has answered", make([]rollout.ProbeFacts, 5), nil, []string{"db-0", "db-1", "db-2", "db-3", "db-4"}, ""},
		{"one was read before", []rollout.ProbeFacts{read(0), read(0), read(1), read(0), read(0)}, []string{"leader"}, []string{"db-2"}, ""},
		{"all were read since", []rollout.ProbeFacts{read(0), read(-1), read(-1), read(0), read(0)}, []string{"leader", "replica", "replica", "replica", "leader"}, nil, "db-3"},
		{"one cannot be read", []rollout.ProbeFacts{read(0), read(0), {Failed: true}, read(0), read(0)}, []string{"leader", "replica", "", "replica", "replica"}, nil, "db-2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, at, f := in(func(p *rollout.Plan, at *rollout.Position, f *rollout.Facts) {
				p.Probes = []rollout.Probe{{Name: "role", Exec: &rollout.ExecProbe{Command: []string{"role"}}}}
				p.Order = &rollout.Order{RoleProbe: "role", Roles: []string{"replica", "leader"}}
				at.Released = &released
				f.Target.UpdateType = rollout.OnDelete
				for i := range f.Pods {
					if f.Pods[i].Probes = map[string]rollout.ProbeFacts{"role": c.probes[i]}; i < len(c.roles) {
						f.Pods[i].Role = c.roles[i]
					}
				}
			})
			d := rollout.Next(p, at, f, released.Add(time.Minute))
			var asked []string
			for _, a := range d.Asks {
				if a.Fresh {
					asked = a.Pods
				}
			}
			slices.Sort(asked)
			if !slices.Equal(asked, c.asked) {
				t.Errorf("it asks %v anew, not %v", asked, c.asked)
			}
			evicted := ""
			for _, a := range d.Acts {
				if a.Evict != nil {
					evicted = a.Evict.Name
				}
			}
			if evicted != c.evict {
				t.Errorf("it evicts %q, not %q: %s", evicted, c.evict, d.Outcome)
			}
			if c.evict == "" && d.Outcome.Reason() != "RolePending" {
				t.Errorf("it waits: %s", d.Outcome)
			}
		})
	}
}

// TestAPodWhoseProbeHasNotAnsweredIsNotAway: nobody knows that it is away, and so it is not replaced
// beyond the budget.
func TestAPodWhoseProbeHasNotAnsweredIsNotAway(t *testing.T) {
	p, at, f := in(func(p *rollout.Plan, _ *rollout.Position, f *rollout.Facts) {
		p.Probes = []rollout.Probe{{Name: "up", TCP: &rollout.TCPProbe{Port: 1}, Scope: rollout.ScopeAll}}
		p.Disruption = &rollout.Disruption{MaxUnavailable: rollout.Int(1)}
	})
	d := rollout.Next(p, at, f, time.Now())
	if d.Outcome.Reason() != "ProbePending" || len(d.Acts) > 0 {
		t.Errorf("%s, %v", d.Outcome, d.Acts)
	}
	for i := range f.Pods {
		f.Pods[i].Probes = map[string]rollout.ProbeFacts{"up": {Passing: true}}
	}
	if d = rollout.Next(p, at, f, time.Now()); len(d.Acts) != 1 {
		t.Errorf("%s", d.Outcome)
	}
}
