package rollout_test

import (
	"strings"
	"syscall"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/rollout"
)

// TestEtcdLeaderLast: five real members are rolled under a client's writes, the leader last after a
// handover, never more than one away; a broken version is taken back by itself.
func TestEtcdLeaderLast(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test-long runs it")
	}
	e := newEtcd(t, 5, nil, func(p *api.RolloutPlan) { // a machine that does much else
		p.RolloutBatches[0].Deadline = new(api.RolloutDeadline("1m"))
	})
	writer, answering := e.write()
	leader := e.leader()
	e.setImage("etcd:3.7.3")
	e.is("etcd", rollout.Paused, metav1.ConditionTrue)
	canary, away := e.went()
	if canary == "" || strings.Contains(canary, " ") || away != 1 || handovers(t, e.world) > 0 { // the members may elect another leader at any time
		t.Errorf("the canary is %q, %d were away; the leader was %s", canary, away, leader)
	}
	leader = e.leader()
	t.Logf("the canary was %s, the leader is %s", canary, leader)
	e.annotate("etcd", "approve", "next; reason=smoke tests passed")
	e.is("etcd", rollout.Succeeded, metav1.ConditionTrue)
	order, away := e.went()
	moved := handovers(t, e.world)
	if pods := strings.Fields(order); len(pods) != 4 || away != 1 || moved == 0 {
		t.Errorf("then went %q after %.0f handovers, %d were away; the leader was %s", order, moved, away, leader)
	}
	e.setImage("etcd:broken")
	r := e.is("etcd", rollout.RolledBack, metav1.ConditionTrue)
	if !strings.Contains(r.Status.Rollback.Reason, "batch 0 was not done by") {
		t.Errorf("it was taken back: %s", r.Status.Rollback.Reason)
	}
	broken, away := e.went()
	if pods := strings.Fields(broken); len(pods) == 0 || away != 1 {
		t.Errorf("the broken version took %q, %d were away", broken, away)
	}
	if images := e.images("etcd"); images != "0=etcd:3.7.3 1=etcd:3.7.3 2=etcd:3.7.3 3=etcd:3.7.3 4=etcd:3.7.3" {
		t.Errorf("the members are %s", images)
	}
	e.noneLost(writer, answering, 4)
}

// TestEtcdHandover: a handover that hangs fails the rollout with its remedy, and nobody has lost the
// leader; one during which another member becomes the leader counts as done.
func TestEtcdHandover(t *testing.T) {
	e := newEtcd(t, 3, map[string]string{"handover": "exec sleep 1000"}, func(p *api.RolloutPlan) {
		p.BatchPartition, p.OnFailure = nil, "pause"
		p.RolloutBatches = p.RolloutBatches[1:]
		p.Order.Handover.Timeout, p.Order.Handover.Retries = "1s", new(int32(1))
	})
	writer, answering := e.write()
	e.setImage("etcd:3.7.3")
	r := e.is("etcd", rollout.Paused, metav1.ConditionTrue)
	if p := r.Status.Pause; p == nil || p.By != "Fault" || p.Reason != "HandoverFailed" {
		t.Errorf("the pause is %+v", p)
	}
	stalled := e.is("etcd", "Stalled", metav1.ConditionTrue)
	c := meta.FindStatusCondition(stalled.Status.Conditions, "Stalled")
	leader, _, keeps := strings.Cut(strings.TrimPrefix(c.Message, "pod "), " keeps its role") // members may have elected another one meanwhile
	if c.Reason != "HandoverFailed" || !keeps || !strings.Contains(c.Message, "Move the role by hand") {
		t.Errorf("the condition is %+v", c)
	}
	order, _ := e.went()
	if strings.Contains(order, leader) || len(strings.Fields(order)) != 2 {
		t.Errorf("%s went, and the leader is %s", order, leader)
	}
	e.annotate("etcd", "retry", "now")
	e.waitsFor("etcd", "HandoverPending")
	e.move(strings.Fields(order)[0]) // while the command hangs
	e.is("etcd", rollout.Succeeded, metav1.ConditionTrue)
	if order, away := e.went(); order != leader || away != 1 {
		t.Errorf("then %s went, %d were away", order, away)
	}
	e.noneLost(writer, answering, 2)
}

// TestEtcdQuorumIsShort: a member hangs before anything was released: nothing is. When it is back the
// rollout goes on by itself.
func TestEtcdQuorumIsShort(t *testing.T) {
	e := newEtcd(t, 3, nil, func(p *api.RolloutPlan) {
		p.BatchPartition, p.Order, p.Probes, p.Disruption.MaxUnavailable = nil, nil, nil, nil
		p.Disruption.RespectPodDisruptionBudgets = new(false)
		p.RolloutBatches = p.RolloutBatches[1:]
	})
	if e.leader() == "etcd-0" {
		e.move("etcd-1")
	}
	writer, answering := e.write()
	for _, sig := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGCONT} {
		if err := e.kubelet.Signal(e.namespace, "etcd-0", "etcd", sig); err != nil {
			t.Fatal(err)
		}
		if sig == syscall.SIGCONT {
			break
		}
		e.until("etcd-0 is not ready", func() bool { return strings.HasPrefix(e.images("etcd"), "0=etcd:3.7.2-") })
		e.setImage("etcd:3.7.3")
		r := e.waitsFor("etcd", "Quorum")
		if !strings.Contains(r.Status.Waiting.Message, "2 of 3 members are healthy, 2 must stay") {
			t.Errorf("it waits: %s", r.Status.Waiting.Message)
		}
		if order, _ := e.went(); order != "" {
			t.Errorf("%s went", order)
		}
	}
	e.is("etcd", rollout.Succeeded, metav1.ConditionTrue)
	if order, away := e.went(); order != "etcd-2 etcd-1 etcd-0" || away != 1 {
		t.Errorf("then %s went, %d were away", order, away)
	}
	e.noneLost(writer, answering, 2)
}

// handovers is how many calls to move the leader the operator of a world has made.
func handovers(t *testing.T, w *world) (n float64) {
	t.Helper()
	families, err := w.Options.Manager.Metrics().Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "pawl_rollout_asks_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			for _, label := range m.GetLabel() {
				if label.GetName() == "kind" && label.GetValue() == "handover" {
					n += m.GetCounter().GetValue()
				}
			}
		}
	}
	return n
}
