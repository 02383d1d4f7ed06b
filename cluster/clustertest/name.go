package clustertest

import (
	"errors"
	"fmt"
	"sync"

	"github.com/pawl-dev/pawl/cluster"
)

// named returns a new cluster of an account with a name.
func named(uuid, name, account string) *cluster.Cluster {
	return with(newCluster(uuid), func(c *cluster.Cluster) { c.Name, c.Owner.AccountID = name, account })
}

func uniqueName(e suite) {
	blue := named("1", "blue", "ann")
	e.commit(&cluster.Change{Cluster: blue})
	taken := func(c *cluster.Cluster) {
		e.Helper()
		if err := e.store.Commit(e.Context(), &cluster.Change{Cluster: c, Jobs: []*cluster.Job{newJob("refused")}}); !errors.Is(err, cluster.NameTaken) {
			e.Errorf("commit gave %v, want CLUSTER_EXISTS", err)
		}
		if _, err := e.store.Job(e.Context(), "refused"); !errors.Is(err, cluster.JobNotFound) {
			e.Errorf("the job of a refused cluster: %v", err)
		}
	}
	taken(named("2", "blue", "ann"))
	e.commit(&cluster.Change{Cluster: named("3", "blue", "bob")}) // of another account
	e.commit(&cluster.Change{Cluster: named("4", "Blue", "ann")}) // another name
	red := named("5", "red", "ann")
	e.commit(&cluster.Change{Cluster: red})
	taken(with(red, func(c *cluster.Cluster) { c.Name = "blue" }))
	blue.State = cluster.Expunging // still there
	e.commit(&cluster.Change{Cluster: blue})
	taken(named("6", "blue", "ann"))
	blue.State = cluster.Destroyed
	e.commit(&cluster.Change{Cluster: blue})
	e.commit(&cluster.Change{Cluster: named("7", "blue", "ann")})
	blue.Description = "a destroyed cluster is changed beside its successor"
	e.commit(&cluster.Change{Cluster: blue})

	// of several at once one wins, and the others are told why
	var all sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		all.Go(func() {
			errs[i] = e.store.Commit(e.Context(), &cluster.Change{Cluster: named(fmt.Sprint("race", i), "green", "ann")})
		})
	}
	all.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
		} else if !errors.Is(err, cluster.NameTaken) {
			e.Errorf("a loser gets %v, want CLUSTER_EXISTS", err)
		}
	}
	if won != 1 {
		e.Errorf("%d clusters got the name, want 1", won)
	}
}
