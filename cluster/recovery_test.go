package cluster

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"pgregory.net/rapid"
)

// words returns a plan on one line.
func (p RecoveryPlan) words() string {
	var w []string
	list := func(act string, nodes []Node) {
		for _, n := range nodes {
			w = append(w, fmt.Sprintf("%s %s%d", act, n.Role, n.Ordinal))
		}
	}
	list("start", p.Start)
	list("replace", p.Replace)
	for _, r := range p.Adopt {
		w = append(w, "adopt "+r.ID)
	}
	for _, n := range p.Create {
		w = append(w, fmt.Sprintf("create %d %s", n.Count, n.Role))
	}
	for _, r := range p.Remove {
		w = append(w, "remove "+r.ID)
	}
	list("drop", p.Drop)
	for _, row := range p.Repair {
		w = append(w, "mend "+row.ProviderID)
	}
	for _, f := range p.Forbidden {
		w = append(w, "not "+string(f.Type)+" "+f.Resource[strings.LastIndex(f.Resource, "-")+1:])
	}
	return strings.Join(w, ", ")
}

func (s *fixture) extra(kind Kind, id, name string) {
	s.observed.Resources = append(s.observed.Resources, Resource{Kind: kind, ID: id, Name: name, Power: PoweredOn, Tags: map[string]string{TagInstallation: "inst", TagCluster: s.c().UUID}})
}

