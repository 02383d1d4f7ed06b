package clusters

import (
	"time"

	"github.com/pawl-dev/pawl/fdb"
)

// ActedBefore is the reason of a gate that this pass itself has closed.
const ActedBefore = "ActedBefore"

// disturb closes all gates for the rest of a pass that has done something which starts a recovery: what
// the status said of the database holds no longer.
func (p *pass) disturb(by string) { p.disturbed = by }

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

// undisturbed judges whether this pass has left the database alone.
func (p *pass) undisturbed() fdb.Verdict {
	if p.disturbed != "" {
		return fdb.Verdict{Reason: ActedBefore, Message: "the status is older than this pass's " + p.disturbed}
	}
	return fdb.Verdict{Open: true}
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
	return later(max(v.In, least), v.Reason, "%s", v.Message)
}

// silent reports whether no process of our data center reports. Then nothing is removed.
func (p *pass) silent() bool { return p.status == nil || len(p.processes) == 0 }
