package sim

import (
	"slices"
	"time"
)

// FaultKind is a way in which Kubernetes misbehaves. Those of the database are in fdb/sim: inject them into
// World.Cluster.
type FaultKind string

// The faults.
const (
	FaultConflict      FaultKind = "Conflict"      // a patch or a status is refused as if another had written before
	FaultUnavailable   FaultKind = "Unavailable"   // a call ends without an answer, before or after it was done
	FaultRefused       FaultKind = "Refused"       // a create is refused
	FaultQuota         FaultKind = "Quota"         // every second create of a pod is refused
	FaultStaleList     FaultKind = "StaleList"     // lists are as late as Lag says
	FaultClaimUnbound  FaultKind = "ClaimUnbound"  // a claim is not bound
	FaultClaimStuck    FaultKind = "ClaimStuck"    // a claim that is deleted does not go
	FaultEventLost     FaultKind = "EventLost"     // an Event is not recorded
	FaultSidecarSilent FaultKind = "SidecarSilent" // a sidecar is not reached
)

// Fault is one misbehaviour.
type Fault struct {
	Kind   FaultKind
	Verb   string        // of the calls it hits: Get, List, Create, Patch, Delete, SaveStatus; empty: any
	Object string        // the kind of the objects it hits; empty: any
	Name   string        // of the objects it hits; empty: any
	Times  int           // how often it hits; 0: until it is cleared
	For    time.Duration // how long; 0: until it is cleared
	Lag    time.Duration // of StaleList, at most 10 min
	Before bool          // of Unavailable: nothing was done

	until time.Time
	seen  int // calls that it could have hit
	fired int
}

// Fired returns how often the fault has hit.
func (f *Fault) Fired() int { return f.fired }

// faults are the misbehaviours that go on.
type faults struct {
	w    *World
	list []*Fault
}

// Inject begins a fault.
func (fs *faults) Inject(f Fault) *Fault {
	if f.For > 0 {
		f.until = fs.w.Now().Add(f.For)
		fs.w.after(f.For, fs.resume)
	}
	fs.list = append(fs.list, &f)
	fs.w.database.Note("fault: %s", f.Kind)
	return &f
}

// Clear ends all faults of a kind; empty means all.
func (fs *faults) Clear(kind FaultKind) {
	fs.list = slices.DeleteFunc(fs.list, func(f *Fault) bool { return kind == "" || f.Kind == kind })
	fs.resume()
}

// hit returns the fault of a kind that hits a call.
func (fs *faults) hit(kind FaultKind, verb, object, called string) *Fault {
	for _, f := range fs.list {
		if f.Kind != kind || !f.until.IsZero() && !fs.w.Now().Before(f.until) || f.Times > 0 && f.fired >= f.Times ||
			f.Verb != "" && f.Verb != verb || f.Object != "" && f.Object != object || f.Name != "" && f.Name != called {
			continue
		}
		if f.seen++; kind == FaultQuota && f.seen%2 == 1 {
			continue
		}
		f.fired++
		return f
	}
	return nil
}

// resume has what a fault held back go on.
func (fs *faults) resume() {
	for _, n := range slices.Clone(fs.w.store.tables["PersistentVolumeClaim"].names) {
		fs.w.claims.reconcile(n)
	}
}
