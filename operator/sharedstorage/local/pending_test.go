package local

import (
	"fmt"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

const pendingQuery = "SELECT coalesce(string_agg(name, ' ' ORDER BY name), '') FROM pg_settings WHERE pending_restart"

// nothingPends checks that no engine has a parameter that waits for a restart.
func (b *fixture) nothingPends(when string, names ...string) {
	b.t.Helper()
	for _, name := range names {
		pending, err := b.query(name, pendingQuery)
		b.must(err)
		if pending != "" || b.status(name).Restart {
			b.t.Errorf("%s: on %s a restart is needed for %q", when, name, pending)
		}
	}
}

// After a promotion no parameter waits for a restart, neither one that a follower needs a lower limit
// for nor one whose value is lower than that limit. An edit that needs no restart causes none after
// that, and one of a limited parameter takes effect.
func TestAPromotionLeavesNoPendingRestart(t *testing.T) {
	b := newFixture(t, Options{})
	b.create("a", "b")
	b.nothingPends("at first", "a", "b")
	small := map[string]string{"max_connections": "60", "max_worker_processes": "6"}
	_, err := b.ports.Engine.Apply(b.ctx(), c1.Of("b"), small) // as an instance of another class is made
	b.must(err)
	b.switchTo("b", "a")
	b.nothingPends("after a switch", "a", "b")
	_, err = b.ports.Engine.Apply(b.ctx(), c1.Of("a"), small)
	b.must(err)
	b.nothingPends("the reader has the parameters too", "a", "b")

	edited := map[string]string{"max_connections": "60", "max_worker_processes": "6", "work_mem": "8MB"}
	if restart, err := b.ports.Engine.Apply(b.ctx(), c1.Of("b"), edited); err != nil || restart {
		t.Errorf("work_mem needs a restart: %t, %v", restart, err)
	}
	b.nothingPends("after an edit of work_mem", "b")
	edited["max_connections"] = "50"
	if restart, err := b.ports.Engine.Apply(b.ctx(), c1.Of("b"), edited); err != nil || !restart {
		t.Errorf("max_connections needs a restart: %t, %v", restart, err)
	}
	if pending, err := b.query("b", pendingQuery); err != nil || pending != "max_connections" {
		t.Errorf("%q waits for a restart, %v", pending, err)
	}
}

// A reader stays ready for clients while its writer is away, and one that never streamed is not.
func TestReadersStayReadyWithoutAWriter(t *testing.T) {
	b := newFixture(t, Options{})
	b.create("a", "b")
	ready := func(name string) bool {
		t.Helper()
		place, err := b.Instances().Locate(b.ctx(), c1.Of(name))
		b.must(err)
		response, err := http.Get(place.Agent + "/readyz") //nolint:noctx // a test
		b.must(err)
		defer response.Body.Close()
		return response.StatusCode == http.StatusOK
	}
	if !ready("a") || !ready("b") {
		t.Error("they are not ready at first")
	}
	b.must(b.ports.Engine.Stop(b.ctx(), c1.Of("a"), port.Fast))
	b.until("b", "has lost its writer", func(s port.Status) bool { return s.Ready && !s.Streaming })
	if ready("a") || !ready("b") {
		t.Errorf("without the writer: a ready %t, b ready %t", ready("a"), ready("b"))
	}
	b.must(b.ports.Engine.Start(b.ctx(), c1.Of("a")))
	b.until("b", "streams again", func(s port.Status) bool { return s.Streaming })
}

// The status of a writer has what pg_stat_replication says, and that no commit is answered.
func TestAWriterSaysWhomItStreamsTo(t *testing.T) {
	b := newFixture(t, Options{})
	b.create("a", "b")
	b.manage("strict", "a", "b")
	b.until("a", "streams to b", func(s port.Status) bool {
		return fmt.Sprint(s.Followers) == "[b]" && !s.Stalled
	})
	b.must(b.ports.Engine.Stop(b.ctx(), c1.Of("b"), port.Fast))
	b.until("a", "answers no commit", func(s port.Status) bool {
		return s.Followers != nil && len(s.Followers) == 0 && s.Stalled
	})
}

// A manager that is frozen is started anew when the operator asks for it, and one that answers is
// left alone.
func TestAFrozenManagerIsMadeAnew(t *testing.T) {
	b := newFixture(t, Options{})
	b.create("a", "b")
	b.manage("strict", "a", "b")
	time.Sleep(startsFor - time.Since(b.launched())) // a new one may not answer yet
	before := b.managerOf()
	want := port.ManagerSpec{Present: true, HA: true, Durability: "strict", AwayFrom: "node-1"}
	_, err := b.ports.Manager.Ensure(b.ctx(), c1, want)
	b.must(err)
	if b.managerOf() != before {
		t.Fatal("a manager that works was made anew")
	}
	b.must(before.Signal(syscall.SIGSTOP))
	began := time.Now()
	eventually(t, 30*time.Second, "another manager", func() error {
		top, err := b.ports.Manager.Ensure(b.ctx(), c1, want)
		if err == nil && (!top.Ready || b.managerOf() == before) {
			err = fmt.Errorf("%+v", top)
		}
		return err
	})
	t.Logf("after %s", time.Since(began))
}

func (b *fixture) launched() time.Time {
	b.t.Helper()
	h, err := (&Managers{b.Placement}).load(c1)
	b.must(err)
	return h.Launched
}
