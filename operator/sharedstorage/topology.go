package sharedstorage

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/lock"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/outcome"
)

// TopologyLock is the annotation with the lock on the topology: a lock.Record as JSON. A backup,
// or a person, takes it to keep instances from being added or removed.
const TopologyLock = Prefix + "topology-lock"

// lockOwner is the same for all runs of a cluster.
func (c *Cluster) lockOwner() string { return "sharedstorage/" + cmp.Or(c.Ref.UID, c.Ref.String()) }

func (c *Cluster) storedLock() (text string, stored lock.Stored) {
	text = c.Annotations[TopologyLock]
	if text == "" {
		return "", lock.Stored{}
	}
	var r lock.Record
	if err := json.Unmarshal([]byte(text), &r); err != nil || r.Owner == "" {
		return text, lock.Stored{Err: lock.Unreadable.Errorf("annotation %s: %q", TopologyLock, text)}
	}
	return text, lock.Stored{Record: &r}
}

// adding is the flow that adds readers under the lock that LockTopology took.
const adding = "AddReaders"

// renewed returns when an own lock was last written.
func renewed(r *lock.Record) time.Time { return r.End.Add(-lock.DefaultDuration) }

// takeTopologyLock takes the lock, or waits until another owner's lock has ended. It does not
// renew an own lock before half of its time is over, except one that is older than this state: an
// earlier run took that one and may release it at any time.
func takeTopologyLock(ctx context.Context, w *work) outcome.Outcome {
	p, err := positionOf(w.c)
	if err != nil {
		return outcome.Fail(machine.PositionInvalid.Errorf("%w", err))
	}
	text, stored := w.c.storedLock()
	if r := stored.Record; r != nil && r.Owner == w.c.lockOwner() && r.End.Sub(w.o.now()) > lock.DefaultDuration/2 && !renewed(r).Before(p.Since) {
		return outcome.Done()
	}
	decision := lock.Decide(w.o.now(), stored, w.c.lockOwner(), nil, lock.DefaultDuration)
	switch {
	case decision.Err != nil:
		return outcome.Fail(decision.Err)
	case !decision.Granted:
		return w.await(pollSlow, TopologyLocked, TopologyLocked.Reason(), "%s holds the lock", stored.Record.Owner)
	}
	err = w.writeLock(ctx, text, decision.Record)
	if errors.Is(err, fault.WriteConflict) {
		return outcome.Wait(pollSoon, "Locking", "the cluster was changed meanwhile")
	}
	return outcome.Fail(err)
}

func (w *work) writeLock(ctx context.Context, text string, r *lock.Record) error {
	next := ""
	if r != nil {
		raw, err := json.Marshal(r)
		if err != nil {
			return err
		}
		next = string(raw)
	}
	if next == text {
		return nil
	}
	return w.o.stores[w.c.Kind].Annotate(ctx, w.c, TopologyLock, text, next)
}

// releaseTopologyLock releases an own lock.
func releaseTopologyLock(ctx context.Context, w *work) outcome.Outcome {
	text, stored := w.c.storedLock()
	if stored.Record == nil || stored.Record.Owner != w.c.lockOwner() {
		return outcome.Done()
	}
	err := w.writeLock(ctx, text, nil)
	if errors.Is(err, fault.WriteConflict) {
		return outcome.Wait(pollSoon, "Releasing", "the cluster was changed meanwhile")
	}
	return outcome.Fail(err)
}

// awaitQuietTopology waits until the cluster manager and the facts agree about the writer, so no
// failover is under way. It keeps the lock meanwhile.
func awaitQuietTopology(ctx context.Context, w *work) outcome.Outcome {
	if out := takeTopologyLock(ctx, w); !out.IsDone() {
		return out
	}
	if err := w.f.Unknown[factManager]; err != nil {
		return outcome.Fail(err)
	}
	writer := w.f.writer()
	if writer == nil {
		_, out := w.checkWriter()
		return out
	}
	if t := w.f.Topology; t.Writer != writer.Name {
		return w.await(pollSlow, port.ManagerUnreachable, "TopologyMoves", "the cluster manager does not see %s as the writer", writer.Name)
	}
	return outcome.Done()
}
