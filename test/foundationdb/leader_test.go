package foundationdb_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/fdb/sim"
	"github.com/pawl-dev/pawl/kube/condition"
	"github.com/pawl-dev/pawl/test/controlplane/kubelet"
	"github.com/pawl-dev/pawl/test/foundationdb"
)

// Two operators, of which one leads. In each turn the leader is frozen in the middle of a change, past its lease; the other
// one brings the change to its end; then the frozen one thaws and does nothing more. Each change costs as many recoveries
// as with one operator.
func TestTwoOperators(t *testing.T) {
	whole(t)
	l := newLife(t, foundationdb.Options{Kubelet: func(o *kubelet.Options) { o.FileDelay = time.Second }})
	l.name = "orders"
	kubeconfig := l.role()
	var started []*foundationdb.Operator
	start := func() *foundationdb.Operator {
		o, err := l.environment.StartOperator(kubeconfig, l.namespace, append(slices.Clone(foundationdb.QuickFlags), "--lease", "4s")...)
		l.must(err)
		started = append(started, o)
		return o
	}
	t.Cleanup(func() {
		if t.Failed() {
			l.tell()
		}
		for _, o := range started {
			o.Kill() // it may have ended
		}
	})
	l.operator = start()
	leader := l.leads("")
	l.apply("../../examples/foundationdb/access.yaml")
	l.apply("../../examples/foundationdb/cluster.yaml")
	l.reconciled("created", 2*time.Minute)
	l.hurry()
	l.reconciled("hurried", time.Minute)
	l.write("7.3.69")

	other := start()
	for _, name := range []string{"two more storage", "one log less", "a knob", "7.3.79"} {
		s := steps[slices.IndexFunc(steps, func(s step) bool { return s.name == name })]
		before := l.caused()
		s.change(l)
		l.until("under way", time.Minute, l.underWay)
		frozen := l.operator
		l.must(syscall.Kill(frozen.PID(), syscall.SIGSTOP))
		l.operator = other
		leader = l.leads(leader)
		l.reconciled(name, 3*time.Minute)
		s.check(l)
		l.until("nothing is removed any more", 2*time.Minute, l.atRest)
		l.judge(before+s.recoveries, s.orMore)

		var mark, lines int
		l.database(func(d *sim.Cluster) { mark, lines = d.Mark(), len(d.Transcript()) })
		l.must(syscall.Kill(frozen.PID(), syscall.SIGCONT))
		l.until("the former leader has ended", time.Minute, func() error {
			if frozen.Check() == nil {
				return errors.New("it runs")
			}
			return nil
		})
		l.database(func(d *sim.Cluster) {
			d.JudgeSettled(mark)
			if more := d.Transcript()[lines:]; strings.Contains(strings.Join(more, "\n"), foundationdb.Owner+": ") {
				l.Errorf("after it has thawed:\n%s", strings.Join(more, "\n"))
			}
		})
		other = start()
	}
	l.judge(l.caused(), 0)
	l.remove()
}

// leads waits until an operator other than the former one has the lease, and returns it.
func (l *life) leads(former string) (holder string) {
	l.Helper()
	l.until("an operator leads", time.Minute, func() error {
		lease, err := l.plane.Client().CoordinationV1().Leases(l.namespace).Get(context.Background(), "pawl-operator", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if holder = holderOf(lease); holder == "" || holder == former {
			return fmt.Errorf("the holder is %q", holder)
		}
		return nil
	})
	return holder
}

func holderOf(l *coordinationv1.Lease) string {
	if l.Spec.HolderIdentity == nil {
		return ""
	}
	return *l.Spec.HolderIdentity
}

// underWay returns an error until the operator has seen the newest spec and has something to do.
func (l *life) underWay() error {
	c := l.cluster()
	progressing := meta.FindStatusCondition(c.Status.Conditions, condition.TypeProgressing)
	if progressing == nil || progressing.ObservedGeneration != c.Generation {
		return fmt.Errorf("%+v", progressing)
	}
	return nil
}

// atRest returns an error while groups are on their way out: a cluster is as its spec says before they are gone.
func (l *life) atRest() error {
	for _, g := range l.cluster().Status.ProcessGroups {
		if g.RemovalTimestamp != nil {
			return fmt.Errorf("%s is to be removed", g.ProcessGroupID)
		}
	}
	return nil
}
