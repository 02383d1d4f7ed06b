package postgres

import (
	"time"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/lease"
)

// move is the next action of an agent.
type move string

const (
	idle             move = ""
	install          move = "install"
	halt             move = "stop"          // stop in the requested mode
	demote           move = "demote"        // stop, to start as a follower
	recopy           move = "copy"          // the data cannot be repaired: copy them again
	rewindData       move = "rewind"        // find where the data diverged, and rewind them
	openWriter       move = "start writer"  // start on the timeline on which it wrote before
	startPromote     move = "start promote" // start as a follower without upstream that becomes the writer
	startReader      move = "start"
	promote          move = "promote"
	promoted         move = "promoted"          // it has become the writer: record that
	abandonPromotion move = "abandon promotion" // another instance was granted meanwhile
	reload           move = "reload"
	reclaim          move = "reclaim" // take the lease for an engine that was found writing without one
	release          move = "release" // end the lease of an engine that has stopped
)

// facts is the input of decide.
type facts struct {
	rec       record
	name      string
	now       time.Time
	retry     time.Time // no start and no install before this time
	installed bool
	running   bool
	stopping  port.StopMode // the mode of a stop that is under way
	ready     bool
	recovery  bool
	standby   bool        // the data are those of a follower
	writing   bool        // it writes under a lease
	grant     lease.Grant // read only when it matters
	known     bool        // the grant could be read
	diverged  bool        // the data were found not to fit the upstream
	stale     bool        // the engine has not read the desired configuration
}

func (f facts) granted() bool { return f.known && f.grant.Writer == f.name && f.grant.Epoch > 0 }

func decide(f facts) move {
	r := f.rec
	switch {
	case f.writing && !f.running && (!r.Run || f.known && !f.granted()):
		return release
	case !f.installed && r.Install != nil && !f.now.Before(f.retry):
		return install
	case !f.installed:
		return idle
	case !r.Run && f.running:
		return stopBy(f, halt, mode(r))
	case !r.Run:
		return idle
	case !f.running:
		return start(f)
	case !f.ready:
		return idle // it is starting or does recovery
	case f.recovery:
		return asFollower(f)
	}
	return asWriter(f)
}

// start chooses how to start an engine that does not run.
func start(f facts) move {
	r := f.rec
	switch {
	case f.now.Before(f.retry), !f.known:
		return idle
	case r.Broken && r.Upstream != nil:
		return recopy
	case r.Broken:
		return idle // it needs an upstream first
	case f.granted() && !f.standby && (r.Epoch == f.grant.Epoch || r.Fresh):
		return openWriter
	case f.granted():
		return startPromote
	case (r.Ahead || f.diverged) && r.Rejoin && r.Upstream != nil:
		return rewindData
	}
	return startReader
}

func asFollower(f facts) move {
	r := f.rec
	switch {
	case r.Promote > 0 && f.known && (!f.granted() || f.grant.Epoch != r.Promote):
		return abandonPromotion
	case r.Promote > 0 && f.known:
		return promote
	case r.Promote > 0:
		return idle
	case (r.Ahead || f.diverged || r.Broken) && r.Rejoin && r.Upstream != nil:
		return stopBy(f, demote, port.Fast)
	case f.stale:
		return reload
	}
	return idle
}

func asWriter(f facts) move {
	r := f.rec
	switch {
	case !f.writing && f.stopping == "":
		return reclaim
	case r.Promote > 0:
		return promoted
	case r.Upstream != nil: // Follow was called
		return stopBy(f, demote, port.Fast)
	case f.stale:
		return reload
	}
	return idle
}

// stopBy stops in a mode, unless a stop in that mode is under way.
func stopBy(f facts, how move, wanted port.StopMode) move {
	if f.stopping == wanted || f.stopping == port.Immediate {
		return idle
	}
	return how
}

func mode(r record) port.StopMode {
	if r.Mode == port.Immediate {
		return port.Immediate
	}
	return port.Fast
}
