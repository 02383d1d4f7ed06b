package lease

import (
	"time"

	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/host"
)

// Sighting says when somebody has first seen a renewal of a lease.
type Sighting struct {
	Lease string        `json:"lease"` // identifies the renewal
	Age   host.Duration `json:"age"`   // since it was first seen
}

// Witness is an optional interface of Grants whose leases run from when they were first seen,
// because clocks differ. Whoever looks at a lease for the first time would wait for the whole of it
// once more; the cluster manager, which reads the record all the time, tells a candidate since when
// it has seen no renewal. That is safe: the renewal was made before it was first seen, and the time
// on the way only makes it older.
type Witness interface {
	// Sighting returns when the last read renewal was first seen here. ok: one was read.
	Sighting(now time.Time) (s Sighting, ok bool)
	// Believe makes a renewal count from when somebody else has first seen it.
	Believe(s Sighting, now time.Time)
}
