package sharedstorage_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/sharedstorage"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/sim"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

func conditionOf(c *sharedstorage.Cluster, kind string) metav1.Condition {
	for _, cond := range c.Status.Conditions {
		if cond.Type == kind {
			return cond
		}
	}
	return metav1.Condition{}
}

// interrupted waits until a cluster reports a fault with its remedy.
func (l *harness) interrupted(code fault.Code, most time.Duration) *sharedstorage.Cluster {
	l.t.Helper()
	kind, ok := fault.Lookup(string(code))
	if !ok {
		l.t.Fatalf("%s is not declared", code)
	}
	c := l.until("blue", "interrupted by "+string(code), most, func(c *sharedstorage.Cluster) bool {
		cond := conditionOf(c, "Interrupted")
		return c.Status.State == "Interrupted" && cond.Status == metav1.ConditionTrue && cond.Reason == kind.Reason()
	})
	if cond := conditionOf(c, "Interrupted"); !strings.Contains(cond.Message, string(code)) || !strings.Contains(cond.Message, kind.Remedy) {
		l.t.Errorf("%+v", cond)
	}
	if cond := conditionOf(c, "Progressing"); cond.Status != metav1.ConditionFalse || cond.Reason != kind.Reason() {
		l.t.Errorf("%+v", cond)
	}
	if c.Status.Reason != kind.Reason() || c.Status.Message == "" {
		l.t.Errorf("%q %q", c.Status.Reason, c.Status.Message)
	}
	return c
}

// faultScenario is how a run meets a fault, and what ends the fault.
type faultScenario struct {
	simulation func(o *sim.Options)
	act        func(l *harness)
	cure       func(l *harness) // nil: a healer ends it
	visits     bool             // the healer may end it before a pass observes it
}

