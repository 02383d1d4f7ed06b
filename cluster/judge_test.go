package cluster

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/machine"
	"pgregory.net/rapid"
)

// stage is a cluster of one control node and two workers, as it should be, and
// what a pass sees of it.
type stage struct {
	book Record
	seen Observed
	now  time.Time
}

func newStage(state machine.State) *stage {
	c := Cluster{ID: 1, UUID: "1f2e3d4c-0000", Name: "blue", Provider: "sim", State: state, StateSince: noon.Add(-time.Hour), Desired: WantRunning,
		NodeCount: 2, ControlCount: 1, Started: true, GC: true, Endpoint: "https://blue:6443"}
	if state == Stopped {
		c.Desired = WantStopped
	}
	s := &stage{now: noon, book: Record{Cluster: c}, seen: Observed{CallsHome: true, Listed: map[Kind]bool{}, Proven: map[string]bool{}}}
	for _, k := range []Kind{VM, Network, Address, Firewall, Forward, Balancer} {
		s.seen.Listed[k] = true
	}
	s.add(JournalRow{Kind: Network, Key: "net", Name: ResourceName(&c, "network"), ProviderID: "n1"})
	s.add(JournalRow{Kind: Address, Key: "ip", Name: ResourceName(&c, "address"), ProviderID: "a1"})
	s.add(JournalRow{Kind: Firewall, Key: "fw", Name: ResourceName(&c, "fw"), ProviderID: "f1",
		Spec: Spec{Protocol: "tcp", Port: 6443, CIDRs: []string{"192.0.2.0/24", "198.51.100.0/24"}, Address: "a1"}})
	s.node(Control, 1)
	s.node(Worker, 1)
	s.node(Worker, 2)
	return s
}

func (s *stage) c() *Cluster { return &s.book.Cluster }

// add enters a row and shows its thing.
func (s *stage) add(row JournalRow) {
	row.ID, row.Phase, row.Origin, row.Identity = int64(len(s.book.Journal)+1), Present, Made, "i-"+row.ProviderID
	row.PresentAt = noon.Add(-2 * time.Hour)
	s.book.Journal = append(s.book.Journal, row)
	power := Up
	if row.Kind == VM && s.c().State == Stopped {
		power = Down
	}
	s.seen.Resources = append(s.seen.Resources, Resource{Kind: row.Kind, ID: row.ProviderID, Name: row.Name, Identity: row.Identity, Power: power,
		State: string(power), Spec: row.Spec, Tags: map[string]string{TagInstallation: "inst", TagCluster: s.c().UUID, TagKey: row.Key}, Created: noon.Add(-2 * time.Hour)})
}

func (s *stage) node(role Role, ordinal int) {
	name := NodeName(s.c(), role, ordinal)
	n := Node{ID: int64(len(s.book.Nodes) + 1), Name: name, Key: name, VMID: fmt.Sprintf("vm-%s%d", role, ordinal), Role: role, Ordinal: ordinal}
	if s.c().State != Stopped {
		n.HelloAt, n.ReadyAt = s.now, s.now
	}
	s.book.Nodes = append(s.book.Nodes, n)
	s.add(JournalRow{Kind: VM, Key: name, Name: name, ProviderID: n.VMID})
}

// see gives the thing with an id; gone takes it off the list, and proves it if wanted.
func (s *stage) see(id string) *Resource {
	i := slices.IndexFunc(s.seen.Resources, func(r Resource) bool { return r.ID == id })
	return &s.seen.Resources[i]
}

func (s *stage) gone(id string, proven bool) {
	s.seen.Resources = slices.DeleteFunc(s.seen.Resources, func(r Resource) bool { return r.ID == id })
	if proven {
		s.seen.Proven[id] = true
	}
}

func (s *stage) power(id string, p Power) { s.see(id).Power, s.see(id).State = p, string(p) }

func (s *stage) judge() Judgement {
	return Judge(s.c(), &s.book, s.seen, s.now, Tolerances{})
}

// pass judges, writes, and lets time go by. Nodes go on saying hello unless silent.
func (s *stage) pass(silent ...string) Judgement {
	j := s.judge()
	j.Apply(s.c(), s.now)
	s.now = s.now.Add(30 * time.Second)
	for i := range s.book.Nodes {
		if n := &s.book.Nodes[i]; !slices.Contains(silent, n.VMID) && !n.HelloAt.IsZero() {
			n.HelloAt = s.now
		}
	}
	s.seen.Proven = map[string]bool{}
	return j
}

