package lease

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/failsafe"
)

// Grant is the record of who may write.
type Grant struct {
	Writer string `json:"writer"` // instance; empty: nobody
	Epoch  int64  `json:"epoch"`
	Lease  Lease  `json:"lease,omitzero"` // the newest lease; it may be that of an earlier writer
}

// Lease is a promise: until its end the holder may write, and before its end the holder stops
// unless it has renewed the lease, or the members in Failsafe let it go on.
type Lease struct {
	Holder   string             `json:"holder,omitempty"`
	Epoch    int64              `json:"epoch,omitempty"`
	Until    time.Time          `json:"until,omitzero"`
	Failsafe *failsafe.Recorded `json:"failsafe,omitempty"` // how the holder may go on; nil: it stops at the end of the lease
}

// Unknown is the holder of a lease that may still run although its record was deleted. No instance
// has this name.
const Unknown = "-"

// Runs reports whether somebody may write under the lease, not counting Failsafe.
func (l Lease) Runs(now time.Time) bool { return l.Holder != "" && now.Before(l.Until) }

// freeAt returns when a writer may take the lease; the zero time: at once.
func (l Lease) freeAt(r Renewal) time.Time {
	switch {
	case l.Holder == "", l.Holder == r.Writer && l.Failsafe.Owns(r.Identity, r.Holds):
		return time.Time{}
	}
	return l.Until.Add(l.Failsafe.Wait(r.Identity))
}

// Renewal is an attempt to take, renew or end a lease.
type Renewal struct {
	Writer   string             // name of the instance
	Identity string             // with its node; empty: not known
	Epoch    int64              // of the grant
	TTL      time.Duration      // length of the lease from now; zero ends it
	Holds    bool               // the instance writes under this lease already
	Failsafe *failsafe.Recorded // what is recorded with the lease; nil: nothing
}

// Grants is the grant record as an agent needs it. An implementation serializes writes: of two
// concurrent calls, one sees what the other has written.
type Grants interface {
	// Read returns the record.
	Read(ctx context.Context) (Grant, error)
	// Renew gives the writer a lease, or ends its lease. It returns SWITCH_REFUSED if the record
	// names another writer or epoch, and while another one may write: until the end of its lease,
	// or Recorded.For longer if Lease.Failsafe does not name the identity of the writer. Another
	// one is also one of the same name on another node.
	Renew(ctx context.Context, r Renewal) (Grant, error)
}

// Granter is the grant record as the cluster manager and the adapters of port.Storage need it.
type Granter interface {
	Grants
	// Grant is port.Storage.Grant for the cluster of this record.
	Grant(ctx context.Context, writer string, epoch int64) error
}

// Granted returns the record after a grant, by the rule of port.Storage.Grant. It keeps the lease
// of the earlier writer, so that the new one waits for its end.
func (g Grant) Granted(writer string, epoch int64) (Grant, error) {
	switch {
	case writer == g.Writer && epoch == g.Epoch:
		return g, nil
	case epoch < g.Epoch || epoch == g.Epoch && writer != "":
		return g, port.SwitchRefused.Errorf("the grant of epoch %d to %s is not newer than that of epoch %d to %s", epoch, Named(writer), g.Epoch, Named(g.Writer))
	}
	g.Writer, g.Epoch = writer, epoch
	return g, nil
}

// Renewed returns the record after a renewal, by the rule of Grants.Renew.
func (g Grant) Renewed(r Renewal, now time.Time) (Grant, error) {
	switch {
	case r.TTL <= 0 && g.Lease.Holder == r.Writer && g.Lease.Epoch <= r.Epoch: // it may end its own lease, whoever has the grant
		g.Lease = Lease{}
		return g, nil
	case r.TTL <= 0:
		return g, nil
	case r.Writer != g.Writer || r.Epoch != g.Epoch || r.Writer == "":
		return g, port.SwitchRefused.Errorf("%s of epoch %d does not hold the grant: %s of epoch %d does", r.Writer, r.Epoch, Named(g.Writer), g.Epoch)
	}
	if free := g.Lease.freeAt(r); now.Before(free) {
		return g, port.SwitchRefused.Errorf("%s may be writing until its lease ends, in %s", g.Lease.Holder, free.Sub(now).Round(time.Millisecond)).
			With("until", free.UTC().Format(time.RFC3339Nano))
	}
	g.Lease = Lease{Holder: r.Writer, Epoch: r.Epoch, Until: now.Add(r.TTL), Failsafe: r.Failsafe}
	return g, nil
}

// Named returns the writer, or nobody.
func Named(writer string) string {
	if writer == "" {
		return "nobody"
	}
	return writer
}
