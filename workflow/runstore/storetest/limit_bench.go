package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// BenchmarkLimits measures a create, claim and end of a run while 10,000 others wait for a limit, and without them. One
// operation is one run: "free" has no limit, "next" is the first of those that wait.
func BenchmarkLimits(b *testing.B, open func(testing.TB) runstore.Store) {
	for _, waiting := range []int{0, 10_000} {
		store := open(b)
		c := store.(runstore.Claimer)
		end := func(r *runtype.Run) {
			r.Phase, r.EndedAt, r.Owner, r.NextAt = runtype.Succeeded, time.Now().UTC(), "", time.Time{}
			if err := store.Save(b.Context(), &runstore.Save{Run: r}); err != nil {
				b.Fatal(err)
			}
		}
		create := func(r *runtype.Run) {
			if _, err := store.Create(b.Context(), r, created()); err != nil {
				b.Fatal(err)
			}
		}
		claim := func() []runstore.Loaded {
			claimed, err := c.Claim(b.Context(), runstore.Claim{Worker: "w", Limit: 10, Lease: time.Hour})
			if err != nil {
				b.Fatal(err)
			}
			return claimed.Runs
		}
		for range waiting {
			create(limited("", 1, "k"))
		}
		var holder []runstore.Loaded
		if waiting > 0 {
			holder = claim()
		}
		b.Run(fmt.Sprintf("free/waiting=%d", waiting), func(b *testing.B) {
			for b.Loop() {
				create(newRun(""))
				for _, l := range claim() {
					end(l.Run)
				}
			}
		})
		if waiting == 0 {
			continue
		}
		b.Run(fmt.Sprintf("next/waiting=%d", waiting), func(b *testing.B) {
			for b.Loop() {
				create(limited("", 1, "k"))
				end(holder[0].Run)
				if holder = claim(); len(holder) != 1 {
					b.Fatalf("%d runs start", len(holder))
				}
			}
		})
	}
}