func (j Judgement) types() (all []string) {
	for _, f := range j.Findings {
		mark := ""
		if f.Alarm {
			mark = "!"
		}
		all = append(all, string(f.Type)+mark)
	}
	return all
}

// The rows of 7.1 that have no patience, and those that are never an alarm.
func TestFindings(t *testing.T) {
	const vm = "vm-worker2"
	for _, c := range []struct {
		name  string
		state machine.State
		do    func(s *stage)
		want  []string
	}{
		{"as it should be", Running, func(*stage) {}, nil},
		{"as it should be, stopped", Stopped, func(*stage) {}, nil},
		{"missing, proven", Running, func(s *stage) { s.gone(vm, true) }, []string{"missing!"}},
		{"missing in Stopped", Stopped, func(s *stage) { s.gone(vm, true) }, []string{"missing!"}},
		{"not on the list, not proven", Running, func(s *stage) { s.gone(vm, false) }, nil},
		{"destroyed", Running, func(s *stage) { s.power(vm, Vanished) }, []string{"missing!"}},
		{"another VM has the id", Running, func(s *stage) { s.see(vm).Identity = "other" }, []string{"missing!"}},
		{"stopped in Running", Running, func(s *stage) { s.power(vm, Down) }, []string{"power_state!"}},
		{"broken in Running", Running, func(s *stage) { s.power(vm, Broken) }, []string{"power_state!"}},
		{"running in Stopped", Stopped, func(s *stage) { s.power(vm, Up) }, []string{"power_state!"}},
		{"starting", Running, func(s *stage) { s.power(vm, GoingUp) }, []string{"power_state"}},
		{"unknown", Running, func(s *stage) { s.power(vm, UnknownPower) }, []string{"unknown_state"}},
		{"a state without a name", Running, func(s *stage) { s.power(vm, "") }, []string{"unknown_state"}},
		{"endpoint", Running, func(s *stage) { s.seen.Endpoint = errors.New("refused") }, []string{"endpoint_unreachable"}},
		{"endpoint in Stopped", Stopped, func(s *stage) { s.seen.Endpoint = errors.New("refused") }, nil},
		{"silent", Running, func(s *stage) { s.book.Nodes[2].HelloAt = noon.Add(-91 * time.Second) }, []string{"not_ready"}},
		{"a hello of 90 s is fresh", Running, func(s *stage) { s.book.Nodes[2].HelloAt = noon.Add(-90 * time.Second) }, nil},
		{"not ready", Running, func(s *stage) { s.book.Nodes[2].NotReady = "no disk" }, []string{"not_ready"}},
		{"silent, where nodes do not call home", Running, func(s *stage) { s.book.Nodes[2].HelloAt = time.Time{}; s.seen.CallsHome = false }, nil},
		{"silent in Stopped", Stopped, func(s *stage) { s.book.Nodes[2].HelloAt = time.Time{} }, nil},
		{"rule: port", Running, func(s *stage) { s.see("f1").Spec.Port = 22 }, []string{"rule_changed!"}},
		{"rule: open to the world", Running, func(s *stage) { s.see("f1").Spec.CIDRs = []string{"0.0.0.0/0"} }, []string{"rule_changed!"}},
		{"rule: the same CIDRs in another order", Running, func(s *stage) { s.see("f1").Spec.CIDRs = []string{"198.51.100.0/24", "192.0.2.0/24"} }, nil},
		{"rule: the provider shows nothing", Running, func(s *stage) { s.see("f1").Spec = Spec{} }, nil},
		{"rule gone", Running, func(s *stage) { s.gone("f1", true) }, []string{"rule_changed!"}},
		{"rule gone in Stopped", Stopped, func(s *stage) { s.gone("f1", true) }, []string{"rule_changed!"}},
		{"rule not seen", Running, func(s *stage) { s.gone("f1", false) }, nil},
		{"network gone", Running, func(s *stage) { s.gone("n1", true) }, []string{"network_missing!"}},
		{"network not seen", Running, func(s *stage) { s.gone("n1", false) }, nil},
		{"address gone", Running, func(s *stage) { s.gone("a1", true) }, []string{"address_missing!"}},
		{"extra, with a name of ours", Running, func(s *stage) {
			s.seen.Resources = append(s.seen.Resources, Resource{Kind: VM, ID: "x", Name: NodeName(s.c(), Worker, 7), Tags: map[string]string{TagCluster: s.c().UUID}})
		}, []string{"extra_owned!"}},
		{"extra, with a foreign name", Running, func(s *stage) {
			s.seen.Resources = append(s.seen.Resources, Resource{Kind: VM, ID: "x", Name: "mine", Tags: map[string]string{TagCluster: s.c().UUID}})
		}, []string{"extra_owned"}},
		{"an open intent's thing is not extra", Running, func(s *stage) {
			s.book.Journal = append(s.book.Journal, JournalRow{Kind: VM, Key: "k9", Phase: Intent})
			s.seen.Resources = append(s.seen.Resources, Resource{Kind: VM, ID: "x", Name: "odd", Tags: map[string]string{TagCluster: s.c().UUID, TagKey: "k9"}})
		}, nil},
		{"a thing that is being deleted is not extra", Running, func(s *stage) {
			s.book.Journal = append(s.book.Journal, JournalRow{Kind: VM, Key: "k9", Phase: Closing, ProviderID: "x"})
			s.seen.Resources = append(s.seen.Resources, Resource{Kind: VM, ID: "x", Name: NodeName(s.c(), Worker, 7), Tags: map[string]string{TagCluster: s.c().UUID}})
		}, nil},
		{"too few rows", Running, func(s *stage) { s.c().NodeCount = 3 }, []string{"count!"}},
		{"too many rows", Running, func(s *stage) { s.c().NodeCount = 1 }, []string{"count!"}},
		{"control nodes", Running, func(s *stage) { s.c().ControlCount = 3 }, []string{"count!"}},
		{"a node without a VM does not count", Running, func(s *stage) { s.book.Nodes[2].VMID = ""; s.gone(vm, false) }, []string{"count!"}},
		{"foreign", Running, func(s *stage) { s.seen.Foreign = []Resource{{Kind: VM, ID: "z", Name: "stranger"}} }, []string{"foreign"}},
		{"several, in a fixed order", Running, func(s *stage) {
			s.gone("vm-worker1", true)
			s.power(vm, Down)
			s.gone("n1", true)
		}, []string{"network_missing!", "missing!", "power_state!"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStage(c.state)
			c.do(s)
			j := s.judge()
			if !j.Judged || !slices.Equal(j.types(), c.want) {
				t.Fatalf("got %v (judged %t), want %v", j.types(), j.Judged, c.want)
			}
			alarm := strings.Contains(fmt.Sprint(c.want), "!")
			if j.Alarm != alarm {
				t.Errorf("alarm %t, want %t", j.Alarm, alarm)
			}
			never := c.name == "foreign" || c.name == "extra, with a foreign name"
			if j.Healthy != (c.want == nil || never) {
				t.Errorf("healthy: %t", j.Healthy)
			}
			if j.Changed != (c.want != nil) {
				t.Errorf("changed: %t", j.Changed)
			}
			for _, f := range j.Findings {
				if f.Evidence == "" || f.Resource == "" || !f.Since.Equal(noon) || f.Then == "" && c.state == Running {
					t.Errorf("a finding that says too little: %+v", f)
				}
			}
		})
	}
}

