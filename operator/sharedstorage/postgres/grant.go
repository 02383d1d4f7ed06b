package postgres

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// Grant is the record of who may write.
type Grant struct {
	Writer string `json:"writer"` // instance; empty: nobody
	Epoch  int64  `json:"epoch"`
	Lease  Lease  `json:"lease,omitzero"` // the newest lease; it may be that of an earlier writer
}

// Lease is a promise: until its end the holder may write, and before its end the holder stops
// unless it has renewed the lease.
type Lease struct {
	Holder string    `json:"holder,omitempty"`
	Epoch  int64     `json:"epoch,omitempty"`
	Until  time.Time `json:"until,omitzero"`
}

// Unknown is the holder of a lease that may still run although its record was deleted. No instance
// has this name.
const Unknown = "-"

// Runs reports whether somebody may write under the lease.
func (l Lease) Runs(now time.Time) bool { return l.Holder != "" && now.Before(l.Until) }

// Grants is the grant record as an agent needs it. An implementation serializes writes: of two
// concurrent calls, one sees what the other has written.
type Grants interface {
	// Read returns the record.
	Read(ctx context.Context) (Grant, error)
	// Renew gives the writer a lease of this length from now; a ttl of zero ends its lease. It
	// returns SWITCH_REFUSED if the record names another writer or epoch, and while the lease of
	// another writer runs.
	Renew(ctx context.Context, writer string, epoch int64, ttl time.Duration) (Grant, error)
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
		return g, port.SwitchRefused.Errorf("the grant of epoch %d to %s is not newer than that of epoch %d to %s", epoch, named(writer), g.Epoch, named(g.Writer))
	}
	g.Writer, g.Epoch = writer, epoch
	return g, nil
}

// Renewed returns the record after a renewal, by the rule of Grants.Renew.
func (g Grant) Renewed(writer string, epoch int64, ttl time.Duration, now time.Time) (Grant, error) {
	own := g.Lease.Holder == writer
	switch {
	case ttl <= 0 && own && g.Lease.Epoch <= epoch: // it may end its own lease, whoever has the grant
		g.Lease = Lease{}
		return g, nil
	case ttl <= 0:
		return g, nil
	case writer != g.Writer || epoch != g.Epoch || writer == "":
		return g, port.SwitchRefused.Errorf("%s of epoch %d does not hold the grant: %s of epoch %d does", writer, epoch, named(g.Writer), g.Epoch)
	case !own && g.Lease.Runs(now):
		return g, port.SwitchRefused.Errorf("%s may be writing until its lease ends, in %s", g.Lease.Holder, g.Lease.Until.Sub(now).Round(time.Millisecond)).
			With("until", g.Lease.Until.UTC().Format(time.RFC3339Nano))
	}
	g.Lease = Lease{Holder: writer, Epoch: epoch, Until: now.Add(ttl)}
	return g, nil
}

func named(writer string) string {
	if writer == "" {
		return "nobody"
	}
	return writer
}
