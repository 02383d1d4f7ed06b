package view

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/workflow/runstore"
)

// Worker is a process that works on runs.
type Worker struct {
	Name    string    `json:"name"`
	Since   time.Time `json:"since" doc:"when it took its lease"`
	Until   time.Time `json:"until" doc:"when its lease ends unless it renews it"`
	Lease   string    `json:"lease" doc:"how long a renewal lasts" example:"15s"`
	Expired bool      `json:"expired" doc:"its lease has ended. With runs: another worker takes them over. Without: it waits for work, or is gone"`
	Count   int       `json:"count" doc:"runs that it owns"`
	Runs    []Run     `json:"runs" doc:"the oldest of them, at most 20"`
}

// OfWorker returns a worker without its runs.
func OfWorker(w runstore.Worker) Worker {
	return Worker{Name: w.Name, Since: w.Since, Until: w.Until, Lease: w.Lease.String(), Expired: w.Expired, Count: w.Count, Runs: []Run{}}
}

// WorkerTable is the table of workers.
func WorkerTable(workers []Worker, now time.Time) Table {
	return TableOf(workers, []Column[Worker]{
		{Head: "NAME", Cell: func(w Worker) string { return w.Name }},
		{Head: "RUNS", Cell: func(w Worker) string { return strconv.Itoa(w.Count) }},
		{Head: "LEASE", Cell: func(w Worker) string { return leaseText(w.Until, w.Expired, now) }, Health: func(w Worker) Health {
			if w.Expired && w.Count > 0 {
				return Degraded
			}
			return Unknown
		}},
		{Head: "SINCE", Cell: func(w Worker) string { return Age(now.Sub(w.Since)) }},
	})
}

// leaseText says until when a lease holds.
func leaseText(until time.Time, expired bool, now time.Time) string {
	if expired {
		return "ended " + Age(now.Sub(until)) + " ago"
	}
	return "for " + Age(until.Sub(now))
}

// Lock is a lock that processes share.
type Lock struct {
	Name       string     `json:"name"`
	Holder     string     `json:"holder,omitempty" doc:"who holds it, or has held it; absent: it is free"`
	Since      *time.Time `json:"since,omitempty" doc:"when the holder took it"`
	Until      *time.Time `json:"until,omitempty" doc:"when it is free unless the holder extends it"`
	Expired    bool       `json:"expired" doc:"its time is over: anybody may take it"`
	Denied     []string   `json:"denied" doc:"who must not hold it"`
	Unreadable string     `json:"unreadable,omitempty" doc:"why its value cannot be read; nobody gets it then"`
}

// LockTable is the table of locks.
func LockTable(locks []Lock, now time.Time) Table {
	return TableOf(locks, []Column[Lock]{
		{Head: "NAME", Cell: func(l Lock) string { return l.Name }},
		{Head: "HOLDER", Cell: func(l Lock) string { return cmp.Or(l.Holder, none) }},
		{Head: "LEASE", Cell: func(l Lock) string {
			switch {
			case l.Unreadable != "":
				return "unreadable: " + l.Unreadable
			case l.Until == nil:
				return "free"
			}
			return leaseText(*l.Until, l.Expired, now)
		}},
		{Head: "DENIED", Cell: func(l Lock) string { return cmp.Or(strings.Join(l.Denied, ", "), none) }},
	})
}