func TestNotJudged(t *testing.T) {
	for name, do := range map[string]func(s *stage){
		"the provider is down":                   func(s *stage) { s.seen.Trouble = ProviderUnreachable.Errorf("timeout") },
		"the list of VMs failed":                 func(s *stage) { delete(s.seen.Listed, VM) },
		"the list is older than the state":       func(s *stage) { s.seen.At = noon.Add(-2 * time.Hour) },
		"destroyed is desired":                   func(s *stage) { s.c().Desired = WantDestroyed },
		"Created":                                func(s *stage) { s.c().State = Created },
		"Starting":                               func(s *stage) { s.c().State = Starting },
		"Scaling":                                func(s *stage) { s.c().State = Scaling },
		"Expunge":                                func(s *stage) { s.c().State = Expunge },
		"Alert on the way out, provider is down": func(s *stage) { s.c().State = Alert; s.seen.Trouble = CredentialsRefused.Errorf("401") },
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(Running)
			s.gone("vm-worker1", true)
			do(s)
			j := s.judge()
			if j.Judged || j.Alarm || j.Healthy || j.Changed || (j.Trouble != nil) != (s.seen.Trouble != nil) {
				t.Errorf("judged: %+v", j)
			}
			before := fmt.Sprint(*s.c())
			j.Apply(s.c(), noon)
			if fmt.Sprint(*s.c()) != before {
				t.Error("it was written")
			}
		})
	}
}

