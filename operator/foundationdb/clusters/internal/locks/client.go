// Package locks reads and writes what the operators of one database keep in it, by which one of them acts at a time, or one
// for all.
//
//	lock.go         one owner at a time, until its time is over; some are denied
//	lists.go        pending: what is to be done with groups; ready: what can be done now
//	upgrades.go     the groups that are ready for a version
//	maintenance.go  the groups that are waited for while their zone is under maintenance
//
// Nothing in it judges when to act: that is for the links.
package locks

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/port"
)

// Client is the access of one operator to the keys of a cluster's database. Its name there is the prefix of its groups.
type Client struct {
	Database port.Database
	Cluster  *v1beta2.FoundationDBCluster // with the defaults of its spec
	Now      time.Time                    // of entries
}

// Used reports whether effects on a database need the lock. A database without configuration has
// no transactions, and only the operator that creates it knows of it.
func Used(c *v1beta2.FoundationDBCluster) bool {
	return foundationdb.UsesLocks(c.Spec) && c.Status.Configured
}

func (c Client) keys() fdb.LockKeys { return fdb.Keys(c.Cluster.Spec.LockOptions.LockKeyPrefix) }

func (c Client) owner() string { return c.Cluster.Spec.ProcessGroupIDPrefix }

// transact runs one transaction on the database of the cluster.
func (c Client) transact(ctx context.Context, read []fdb.Range, decide func(fdb.Values) ([]fdb.Write, error)) fdb.Result {
	at, err := port.EndpointOf(c.Cluster)
	if err != nil {
		return fdb.Result{Outcome: fdb.Refused, Reason: fdb.DatabaseUnreachable, Text: err.Error()}
	}
	return c.Database.Transact(ctx, at, read, decide)
}
