package service_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/api"
	"github.com/pawl-dev/pawl/cluster/service/servicetest"
	"github.com/pawl-dev/pawl/provider/sim"
)

// turn is one action of a random script, and the pause before it.
type turn struct {
	After time.Duration
	What  string
	A, B  int // parameters: which cluster, which of its VMs, how many …
}

func (s turn) String() string { return fmt.Sprintf("%s %s(%d,%d)", s.After, s.What, s.A, s.B) }

// happenings are the actions of scripts. A repeated action is more frequent.
var happenings = []string{
	"create", "create", "create", "scale", "scale", "scale", "stop", "start", "upgrade", "recover", "delete",
	"kill", "kill", "kill at", "kill at",
	"stop vm", "start vm", "destroy vm", "trash vm", "break vm", "strange state", "migrate vm", "strip tags", "silence", "not ready",
	"stranger", "delete network", "delete rule", "change rule", "delete address",
	"lost answers", "timeouts", "throttle", "stuck job", "failed job", "duplicates", "refusals", "slow", "room", "down", "down for an hour", "credentials", "heal",
}

var drawTurn = rapid.Custom(func(t *rapid.T) turn {
	return turn{
		After: rapid.SampledFrom([]time.Duration{0, time.Second, 7 * time.Second, 20 * time.Second, time.Minute, 4 * time.Minute, 20 * time.Minute}).Draw(t, "after"),
		What:  rapid.SampledFrom(happenings).Draw(t, "what"),
		A:     rapid.IntRange(0, 2).Draw(t, "a"), B: rapid.IntRange(0, 5).Draw(t, "b"),
	}
})

// scripted is a lab that runs a script.
type scripted struct {
	*servicetest.Lab
	names []string
}

func (s *scripted) id(n int) string {
	found := s.Clusters()
	if len(found) == 0 {
		return ""
	}
	return found[n%len(found)].UUID
}

func (s *scripted) resource(kind cluster.Kind, a, b int) string {
	var ids []string
	for _, r := range s.Cloud.All(kind) {
		if r.Tags[cluster.TagCluster] == s.id(a) && !r.SourceNAT {
			ids = append(ids, r.ID)
		}
	}
	if len(ids) == 0 {
		return "none"
	}
	return ids[b%len(ids)]
}

func (s *scripted) play(x turn) {
	s.Wait(x.After)
	id, vm := s.id(x.A), s.resource(cluster.VM, x.A, x.B)
	network := s.resource(cluster.Network, x.A, 0)
	change := func(r api.ChangeRequest) {
		if id != "" {
			_, _ = s.Change(id, r) // the state may refuse it
		}
	}
	rule := func(r sim.Rule) { s.Cloud.Inject(r) }
	switch x.What {
	case "create":
		if len(s.names) < 3 {
			name := string(rune('a' + len(s.names)))
			s.names = append(s.names, name)
			policies := []cluster.Recovery{{}, nil, {cluster.Restart, cluster.Replace}, {cluster.Restart, cluster.Replace, cluster.Adopt}}
			s.try(api.CreateRequest{
				Name: name, Size: 1 + x.B%3, ControlNodes: 1 + 2*(x.B/5), Version: "v1", Recovery: policies[(x.A+x.B)%4],
				OnFailure: []cluster.OnFailure{cluster.Rollback, cluster.Lazy, cluster.KeepPartial}[x.A],
			})
		}
	case "scale":
		change(api.ChangeRequest{Kind: cluster.RequestScale, Size: 1 + x.B})
	case "stop", "start", "recover", "delete":
		change(api.ChangeRequest{Kind: cluster.RequestKind(x.What), Forced: x.B == 0})
	case "upgrade":
		change(api.ChangeRequest{Kind: cluster.RequestUpgrade, Version: "v2", Consent: x.B == 0, Downtime: x.B > 1, Surge: 1 + x.B%2})
	case "kill":
		s.Kill()
	case "kill at":
		s.Arm(1 + x.A*7 + x.B*31)
	case "stop vm":
		_ = s.Cloud.StopVM(vm)
	case "start vm":
		_ = s.Cloud.StartVM(vm)
	case "destroy vm":
		_ = s.Cloud.DestroyVM(vm)
	case "trash vm":
		_ = s.Cloud.TrashVM(vm)
	case "break vm":
		_ = s.Cloud.BreakVM(vm)
	case "strange state":
		_ = s.Cloud.SetState(vm, "Levitating")
	case "migrate vm":
		_ = s.Cloud.Migrate(vm)
	case "strip tags":
		_ = s.Cloud.StripTags(cluster.VM, vm)
	case "silence":
		_ = s.Cloud.Silence(vm, true)
	case "not ready":
		_ = s.Cloud.NotReady(vm, "it has a headache")
	case "stranger":
		_, _ = s.Cloud.AddForeignVM("", network)
	case "delete network":
		_ = s.Cloud.DeleteNetwork(network)
	case "delete rule":
		_ = s.Cloud.Delete(cluster.Firewall, s.resource(cluster.Firewall, x.A, x.B))
	case "change rule":
		_ = s.Cloud.ChangeRule(cluster.Forward, s.resource(cluster.Forward, x.A, x.B), func(r *cluster.Spec) { r.PrivatePort = 22 })
	case "delete address":
		_ = s.Cloud.Delete(cluster.Address, s.resource(cluster.Address, x.A, x.B))
	case "lost answers":
		rule(sim.Rule{Do: sim.Lost, P: 0.1 + 0.1*float64(x.B)})
	case "timeouts":
		rule(sim.Rule{Do: sim.Timeout, P: 0.1 + 0.1*float64(x.B), Delay: 20 * time.Second})
	case "throttle":
		rule(sim.Rule{Do: sim.Throttle, P: 0.5})
	case "stuck job":
		rule(sim.Rule{Call: []sim.Verb{sim.Create, sim.Act}[x.B%2], Do: sim.Stuck, Times: 1})
	case "failed job":
		rule(sim.Rule{Call: []sim.Verb{sim.Create, sim.Act}[x.B%2], Do: sim.FailJob, Times: 1 + x.B, Err: []error{nil, cluster.ResourceInUse.Errorf("busy"), cluster.CapacityExhausted.Errorf("full")}[x.A]})
	case "duplicates":
		rule(sim.Rule{Call: sim.Create, Do: sim.Duplicate})
	case "refusals":
		rule(sim.Rule{Call: []sim.Verb{sim.Create, sim.Act, ""}[x.A], Do: sim.Fail, Times: 1 + 3*x.B, When: sim.When(x.B % 2)})
	case "slow":
		rule(sim.Rule{Do: sim.Slow, P: 0.2, Delay: 80 * time.Second})
	case "room":
		s.Cloud.SetZone(sim.Zone{ID: "zone-1", VMs: 1 + x.A + x.B})
	case "down":
		s.Cloud.Unreachable(true)
	case "down for an hour":
		s.Cloud.Unreachable(true)
		s.Wait(time.Hour)
		s.Cloud.Unreachable(false)
	case "credentials":
		s.Cloud.RefuseCredentials(true)
	case "heal":
		s.Heal()
	}
}

