package postgres

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/lease"
)

func TestDecide(t *testing.T) {
	now := time.Unix(1000, 0)
	up := &Upstream{Name: "w"}
	mine := lease.Grant{Writer: "me", Epoch: 3}
	for name, c := range map[string]struct {
		f    facts
		want move
	}{
		"nothing was asked":                        {facts{}, idle},
		"install":                                  {facts{rec: record{Install: &installation{}}}, install},
		"install failed a moment ago":              {facts{rec: record{Install: &installation{}}, retry: now.Add(1)}, idle},
		"a new writer starts where it is":          {facts{installed: true, rec: record{Run: true, Fresh: true}, grant: mine, known: true}, openWriter},
		"a writer goes on under its epoch":         {facts{installed: true, rec: record{Run: true, Epoch: 3, Ahead: true}, grant: mine, known: true}, openWriter},
		"under another epoch it leaves its line":   {facts{installed: true, rec: record{Run: true, Epoch: 2, Ahead: true}, grant: mine, known: true}, startPromote},
		"a follower with the grant is promoted":    {facts{installed: true, standby: true, rec: record{Run: true, Epoch: 3}, grant: mine, known: true}, startPromote},
		"without the grant a writer is a follower": {facts{installed: true, rec: record{Run: true, Epoch: 2, Ahead: true}, grant: lease.Grant{Writer: "w", Epoch: 3}, known: true}, startReader},
		"told to follow, it is rewound":            {facts{installed: true, rec: record{Run: true, Epoch: 2, Ahead: true, Rejoin: true, Upstream: up}, grant: lease.Grant{Writer: "w", Epoch: 3}, known: true}, rewindData},
		"half a rewind is copied again":            {facts{installed: true, rec: record{Run: true, Broken: true, Upstream: up}, known: true}, recopy},
		"half a rewind never writes":               {facts{installed: true, rec: record{Run: true, Broken: true, Epoch: 3}, grant: mine, known: true}, idle},
		"no start while the grant is unknown":      {facts{installed: true, rec: record{Run: true, Epoch: 3}}, idle},
		"stopped is stopped":                       {facts{installed: true, rec: record{Epoch: 3}, grant: mine, known: true}, idle},
		"stop":                                     {facts{installed: true, running: true, ready: true, rec: record{}}, halt},
		"a stop is under way":                      {facts{installed: true, running: true, ready: true, stopping: port.Fast}, idle},
		"a harder stop":                            {facts{installed: true, running: true, stopping: port.Fast, rec: record{Mode: port.Immediate}}, halt},
		"the lease of a stopped engine":            {facts{installed: true, writing: true}, release},
		"a crashed writer keeps its lease":         {facts{installed: true, writing: true, rec: record{Run: true, Epoch: 3}, grant: mine, known: true}, openWriter},
		"promote":                                  {facts{installed: true, running: true, ready: true, recovery: true, rec: record{Run: true, Promote: 3}, grant: mine, known: true}, promote},
		"a promotion of an epoch that passed":      {facts{installed: true, running: true, ready: true, recovery: true, rec: record{Run: true, Promote: 2}, grant: mine, known: true}, abandonPromotion},
		"promoted":                                 {facts{installed: true, running: true, ready: true, writing: true, rec: record{Run: true, Promote: 3}, grant: mine, known: true}, promoted},
		"a writer without a lease":                 {facts{installed: true, running: true, ready: true, rec: record{Run: true, Epoch: 3}}, reclaim},
		"a writer is told to follow":               {facts{installed: true, running: true, ready: true, writing: true, rec: record{Run: true, Upstream: up}}, demote},
		"a follower does not fit":                  {facts{installed: true, running: true, ready: true, recovery: true, diverged: true, rec: record{Run: true, Upstream: up, Rejoin: true}}, demote},
		"a new upstream":                           {facts{installed: true, running: true, ready: true, recovery: true, stale: true, rec: record{Run: true, Upstream: up}}, reload},
		"all is well":                              {facts{installed: true, running: true, ready: true, recovery: true, rec: record{Run: true, Upstream: up}}, idle},
	} {
		t.Run(name, func(t *testing.T) {
			c.f.name, c.f.now = "me", now
			if got := decide(c.f); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// In no situation is an engine without the grant made a writer, or started on the timeline of a
// writer under an epoch that is not its own.
func TestNoWriterWithoutGrant(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := func(name string) bool { return rapid.Bool().Draw(t, name) }
		f := facts{
			name: "me", now: time.Unix(1000, 0), installed: b("installed"), running: b("running"), ready: b("ready"), recovery: b("recovery"),
			standby: b("standby"), writing: b("writing"), known: b("known"), diverged: b("diverged"), stale: b("stale"),
			grant: lease.Grant{Writer: rapid.SampledFrom([]string{"", "me", "w"}).Draw(t, "writer"), Epoch: rapid.Int64Range(0, 3).Draw(t, "epoch")},
			rec: record{
				Run: b("run"), Promote: rapid.Int64Range(0, 3).Draw(t, "promote"), Epoch: rapid.Int64Range(0, 3).Draw(t, "own"),
				Fresh: b("fresh"), Ahead: b("ahead"), Broken: b("broken"), Rejoin: b("rejoin"),
			},
		}
		if b("upstream") {
			f.rec.Upstream = &Upstream{Name: "w"}
		}
		m := decide(f)
		switch m {
		case openWriter, startPromote, promote:
			if !f.granted() {
				t.Fatalf("%s without the grant", m)
			}
			if f.rec.Broken && m != promote {
				t.Fatalf("%s with half a rewind", m)
			}
		}
		if m == openWriter && (f.standby || f.rec.Epoch != f.grant.Epoch && !f.rec.Fresh) {
			t.Fatal("it goes on on a line that others may have left")
		}
		if (m == rewindData || m == recopy) && (f.granted() && !f.rec.Broken || f.running) {
			t.Fatalf("%s of a writer or a running engine", m)
		}
	})
}
