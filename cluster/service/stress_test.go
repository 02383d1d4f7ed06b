package service_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/service"
)

// Two hundred clusters are created at the same moment, and the process dies
// meanwhile: all of them run, and all of them can be deleted.
func TestTwoHundredClustersAtOnce(t *testing.T) {
	const clusters, nodes = 200, 3
	setup := labTimes().with(func(s *setup) { s.sim.ForgetUserData = true })
	wrong := inLab(t, setup, func(l *lab) {
		var asked sync.WaitGroup
		for i := range clusters {
			asked.Go(func() {
				_, _, err := l.current().service.Create(context.Background(), root, service.CreateRequest{
					Name: fmt.Sprintf("blue-%d", i), Zone: "zone-1", Offering: "small", Size: nodes - 1, Recovery: cluster.Recovery{}, JobID: fmt.Sprintf("create-%d", i),
				})
				if err != nil {
					l.violated("create %d: %v", i, err)
				}
			})
		}
		asked.Wait()
		l.wait(20 * time.Second)
		l.kill()
		l.settle(2 * time.Hour)
		l.check()
		if got := len(l.cloud.All(cluster.VM)); got != clusters*nodes {
			l.violated("%d VMs, want %d", got, clusters*nodes)
		}
		for _, c := range l.clusters() {
			if c.State != cluster.Running {
				l.violated("%s is %s\n%s", c.Name, c.State, l.story(c.UUID))
			}
			asked.Go(func() { l.must(c.UUID, service.ChangeRequest{Kind: cluster.RequestDelete}) })
		}
		asked.Wait()
		l.settle(2 * time.Hour)
		l.check()
		if left := l.cloud.All(); len(left) > 0 {
			l.violated("%d resources are left", len(left))
		}
	})
	for i, text := range wrong {
		if t.Error(text); i == 2 {
			t.Fatalf("and %d more", len(wrong)-i-1)
		}
	}
}

// The provider does not answer for an hour during an operation. Afterwards the
// cluster reaches its desired state or has a reason, and no resource is lost.
func TestProviderDownForAnHour(t *testing.T) {
	for name, s := range scenarios() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, at := range []time.Duration{0, 3 * time.Second, 14 * time.Second, 28 * time.Second} {
				wrong := inLab(t, s.setup, func(l *lab) {
					l.blind = s.blind
					id := ""
					if s.prepare != nil {
						id = s.prepare(l)
					}
					id = s.act(l, id)
					l.wait(at)
					l.cloud.Unreachable(true)
					l.wait(time.Hour)
					l.cloud.Unreachable(false)
					l.settle(12*time.Hour, cluster.Alert, cluster.Expunge)
					l.collected(cluster.Alert, cluster.Expunge)
					l.check()
					_ = l.cloud.DestroyVM("stranger")
					l.vanish(id)
				})
				for _, text := range wrong {
					t.Errorf("down after %s: %s", at, text)
				}
			}
		})
	}
}
