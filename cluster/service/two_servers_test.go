package service_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/machine"
)

// TestTwoServers lets two servers work on the same clusters. One of them is
// stopped at a point, far beyond its lease, and then goes on as if nothing had
// happened: what it held back is refused or changes nothing. Their clocks are
// apart. (Over a real PostgreSQL: store/sql.)
func TestTwoServers(t *testing.T) {
	for name, s := range tales() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, points, _ := s.play(t)
			frozen := 0
			for i, at := range chosen(points, os.Getenv("PAWL_TEST_POINTS"), 4) {
				skew := []time.Duration{0, 20 * time.Second, -20 * time.Second}[i%3]
				t.Run(fmt.Sprintf("%d, clocks %s apart", at, skew), func(t *testing.T) {
					wrong := inLab(t, s.setup, func(l *lab) {
						l.blind, l.skew, l.stiff = s.blind, skew, make(chan struct{})
						id := ""
						if s.prepare != nil {
							id = s.prepare(l)
						}
						first := l.living()
						l.arm()
						first.mu.Lock()
						first.freeze = at
						first.mu.Unlock()
						l.begin() // the other server
						id = s.act(l, id)
						select {
						case <-l.stiff:
							frozen++
							l.wait(5 * time.Minute)
						case <-time.After(10 * time.Minute):
						}
						first.thaw()
						l.settle(6*time.Hour, s.rests...)
						l.collected(s.rests...)
						l.check()
						if id != "" {
							s.end(l, id)
							l.vanish(id)
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

// TestClocksApart lets a process die while a call that makes something is on
// its way; the one that goes on has another idea of the time, by far more than
// a lookup that finds nothing has to be old. What the call makes late is in the
// books, and nothing is made twice or left. (play looks at that.)
func TestClocksApart(t *testing.T) {
	for _, name := range []string{"create", "scale up", "delete what starts", "no room, rollback", "upgrade", "recover"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := tales()[name]
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
						s.end = func(*lab, string) {} // a step that began by one clock may be given up by the other
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

// What one server's passes have found of a provider, the other one tells as well,
// and goes on telling when the first has died and it makes the passes itself.
func TestEveryServerTellsWhatThePassesFound(t *testing.T) {
	wrong := inLab(t, setup{}, func(l *lab) {
		first := l.living()
		l.wait(time.Minute) // it holds the locks
		l.begin()
		second := l.living()
		if _, err := l.cloud.Add(cluster.DesiredResource{Kind: cluster.VM, Name: "unknown", Owner: me, Spec: cluster.Spec{Zone: "zone-1", Offering: "small", Template: "node-image"},
			Tags: map[string]string{cluster.TagInstallation: installation, cluster.TagCluster: "of-another-database"}}); err != nil {
			l.t.Fatal(err)
		}
		same := func(when, alert string, phases ...string) {
			l.t.Helper()
			for _, p := range []*life{first, second} {
				if p.gone() {
					continue
				}
				banners, err := p.service.Banners(l.t.Context())
				if err != nil || !strings.HasPrefix(banners["sim"], alert) || alert == "" && len(banners) > 0 {
					l.say("%s: banners %v, %v", when, banners, err)
				}
				leaks, total, err := p.service.Leaks(l.t.Context(), root, "", "", 0, 0)
				var are []string
				for _, leak := range leaks {
					are = append(are, leak.Phase)
				}
				if err != nil || total != len(phases) || !slices.Equal(are, phases) {
					l.say("%s: leaks %+v, %v, want %v", when, leaks, err, phases)
				}
			}
		}
		l.wait(6 * time.Minute)
		same("a stray", "", "stray")
		l.cloud.RefuseCredentials(true)
		began := time.Now()
		l.wait(6 * time.Minute)
		same("refused", "CREDENTIALS_REFUSED since ", "stray", "unseen")
		first.die()
		l.wait(20 * time.Minute)
		same("the first has died", "CREDENTIALS_REFUSED since ", "stray", "unseen")
		leaks, _, _ := second.service.Leaks(l.t.Context(), root, "", "", 0, 0)
		if since := leaks[len(leaks)-1].Since; since.Sub(began).Abs() > 6*time.Minute {
			l.say("since %s, it began at %s", since, began)
		}
		l.cloud.RefuseCredentials(false)
		if err := l.cloud.DestroyVM("unknown"); err != nil {
			l.t.Fatal(err)
		}
		l.wait(6 * time.Minute)
		same("all is well", "")
	})
	if len(wrong) > 0 {
		t.Error(strings.Join(wrong, "\n"))
	}
}
