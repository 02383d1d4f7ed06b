package fdb

import (
	"math"
	"time"
)

// MinimumUptime returns how long the database is up without a restart: the shortest of the time since
// the last recovery (from 7.1.22 on) and of the uptimes of all processes that are neither excluded
// nor of class test and do not report 0. It is 0 as long as one of these is not known.
func MinimumUptime(s *Status, running Version) time.Duration {
	if s == nil {
		return 0
	}
	up, _ := minimumUptime(s, running)
	return up
}

// doubt is why a time is not known: the reason and the message of a verdict.
type doubt struct{ reason, message string }

func minimumUptime(s *Status, running Version) (time.Duration, *doubt) {
	up := math.Inf(1)
	if running.Has(FeatureRecoveryState) {
		since, unknown := recoveredFor(s)
		if unknown != nil {
			return 0, unknown
		}
		up = since
	}
	if len(s.Cluster.Processes) == 0 {
		return 0, &doubt{StatusIncomplete, "the status shows no processes"}
	}
	for _, p := range s.Cluster.Processes {
		switch {
		case p.Class == ClassTest || p.Excluded != nil && *p.Excluded:
		case p.UptimeSeconds == nil || *p.UptimeSeconds < 0:
			return 0, &doubt{StatusIncomplete, "the status does not say how long process " + p.name() + " is up"}
		case *p.UptimeSeconds > 0:
			up = min(up, *p.UptimeSeconds)
		}
	}
	if math.IsInf(up, 1) {
		return 0, &doubt{StatusIncomplete, "no process says how long it is up"}
	}
	return durationOf(up), nil
}

// sinceRecovery returns how long ago the last recovery was. Versions before 7.1.22 do not say so, and
// the uptimes of the processes stand in.
func sinceRecovery(s *Status, running Version) (time.Duration, *doubt) {
	if !running.Has(FeatureRecoveryState) {
		return minimumUptime(s, running)
	}
	since, unknown := recoveredFor(s)
	return durationOf(since), unknown
}

// recoveredFor returns the seconds since the last recovery.
func recoveredFor(s *Status) (float64, *doubt) {
	switch since := s.Cluster.RecoveryState.SecondsSinceLastRecovered; {
	case since == nil:
		return 0, &doubt{StatusIncomplete, "the status does not say when the last recovery was"}
	case *since < 0:
		return 0, &doubt{NotRecovered, "the database has not recovered yet"}
	default:
		return *since, nil
	}
}

// durationOf converts seconds, rounding down to a nanosecond, and keeps what is too large for a duration.
func durationOf(s float64) time.Duration {
	if s >= float64(math.MaxInt64)/float64(time.Second) {
		return math.MaxInt64
	}
	return time.Duration(s * float64(time.Second))
}