// What stays as it is is written until its tolerance is used up, and then never again.
func TestToleranceOfPasses(t *testing.T) {
	for name, do := range map[string]func(s *stage){
		"not_ready":            func(s *stage) { s.book.Nodes[2].NotReady = "no disk" },
		"unknown_state":        func(s *stage) { s.power("vm-worker2", UnknownPower) },
		"endpoint_unreachable": func(s *stage) { s.seen.Endpoint = fmt.Errorf("connection %d refused", s.now.Unix()) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(Running)
			for pass := 1; pass <= 6; pass++ {
				do(s)
				j := s.pass()
				want := name
				if pass >= 3 {
					want += "!"
				}
				if !slices.Equal(j.types(), []string{want}) || j.Changed != (pass <= 3) || j.Findings[0].Passes != min(pass, 3) || !j.Findings[0].Since.Equal(noon) || !j.SuspectSince.Equal(noon) {
					t.Fatalf("pass %d: %v, changed %t, %+v", pass, j.types(), j.Changed, j.Findings)
				}
			}
			s = newStage(Running)
			do(s)
			s.pass()
			do(s)
			s.pass()
			s.seen, s.book.Nodes = newStage(Running).seen, newStage(Running).book.Nodes // one good pass
			s.now = noon
			if j := s.pass(); !j.Healthy || !j.Changed {
				t.Fatalf("a good pass: %v", j.types())
			}
			do(s)
			if j := s.pass(); j.Alarm || j.Findings[0].Passes != 1 {
				t.Errorf("the count did not begin anew: %+v", j.Findings)
			}
		})
	}
}

func TestToleranceOfTransitionalStates(t *testing.T) {
	s := newStage(Running)
	for pass := range 22 {
		s.power("vm-worker2", []Power{GoingUp, GoingDown}[pass%2]) // migrating to and fro is one transition
		at := s.now
		j := s.pass()
		if want := at.Sub(noon) >= 10*time.Minute; j.Alarm != want {
			t.Fatalf("after %s: alarm %t", at.Sub(noon), j.Alarm)
		}
	}
	s = newStage(Running)
	s.power("vm-worker2", Down)
	s.pass()
	s.now = s.now.Add(time.Hour)
	s.power("vm-worker2", GoingUp)
	s.book.Nodes[2].HelloAt = s.now
	s.book.Nodes[0].HelloAt, s.book.Nodes[1].HelloAt = s.now, s.now
	if j := s.judge(); j.Alarm {
		t.Errorf("its time on the way began when it was still stopped: %+v", j.Findings)
	}
}

// What was proven gone stays missing, without being read each time, until it is seen again.
func TestMissingIsProvenOnce(t *testing.T) {
	s := newStage(Running)
	s.gone("vm-worker2", false)
	refs := Suspects(s.c(), &s.book, s.seen)
	if len(refs) != 1 || refs[0].ID != "vm-worker2" || refs[0].Kind != VM || refs[0].Identity != "i-vm-worker2" {
		t.Fatalf("suspects: %+v", refs)
	}
	s.seen.Proven["vm-worker2"] = true
	if j := s.pass(); !j.Alarm {
		t.Fatal("no alarm")
	}
	if refs := Suspects(s.c(), &s.book, s.seen); len(refs) != 0 {
		t.Errorf("read again: %+v", refs)
	}
	if j := s.pass(); !j.Alarm || j.Changed {
		t.Errorf("it was forgotten: %v, changed %t", j.types(), j.Changed)
	}
	s.seen.Listed = map[Kind]bool{VM: false}
	if j := s.pass(); j.Judged {
		t.Error("judged without a list")
	}
	s.seen = newStage(Running).seen
	if j := s.pass(); !j.Healthy || !j.Changed {
		t.Errorf("it is back: %v", j.types())
	}
}