// faultScenarios returns the faults of runs, by code.
func faultScenarios() map[fault.Code]faultScenario {
	readersTo := func(n int32) func(l *harness) { return func(l *harness) { l.edit("blue", readers(n)) } }
	return map[fault.Code]faultScenario{
		port.PodUnscheduled.Code: {simulation: func(o *sim.Options) { o.PerNode = 1 }, act: readersTo(3), cure: func(l *harness) { l.sim.SetCapacity(2) }},
		port.NoAvailableNode.Code: {
			act: func(l *harness) {
				for i := range 3 {
					l.sim.Cordon(fmt.Sprintf("node-%d", i+1), true)
				}
				l.edit("blue", readers(3))
			}, cure: func(l *harness) { l.sim.Cordon("node-2", false) }},
		port.StartFailed.Code: { // a new reader that does not start is rebuilt, once
			act: func(l *harness) {
				l.sim.Inject(sim.Rule{Label: "no start", Method: "Start", Instance: "blue-4-*", Times: 1, Do: sim.Fail, Err: port.StartFailed.Errorf("no shared memory")})
				l.edit("blue", readers(3))
			}, visits: true},
		port.WriterUnhealthy.Code: {
			act: func(l *harness) {
				_, i := l.writer("blue")
				l.edit("blue", func(s *v1alpha1.SharedStorageClusterSpec) { s.Class.Name = "large" })
				l.atStep("HA/Readers[2]/Recreate/AwaitCaughtUp")
				l.sim.KillEngine(ref("blue"), i.Name)
			}, visits: true}, // closing the bracket switches failover on, and that elects a writer
		port.ReplicaLag.Code: {
			act: func(l *harness) {
				l.edit("blue", readers(3))
				l.atStep("Readers[4]/AwaitCaughtUp")
				for _, i := range l.sim.Instances(ref("blue")) {
					if i.ID == "4" {
						l.sim.Lag(ref("blue"), i.Name, 64<<20)
					}
				}
			}, cure: func(l *harness) {
				for _, i := range l.sim.Instances(ref("blue")) {
					l.sim.Lag(ref("blue"), i.Name, 0)
				}
			}},
		port.SwitchRefused.Code: {
			act: func(l *harness) {
				_, i := l.reader("blue")
				l.sim.Lag(ref("blue"), i.Name, 64<<20)
				l.request("blue", "switch-writer", i.ID)
			}, cure: func(l *harness) {
				for _, i := range l.sim.Instances(ref("blue")) {
					l.sim.Lag(ref("blue"), i.Name, 0)
				}
				l.must(l.engine.Resume(l.t.Context(), l.observe("blue").Status.Run.ID, workflow.FromFailed, "", workflow.Actor{Name: "uma"}))
			}},
		port.ManagerUnreachable.Code: {
			act: func(l *harness) {
				l.sim.BreakManager(ref("blue"))
				l.request("blue", "restart", "2")
			}, visits: true},
		port.StorageFailed.Code: {
			act: func(l *harness) {
				l.sim.BreakVolume(ref("blue"), "the disk is gone")
				l.edit("blue", func(s *v1alpha1.SharedStorageClusterSpec) { size := resource.MustParse("20Gi"); s.Storage.Size = &size })
			}, cure: func(l *harness) {
				l.sim.BreakVolume(ref("blue"), "")
				l.must(l.engine.Resume(l.t.Context(), l.observe("blue").Status.Run.ID, workflow.FromFailed, "", workflow.Actor{Name: "uma"}))
			}},
		port.ParameterInvalid.Code: {
			act: func(l *harness) {
				l.edit("blue", func(s *v1alpha1.SharedStorageClusterSpec) { s.Parameters = map[string]string{"bad_one": "1"} })
			}, cure: func(l *harness) {
				l.edit("blue", func(s *v1alpha1.SharedStorageClusterSpec) { s.Parameters = map[string]string{"work_mem": "1MB"} })
			}},
		port.VersionUnsupported.Code: {
			simulation: func(o *sim.Options) { // only the attempt shows it
				o.Around = func(call sim.Call, _ sim.When) error {
					if call.Port == "Instances" && call.Method == "Recreate" && strings.HasSuffix(call.Detail, " 15.9") {
						return port.VersionUnsupported.Errorf("there is no image")
					}
					return nil
				}
			},
			act: func(l *harness) {
				l.edit("blue", func(s *v1alpha1.SharedStorageClusterSpec) { s.Engine.Version = "15.9" })
			},
			cure: func(l *harness) {
				l.edit("blue", func(s *v1alpha1.SharedStorageClusterSpec) { s.Engine.Version = "15.5" })
			}},
		port.PodLost.Code: {
			act: func(l *harness) {
				l.edit("blue", readers(3))
				l.atStep("Readers[4]/CreateReader")
				time.Sleep(5 * time.Second)
				for _, i := range l.sim.Instances(ref("blue")) {
					if i.ID == "4" {
						l.sim.KillInstance(ref("blue"), i.Name)
						l.sim.Inject(sim.Rule{Method: "Ensure", Port: "Instances", Instance: i.Name, Times: 12, Do: sim.Fail, Err: port.PodLost.Errorf("its node does not answer").With("instance", i.Name)})
					}
				}
			}, visits: true},
		port.TargetNodeUnavailable.Code: { // the run is cancelled with undo, because nothing was destroyed yet
			act: func(l *harness) { id, _ := l.reader("blue"); l.request("blue", "migrate", id+"|node-9") }, visits: true},
		port.TwoWriters.Code: {
			simulation: func(o *sim.Options) { o.Latency = 50 * time.Millisecond },
			act: func(l *harness) {
				l.edit("blue", large)
				l.atStep("HA/Readers[3]/Recreate/RecreateInstance")
				for _, i := range l.sim.Instances(ref("blue")) {
					if i.ID == "2" && i.State == port.Up {
						l.sim.SplitBrain(ref("blue"), i.Name)
					}
				}
			}, visits: true},
		port.StorageFull.Code: {
			act: func(l *harness) {
				l.sim.Fill(ref("blue"))
				l.request("blue", "restart", "1")
			}, cure: func(l *harness) {
				l.sim.Free(ref("blue"))
				l.must(l.engine.Resume(l.t.Context(), l.observe("blue").Status.Run.ID, workflow.FromFailed, "", workflow.Actor{Name: "uma"}))
			}},
		sharedstorage.RoMetaInvalid.Code: {
			simulation: func(o *sim.Options) { o.Latency = 50 * time.Millisecond },
			act: func(l *harness) {
				l.request("blue", "migrate", "2|"+l.otherNode("2"))
				l.atStep("HA/DisableHA")
				_, writer := l.writer("blue")
				for _, i := range l.sim.Instances(ref("blue")) {
					if i.Name != writer.Name && i.ID == "3" {
						l.sim.Misplace(ref("blue"), i.Name, "2")
					}
				}
			}, visits: true},
		sharedstorage.TempInsIDNotFound.Code: {
			act: func(l *harness) {
				l.request("blue", "migrate", "2|"+l.otherNode("2"))
				l.atStep("HA/Replace/AwaitCaughtUp")
				l.dropTemporaries()
			}, visits: true},
		sharedstorage.TempRoForRwMetaLost.Code: {
			act: func(l *harness) {
				l.request("blue", "migrate", "1|"+l.otherNode("1"))
				l.atStep("HA/ReplaceWriter/AwaitCaughtUp")
				l.dropTemporaries()
			}, visits: true},
		sharedstorage.RecreateFailed.Code: {
			act: func(l *harness) {
				l.sim.RefuseClass("large", true)
				l.edit("blue", large)
			}, cure: func(l *harness) {
				l.sim.RefuseClass("large", false)
				l.resume(l.observe("blue"))
			}},
	}
}

