package clusters

import (
	"time"

	"github.com/pawl-dev/pawl/fdb"
)

// ActedBefore is the reason of a gate that this pass itself has closed.
const ActedBefore = "ActedBefore"

// blindFor is how long a status may be believed not to know yet of a recovery that was started: fdb/sim's window, within
// which there is no other one.
const blindFor = time.Minute

// disturb closes all gates for the rest of a pass that has done something which starts a recovery: what
// the status said of the database holds no longer. In the passes after it they stay closed until the status has seen
// the recovery, at most for blindFor.
func (p *pass) disturb(by string) {
	p.disturbed = by
	p.memory.disturbed, p.memory.disturbedAt = by, p.now
}

// open judges a gate. The version is that of the running servers.
func (p *pass) open(gate fdb.Gate) fdb.Verdict {
	if v := p.undisturbed(); !v.Open {
		return v
	}
	running, err := fdb.ParseVersion(p.cluster.Status.RunningVersion)
	if err != nil {
		return fdb.Verdict{Reason: fdb.StatusIncomplete, Message: "the running version is not known"}
	}
	return fdb.Open(gate, p.status, p.limits, running)
}

// undisturbed judges whether this pass has left the database alone, and whether the status knows what the passes before
// it have done.
func (p *pass) undisturbed() fdb.Verdict {
	if p.disturbed != "" {
		return fdb.Verdict{Reason: ActedBefore, Message: "the status is older than this pass's " + p.disturbed}
	}
	if since := p.now.Sub(p.memory.disturbedAt); since >= 0 && since < blindFor && !hasSeen(p.status, p.cluster.Status.RunningVersion, since) {
		return fdb.Verdict{Reason: ActedBefore, Message: "the status does not know yet of the " + p.memory.disturbed, In: blindFor - since}
	}
	return fdb.Verdict{Open: true}
}

// hasSeen reports whether the status tells of a recovery in that time, or of servers that have started since.
func hasSeen(s *fdb.Status, version string, since time.Duration) bool {
	running, err := fdb.ParseVersion(version)
	return err == nil && s != nil && fdb.MinimumUptime(s, running) <= since
}

// tolerant judges full fault tolerance.
func (p *pass) tolerant() fdb.Verdict {
	if v := p.undisturbed(); !v.Open {
		return v
	}
	return fdb.FullFaultTolerance(p.status)
}

// closed is the decision of a link whose gate is closed: it looks again when the gate can open at the
// earliest, but not within least.
func closed(v fdb.Verdict, least time.Duration) decision {
	d := later(max(v.In, least), v.Reason, "%s", v.Message)
	if v.Reason != ActedBefore { // whose time is the longest
		d.Opens = v.In
	}
	return d
}

// recoveryWait: a database that is not available for less may be in a recovery.
const recoveryWait = time.Minute

// noteAvailability remembers since when the database has not been available. A pass that does not hear it changes nothing.
func (p *pass) noteAvailability() {
	switch {
	case p.cluster.Status.Health.Available:
		p.memory.unavailable = time.Time{}
	case p.memory.unavailable.IsZero():
		p.memory.unavailable = p.now
	}
}

// unavailableFor is how long the database has not been available.
func (p *pass) unavailableFor() time.Duration {
	if p.memory.unavailable.IsZero() {
		return 0
	}
	return p.now.Sub(p.memory.unavailable)
}

// silent reports whether no process of our data center reports. Then nothing is removed.
func (p *pass) silent() bool { return p.status == nil || len(p.processes) == 0 }