func TestSuspects(t *testing.T) {
	for _, c := range []struct {
		name  string
		state machine.State
		do    func(s *stage)
		want  []string
	}{
		{"nothing", Running, func(*stage) {}, nil},
		{"absent", Running, func(s *stage) { s.gone("vm-worker1", false) }, []string{"vm-worker1"}},
		{"absent from a list that failed", Running, func(s *stage) { s.gone("vm-worker1", false); delete(s.seen.Listed, VM) }, nil},
		{"stopped", Running, func(s *stage) { s.power("vm-worker1", Down) }, []string{"vm-worker1"}},
		{"destroyed", Running, func(s *stage) { s.power("vm-worker1", Vanished) }, []string{"vm-worker1"}},
		{"running in Stopped", Stopped, func(s *stage) { s.power("vm-worker1", Up) }, []string{"vm-worker1"}},
		{"starting is borne", Running, func(s *stage) { s.power("vm-worker1", GoingUp) }, nil},
		{"unknown is borne", Running, func(s *stage) { s.power("vm-worker1", UnknownPower) }, nil},
		{"silent is borne", Running, func(s *stage) { s.book.Nodes[0].HelloAt = time.Time{} }, nil},
		{"rule", Running, func(s *stage) { s.gone("f1", false) }, []string{"f1"}},
		{"rule of a kind whose list failed", Running, func(s *stage) { s.gone("f1", false); delete(s.seen.Listed, Firewall) }, nil},
		{"a given network is on no list", Running, func(s *stage) { s.book.Journal[0].Origin = Given; s.gone("n1", false) }, nil},
		{"a given network, when something is odd", Running, func(s *stage) {
			s.book.Journal[0].Origin = Given
			s.gone("n1", false)
			s.gone("vm-worker1", false)
		}, []string{"vm-worker1", "n1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStage(c.state)
			c.do(s)
			var got []string
			for _, ref := range Suspects(s.c(), &s.book, s.seen) {
				got = append(got, ref.ID)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

// Alert, Running desired: a next try by policy, at growing pauses.
func TestRecoveryByPolicy(t *testing.T) {
	s := newStage(Alert)
	s.c().StateSince = noon
	s.power("vm-worker2", Down)
	j := s.pass()
	if !j.RecoverNext.Equal(noon) || j.RecoverTries != 1 || j.Findings[0].Then != "start it" || !j.Findings[0].At.Equal(noon) {
		t.Fatalf("the first try is at once: %+v", j)
	}
	if again := s.pass(); again.Changed {
		t.Errorf("the try that is planned is planned again: %+v", again)
	}
	var pauses []time.Duration
	for range 9 { // each try fails
		Enter(s.c(), OnRecover, Recovering, Reason{}, s.now, GCBackoff)
		s.now = s.now.Add(time.Minute)
		Enter(s.c(), OnFailed, Alert, Reason{}, s.now, GCBackoff)
		failed := s.now
		for i := range s.book.Nodes {
			s.book.Nodes[i].HelloAt = s.now
		}
		j = s.pass()
		pauses = append(pauses, j.RecoverNext.Sub(failed))
		s.now = j.RecoverNext
	}
	for i, minutes := range []int{1, 2, 4, 8, 16, 32, 60, 60, 60} {
		want := time.Duration(minutes) * time.Minute
		if pauses[i] < want-time.Second || pauses[i] > want+want/10 {
			t.Errorf("pause %d is %s, want %s", i+1, pauses[i], want)
		}
	}
	s.power("vm-worker2", Up) // mended by somebody
	for i := range s.book.Nodes {
		s.book.Nodes[i].HelloAt = s.now
	}
	if j = s.pass(); !j.Healthy || j.RecoverNext.After(s.now) || j.RecoverTries != 1 {
		t.Errorf("healthy again: %+v", j)
	}
}

// A recovery that fails though all looks well is not tried without pause.
func TestHealthyAlertIsTriedWithPauses(t *testing.T) {
	s := newStage(Alert)
	s.c().StateSince = noon
	if j := s.pass(); !j.RecoverNext.Equal(noon) {
		t.Fatalf("the first: %s", j.RecoverNext)
	}
	Enter(s.c(), OnRecover, Recovering, Reason{}, s.now, GCBackoff)
	Enter(s.c(), OnFailed, Alert, Reason{}, s.now, GCBackoff)
	at := s.now
	if j := s.pass(); j.RecoverNext.Sub(at) < time.Minute {
		t.Errorf("the second is %s behind the first", j.RecoverNext.Sub(at))
	}
}

func TestHealthyRunningResetsTheTries(t *testing.T) {
	s := newStage(Running)
	s.c().RecoverTries = 4
	if j := s.pass(); j.RecoverTries != 0 || !j.Changed {
		t.Errorf("%+v", j)
	}
	if j := s.pass(); j.Changed {
		t.Error("an unchanged cluster is written")
	}
}

func TestWhenThePolicyAllowsNoTry(t *testing.T) {
	for _, c := range []struct {
		name    string
		policy  Recovery
		desired Desired
		do      func(s *stage)
		tried   bool
	}{
		{"restart starts what is stopped", nil, WantRunning, func(s *stage) { s.power("vm-worker1", Down) }, true},
		{"none", Recovery{}, WantRunning, func(s *stage) { s.power("vm-worker1", Down) }, false},
		{"none, but healthy", Recovery{}, WantRunning, func(*stage) {}, true},
		{"restart does not replace", nil, WantRunning, func(s *stage) { s.gone("vm-worker1", true) }, false},
		{"replace does", Recovery{Replace}, WantRunning, func(s *stage) { s.gone("vm-worker1", true) }, true},
		{"restart does what it can", nil, WantRunning, func(s *stage) { s.gone("vm-worker1", true); s.power("vm-worker2", Down) }, true},
		{"a VM on its way is waited for", Recovery{Restart, Replace}, WantRunning, func(s *stage) { s.power("vm-worker1", GoingUp) }, false},
		{"stopped desired, all stopped", Recovery{}, WantStopped, func(s *stage) { s.allDown() }, true},
		{"stopped desired, one runs", nil, WantStopped, func(s *stage) { s.allDown(); s.power("vm-worker1", Up) }, true},
		{"stopped desired, one runs, none", Recovery{}, WantStopped, func(s *stage) { s.allDown(); s.power("vm-worker1", Up) }, false},
		{"stopped desired, one is gone, none", Recovery{}, WantStopped, func(s *stage) { s.allDown(); s.gone("vm-worker1", true) }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStage(Alert)
			s.c().Recovery, s.c().Desired = c.policy, c.desired
			c.do(s)
			j := s.judge()
			if (!j.RecoverNext.IsZero()) != c.tried {
				t.Errorf("next try %s; %v", j.RecoverNext, j.Findings)
			}
		})
	}
}

func (s *stage) allDown() {
	for _, n := range s.book.Nodes {
		s.power(n.VMID, Down)
	}
}

func TestPolicyOfTheServerStandsInForTheClusters(t *testing.T) {
	s := newStage(Alert)
	s.gone("vm-worker1", true)
	if j := Judge(s.c(), &s.book, s.seen, s.now, Tolerances{Policy: Recovery{Replace}}); j.RecoverNext.IsZero() || j.Findings[0].Then != "replace it" {
		t.Errorf("%+v", j)
	}
}

// Whatever is seen: what was not proven is never missing, a judgement written
// once is not written again, and nothing foreign raises an alarm.
func TestJudgeIsSteadyAndBelievesOnlyProof(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s := newStage(rapid.SampledFrom([]machine.State{Running, Stopped, Alert}).Draw(r, "state"))
		s.c().Recovery = rapid.SampledFrom([]Recovery{nil, {}, {Restart}, {Replace}, {Restart, Replace, Adopt}}).Draw(r, "policy")
		for _, id := range []string{"vm-control1", "vm-worker1", "vm-worker2", "f1", "n1", "a1"} {
			switch rapid.IntRange(0, 5).Draw(r, id) {
			case 0:
				s.gone(id, false)
			case 1:
				s.gone(id, true)
			case 2:
				s.power(id, rapid.SampledFrom([]Power{Up, Down, Broken, GoingUp, UnknownPower, Vanished}).Draw(r, "power"))
			}
		}
		listed := maps.Clone(s.seen.Listed)
		for k := range listed {
			s.seen.Listed[k] = k == VM || rapid.Bool().Draw(r, string(k))
		}
		proven := maps.Clone(s.seen.Proven)
		present := func(id string) bool {
			return slices.ContainsFunc(s.seen.Resources, func(x Resource) bool { return x.ID == id })
		}
		j := s.judge()
		for _, f := range j.Findings {
			if slices.Contains([]FindingType{Missing, NetworkMissing, AddressMissing, RuleChanged}, f.Type) && !proven[f.ID] && !present(f.ID) {
				r.Fatalf("%s was never proven gone", f)
			}
		}
		j.Apply(s.c(), s.now)
		if s.judge().Changed && !hasPasses(j) {
			r.Fatalf("the same look is written twice: %+v then %+v", j, s.judge())
		}
		if string(s.c().State) == string(Running) && (Due(s.c(), nil, s.now) == OnFaulty) != j.Alarm {
			r.Fatal("alarm and FaultyDetected differ")
		}
	})
}

func hasPasses(j Judgement) bool {
	return slices.ContainsFunc(j.Findings, func(f Finding) bool { return f.Type == UnknownState || f.Type == NotReady })
}
