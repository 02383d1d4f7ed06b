package sqlstore

import (
	"slices"
	"time"

	"github.com/pawl-dev/pawl/workflow"
)

// nanos and instant convert times to and from columns: nanoseconds since 1970, 0 for the
// zero time.
func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func instant(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}

// phaseNumber is the number of a phase in its column: its index in runPhases.
func phaseNumber(p workflow.Phase) int64 { return int64(slices.Index(runPhases, p)) }

func phaseOf(n int64) workflow.Phase {
	if n < 0 || int(n) >= len(runPhases) {
		return ""
	}
	return runPhases[n]
}