// otherNode returns a node on which the instance of a place is not.
func (l *harness) otherNode(place string) string {
	for _, i := range l.sim.Instances(ref("blue")) {
		if i.ID == place && i.Node == "node-1" {
			return "node-2"
		}
	}
	return "node-1"
}

func (l *harness) dropTemporaries() {
	for _, i := range l.sim.Instances(ref("blue")) {
		if i.Type == port.Temporary {
			l.sim.DropInstance(ref("blue"), i.Name)
		}
	}
}

// Each fault code: the simulation causes it, the cluster reports it with its remedy, and it is
// healed or waits for a person.
func TestFaults(t *testing.T) {
	for code, c := range faultScenarios() {
		t.Run(string(code), func(t *testing.T) {
			o := times()
			if c.simulation != nil {
				c.simulation(&o)
			}
			inHarness(t, setup{sim: o}, func(l *harness) {
				up(l, "blue")
				c.act(l)
				if !c.visits {
					l.interrupted(code, time.Hour)
				}
				if c.cure != nil {
					c.cure(l)
				}
				time.Sleep(3 * time.Second)
				l.awaitRunning("blue", 3*time.Hour)
				l.checkInvariants("blue")
				if !strings.Contains(l.eventsText(), fault.Camel(code)+":") && !l.healed(code) {
					t.Errorf("nobody heard of %s\n%s", code, l.story())
				}
			})
		})
	}
}

// While a step waits, the status says for what (spec 8).
func TestAWaitIsReported(t *testing.T) {
	o := times()
	o.PerNode = 1
	inHarness(t, setup{sim: o}, func(l *harness) {
		up(l, "blue")
		l.edit("blue", readers(3))
		c := l.until("blue", "told", time.Minute, func(c *sharedstorage.Cluster) bool {
			return c.Status.Run != nil && strings.Contains(c.Status.Run.Message, "waits for a node")
		})
		if cond := conditionOf(c, "Progressing"); cond.Status != metav1.ConditionTrue || !strings.Contains(cond.Message, "Readers[4]/CreateReader: instance blue-4-") || !strings.HasSuffix(cond.Message, "waits for a node") {
			t.Errorf("%+v", cond)
		}
		l.sim.SetCapacity(2)
		l.awaitRunning("blue", time.Hour)
		l.sim.Inject(sim.Rule{Port: "Manager", Method: "Add", Times: 3, Do: sim.Fail, Err: port.ManagerUnreachable.Errorf("no answer")})
		l.edit("blue", readers(4))
		c = l.until("blue", "tried again", time.Minute, func(c *sharedstorage.Cluster) bool {
			return c.Status.Run != nil && strings.Contains(c.Status.Run.Message, "tried again")
		})
		if cond := conditionOf(c, "Progressing"); !strings.Contains(cond.Message, "MANAGER_UNREACHABLE (no answer)") {
			t.Errorf("%+v", cond)
		}
		l.awaitRunning("blue", time.Hour)
		l.checkInvariants("blue")
	})
}

// healed reports whether a healer of this code worked on the run. It may have been faster than any
// pass.
func (l *harness) healed(code fault.Code) bool {
	runs, _, err := l.store.(*runstore.Memory).List(l.t.Context(), runstore.Query{Limit: 100})
	l.must(err)
	for _, run := range runs {
		for _, h := range run.State.Healing {
			if h.Code == code && h.Attempts > 0 {
				return true
			}
		}
	}
	return false
}

func (l *harness) eventsText() string {
	l.eventM.Lock()
	defer l.eventM.Unlock()
	return strings.Join(l.events, "\n")
}

