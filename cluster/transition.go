package cluster

import (
	"fmt"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/machine"
)

// Enter makes the changes of a transition to a cluster, except Position, RunID and
// Request: state, reason, findings, and the times of collector and recovery. Alert,
// Expunge, a failed create and Destroyed keep reason (Destroyed that of the failed
// create); a run that succeeds clears it. A cluster that was given up by force
// keeps its last reason. gc: GCBackoff.
func Enter(c *Cluster, event LifecycleEvent, to machine.State, reason Reason, now time.Time, gc Backoff) {
	c.State, c.StateSince = to, now
	c.RecoverNext, c.GCNext = time.Time{}, time.Time{}
	switch {
	case event == OnFaulty:
		c.Reason = FaultyReason(c)
	case to == Alert, to == Expunge, event == OnCreateFailed, to == Destroyed && event != OnForget:
		c.Reason = reason
	case to == Running, to == Stopped:
		c.Reason = Reason{}
	}
	switch to {
	case Running, Stopped:
		c.Findings, c.Alarm, c.SuspectSince = nil, false, time.Time{}
		c.Started = c.Started || to == Running
	case Expunge:
		c.GCAttempts++
		c.GCNext = now.Add(gc.After(c.GCAttempts, c.UUID))
	case Destroyed:
		c.Removed = now
		c.Findings, c.Alarm, c.SuspectSince = nil, false, time.Time{}
	}
}

// FaultyReason returns the reason of a cluster with findings that are alarms.
func FaultyReason(c *Cluster) Reason {
	r := Reason{Code: ClusterFaulty.Code}
	var texts []string
	for _, f := range c.Findings {
		if !f.Alarm {
			continue
		}
		if r.Resource == "" {
			r.Resource = f.Resource
		}
		texts = append(texts, f.String())
	}
	const most = 5
	if more := len(texts) - most; more > 0 {
		texts = append(texts[:most], fmt.Sprintf("and %d more", more))
	}
	r.Text = strings.Join(texts, "; ")
	return r
}

// String returns a finding as text: its type, its resource and the evidence.
func (f Finding) String() string {
	text := string(f.Type)
	if f.Resource != "" {
		text += " " + f.Resource
	}
	if f.Evidence != "" {
		text += ": " + f.Evidence
	}
	return text
}
