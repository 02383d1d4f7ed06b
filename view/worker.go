package view

import (
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