// A healer that fails stops at its limit and reports it.
func TestAHealerStopsAtItsLimit(t *testing.T) {
	inHarness(t, setup{sim: times()}, func(l *harness) {
		up(l, "blue")
		l.sim.Inject(sim.Rule{Label: "never", Method: "Start", Instance: "blue-4-*", Do: sim.Fail, Err: port.StartFailed.Errorf("no shared memory")})
		l.edit("blue", readers(3))
		l.interrupted(port.StartFailed.Code, time.Hour)
		time.Sleep(48 * time.Hour)
		c := l.interrupted(port.StartFailed.Code, time.Hour)
		run, err := l.engine.Get(l.t.Context(), c.Status.Run.ID)
		l.must(err)
		if run.Fault.Healer != string(workflow.HealerExhausted.Code) {
			t.Errorf("%+v", run.Fault)
		}
		if n := l.sim.Fired("never"); n != 2 {
			t.Errorf("it was tried %d times, want 2", n)
		}
		l.sim.Heal()
		l.must(l.engine.Resume(l.t.Context(), run.ID, workflow.FromFailed, "", workflow.Actor{Name: "uma"}))
		l.awaitRunning("blue", time.Hour)
		l.checkInvariants("blue")
	})
}

// No healer retries forever. When its limit is reached, the run waits for a person, and a resume
// by hand completes it.
func TestHealersStopAtTheirLimits(t *testing.T) {
	op, err := sharedstorage.New(sharedstorage.Options{Store: newMemoryStore(), Ports: sim.New(sim.Options{}).Ports()})
	if err != nil {
		t.Fatal(err)
	}
	for code, healer := range op.Healers() {
		t.Run(string(code), func(t *testing.T) {
			kind, ok := fault.Lookup(string(code))
			if !ok {
				t.Fatal("it is not declared")
			}
			inHarness(t, setup{sim: times()}, func(l *harness) {
				up(l, "blue")
				l.sim.Inject(sim.Rule{Port: "Manager", Method: "Add", Do: sim.Fail, Err: kind.Errorf("again and again")})
				l.edit("blue", readers(3))
				c := l.until("blue", "stopped by the limit", 24*time.Hour, func(c *sharedstorage.Cluster) bool {
					return healer.Undo || c.Status.Run != nil && l.exhausted(c.Status.Run.ID)
				})
				if healer.Undo { // it ends the run, and the spec starts another one
					l.until("blue", "undone", time.Hour, func(*sharedstorage.Cluster) bool { return l.healed(code) })
				} else {
					run, err := l.engine.Get(l.t.Context(), c.Status.Run.ID)
					l.must(err)
					for _, h := range run.State.Healing {
						if h.Code == code && h.Attempts != healer.Limits.Attempts {
							t.Errorf("healed %d times, want %d", h.Attempts, healer.Limits.Attempts)
						}
					}
					l.interrupted(code, time.Minute)
					l.sim.Heal()
					l.must(l.engine.Resume(l.t.Context(), run.ID, workflow.FromFailed, "", workflow.Actor{Name: "uma"}))
				}
				l.sim.Heal()
				time.Sleep(3 * time.Second)
				l.awaitRunning("blue", time.Hour)
				l.checkInvariants("blue")
			})
		})
	}
}

// exhausted reports whether the healer of a run has reached its limit.
func (l *harness) exhausted(id string) bool {
	run, err := l.engine.Get(l.t.Context(), id)
	return err == nil && run.Phase == runtype.Paused && run.Fault != nil && run.Fault.Healer == string(workflow.HealerExhausted.Code)
}

type refusal struct {
	code fault.Code
	edit func(s *v1alpha1.SharedStorageClusterSpec)
}

// refusals returns specs that cannot be carried out.
func refusals() map[string]refusal {
	return map[string]refusal{
		"class":   {sharedstorage.ClassUnknown.Code, func(s *v1alpha1.SharedStorageClusterSpec) { s.Class.Name = "huge" }},
		"engine":  {sharedstorage.SpecInvalid.Code, func(s *v1alpha1.SharedStorageClusterSpec) { s.Engine.Type = "mysql" }},
		"major":   {port.VersionUnsupported.Code, func(s *v1alpha1.SharedStorageClusterSpec) { s.Engine.Version = "16.1" }},
		"image":   {port.VersionUnsupported.Code, func(s *v1alpha1.SharedStorageClusterSpec) { s.Images = map[string]string{"15.9": "x"} }},
		"shrink":  {port.StorageShrink.Code, func(s *v1alpha1.SharedStorageClusterSpec) { size := resource.MustParse("1Gi"); s.Storage.Size = &size }},
		"readers": {sharedstorage.SpecInvalid.Code, readers(16)},
	}
}

