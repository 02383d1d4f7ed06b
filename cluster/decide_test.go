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

// fixture is a healthy cluster of one control node and two workers, and what a pass
// observes of it.
type fixture struct {
	record   Record
	observed Observed
	now      time.Time
}

func newFixture(state machine.State) *fixture {
	c := Cluster{ID: 1, UUID: "1f2e3d4c-0000", Name: "blue", Provider: "sim", State: state, StateSince: noon.Add(-time.Hour), Desired: WantRunning,
		NodeCount: 2, ControlCount: 1, Started: true, GC: true, Endpoint: "https://blue:6443"}
	if state == Stopped {
		c.Desired = WantStopped
	}
	s := &fixture{now: noon, record: Record{Cluster: c}, observed: Observed{SendsHeartbeats: true, Listed: map[Kind]bool{}, Proven: map[string]bool{}}}
	for _, k := range []Kind{VM, Network, Address, Firewall, Forward, Balancer} {
		s.observed.Listed[k] = true
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

func (s *fixture) c() *Cluster { return &s.record.Cluster }

// add adds a row and its observed resource.
func (s *fixture) add(row JournalRow) {
	row.ID, row.Phase, row.Origin, row.Identity = int64(len(s.record.Journal)+1), Present, OriginCreated, "i-"+row.ProviderID
	row.PresentAt = noon.Add(-2 * time.Hour)
	s.record.Journal = append(s.record.Journal, row)
	power := PoweredOn
	if row.Kind == VM && s.c().State == Stopped {
		power = PoweredOff
	}
	s.observed.Resources = append(s.observed.Resources, Resource{Kind: row.Kind, ID: row.ProviderID, Name: row.Name, Identity: row.Identity, Power: power,
		State: string(power), Spec: row.Spec, Tags: map[string]string{TagInstallation: "inst", TagCluster: s.c().UUID, TagKey: row.Key}, Created: noon.Add(-2 * time.Hour)})
}

func (s *fixture) node(role Role, ordinal int) {
	name := NodeName(s.c(), role, ordinal)
	n := Node{ID: int64(len(s.record.Nodes) + 1), Name: name, Key: name, VMID: fmt.Sprintf("vm-%s%d", role, ordinal), Role: role, Ordinal: ordinal}
	if s.c().State != Stopped {
		n.HeartbeatAt, n.ReadyAt = s.now, s.now
	}
	s.record.Nodes = append(s.record.Nodes, n)
	s.add(JournalRow{Kind: VM, Key: name, Name: name, ProviderID: n.VMID})
}

// resource returns the observed resource with an id.
func (s *fixture) resource(id string) *Resource {
	i := slices.IndexFunc(s.observed.Resources, func(r Resource) bool { return r.ID == id })
	return &s.observed.Resources[i]
}

func (s *fixture) gone(id string, proven bool) {
	s.observed.Resources = slices.DeleteFunc(s.observed.Resources, func(r Resource) bool { return r.ID == id })
	if proven {
		s.observed.Proven[id] = true
	}
}

func (s *fixture) power(id string, p Power) {
	s.resource(id).Power, s.resource(id).State = p, string(p)
}

func (s *fixture) decide() HealthDecision {
	return DecideHealth(s.c(), &s.record, s.observed, s.now, Tolerances{})
}

// pass decides, writes the decision, and lets 30 s go by. All nodes but the silent
// ones send heartbeats.
func (s *fixture) pass(silent ...string) HealthDecision {
	j := s.decide()
	j.Apply(s.c(), s.now)
	s.now = s.now.Add(30 * time.Second)
	for i := range s.record.Nodes {
		if n := &s.record.Nodes[i]; !slices.Contains(silent, n.VMID) && !n.HeartbeatAt.IsZero() {
			n.HeartbeatAt = s.now
		}
	}
	s.observed.Proven = map[string]bool{}
	return j
}

func (j HealthDecision) types() (all []string) {
	for _, f := range j.Findings {
		mark := ""
		if f.Alarm {
			mark = "!"
		}
		all = append(all, string(f.Type)+mark)
	}
	return all
}

// The findings that are alarms at once, and those that are never alarms.
func TestFindings(t *testing.T) {
	const vm = "vm-worker2"
	for _, c := range []struct {
		name  string
		state machine.State
		do    func(s *fixture)
		want  []string
	}{
		{"as it should be", Running, func(*fixture) {}, nil},
		{"as it should be, stopped", Stopped, func(*fixture) {}, nil},
		{"missing, proven", Running, func(s *fixture) { s.gone(vm, true) }, []string{"missing!"}},
		{"missing in Stopped", Stopped, func(s *fixture) { s.gone(vm, true) }, []string{"missing!"}},
		{"not on the list, not proven", Running, func(s *fixture) { s.gone(vm, false) }, nil},
		{"destroyed", Running, func(s *fixture) { s.power(vm, PowerGone) }, []string{"missing!"}},
		{"another VM has the id", Running, func(s *fixture) { s.resource(vm).Identity = "other" }, []string{"missing!"}},
		{"stopped in Running", Running, func(s *fixture) { s.power(vm, PoweredOff) }, []string{"power_state!"}},
		{"broken in Running", Running, func(s *fixture) { s.power(vm, PowerBroken) }, []string{"power_state!"}},
		{"in the network of the cluster", Running, func(s *fixture) { s.resource(vm).Spec.Network = "n1" }, nil},
		{"in a network that the cluster has lost", Running, func(s *fixture) { s.resource(vm).Spec.Network = "n0" }, []string{"power_state!"}},
		{"in a lost network, in Stopped", Stopped, func(s *fixture) { s.resource(vm).Spec.Network = "n0" }, nil},
		{"running in Stopped", Stopped, func(s *fixture) { s.power(vm, PoweredOn) }, []string{"power_state!"}},
		{"starting", Running, func(s *fixture) { s.power(vm, PoweringOn) }, []string{"power_state"}},
		{"unknown", Running, func(s *fixture) { s.power(vm, UnknownPower) }, []string{"unknown_state"}},
		{"a state without a name", Running, func(s *fixture) { s.power(vm, "") }, []string{"unknown_state"}},
		{"endpoint", Running, func(s *fixture) { s.observed.Endpoint = errors.New("refused") }, []string{"endpoint_unreachable"}},
		{"endpoint in Stopped", Stopped, func(s *fixture) { s.observed.Endpoint = errors.New("refused") }, nil},
		{"silent", Running, func(s *fixture) { s.record.Nodes[2].HeartbeatAt = noon.Add(-91 * time.Second) }, []string{"not_ready"}},
		{"a heartbeat of 90 s ago is fresh", Running, func(s *fixture) { s.record.Nodes[2].HeartbeatAt = noon.Add(-90 * time.Second) }, nil},
		{"not ready", Running, func(s *fixture) { s.record.Nodes[2].NotReady = "no disk" }, []string{"not_ready"}},
		{"silent, where nodes do not call home", Running, func(s *fixture) { s.record.Nodes[2].HeartbeatAt = time.Time{}; s.observed.SendsHeartbeats = false }, nil},
		{"silent in Stopped", Stopped, func(s *fixture) { s.record.Nodes[2].HeartbeatAt = time.Time{} }, nil},
		{"rule: port", Running, func(s *fixture) { s.resource("f1").Spec.Port = 22 }, []string{"rule_changed!"}},
		{"rule: open to the world", Running, func(s *fixture) { s.resource("f1").Spec.CIDRs = []string{"0.0.0.0/0"} }, []string{"rule_changed!"}},
		{"rule: the same CIDRs in another order", Running, func(s *fixture) { s.resource("f1").Spec.CIDRs = []string{"198.51.100.0/24", "192.0.2.0/24"} }, nil},
		{"rule: the provider shows nothing", Running, func(s *fixture) { s.resource("f1").Spec = Spec{} }, nil},
		{"rule gone", Running, func(s *fixture) { s.gone("f1", true) }, []string{"rule_changed!"}},
		{"rule gone in Stopped", Stopped, func(s *fixture) { s.gone("f1", true) }, []string{"rule_changed!"}},
		{"rule not seen", Running, func(s *fixture) { s.gone("f1", false) }, nil},
		{"network gone", Running, func(s *fixture) { s.gone("n1", true) }, []string{"network_missing!"}},
		{"network not seen", Running, func(s *fixture) { s.gone("n1", false) }, nil},
		{"address gone", Running, func(s *fixture) { s.gone("a1", true) }, []string{"address_missing!"}},
		{"extra, with a name that Pawl chose", Running, func(s *fixture) {
			s.observed.Resources = append(s.observed.Resources, Resource{Kind: VM, ID: "x", Name: NodeName(s.c(), Worker, 7), Tags: map[string]string{TagCluster: s.c().UUID}})
		}, []string{"extra_owned!"}},
		{"extra, with a foreign name", Running, func(s *fixture) {
			s.observed.Resources = append(s.observed.Resources, Resource{Kind: VM, ID: "x", Name: "mine", Tags: map[string]string{TagCluster: s.c().UUID}})
		}, []string{"extra_owned"}},
		{"the resource of an open intent is not extra", Running, func(s *fixture) {
			s.record.Journal = append(s.record.Journal, JournalRow{Kind: VM, Key: "k9", Phase: Intent})
			s.observed.Resources = append(s.observed.Resources, Resource{Kind: VM, ID: "x", Name: "odd", Tags: map[string]string{TagCluster: s.c().UUID, TagKey: "k9"}})
		}, nil},
		{"a resource that is being deleted is not extra", Running, func(s *fixture) {
			s.record.Journal = append(s.record.Journal, JournalRow{Kind: VM, Key: "k9", Phase: Closing, ProviderID: "x"})
			s.observed.Resources = append(s.observed.Resources, Resource{Kind: VM, ID: "x", Name: NodeName(s.c(), Worker, 7), Tags: map[string]string{TagCluster: s.c().UUID}})
		}, nil},
		{"too few rows", Running, func(s *fixture) { s.c().NodeCount = 3 }, []string{"count!"}},
		{"too many rows", Running, func(s *fixture) { s.c().NodeCount = 1 }, []string{"count!"}},
		{"control nodes", Running, func(s *fixture) { s.c().ControlCount = 3 }, []string{"count!"}},
		{"a node without a VM does not count", Running, func(s *fixture) { s.record.Nodes[2].VMID = ""; s.gone(vm, false) }, []string{"count!"}},
		{"foreign", Running, func(s *fixture) { s.observed.Foreign = []Resource{{Kind: VM, ID: "z", Name: "stranger"}} }, []string{"foreign"}},
		{"several, in a fixed order", Running, func(s *fixture) {
			s.gone("vm-worker1", true)
			s.power(vm, PoweredOff)
			s.gone("n1", true)
		}, []string{"network_missing!", "missing!", "power_state!"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newFixture(c.state)
			c.do(s)
			j := s.decide()
			if !j.Decided || !slices.Equal(j.types(), c.want) {
				t.Fatalf("got %v (decided %t), want %v", j.types(), j.Decided, c.want)
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

func TestUndecided(t *testing.T) {
	for name, do := range map[string]func(s *fixture){
		"the provider is down":                   func(s *fixture) { s.observed.Err = ProviderUnreachable.Errorf("timeout") },
		"the list of VMs failed":                 func(s *fixture) { delete(s.observed.Listed, VM) },
		"the list is older than the state":       func(s *fixture) { s.observed.At = noon.Add(-2 * time.Hour) },
		"destroyed is desired":                   func(s *fixture) { s.c().Desired = WantDestroyed },
		"Created":                                func(s *fixture) { s.c().State = Created },
		"Starting":                               func(s *fixture) { s.c().State = Starting },
		"Scaling":                                func(s *fixture) { s.c().State = Scaling },
		"Expunge":                                func(s *fixture) { s.c().State = Expunge },
		"Alert on the way out, provider is down": func(s *fixture) { s.c().State = Alert; s.observed.Err = CredentialsRefused.Errorf("401") },
	} {
		t.Run(name, func(t *testing.T) {
			s := newFixture(Running)
			s.gone("vm-worker1", true)
			do(s)
			j := s.decide()
			if j.Decided || j.Alarm || j.Healthy || j.Changed || (j.Err != nil) != (s.observed.Err != nil) {
				t.Errorf("decided: %+v", j)
			}
			before := fmt.Sprint(*s.c())
			j.Apply(s.c(), noon)
			if fmt.Sprint(*s.c()) != before {
				t.Error("it was written")
			}
		})
	}
}

// An unchanged finding is written until its tolerance is used up, and then not
// again.
func TestToleranceOfPasses(t *testing.T) {
	for name, do := range map[string]func(s *fixture){
		"not_ready":            func(s *fixture) { s.record.Nodes[2].NotReady = "no disk" },
		"unknown_state":        func(s *fixture) { s.power("vm-worker2", UnknownPower) },
		"endpoint_unreachable": func(s *fixture) { s.observed.Endpoint = fmt.Errorf("connection %d refused", s.now.Unix()) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newFixture(Running)
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
			s = newFixture(Running)
			do(s)
			s.pass()
			do(s)
			s.pass()
			s.observed, s.record.Nodes = newFixture(Running).observed, newFixture(Running).record.Nodes // one good pass
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
	s := newFixture(Running)
	for pass := range 22 {
		s.power("vm-worker2", []Power{PoweringOn, PoweringOff}[pass%2]) // repeated migration is one transition
		at := s.now
		j := s.pass()
		if want := at.Sub(noon) >= 10*time.Minute; j.Alarm != want {
			t.Fatalf("after %s: alarm %t", at.Sub(noon), j.Alarm)
		}
	}
	s = newFixture(Running)
	s.power("vm-worker2", PoweredOff)
	s.pass()
	s.now = s.now.Add(time.Hour)
	s.power("vm-worker2", PoweringOn)
	s.record.Nodes[2].HeartbeatAt = s.now
	s.record.Nodes[0].HeartbeatAt, s.record.Nodes[1].HeartbeatAt = s.now, s.now
	if j := s.decide(); j.Alarm {
		t.Errorf("its time on the way began when it was still stopped: %+v", j.Findings)
	}
}

// A resource that is proven gone stays missing, without further reads, until it is
// seen again.
func TestMissingIsProvenOnce(t *testing.T) {
	s := newFixture(Running)
	s.gone("vm-worker2", false)
	refs := Suspects(s.c(), &s.record, s.observed)
	if len(refs) != 1 || refs[0].ID != "vm-worker2" || refs[0].Kind != VM || refs[0].Identity != "i-vm-worker2" {
		t.Fatalf("suspects: %+v", refs)
	}
	s.observed.Proven["vm-worker2"] = true
	if j := s.pass(); !j.Alarm {
		t.Fatal("no alarm")
	}
	if refs := Suspects(s.c(), &s.record, s.observed); len(refs) != 0 {
		t.Errorf("read again: %+v", refs)
	}
	if j := s.pass(); !j.Alarm || j.Changed {
		t.Errorf("it was forgotten: %v, changed %t", j.types(), j.Changed)
	}
	s.observed.Listed = map[Kind]bool{VM: false}
	if j := s.pass(); j.Decided {
		t.Error("decided without a list")
	}
	s.observed = newFixture(Running).observed
	if j := s.pass(); !j.Healthy || !j.Changed {
		t.Errorf("it is back: %v", j.types())
	}
}

func TestSuspects(t *testing.T) {
	for _, c := range []struct {
		name  string
		state machine.State
		do    func(s *fixture)
		want  []string
	}{
		{"nothing", Running, func(*fixture) {}, nil},
		{"absent", Running, func(s *fixture) { s.gone("vm-worker1", false) }, []string{"vm-worker1"}},
		{"absent from a list that failed", Running, func(s *fixture) { s.gone("vm-worker1", false); delete(s.observed.Listed, VM) }, nil},
		{"stopped", Running, func(s *fixture) { s.power("vm-worker1", PoweredOff) }, []string{"vm-worker1"}},
		{"destroyed", Running, func(s *fixture) { s.power("vm-worker1", PowerGone) }, []string{"vm-worker1"}},
		{"running in Stopped", Stopped, func(s *fixture) { s.power("vm-worker1", PoweredOn) }, []string{"vm-worker1"}},
		{"starting is borne", Running, func(s *fixture) { s.power("vm-worker1", PoweringOn) }, nil},
		{"unknown is borne", Running, func(s *fixture) { s.power("vm-worker1", UnknownPower) }, nil},
		{"silent is borne", Running, func(s *fixture) { s.record.Nodes[0].HeartbeatAt = time.Time{} }, nil},
		{"rule", Running, func(s *fixture) { s.gone("f1", false) }, []string{"f1"}},
		{"rule of a kind whose list failed", Running, func(s *fixture) { s.gone("f1", false); delete(s.observed.Listed, Firewall) }, nil},
		{"a given network is on no list", Running, func(s *fixture) { s.record.Journal[0].Origin = OriginGiven; s.gone("n1", false) }, nil},
		{"a given network, when something is odd", Running, func(s *fixture) {
			s.record.Journal[0].Origin = OriginGiven
			s.gone("n1", false)
			s.gone("vm-worker1", false)
		}, []string{"vm-worker1", "n1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newFixture(c.state)
			c.do(s)
			var got []string
			for _, ref := range Suspects(s.c(), &s.record, s.observed) {
				got = append(got, ref.ID)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

// In Alert with Running desired, recovery by policy is tried after growing pauses.
func TestRecoveryByPolicy(t *testing.T) {
	s := newFixture(Alert)
	s.c().StateSince = noon
	s.power("vm-worker2", PoweredOff)
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
		for i := range s.record.Nodes {
			s.record.Nodes[i].HeartbeatAt = s.now
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
	s.power("vm-worker2", PoweredOn) // somebody repaired it
	for i := range s.record.Nodes {
		s.record.Nodes[i].HeartbeatAt = s.now
	}
	if j = s.pass(); !j.Healthy || j.RecoverNext.After(s.now) || j.RecoverTries != 1 {
		t.Errorf("healthy again: %+v", j)
	}
}

// A recovery that fails although no difference is found is tried again only after
// pauses.
func TestHealthyAlertIsTriedWithPauses(t *testing.T) {
	s := newFixture(Alert)
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
	s := newFixture(Running)
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
		do      func(s *fixture)
		tried   bool
	}{
		{"restart starts what is stopped", nil, WantRunning, func(s *fixture) { s.power("vm-worker1", PoweredOff) }, true},
		{"none", Recovery{}, WantRunning, func(s *fixture) { s.power("vm-worker1", PoweredOff) }, false},
		{"none, but healthy", Recovery{}, WantRunning, func(*fixture) {}, true},
		{"restart does not replace", nil, WantRunning, func(s *fixture) { s.gone("vm-worker1", true) }, false},
		{"replace does", Recovery{Replace}, WantRunning, func(s *fixture) { s.gone("vm-worker1", true) }, true},
		{"restart does what it can", nil, WantRunning, func(s *fixture) { s.gone("vm-worker1", true); s.power("vm-worker2", PoweredOff) }, true},
		{"a VM on its way is waited for", Recovery{Restart, Replace}, WantRunning, func(s *fixture) { s.power("vm-worker1", PoweringOn) }, false},
		{"stopped desired, all stopped", Recovery{}, WantStopped, func(s *fixture) { s.powerOffAll() }, true},
		{"stopped desired, one runs", nil, WantStopped, func(s *fixture) { s.powerOffAll(); s.power("vm-worker1", PoweredOn) }, true},
		{"stopped desired, one runs, none", Recovery{}, WantStopped, func(s *fixture) { s.powerOffAll(); s.power("vm-worker1", PoweredOn) }, false},
		{"stopped desired, one is gone, none", Recovery{}, WantStopped, func(s *fixture) { s.powerOffAll(); s.gone("vm-worker1", true) }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newFixture(Alert)
			s.c().Recovery, s.c().Desired = c.policy, c.desired
			c.do(s)
			j := s.decide()
			if (!j.RecoverNext.IsZero()) != c.tried {
				t.Errorf("next try %s; %v", j.RecoverNext, j.Findings)
			}
		})
	}
}

func (s *fixture) powerOffAll() {
	for _, n := range s.record.Nodes {
		s.power(n.VMID, PoweredOff)
	}
}

func TestPolicyOfTheServerStandsInForTheClusters(t *testing.T) {
	s := newFixture(Alert)
	s.gone("vm-worker1", true)
	if j := DecideHealth(s.c(), &s.record, s.observed, s.now, Tolerances{Policy: Recovery{Replace}}); j.RecoverNext.IsZero() || j.Findings[0].Then != "replace it" {
		t.Errorf("%+v", j)
	}
}

// For every observation: without proof nothing is missing, a decision that was
// written is not written again, and foreign resources raise no alarm.
func TestDecisionIsStableAndNeedsProof(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s := newFixture(rapid.SampledFrom([]machine.State{Running, Stopped, Alert}).Draw(r, "state"))
		s.c().Recovery = rapid.SampledFrom([]Recovery{nil, {}, {Restart}, {Replace}, {Restart, Replace, Adopt}}).Draw(r, "policy")
		for _, id := range []string{"vm-control1", "vm-worker1", "vm-worker2", "f1", "n1", "a1"} {
			switch rapid.IntRange(0, 5).Draw(r, id) {
			case 0:
				s.gone(id, false)
			case 1:
				s.gone(id, true)
			case 2:
				s.power(id, rapid.SampledFrom([]Power{PoweredOn, PoweredOff, PowerBroken, PoweringOn, UnknownPower, PowerGone}).Draw(r, "power"))
			}
		}
		listed := maps.Clone(s.observed.Listed)
		for k := range listed {
			s.observed.Listed[k] = k == VM || rapid.Bool().Draw(r, string(k))
		}
		proven := maps.Clone(s.observed.Proven)
		present := func(id string) bool {
			return slices.ContainsFunc(s.observed.Resources, func(x Resource) bool { return x.ID == id })
		}
		j := s.decide()
		for _, f := range j.Findings {
			if slices.Contains([]FindingType{Missing, NetworkMissing, AddressMissing, RuleChanged}, f.Type) && !proven[f.ID] && !present(f.ID) {
				r.Fatalf("%s was never proven gone", f)
			}
		}
		j.Apply(s.c(), s.now)
		if s.decide().Changed && !hasPasses(j) {
			r.Fatalf("the same look is written twice: %+v then %+v", j, s.decide())
		}
		if string(s.c().State) == string(Running) && (DueEvent(s.c(), nil, s.now) == OnFaulty) != j.Alarm {
			r.Fatal("alarm and FaultyDetected differ")
		}
	})
}

func hasPasses(j HealthDecision) bool {
	return slices.ContainsFunc(j.Findings, func(f Finding) bool { return f.Type == UnknownState || f.Type == NotReady })
}
