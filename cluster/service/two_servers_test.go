package service_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/service/servicetest"
	"github.com/pawl-dev/pawl/machine"
)

// TestTwoServers lets two servers with different clocks work on the same clusters.
// One of them freezes at a point, far beyond its lease, and then continues: its
// late writes and calls are refused or change nothing. store/sql tests the
// same with PostgreSQL.
func TestTwoServers(t *testing.T) {
	for name, s := range scenarios() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, points, _ := s.play(t)
			frozen := 0
			for i, at := range chosen(points, os.Getenv("PAWL_TEST_POINTS"), 4) {
				skew := []time.Duration{0, 20 * time.Second, -20 * time.Second}[i%3]
				t.Run(fmt.Sprintf("%d, clocks %s apart", at, skew), func(t *testing.T) {
					wrong := servicetest.InLab(t, s.setup, func(l *servicetest.Lab) {
						l.Blind, l.Skew, l.Frozen = s.blind, skew, make(chan struct{})
						id := ""
						if s.prepare != nil {
							id = s.prepare(l)
						}
						first := l.Current()
						l.Arm()
						first.Mu.Lock()
						first.FreezeAt = at
						first.Mu.Unlock()
						l.Begin() // the other server
						id = s.act(l, id)
						select {
						case <-l.Frozen:
							frozen++
							l.Wait(5 * time.Minute)
						case <-time.After(10 * time.Minute):
						}
						first.Thaw()
						l.Settle(6*time.Hour, s.rests...)
						l.Collected(s.rests...)
						l.Check()
						if id != "" {
							s.end(l, id)
							l.Vanish(id)
						}
					})
					if len(wrong) > 0 {
						t.Error(strings.Join(wrong, "\n"))
					}
				})
			}
			if frozen == 0 {
				t.Error("nobody was stopped: the test shows nothing")
			}
		})
	}
}

// TestClocksApart lets a process die during a create. The process that continues
// has a clock that differs by far more than Settings.Settle. The late resource is
// recorded, and nothing is created twice or left behind; play checks that.
func TestClocksApart(t *testing.T) {
	for _, name := range []string{"create", "scale up", "delete what starts", "no room, rollback", "upgrade", "recover"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := scenarios()[name]
			_, points, _ := s.play(t)
			tried := 0
			for label, at := range points {
				if !strings.HasPrefix(label, "during create ") {
					continue
				}
				tried++
				for _, skew := range []time.Duration{time.Minute, 10 * time.Minute, time.Hour, -10 * time.Minute, -time.Hour} {
					t.Run(fmt.Sprintf("%s, %s", label, skew), func(t *testing.T) {
						s := s
						s.skew, s.rests = skew, append([]machine.State{cluster.Alert}, s.rests...)
						s.end = func(*servicetest.Lab, string) {} // a step may exceed its time limit by the other clock
						if wrong, _, struck := s.play(t, at); len(wrong) > 0 || struck != 1 {
							t.Errorf("%d died\n%s", struck, strings.Join(wrong, "\n"))
						}
					})
				}
			}
			if tried == 0 {
				t.Errorf("nothing is made: %v", points)
			}
		})
	}
}

// Each server reports what the passes of any server found about a provider. The
// second one still does after the first has died and it makes the passes itself.
func TestEveryServerReportsWhatThePassesFound(t *testing.T) {
	wrong := servicetest.InLab(t, servicetest.Setup{}, func(l *servicetest.Lab) {
		first := l.Current()
		l.Wait(time.Minute) // it holds the leases
		l.Begin()
		second := l.Current()
		if _, err := l.Cloud.Add(cluster.DesiredResource{Kind: cluster.VM, Name: "unknown", Owner: servicetest.Me, Spec: cluster.Spec{Zone: "zone-1", Offering: "small", Template: "node-image"},
			Tags: map[string]string{cluster.TagInstallation: servicetest.Installation, cluster.TagCluster: "of-another-database"}}); err != nil {
			l.T.Fatal(err)
		}
		same := func(when, alert string, phases ...string) {
			l.T.Helper()
			for _, p := range []*servicetest.Process{first, second} {
				if p.IsDead() {
					continue
				}
				alerts, err := p.Service.ProviderAlerts(l.T.Context())
				if err != nil || !strings.HasPrefix(alerts["sim"], alert) || alert == "" && len(alerts) > 0 {
					l.Violated("%s: alerts %v, %v", when, alerts, err)
				}
				leaks, total, err := p.Service.Leaks(l.T.Context(), servicetest.Root, "", "", 0, 0)
				var are []string
				for _, leak := range leaks {
					are = append(are, leak.Phase)
				}
				if err != nil || total != len(phases) || !slices.Equal(are, phases) {
					l.Violated("%s: leaks %+v, %v, want %v", when, leaks, err, phases)
				}
			}
		}
		l.Wait(6 * time.Minute)
		same("an orphan", "", "orphan")
		l.Cloud.RefuseCredentials(true)
		began := time.Now()
		l.Wait(6 * time.Minute)
		same("refused", "CREDENTIALS_REFUSED since ", "orphan", "unseen")
		first.Die()
		l.Wait(20 * time.Minute)
		same("the first has died", "CREDENTIALS_REFUSED since ", "orphan", "unseen")
		leaks, _, _ := second.Service.Leaks(l.T.Context(), servicetest.Root, "", "", 0, 0)
		if since := leaks[len(leaks)-1].Since; since.Sub(began).Abs() > 6*time.Minute {
			l.Violated("since %s, it began at %s", since, began)
		}
		l.Cloud.RefuseCredentials(false)
		if err := l.Cloud.DestroyVM("unknown"); err != nil {
			l.T.Fatal(err)
		}
		l.Wait(6 * time.Minute)
		same("all is well", "")
	})
	if len(wrong) > 0 {
		t.Error(strings.Join(wrong, "\n"))
	}
}
