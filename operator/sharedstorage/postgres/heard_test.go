package postgres

import (
	"slices"
	"testing"
	"time"
)

// A follower that does not reply any more counts as gone after a few seconds, whatever its clock says,
// and counts again with its next reply.
func TestAFollowerThatIsQuiet(t *testing.T) {
	var h heard
	start := time.Unix(1000, 0)
	for n, step := range []struct {
		after time.Duration
		b, c  string // the last replies; "": it does not receive
		want  []string
	}{
		{0, "1999", "2040", []string{"b", "c"}},
		{time.Second, "2000", "2040", []string{"b", "c"}},
		{4 * time.Second, "2003", "2040", []string{"b"}},
		{5 * time.Second, "2003", "2041", []string{"b", "c"}},
		{6 * time.Second, "2003", "", []string{"b"}},
		{8 * time.Second, "2003", "2041", []string{"c"}},
		{9 * time.Second, "", "", []string{}},
	} {
		var replies []reply
		for _, r := range []reply{{"c", step.c}, {"b", step.b}} {
			if r.at != "" {
				replies = append(replies, r)
			}
		}
		if got := h.alive(replies, start.Add(step.after)); got == nil || !slices.Equal(got, step.want) {
			t.Errorf("step %d: %v, want %v", n, got, step.want)
		}
	}
}
