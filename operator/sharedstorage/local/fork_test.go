package local

import (
	"testing"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// Two readers are promoted one after the other, and the second never heard of the first: both are on
// timeline 2, with other log. The first comes back as a copy of the second, not with rows of its own.
func TestTwoPromotionsToOneTimeline(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test-long runs it")
	}
	b := newFixture(t, Options{})
	b.create("a", "b", "c")
	b.exec("a", "CREATE TABLE rows (n text)")
	at := b.status("a").Position
	for _, name := range []string{"b", "c"} {
		b.until(name, "has the table", func(s port.Status) bool { return s.Position >= at })
	}
	e := b.ports.Engine
	last := "a"
	for _, name := range []string{"b", "c"} {
		b.must(e.Stop(b.ctx(), c1.Of(last), port.Fast))
		b.until(last, "is stopped", func(s port.Status) bool { return !s.Running })
		b.epoch++
		b.must(b.ports.Storage.Grant(b.ctx(), c1, name, b.epoch))
		b.must(e.Promote(b.ctx(), c1.Of(name), b.epoch))
		b.until(name, "writes", func(s port.Status) bool { return s.Role == port.Primary && s.Epoch == b.epoch })
		b.exec(name, "INSERT INTO rows SELECT '"+name+"' FROM generate_series(1, 1000); CHECKPOINT")
		last = name
	}
	b.exec("c", "INSERT INTO rows SELECT 'c' FROM generate_series(1, 5000)")
	if s := b.status("c"); s.Timeline != 2 {
		t.Fatalf("the second promotion made timeline %d", s.Timeline)
	}
	b.must(e.Follow(b.ctx(), c1.Of("b"), "c"))
	b.must(e.Start(b.ctx(), c1.Of("b")))
	at = b.status("c").Position
	b.until("b", "follows", func(s port.Status) bool { return s.Streaming && s.Upstream == "c" && s.Position >= at })
	if got, err := b.query("b", "SELECT string_agg(DISTINCT n, ',') || count(*) FROM rows"); err != nil || got != "c6000" {
		t.Errorf("%q: %v", got, err)
	}
}
