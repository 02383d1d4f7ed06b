package postgres

import (
	"bufio"
	"fmt"
	"strconv"
	"strings"
)

// controlData is the control data of a stopped engine.
type controlData struct {
	State    string // "shut down", "shut down in recovery", "in production", …
	Position uint64 // past the begin of the last known record
	Timeline int64
	Floors   map[string]string // lower limits for the settings of a follower
}

// Clean reports whether everything was flushed, and Position is past the begin of the last record.
func (c controlData) Clean() bool {
	return c.State == "shut down" || c.State == "shut down in recovery"
}

// The settings that must be at least as large on a follower as on its writer.
var floors = map[string]string{
	"max_connections setting":      "max_connections",
	"max_worker_processes setting": "max_worker_processes",
	"max_wal_senders setting":      "max_wal_senders",
	"max_prepared_xacts setting":   "max_prepared_transactions",
	"max_locks_per_xact setting":   "max_locks_per_transaction",
}

// parseControl reads the output of pg_controldata in the locale C.
//
// A writer's log ends with the record of its shutdown checkpoint. The control data have only the
// begin of that record. A follower has the record exactly if it has replayed beyond that begin, so
// Position is the begin plus one byte.
func parseControl(text string) (controlData, error) {
	c := controlData{Floors: map[string]string{}}
	var checkpoint, recovery uint64
	var recoveryTimeline int64
	var err error
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		name, value, ok := strings.Cut(lines.Text(), ":")
		if !ok {
			continue
		}
		value = strings.TrimSpace(value)
		switch name {
		case "Database cluster state":
			c.State = value
		case "Latest checkpoint location":
			checkpoint, err = parseLSN(value)
		case "Latest checkpoint's TimeLineID":
			c.Timeline, err = strconv.ParseInt(value, 10, 64)
		case "Minimum recovery ending location":
			recovery, err = parseLSN(value)
		case "Min recovery ending loc's timeline":
			recoveryTimeline, err = strconv.ParseInt(value, 10, 64)
		default:
			if setting, ok := floors[name]; ok {
				c.Floors[setting] = value
			}
		}
		if err != nil {
			return c, fmt.Errorf("pg_controldata: %s: %w", name, err)
		}
	}
	if c.State == "" || c.Timeline == 0 {
		return c, fmt.Errorf("pg_controldata says no state: %.200q", text)
	}
	c.Position = checkpoint + 1
	if recovery >= c.Position {
		c.Position = recovery
	}
	c.Timeline = max(c.Timeline, recoveryTimeline)
	return c, nil
}

func parseLSN(text string) (uint64, error) {
	high, low, ok := strings.Cut(text, "/")
	h, herr := strconv.ParseUint(high, 16, 32)
	l, lerr := strconv.ParseUint(low, 16, 32)
	if !ok || herr != nil || lerr != nil {
		return 0, fmt.Errorf("%q is no position", text)
	}
	return h<<32 | l, nil
}

// LSN formats a position as PostgreSQL does.
func LSN(position uint64) string { return fmt.Sprintf("%X/%X", position>>32, uint32(position)) }

// fork is the point at which a timeline left the one before it.
type fork struct {
	Timeline int64 // the timeline that was left
	At       uint64
}

// parseHistory reads a timeline history file.
func parseHistory(text string) []fork {
	var forks []fork
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		timeline, err := strconv.ParseInt(fields[0], 10, 64)
		at, lerr := parseLSN(fields[1])
		if err == nil && lerr == nil {
			forks = append(forks, fork{timeline, at})
		}
	}
	return forks
}

// diverged reports whether data that end at this position of this timeline hold log that an engine
// on another timeline with this history does not have.
func diverged(timeline int64, end uint64, theirs int64, history []fork) bool {
	if timeline == theirs {
		return false
	}
	for _, f := range history {
		if f.Timeline == timeline {
			return end > f.At
		}
	}
	return true
}
