package etcdproc_test

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/test/etcdproc"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Three real processes, one killed with SIGKILL while writes go on: the
// follower first, then the leader.
func TestNoAcknowledgedKeyIsLostWhenMembersAreKilled(t *testing.T) {
	cluster := etcdproc.Start(t, 3)
	writer := etcdproc.StartWriter(t, cluster.Endpoints()...)
	writer.WaitAcked(t, 50)

	leader := cluster.Leader(t)
	if leader == nil {
		t.Fatal("the cluster has no leader though it is ready")
	}
	follower := cluster.Member("m1")
	if follower == leader {
		follower = cluster.Member("m2")
	}
	for _, victim := range []*etcdproc.Member{follower, leader} {
		victim.Kill()
		if victim.Running() {
			t.Fatalf("%s runs after SIGKILL", victim.Name)
		}
		writer.WaitAcked(t, 50) // two of three are a quorum
		victim.Start(t)
		cluster.WaitReady(t)
	}
	writer.WaitAcked(t, 50)
	writer.Stop().NoneLost(t, cluster.Endpoints()...)
}

// A killed member is removed, a new one takes its place as a learner and is
// promoted, while writes go on.
func TestNoAcknowledgedKeyIsLostWhenAMemberIsReplaced(t *testing.T) {
	cluster := etcdproc.Start(t, 3)
	writer := etcdproc.StartWriter(t, cluster.Endpoints()...)
	writer.WaitAcked(t, 50)

	victim := cluster.Member("m2")
	victim.Kill()
	cluster.Remove(t, victim)
	added := cluster.Add(t)
	writer.SetEndpoints(cluster.Endpoints()...)
	writer.WaitAcked(t, 50)
	writer.Stop().NoneLost(t, added.ClientURL) // a linearizable read through the new member
}

// NoneLost must be able to fail.
func TestLost(t *testing.T) {
	cluster := etcdproc.Start(t, 1)
	absent, err := etcdproc.FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	nobody := fmt.Sprintf("http://127.0.0.1:%d", absent[0])
	writer := etcdproc.StartWriter(t, nobody, cluster.Endpoints()[0])
	writer.WaitAcked(t, 10)
	report := writer.Stop()

	client, err := clientv3.New(clientv3.Config{Endpoints: cluster.Endpoints()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	gone, changed := report.Acked[2], report.Acked[5]
	if _, err := client.Delete(ctx, report.Key(gone)); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Put(ctx, report.Key(changed), "another value"); err != nil {
		t.Fatal(err)
	}
	lost, err := report.Lost(ctx, client)
	if err != nil {
		t.Fatal(err)
	}
	if want := []int{gone, changed}; !slices.Equal(lost, want) {
		t.Errorf("lost: got %v, want %v", lost, want)
	}
}

func TestBinariesRun(t *testing.T) {
	binaries, err := etcdproc.Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, cmd := range [][]string{{binaries.Etcd, "--version"}, {binaries.Etcdctl, "version"}} {
		if out, err := exec.CommandContext(t.Context(), cmd[0], cmd[1:]...).CombinedOutput(); err != nil {
			t.Errorf("%v: %v\n%s", cmd, err, out)
		}
	}
}
