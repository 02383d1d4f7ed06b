package sync

import "testing"

// Where most VMs are foreign, one pass in twenty lists all VMs. The other passes
// list only those of this installation.
func TestForeignShare(t *testing.T) {
	for _, c := range []struct {
		ours, others, looks int
	}{
		{0, 0, 40}, {5000, 5000, 40}, {100, 1100, 40}, {100, 1101, 2}, {0, 1_000_000, 2},
	} {
		share, looks := foreignShare{ours: c.ours, foreign: c.others}, 0
		for range 40 {
			if share.listForeign() {
				looks++
			}
		}
		if looks != c.looks {
			t.Errorf("%d of ours, %d of others: %d of 40 passes look, want %d", c.ours, c.others, looks, c.looks)
		}
	}
}

// The pages of a zone full of foreign VMs are read once; later passes read only
// the pages of this installation.
func TestCallsAmongOthers(t *testing.T) {
	s, h, records := groupService(t, 10)
	h.Foreign = 5000
	for pass, want := range []int64{11, 12, 13} { // 100 own and 5000 foreign VMs are 11 pages
		if err := s.pass(t.Context(), "herd"); err != nil {
			t.Fatal(err)
		}
		if got := h.Lists.Load(); got != want || records.Writes.Load() != 1 {
			t.Errorf("pass %d: %d lists in all, want %d; %d writes, want that of the first that sees the stranger", pass, got, want, records.Writes.Load())
		}
	}
}
