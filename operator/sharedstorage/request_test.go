package sharedstorage_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/operator/sharedstorage"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/sim"
)

// Five different requests that arrive at once are all carried out, one after the other.
func TestFiveRequestsAtOnce(t *testing.T) {
	o := times()
	for i := range 6 {
		o.Nodes = append(o.Nodes, port.Node{Name: fmt.Sprintf("node-%d", i+1), Ready: true, Schedulable: true})
	}
	inHarness(t, setup{sim: o}, func(l *harness) {
		up(l, "blue")
		l.clusters.user("blue", func(k *storedCluster) {
			for kind, args := range map[string]string{"restart": "cluster", "switch-writer": "2", "migrate": "3|node-6", "flush-parameters": "T", "rebuild": "3"} {
				k.annotations[sharedstorage.Prefix+kind] = args
			}
		})
		time.Sleep(5 * time.Second)
		l.awaitRunning("blue", 2*time.Hour)
		l.checkInvariants("blue")
		c := l.observe("blue")
		var ends []time.Time
		for _, kind := range []string{"rebuild", "restart", "switch-writer", "migrate", "flush-parameters"} {
			l.requestDone("blue", kind)
			for _, r := range c.Status.Requests {
				if r.Kind == kind {
					ends = append(ends, r.EndedAt.Time)
				}
			}
		}
		if len(c.Status.Requests) != 5 || !slices.IsSortedFunc(ends, time.Time.Compare) {
			t.Errorf("they ended at %v\n%s", ends, l.story())
		}
		if id, _ := l.writer("blue"); id != "2" {
			t.Errorf("%s writes", id)
		}
	})
}

// The same request with one id runs once, also when it arrives again after it was done. A newer
// one in its place is not lost.
func TestTheSameRequestTwiceRunsOnce(t *testing.T) {
	inHarness(t, setup{sim: times()}, func(l *harness) {
		up(l, "blue")
		for range 3 {
			l.request("blue", "restart", "2#mine")
			time.Sleep(time.Second)
			l.awaitRunning("blue", time.Hour)
		}
		l.visited("Restarting", 1)
		l.request("blue", "restart", "2#mine")
		l.request("blue", "restart", "3#other")
		time.Sleep(time.Second)
		l.awaitRunning("blue", time.Hour)
		l.visited("Restarting", 2)
		if r := l.observe("blue").Status.Requests; len(r) != 2 || r[0].ID != "mine" || r[1].ID != "other" || r[1].Args != "3" {
			t.Errorf("%+v", r)
		}
	})
}

// A process that crashes between any two of the three steps of an acceptance neither loses nor
// repeats a request.
func TestAcceptanceSurvivesADeath(t *testing.T) {
	for at := 1; at <= 8; at++ {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			inHarness(t, setup{sim: times()}, func(l *harness) {
				up(l, "blue")
				l.arm(at)
				l.request("blue", "restart", "2")
				l.survive(time.Hour)
				l.awaitRunning("blue", time.Hour)
				l.requestDone("blue", "restart")
				if c := l.observe("blue"); len(c.Status.Requests) != 1 || c.Status.Visit != 4 { // Creating, Running, Restarting, Running
					t.Errorf("%d requests, visit %d\n%s", len(c.Status.Requests), c.Status.Visit, l.story())
				}
			})
		})
	}
}

func TestRequestsAreRejectedAtOnce(t *testing.T) {
	inHarness(t, setup{sim: times()}, func(l *harness) {
		up(l, "blue")
		writer, _ := l.writer("blue")
		for _, c := range []struct{ kind, args, code string }{
			{"switch-writer", "9", "INSTANCE_UNKNOWN"}, {"switch-writer", writer, "INSTANCE_IS_WRITER"}, {"remove-reader", writer, "INSTANCE_IS_WRITER"},
			{"rebuild", writer, "INSTANCE_IS_WRITER"}, {"rebuild", "9", "INSTANCE_UNKNOWN"}, {"restart", "9", "INSTANCE_UNKNOWN"},
			{"migrate", "2", "REQUEST_ILLEGIBLE"}, {"migrate", "9|node-1", "INSTANCE_UNKNOWN"},
		} {
			l.request("blue", c.kind, c.args)
			time.Sleep(time.Second)
			all := l.observe("blue").Status.Requests
			r := all[len(all)-1]
			if r.Kind != c.kind || r.State != sharedstorage.Rejected || r.Code != c.code || r.EndedAt == nil || !strings.Contains(r.Message, ". ") {
				t.Errorf("%s=%s: %+v", c.kind, c.args, r)
			}
			if _, there := l.observe("blue").Annotations[sharedstorage.Prefix+c.kind]; there {
				t.Errorf("%s: the annotation is there", c.kind)
			}
			l.eventM.Lock()
			if e := l.events[len(l.events)-1]; !strings.Contains(e, "was rejected") {
				t.Errorf("event %q", e)
			}
			l.eventM.Unlock()
		}
		if c := l.observe("blue"); c.Status.State != "Running" || c.Status.Visit != 2 {
			t.Errorf("it moved: %s %d", c.Status.State, c.Status.Visit)
		}
		for i := range 30 { // the last 20 ended requests are kept
			l.request("blue", "restart", fmt.Sprintf("9#r%d", i))
			time.Sleep(time.Second)
		}
		if all := l.observe("blue").Status.Requests; len(all) != 20 || all[19].ID != "r29" || all[0].ID != "r10" {
			t.Errorf("%d requests: %+v", len(all), all)
		}
	})
}

// What a request names may change before its turn comes: then it is rejected.
func TestARequestIsJudgedAgain(t *testing.T) {
	inHarness(t, setup{sim: times()}, func(l *harness) {
		up(l, "blue")
		l.clusters.user("blue", func(k *storedCluster) {
			k.annotations["pawl.dev/switch-writer"], k.annotations["pawl.dev/remove-reader"] = "2", "2"
		})
		time.Sleep(2 * time.Second)
		l.awaitRunning("blue", time.Hour)
		l.checkInvariants("blue")
		l.requestDone("blue", "switch-writer")
		if r := l.observe("blue").Status.Requests[1]; r.State != sharedstorage.Rejected || r.Code != "INSTANCE_IS_WRITER" {
			t.Errorf("%+v", r)
		}
	})
}

// A running request ends as Cancelled when the cluster is deleted or the run is cancelled.
func TestRequestsOfEndedRuns(t *testing.T) {
	inHarness(t, setup{sim: times()}, func(l *harness) {
		up(l, "blue")
		l.request("blue", "migrate", "2|node-9")
		time.Sleep(5 * time.Second)
		l.awaitRunning("blue", time.Hour)
		if r := l.observe("blue").Status.Requests[0]; r.State != sharedstorage.Cancelled || r.Code != string(port.TargetNodeUnavailable.Code) {
			t.Errorf("%+v\n%s", r, l.story())
		}
		l.checkInvariants("blue")
		l.sim.Inject(sim.Rule{Method: "Stop", Do: sim.Timeout})
		l.request("blue", "restart", "2")
		l.state("blue", "Restarting", time.Minute)
		l.remove("blue")
		last := sharedstorage.Cluster{}
		for range 1000 {
			c := l.observe("blue")
			if c == nil {
				break
			}
			last = *c
			time.Sleep(200 * time.Millisecond)
		}
		r := last.Status.Requests[1]
		if r.State != sharedstorage.Cancelled || r.EndedAt == nil {
			t.Errorf("%+v", r)
		}
	})
}
