package memory

import (
	"maps"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/cluster"
)

// storedTime returns a time as a store keeps it: UTC, without a monotonic reading.
func storedTime(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.Round(0).UTC()
}

func copyCluster(c *cluster.Cluster) *cluster.Cluster {
	n := *c
	n.CIDRs, n.Recovery, n.Findings = slices.Clone(c.CIDRs), slices.Clone(c.Recovery), slices.Clone(c.Findings)
	for i := range n.Findings {
		f := &n.Findings[i]
		f.Since, f.At = storedTime(f.Since), storedTime(f.At)
	}
	n.Position.Params, n.Position.Since = slices.Clone(c.Position.Params), storedTime(c.Position.Since)
	if c.Position.Ending != nil {
		ending := *c.Position.Ending
		n.Position.Ending = &ending
	}
	if c.Request != nil {
		request := *c.Request
		request.Victims, request.Recovery = slices.Clone(c.Request.Victims), slices.Clone(c.Request.Recovery)
		n.Request = &request
	}
	for _, t := range []*time.Time{&n.StateSince, &n.SuspectSince, &n.ObservedAt, &n.RecoverNext, &n.Created, &n.Removed, &n.GCNext} {
		*t = storedTime(*t)
	}
	return &n
}

func copyNode(n *cluster.Node) *cluster.Node {
	c := *n
	c.ReadyAt, c.HeartbeatAt, c.Removed = storedTime(n.ReadyAt), storedTime(n.HeartbeatAt), storedTime(n.Removed)
	return &c
}

// copyRow leaves out the user data: it is secret and never stored.
func copyRow(r *cluster.JournalRow) *cluster.JournalRow {
	c := *r
	c.Spec.CIDRs, c.Spec.VMs, c.Spec.UserData = slices.Clone(r.Spec.CIDRs), slices.Clone(r.Spec.VMs), nil
	for _, t := range []*time.Time{&c.IntentAt, &c.PresentAt, &c.ClosingAt, &c.GoneAt, &c.NextAt} {
		*t = storedTime(*t)
	}
	return &c
}

func copyDetails(d *cluster.Details) *cluster.Details {
	c := *d
	c.Credentials = maps.Clone(d.Credentials)
	c.JoinTokenExpires = storedTime(d.JoinTokenExpires)
	return &c
}

func copyJob(j *cluster.Job) *cluster.Job {
	c := *j
	c.Created, c.Completed = storedTime(j.Created), storedTime(j.Completed)
	return &c
}

func copyEvent(e *cluster.Event) *cluster.Event {
	c := *e
	c.Data, c.At = slices.Clone(e.Data), storedTime(e.At)
	return &c
}