// Every code of the operator has a test.
func TestEveryCodeHasATest(t *testing.T) {
	has := map[fault.Code]bool{
		port.DataLost.Code:           true,                                                  // TestLosses
		port.GrantLost.Code:          true,                                                  // TestFinding28GrantThatIsNotCertain
		port.FailoverUnsafe.Code:     true,                                                  // TestLosses
		port.CloneSourceMissing.Code: true, sharedstorage.ClusterTypeUnsupported.Code: true, // TestCloneSourceMissing, TestRefusedSpecs by the store
	}
	for code := range faultScenarios() {
		has[code] = true
	}
	for _, r := range refusals() {
		has[r.code] = true
	}
	for _, code := range strings.Fields(`POD_LOST POD_UNSCHEDULED DB_START_FAIL NO_AVAILABLE_NODE TARGET_NODE_UNAVAILABLE TEMP_INS_ID_NOT_FOUND TEMP_RO_FOR_RW_META_LOST
		DATA_LOST GRANT_LOST RO_META_INVALID WRITER_UNHEALTHY REPLICA_LAG SWITCH_REFUSED FAILOVER_UNSAFE TWO_WRITERS MANAGER_UNREACHABLE STORAGE_FAILED STORAGE_FULL STORAGE_SHRINK CLASS_UNKNOWN
		RECREATE_FAILED VERSION_UNSUPPORTED PARAMETER_INVALID CLONE_SOURCE_MISSING CLUSTER_TYPE_UNSUPPORTED`) {
		if kind, ok := fault.Lookup(code); !ok || kind.Remedy == "" || !has[fault.Code(code)] {
			t.Errorf("%s: declared with a remedy %t, tested %t", code, ok && kind.Remedy != "", has[fault.Code(code)])
		}
	}
}

// A part of the spec that cannot be carried out is refused without a run, and everything else goes
// on (sections 1 and 7).
func TestRefusedSpecs(t *testing.T) {
	for name, c := range refusals() {
		t.Run(name, func(t *testing.T) {
			inHarness(t, setup{sim: times()}, func(l *harness) {
				up(l, "blue")
				l.edit("blue", c.edit)
				time.Sleep(5 * time.Second)
				now := l.observe("blue")
				kind, _ := fault.Lookup(string(c.code))
				cond := conditionOf(now, "Progressing")
				if now.Status.State != "Running" || cond.Reason != kind.Reason() || !strings.Contains(cond.Message, kind.Remedy) || cond.ObservedGeneration != 2 {
					t.Errorf("%s %+v", now.Status.State, cond)
				}
				l.request("blue", "restart", "2") // a request does not depend on the spec
				time.Sleep(time.Second)
				l.awaitRunning("blue", time.Hour)
				l.requestDone("blue", "restart")
			})
		})
	}
	t.Run("from the beginning", func(t *testing.T) {
		inHarness(t, setup{sim: times()}, func(l *harness) {
			l.create("blue", func(s *v1alpha1.SharedStorageClusterSpec) { s.Class.Name = "huge" })
			time.Sleep(time.Minute)
			c := l.observe("blue")
			if cond := conditionOf(c, "Progressing"); c.Status.State != "Init" || cond.Reason != "ClassUnknown" || len(c.Status.Conditions) != 6 {
				t.Errorf("%s %+v", c.Status.State, cond)
			}
			l.edit("blue", large)
			l.awaitRunning("blue", time.Hour)
			l.checkInvariants("blue")
		})
	})
	t.Run("by the store", func(t *testing.T) {
		inHarness(t, setup{sim: times()}, func(l *harness) {
			l.clusters.refused = sharedstorage.ClusterTypeUnsupported.Errorf("dbClusterType: local")
			l.create("blue", nil)
			time.Sleep(time.Minute)
			c := l.observe("blue")
			if cond := conditionOf(c, "Ready"); c.Status.State != "Init" || cond.Reason != "ClusterTypeUnsupported" || cond.Status != metav1.ConditionFalse {
				t.Errorf("%s %+v", c.Status.State, cond)
			}
		})
	})
}

func TestCloneSourceMissing(t *testing.T) {
	inHarness(t, setup{sim: times()}, func(l *harness) {
		l.create("blue", func(s *v1alpha1.SharedStorageClusterSpec) { s.CloneFrom = "nobody" })
		l.interrupted(port.CloneSourceMissing.Code, time.Minute)
		l.remove("blue")
		l.gone("blue", time.Hour)
	})
}

// Code accepts the spelling of older clusters.
func TestOldSpelling(t *testing.T) {
	for text, want := range map[string]fault.Code{"TEMP_RO_FOR_RW_MEAT_LOST": "TEMP_RO_FOR_RW_META_LOST", "POD_LOST": "POD_LOST"} {
		if got := sharedstorage.Code(text); got != want {
			t.Errorf("%s is %s", text, got)
		}
	}
}
