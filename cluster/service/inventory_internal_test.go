package service

import "testing"

// Where most VMs are others', one pass in twenty looks at all of them: the
// calls of the others are the pages of what is ours.
func TestForeignShare(t *testing.T) {
	for _, c := range []struct {
		ours, others, looks int
	}{
		{0, 0, 40}, {5000, 5000, 40}, {100, 1100, 40}, {100, 1101, 2}, {0, 1_000_000, 2},
	} {
		share, looks := foreignShare{ours: c.ours, others: c.others}, 0
		for range 40 {
			if share.look() {
				looks++
			}
		}
		if looks != c.looks {
			t.Errorf("%d of ours, %d of others: %d of 40 passes look, want %d", c.ours, c.others, looks, c.looks)
		}
	}
}

// A zone that is full of others' VMs costs its pages once, and then those of ours.
func TestCallsAmongOthers(t *testing.T) {
	s, h, records := groupService(t, 10)
	h.others = 5000
	for pass, want := range []int64{11, 12, 13} { // 100 of ours and 5000 others are 11 pages
		if err := s.syncPass(t.Context(), "herd"); err != nil {
			t.Fatal(err)
		}
		if got := h.lists.Load(); got != want || records.writes.Load() != 1 {
			t.Errorf("pass %d: %d lists in all, want %d; %d writes, want that of the first that sees the stranger", pass, got, want, records.writes.Load())
		}
	}
}
