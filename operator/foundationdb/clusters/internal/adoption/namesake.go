package adoption

import (
	"cmp"
	"slices"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
)

// Namesake says what is wrong with a cluster that joins a database in which another object has the same prefix; nil: nothing.
// The prefix is the owner of locks and the beginning of ids: with one prefix both would hold the lock at once, and an
// exclusion by id could hit servers of the other one. The one that is there longer goes on.
func Namesake(c *v1beta2.FoundationDBCluster, others []v1beta2.FoundationDBCluster) []foundationdb.Problem {
	database := connectionOf(c)
	for i := range others {
		other := &others[i]
		if other.UID == c.UID || other.DeletionTimestamp != nil || other.Spec.ProcessGroupIDPrefix != c.Spec.ProcessGroupIDPrefix {
			continue
		}
		if !sameDatabase(database, connectionOf(other)) || other.Spec.SeedConnectionString != "" && !before(other, c) {
			continue
		}
		return []foundationdb.Problem{{
			Path:   "spec.processGroupIDPrefix",
			Reason: "cluster " + other.Namespace + "/" + other.Name + " of the same database has this prefix too, and each needs its own",
		}}
	}
	return nil
}

// connectionOf returns the connection string of a cluster; the zero value if it has none that can be read.
func connectionOf(c *v1beta2.FoundationDBCluster) fdb.Connection {
	connection, err := fdb.ParseConnection(cmp.Or(c.Status.ConnectionString, c.Spec.SeedConnectionString))
	if err != nil {
		return fdb.Connection{}
	}
	return connection
}

// sameDatabase compares connection strings of which one may be older: the id changes with the coordinators, the description
// does not.
func sameDatabase(a, b fdb.Connection) bool {
	return a.Description == b.Description && (a.ID == b.ID && a.ID != "" || slices.ContainsFunc(a.Coordinators, func(c fdb.Address) bool {
		return slices.Contains(b.Coordinators, c)
	}))
}

func before(a, b *v1beta2.FoundationDBCluster) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.UID < b.UID
}