// try is create; a refusal is allowed.
func (s *scripted) try(r api.CreateRequest) {
	r.Zone, r.Offering, r.JobID = "zone-1", "small", "create-"+r.Name
	for range 20 {
		s.Revive()
		if _, _, err := s.Current().Service.Create(s.T.Context(), servicetest.Root, r); err == nil || !s.MayRepeat(err) {
			return
		}
	}
}

// playScript runs a script, ends all faults, waits, and deletes everything. It
// returns the violations.
func playScript(t *testing.T, seed uint64, late bool, script []turn) []string {
	s := labTimes()
	s.Sim.Seed, s.Sim.LateSourceNAT = seed, late
	return servicetest.InLab(t, s, func(l *servicetest.Lab) {
		x := &scripted{Lab: l}
		for _, step := range script {
			x.play(step)
		}
		l.Disarm()
		l.Heal()
		l.Settle(48*time.Hour, cluster.Alert, cluster.Expunge)
		l.Collected(cluster.Alert, cluster.Expunge)
		l.Check()
		for _, r := range l.Cloud.All(cluster.VM) {
			if r.Tags[cluster.TagInstallation] != servicetest.Installation && l.RecordOf(r.Ref()) == nil {
				_ = l.Cloud.DestroyVM(r.ID) // remove foreign VMs
			}
		}
		for _, c := range l.Clusters() {
			if c.State != cluster.Destroyed && c.Desired != cluster.WantDestroyed {
				l.Must(c.UUID, api.ChangeRequest{Kind: cluster.RequestDelete})
			}
		}
		l.Settle(48 * time.Hour)
		l.Collected()
		l.Check()
		for _, r := range l.Cloud.All() {
			l.Violated("%s %s is left, tags %v\n%s", r.Kind, r.Name, r.Tags, l.Stories())
		}
	})
}

// TestRandomScripts runs operations, faults of the provider, changes by others
// and deaths of the process in random order. Afterwards every cluster settles and
// no resource is lost. rapid prints the seed and the shortest script that fails.
func TestRandomScripts(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		seed, late := rapid.Uint64().Draw(rt, "seed"), rapid.Bool().Draw(rt, "late source NAT")
		script := append([]turn{{What: "create", B: rapid.IntRange(0, 5).Draw(rt, "first")}}, rapid.SliceOfN(drawTurn, 1, 25).Draw(rt, "script")...)
		if wrong := playScript(t, seed, late, script); len(wrong) > 0 {
			rt.Fatalf("%s", strings.Join(wrong, "\n"))
		}
	})
}
