package runstore

import (
	"cmp"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// PausedBy returns the code of the fault that a run is Paused by; empty: it is not.
func PausedBy(r *runtype.Run) fault.Code {
	if r.Phase != runtype.Paused || r.Fault == nil {
		return ""
	}
	return r.Fault.Code
}

// Counter counts runs for Lister.Count.
type Counter map[RunCount]int

// Add counts a run.
func (c *Counter) Add(r *runtype.Run) {
	if *c == nil {
		*c = Counter{}
	}
	(*c)[RunCount{Flow: r.Flow, Phase: r.Phase, Fault: PausedBy(r)}]++
}

// Counts returns what was counted, in the order of Lister.Count.
func (c Counter) Counts() []RunCount {
	counts := make([]RunCount, 0, len(c))
	for count, n := range c {
		count.Runs = n
		counts = append(counts, count)
	}
	SortCounts(counts)
	return counts
}

// SortCounts sorts by flow, phase and fault.
func SortCounts(counts []RunCount) {
	slices.SortFunc(counts, func(a, b RunCount) int {
		return cmp.Or(cmp.Compare(a.Flow, b.Flow), cmp.Compare(a.Phase, b.Phase), cmp.Compare(a.Fault, b.Fault))
	})
}

// Lower makes A to Z small, as the databases do for Query.Text.
func Lower(text string) string {
	return strings.Map(func(c rune) rune {
		if 'A' <= c && c <= 'Z' {
			return c + 'a' - 'A'
		}
		return c
	}, text)
}

func (q Query) hasText(r *runtype.Run) bool {
	text := Lower(q.Text)
	for _, part := range []string{r.ID, r.Flow, r.Subject} {
		if strings.Contains(Lower(part), text) {
			return true
		}
	}
	for key, value := range r.Labels {
		if strings.Contains(Lower(key+"="+value), text) {
			return true
		}
	}
	return false
}
