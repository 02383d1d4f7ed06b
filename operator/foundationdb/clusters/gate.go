package clusters

import (
	"time"

	"github.com/pawl-dev/pawl/fdb"
)

// open judges a gate. The version is that of the running servers.
func (p *pass) open(gate fdb.Gate) fdb.Verdict {
	if p.disturbed {
		return fdb.Verdict{Reason: fdb.RecoveredRecently, Message: "this pass has just disturbed the database"}
	}
	running, err := fdb.ParseVersion(p.cluster.Status.RunningVersion)
	if err != nil {
		return fdb.Verdict{Reason: fdb.StatusIncomplete, Message: "the running version is not known"}
	}
	return fdb.Open(gate, p.status, p.limits, running)
}

// closed is the decision of a link whose gate is closed: it looks again when the gate can open at the
// earliest, but not within least.
func closed(v fdb.Verdict, least time.Duration) decision {
	return later(max(v.In, least), v.Reason, "%s", v.Message)
}

// silent reports whether no process of our data center reports. Then nothing is removed.
func (p *pass) silent() bool { return p.status == nil || len(p.processes) == 0 }