// The plan of a recovery: needed work that the policy allows, and findings about
// the rest.
func TestPlanRecovery(t *testing.T) {
	all := Recovery{Restart, Replace, Adopt}
	for _, c := range []struct {
		name    string
		policy  Recovery
		consent bool
		do      func(s *fixture)
		want    string
		fault   *fault.Kind
	}{
		{"healthy", all, false, func(*fixture) {}, "", nil},
		{"healthy, none", Recovery{}, false, func(*fixture) {}, "", nil},
		{"start", nil, false, func(s *fixture) { s.power("vm-worker1", PoweredOff) }, "start worker1", nil},
		{"start is forbidden", Recovery{Replace}, false, func(s *fixture) { s.power("vm-worker1", PoweredOff) }, "not power_state worker1", RecoveryForbidden},
		{"a missing worker", all, false, func(s *fixture) { s.gone("vm-worker1", true) }, "replace worker1", nil},
		{"a missing worker, restart only", nil, false, func(s *fixture) { s.gone("vm-worker1", true) }, "not missing worker1", RecoveryForbidden},
		{"a worker that is not seen", all, false, func(s *fixture) { s.gone("vm-worker1", false) }, "", nil},
		{"a broken worker", all, false, func(s *fixture) { s.power("vm-worker1", PowerBroken) }, "replace worker1", nil},
		{"both", all, false, func(s *fixture) { s.power("vm-worker1", PoweredOff); s.gone("vm-worker2", true) }, "start worker1, replace worker2", nil},
		{"a node whose VM was never made", all, false, func(s *fixture) { s.record.Nodes[2].VMID = ""; s.gone("vm-worker2", false) }, "replace worker2", nil},
		{"the last control node is broken", all, false, func(s *fixture) { s.power("vm-control1", PowerBroken) }, "not power_state control1", LastControl},
		{"with consent", all, true, func(s *fixture) { s.power("vm-control1", PowerBroken) }, "replace control1", nil},
		{"finding 17: the last control node is gone", all, false, func(s *fixture) { s.gone("vm-control1", true) }, "not missing control1", LastControl},
		{"finding 17: with consent", all, true, func(s *fixture) { s.gone("vm-control1", true) }, "replace control1", nil},
		{"finding 17: no control node is recorded", all, false, func(s *fixture) { s.record.Nodes[0].Removed = s.now; s.gone("vm-control1", true) }, "not count control", LastControl},
		{"the control node of a first start is gone: it held nothing", all, false, func(s *fixture) { s.c().Started = false; s.gone("vm-control1", true) }, "replace control1", nil},
		{"another control node is ready", all, false, func(s *fixture) { s.addThreeControlNodes(); s.power("vm-control1", PowerBroken) }, "replace control1", nil},
		{"no control node is ready", all, false, func(s *fixture) {
			s.addThreeControlNodes()
			s.power("vm-control1", PowerBroken)
			s.record.Nodes[3].NotReady, s.record.Nodes[4].NotReady = "x", "x"
		}, "not power_state control1", LastControl},
		{"a silent node is waited for", all, false, func(s *fixture) { s.record.Nodes[1].HeartbeatAt = time.Time{} }, "", nil},
		{"a node that is silent for long is broken", all, false, func(s *fixture) { s.silentFor(1, 10*time.Minute) }, "replace worker1", nil},
		{"a silent worker is not replaced where no control node is ready", all, false, func(s *fixture) { s.power("vm-control1", PowerBroken); s.silentFor(1, 10*time.Minute) }, "not power_state control1", LastControl},
		{"not without leave", nil, false, func(s *fixture) { s.silentFor(1, 10*time.Minute) }, "", nil},
		{"a silent last control node", all, false, func(s *fixture) { s.silentFor(0, time.Hour) }, "not not_ready control1", LastControl},
		{"too few", all, false, func(s *fixture) { s.c().NodeCount, s.c().ControlCount = 5, 3 }, "create 2 control, create 3 worker", nil},
		{"too few, restart only", nil, false, func(s *fixture) { s.c().NodeCount = 5 }, "not count worker", RecoveryForbidden},
		{"too many", nil, false, func(s *fixture) { s.c().NodeCount = 1 }, "drop worker2", nil},
		{"too many, the broken one goes", all, false, func(s *fixture) { s.c().NodeCount = 1; s.power("vm-worker1", PowerBroken) }, "drop worker1", nil},
		{"too many, the missing one goes before the broken one", all, false, func(s *fixture) {
			s.c().NodeCount = 1
			s.power("vm-worker2", PowerBroken)
			s.gone("vm-worker1", true)
		}, "replace worker2, drop worker1", nil},
		{"too many, none", Recovery{}, false, func(s *fixture) { s.c().NodeCount = 1 }, "not count worker", RecoveryForbidden},
		{"extra, adopted up to the count", all, false, func(s *fixture) {
			s.c().NodeCount = 4
			s.extra(VM, "x", NodeName(s.c(), Worker, 7))
		}, "adopt x, create 1 worker", nil},
		{"extra, adopted instead of made", Recovery{Adopt}, false, func(s *fixture) {
			s.c().NodeCount = 3
			s.extra(VM, "x", NodeName(s.c(), Worker, 7))
		}, "adopt x", nil},
		{"extra that nobody needs", all, false, func(s *fixture) { s.extra(VM, "x", NodeName(s.c(), Worker, 7)) }, "remove x", nil},
		{"extra, not adopted", nil, false, func(s *fixture) { s.extra(VM, "x", NodeName(s.c(), Worker, 7)) }, "remove x", nil},
		{"extra, none", Recovery{}, false, func(s *fixture) { s.extra(VM, "x", NodeName(s.c(), Worker, 7)) }, "not extra_owned worker7", RecoveryForbidden},
		{"extra rule", all, false, func(s *fixture) { s.extra(Firewall, "x", ResourceName(s.c(), "fw2")) }, "remove x", nil},
		{"extra with a foreign name is left alone", all, false, func(s *fixture) { s.extra(VM, "x", "mine") }, "", nil},
		{"a changed rule", nil, false, func(s *fixture) { s.resource("f1").Spec.Port = 1 }, "mend f1", nil},
		{"a changed rule, none", Recovery{}, false, func(s *fixture) { s.resource("f1").Spec.Port = 1 }, "not rule_changed fw", RecoveryForbidden},
		{"the network is gone", nil, false, func(s *fixture) { s.gone("n1", true) }, "not network_missing network", RecoveryForbidden},
		{"the network is gone, replace", all, false, func(s *fixture) { s.gone("n1", true) }, "mend n1", nil},
		{"a foreign VM is not touched", all, true, func(s *fixture) { s.observed.Foreign = []Resource{{Kind: VM, ID: "z", Name: "z"}} }, "", nil},
		{"the provider is down: nothing", all, true, func(s *fixture) { s.gone("vm-worker1", true); s.observed.Err = errors.New("down") }, "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newFixture(Recovering)
			c.do(s)
			plan := PlanRecovery(&s.record, s.observed, c.policy, RecoveryOptions{Consent: c.consent, Now: s.now})
			if got := plan.words(); got != c.want {
				t.Fatalf("got %q, want %q", got, c.want)
			}
			if plan.Empty() != (c.want == "" || strings.HasPrefix(c.want, "not ")) {
				t.Errorf("empty: %t", plan.Empty())
			}
			if err := plan.Err(); fault.Of(err) != c.fault {
				t.Errorf("fault %v", err)
			}
		})
	}
}

// addThreeControlNodes turns the cluster into one of three control nodes.
func (s *fixture) addThreeControlNodes() {
	s.c().ControlCount = 3
	s.node(Control, 2)
	s.node(Control, 3)
}

func (s *fixture) silentFor(i int, d time.Duration) {
	n := &s.record.Nodes[i]
	n.HeartbeatAt = s.now.Add(-d - 91*time.Second)
	s.c().Findings = append(s.c().Findings, Finding{Type: NotReady, Resource: n.Name, ID: n.VMID, Since: s.now.Add(-d), Passes: 3, Evidence: "it no longer sends heartbeats", Alarm: true})
}

