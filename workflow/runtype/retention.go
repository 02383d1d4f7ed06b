package runtype

import (
	"cmp"
	"time"
)

// Retention says which finished runs are kept. A run is removed if it is older than Age and not one
// of the newest Keep runs of its subject, or if it is not one of the newest Max runs.
type Retention struct {
	Age  time.Duration // runs that ended longer ago are removed, except the newest Keep; default 30 days
	Keep int           // newest runs of a subject that are kept whatever their age; default 20
	Max  int           // most runs of a subject that are kept; default 1,000
}

// Filled returns the policy with its defaults.
func (r Retention) Filled() Retention {
	r.Age = cmp.Or(r.Age, 30*24*time.Hour)
	r.Keep = cmp.Or(r.Keep, 20)
	r.Max = cmp.Or(r.Max, 1000)
	return r
}

// Keeps reports whether a finished run is kept. rank is its position among the finished runs of its
// subject, newest first, from 0.
func (r Retention) Keeps(now, ended time.Time, rank int) bool {
	r = r.Filled()
	return rank < r.Max && (rank < r.Keep || now.Sub(ended) <= r.Age)
}
