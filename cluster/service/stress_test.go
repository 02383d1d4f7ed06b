package service_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/api"
	"github.com/pawl-dev/pawl/cluster/service/servicetest"
)

// Two hundred clusters are created at the same moment, and the process dies
// meanwhile: all of them run, and all of them can be deleted.
func TestTwoHundredClustersAtOnce(t *testing.T) {
	const clusters, nodes = 200, 3
	setup := labTimes().With(func(s *servicetest.Setup) { s.Sim.ForgetUserData = true })
	wrong := servicetest.InLab(t, setup, func(l *servicetest.Lab) {
		var asked sync.WaitGroup
		for i := range clusters {
			asked.Go(func() {
				_, _, err := l.Current().Service.Create(context.Background(), servicetest.Root, api.CreateRequest{
					Name: fmt.Sprintf("blue-%d", i), Zone: "zone-1", Offering: "small", Size: nodes - 1, Recovery: cluster.Recovery{}, JobID: fmt.Sprintf("create-%d", i),
				})
				if err != nil {
					l.Violated("create %d: %v", i, err)
				}
			})
		}
		asked.Wait()
		l.Wait(20 * time.Second)
		l.Kill()
		l.Settle(2 * time.Hour)
		l.Check()
		if got := len(l.Cloud.All(cluster.VM)); got != clusters*nodes {
			l.Violated("%d VMs, want %d", got, clusters*nodes)
		}
		for _, c := range l.Clusters() {
			if c.State != cluster.Running {
				l.Violated("%s is %s\n%s", c.Name, c.State, l.Story(c.UUID))
			}
			asked.Go(func() { l.Must(c.UUID, api.ChangeRequest{Kind: cluster.RequestDelete}) })
		}
		asked.Wait()
		l.Settle(2 * time.Hour)
		l.Check()
		if left := l.Cloud.All(); len(left) > 0 {
			l.Violated("%d resources are left", len(left))
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
				wrong := servicetest.InLab(t, s.setup, func(l *servicetest.Lab) {
					l.Blind = s.blind
					id := ""
					if s.prepare != nil {
						id = s.prepare(l)
					}
					id = s.act(l, id)
					l.Wait(at)
					l.Cloud.Unreachable(true)
					l.Wait(time.Hour)
					l.Cloud.Unreachable(false)
					l.Settle(12*time.Hour, cluster.Alert, cluster.Expunge)
					l.Collected(cluster.Alert, cluster.Expunge)
					l.Check()
					_ = l.Cloud.DestroyVM("stranger")
					l.Vanish(id)
				})
				for _, text := range wrong {
					t.Errorf("down after %s: %s", at, text)
				}
			}
		})
	}
}