func TestBatches(t *testing.T) {
	s := newFixture(Recovering)
	s.addThreeControlNodes()
	s.node(Worker, 3)
	s.c().NodeCount = 5
	for _, id := range []string{"vm-worker1", "vm-worker2", "vm-control2"} {
		s.power(id, PoweredOff)
	}
	s.gone("vm-worker3", true)
	text := func(most int) (lines []string) {
		for _, b := range PlanRecovery(&s.record, s.observed, Recovery{Restart, Replace}, RecoveryOptions{MaxUnavailable: most, Now: s.now}).Batches {
			lines = append(lines, RecoveryPlan{Start: b.Start, Replace: b.Replace, Create: b.Create}.words())
		}
		return lines
	}
	if got := text(0); !slices.Equal(got, []string{"start control2", "start worker1", "start worker2", "replace worker3", "create 2 worker"}) {
		t.Errorf("one at a time: %q", got)
	}
	if got := text(2); !slices.Equal(got, []string{"start control2, start worker1", "start worker2", "replace worker3", "create 2 worker"}) {
		t.Errorf("two at a time: %q", got)
	}
}

func TestParseRecovery(t *testing.T) {
	for text, want := range map[string]string{"": "", "none": "none", "NONE": "none", "restart": "restart", " restart , replace,restart": "restart,replace", "adopt,replace": "adopt,replace"} {
		r, err := ParseRecovery(text)
		if err != nil || r.String() != want {
			t.Errorf("%q: got %q, %v", text, r.String(), err)
		}
		again, err := ParseRecovery(r.String())
		if err != nil || again.String() != want || (again == nil) != (r == nil) {
			t.Errorf("%q is not read again", text)
		}
	}
	for _, text := range []string{"reboot", "restart,none", ","} {
		if _, err := ParseRecovery(text); !errors.Is(err, ClusterInvalid) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if got := Recovery(nil).Or(nil).String(); got != "restart" {
		t.Errorf("the default is %s", got)
	}
	if got := (Recovery{}).Or(Recovery{Adopt}).String(); got != "none" {
		t.Errorf("none became %s", got)
	}
}

// For every observation: the plan contains only what the policy allows, handles no
// node twice, never touches a ready control node, and drops no more workers than
// there are too many.
func TestPlanKeepsItsBounds(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s := newFixture(Recovering)
		if rapid.Bool().Draw(r, "three") {
			s.addThreeControlNodes()
		}
		s.node(Worker, 3)
		s.c().NodeCount = rapid.IntRange(1, 6).Draw(r, "size")
		for _, n := range s.record.Nodes {
			switch rapid.IntRange(0, 4).Draw(r, n.VMID) {
			case 0:
				s.gone(n.VMID, true)
			case 1:
				s.power(n.VMID, rapid.SampledFrom([]Power{PoweredOff, PowerBroken, PoweringOn, PowerGone, UnknownPower}).Draw(r, "power"))
			}
		}
		if rapid.Bool().Draw(r, "extra") {
			s.extra(VM, "x", NodeName(s.c(), Worker, 9))
		}
		var policy = Recovery{}
		for _, m := range []Remedy{Restart, Replace, Adopt} {
			if rapid.Bool().Draw(r, string(m)) {
				policy = append(policy, m)
			}
		}
		most := rapid.IntRange(1, 3).Draw(r, "most")
		plan := PlanRecovery(&s.record, s.observed, policy, RecoveryOptions{Now: s.now, MaxUnavailable: most})
		if len(plan.Start) > 0 && !policy.Allows(Restart) || len(plan.Replace)+len(plan.Create) > 0 && !policy.Allows(Replace) || len(plan.Adopt) > 0 && !policy.Allows(Adopt) || !plan.Empty() && len(policy) == 0 {
			r.Fatalf("%v does not allow %s", policy, plan.words())
		}
		touched := slices.Concat(plan.Start, plan.Replace, plan.Drop)
		for i, n := range touched {
			if slices.ContainsFunc(touched[:i], func(o Node) bool { return o.Name == n.Name }) {
				r.Fatalf("%s twice: %s", n.Name, plan.words())
			}
			j := slices.IndexFunc(s.observed.Resources, func(x Resource) bool { return x.ID == n.VMID })
			if n.Role == Control && j >= 0 && s.observed.Resources[j].Power == PoweredOn {
				r.Fatalf("a control node that runs is touched: %s", plan.words())
			}
		}
		if len(plan.Drop) != max(0, 3-s.c().NodeCount) && len(policy) > 0 {
			r.Fatalf("%d of 3 workers are dropped, %d should stay", len(plan.Drop), s.c().NodeCount)
		}
		var starts, replaces, creates int
		for _, b := range plan.Batches {
			if len(b.Start)+len(b.Replace) > most {
				r.Fatalf("%d at a time", len(b.Start)+len(b.Replace))
			}
			starts, replaces, creates = starts+len(b.Start), replaces+len(b.Replace), creates+len(b.Create)
		}
		if starts != len(plan.Start) || replaces != len(plan.Replace) || creates != len(plan.Create) {
			r.Fatal("the batches are not the plan")
		}
	})
}
