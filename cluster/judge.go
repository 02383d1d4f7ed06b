package cluster

import "time"

// Judgement is what one look says of a cluster, and what is to be written of it.
type Judgement struct {
	Judged   bool      // false: it was not seen well enough; nothing else is set but Trouble and Foreign findings
	Findings []Finding // what differs, in a fixed order, each with Since, Passes, Alarm, Then and At
	Alarm    bool      // a finding is beyond its tolerance
	Healthy  bool      // nothing differs that could ever be an alarm
	Trouble  error     // why the provider could not be seen
	Changed  bool      // the fields below differ from the cluster's

	SuspectSince time.Time
	RecoverTries int
	RecoverNext  time.Time
}

// Apply writes a judgement into a cluster.
func (j Judgement) Apply(c *Cluster, now time.Time) {
	if !j.Judged {
		return
	}
	c.Findings, c.Alarm, c.SuspectSince = j.Findings, j.Alarm, j.SuspectSince
	c.RecoverTries, c.RecoverNext, c.ObservedAt = j.RecoverTries, j.RecoverNext, now
}

// Judge compares a cluster's books with what a pass has seen.
func Judge(c *Cluster, b *Book, seen Observed, now time.Time, tol Tolerances) Judgement {
	return Judgement{}
}

// Suspects are the things that a pass must read once more, singly, before it judges.
func Suspects(c *Cluster, b *Book, seen Observed) []Ref { return nil }
