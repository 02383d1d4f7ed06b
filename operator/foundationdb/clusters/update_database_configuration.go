package clusters

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters/internal/coordinators"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters/internal/probe"
	"github.com/pawl-dev/pawl/outcome"
)

const stageAgain = 30 * time.Second // until the next stage of a configuration

// updateDatabaseConfiguration creates the database, once in its life, or brings its configuration one
// stage nearer to the spec.
func updateDatabaseConfiguration(p *pass) decision {
	spec := p.cluster.Spec
	if !*spec.AutomationOptions.ConfigureDatabase {
		return decision{}
	}
	final := foundationdb.ConfigurationOf(spec.DatabaseConfiguration)
	final.RoleCounts = final.Counts()
	if !p.cluster.Status.Configured {
		if p.status.Cluster.Layers.Error != probe.ConfigurationMissing {
			return later(startAgain, fdb.StatusIncomplete, "the status does not say that the database has no configuration")
		}
		if first, ours := coordinators.Creator(p.servers()); !ours {
			return later(startAgain, "CreatedByAnother", "the database has no configuration yet: the object whose pod is the first coordinator, %s, creates it", first)
		}
		return acts(outcome.Wait(time.Second, "DatabaseCreated", "the database becomes available"), configuring(final, true))
	}
	live := p.status.Cluster.Configuration
	if live == nil {
		return later(lockAgain, fdb.StatusIncomplete, "the status shows no configuration")
	}
	if !final.Differs(*live) {
		return decision{}
	}
	stages := fdb.Stages(*live, final)
	if len(stages) == 0 {
		return decision{}
	}
	if v := p.open(fdb.GateConfigure); !v.Open {
		return closed(v, lockAgain)
	}
	next := stages[0]
	if r := fdb.Refuses(*live, next, fdb.PlacementOf(p.status)); r.Reason != "" {
		return later(stageAgain, string(r.Reason), "configure %s has to wait: %s", next.Text(), r.Message)
	}
	out := outcome.Done()
	if len(stages) > 1 {
		out = outcome.Later(stageAgain, "StagesToCome", "%d stages of the configuration follow", len(stages)-1)
	}
	return acts(out, locked(configuring(next, false)))
}

// configuring is the act of configuring the database.
func configuring(c fdb.Configuration, create bool) act {
	name := "configure"
	if create {
		name = "configure new"
	}
	return act{
		Name: name, Targets: []string{c.Text()},
		Assume: func(p *pass) {
			p.cluster.Status.Configured = true
			if p.status.Cluster.Configuration != nil {
				live := c
				p.status.Cluster.Configuration = &live
			}
		},
		Do: func(ctx context.Context, p *pass) outcome.Outcome {
			if out := outcome.Fail(p.save(ctx)); out.IsFail() { // what follows may take long
				return out
			}
			p.disturb(name)
			result := p.run(ctx, fdb.Configure(c, create))
			if result.Outcome != fdb.Ok && !(create && result.Reason == fdb.DatabaseExists) {
				return outcome.Later(lockAgain, reasonOf(result), "%s %s: %s", name, c.Text(), result)
			}
			p.event("Configured", "%s %s", name, c.Text())
			return outcome.Done()
		},
	}
}
