package sharedstorage_test

import (
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/operator/sharedstorage"
)

// A writer that ends in no order while it is being replaced has a log without a
// known end: it goes on and is stopped again before another one is promoted. One
// that cannot go on is judged by what the readers have.
func TestAWriterThatEndsInNoOrder(t *testing.T) {
	for name, c := range map[string]struct {
		broken string
		want   string
	}{
		"it goes on": {"", "Start Stop Promote"},
		"it cannot":  {"the disk is gone", "Stop Promote"},
	} {
		t.Run(name, func(t *testing.T) {
			inLab(t, setup{sim: times()}, func(l *lab) {
				up(l, "blue")
				_, old := l.writer("blue")
				id, next := l.reader("blue")
				before := len(l.world.Calls())
				l.ask("blue", "switch-writer", id)
				l.atStep("HA/Switch/FenceOldWriter")
				if l.world.KillEngine(ref("blue"), old.Name); c.broken != "" {
					l.world.BreakEngine(ref("blue"), old.Name, c.broken)
				}
				l.until("blue", "written by another", 5*time.Minute, func(c *sharedstorage.Cluster) bool { return c.Status.Writer == id })
				var did []string
				for _, call := range l.world.Calls()[before:] {
					switch {
					case call.Method == "Promote" && call.Ref.Instance == next.Name && call.Err == "":
						did = append(did, "Promote")
					case (call.Method == "Start" || call.Method == "Stop") && call.Ref.Instance == old.Name && call.Err == "":
						did = append(did, call.Method)
					}
				}
				if got := strings.Join(did, " "); !strings.Contains(got, c.want) {
					t.Errorf("it did %s, want %s\n%s", got, c.want, l.story())
				}
				l.world.BreakEngine(ref("blue"), old.Name, "")
				l.rests("blue", time.Hour)
				l.done("blue", "switch-writer")
				l.visited("Interrupted", 0)
				l.sane("blue")
			})
		})
	}
}
