package clusters

import (
	"context"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters/internal/coordinators"
	"github.com/pawl-dev/pawl/operator/foundationdb/repair"
	"github.com/pawl-dev/pawl/outcome"
)

// changeCoordinators moves the coordinators to where they should be.
func changeCoordinators(p *pass) decision {
	if !p.cluster.Status.Configured {
		return decision{}
	}
	wish := foundationdb.Wish(p.cluster)
	verdict, err := fdb.JudgeCoordinators(p.status, wish)
	if err != nil {
		return later(startAgain, fault.Of(err).Reason(), "%s", fault.Message(err))
	}
	if verdict.Valid && !p.leaving {
		return decision{}
	}
	why := strings.Join(verdict.Why, "; ")
	if p.leaving {
		why = "a coordinator is excluded"
	}
	if foundationdb.ConvertsTLS(p.cluster) && !verdict.AddressesValid {
		if wish, verdict, err = former(p.status, wish); err != nil || !verdict.AddressesValid || verdict.Valid && !p.leaving {
			return later(startAgain, "AddressesConvert", "not every server has an address of the new kind: %s", why)
		}
		if !p.leaving {
			why = strings.Join(verdict.Why, "; ")
		}
	}
	if !p.leaving {
		if v := p.open(fdb.GateCoordinators); !v.Open {
			return closed(v, upgradeAgain)
		}
	}
	chosen, err := fdb.SelectCoordinators(p.status, wish)
	if err != nil {
		return later(startAgain, fault.Of(err).Reason(), "%s", fault.Message(err))
	}
	targets := texts(chosen, fdb.Address.String)
	return acts(outcome.Done(), locked(act{
		Name: "change coordinators to", Targets: targets,
		Assume: func(p *pass) { p.cluster.Status.NeedsNewCoordinators = false },
		Do: func(ctx context.Context, p *pass) outcome.Outcome {
			p.disturb("change of coordinators")
			result := p.run(ctx, fdb.Coordinators(chosen))
			if result.Outcome == fdb.Refused {
				return outcome.Later(startAgain, reasonOf(result), "coordinators %s: %s", some(targets), result)
			}
			if !p.readConnection(ctx) || result.Outcome != fdb.Ok {
				return outcome.Later(startAgain, reasonOf(result), "coordinators %s: %s", some(targets), result)
			}
			p.cluster.Status.NeedsNewCoordinators = false
			p.cluster.Status.HasIncorrectConfigMap = true
			p.event("CoordinatorsChanged", "%s: %s", some(targets), why)
			if out := outcome.Fail(p.save(ctx)); out.IsFail() {
				return out
			}
			return outcome.Later(time.Second, "ConnectionStringChanged", "the config map gets the new connection string next")
		},
	}))
}

// former judges the coordinators as before a conversion to or from TLS, until all servers have addresses of the new kind:
// one that is lost is replaced in the meantime, since the conversion may wait for pods that may not go without it.
func former(s *fdb.Status, w fdb.CoordinatorWish) (fdb.CoordinatorWish, fdb.CoordinatorVerdict, error) {
	w.TLS = !w.TLS
	verdict, err := fdb.JudgeCoordinators(s, w)
	return w, verdict, err
}

// readConnection takes over the connection string that the database has now, and reports whether it could
// be read.
func (p *pass) readConnection(ctx context.Context) bool {
	at, err := p.endpoint()
	if err != nil {
		return false
	}
	answer := p.database.Run(ctx, at, fdb.ReadConnection())
	if answer.Outcome != fdb.Ok {
		return false
	}
	c, err := fdb.ConnectionOf(answer.Stdout)
	if err != nil {
		return false
	}
	p.connect(c)
	return true
}

// connect takes over a connection string that the database has told.
func (p *pass) connect(c fdb.Connection) {
	if from, to := p.stored.Status.ConnectionString, c.String(); from != to {
		p.memory.moved.from, p.memory.moved.to = from, to
	}
	p.cluster.Status.ConnectionString = c.String()
}

// CoordinatorsMoved is the reason of a database that cannot be reached because its coordinators have other addresses.
const CoordinatorsMoved = "CoordinatorsMoved"

// orMoved is a link that first looks whether the coordinators can be reached at all. When a majority of them has
// other addresses, the database does not come back by itself: the servers know the old ones only.
func orMoved(decide func(*pass) decision) func(*pass) decision {
	return func(p *pass) decision {
		r, ok := coordinators.Moved(p.servers())
		if !ok {
			return decide(p)
		}
		command := "pawl fdb fix-coordinator-ips " + p.cluster.Name + " --namespace " + p.cluster.Namespace
		out := outcome.Later(startAgain, CoordinatorsMoved, "the coordinators on %s have other addresses now, and no server can find them: %s", some(r.Elsewhere()), command)
		if p.options.WriteClusterFile == nil || foundationdb.SharesDatabase(p.cluster.Spec) {
			return acts(out)
		}
		return acts(outcome.Later(startAgain, CoordinatorsMoved, "the servers restart with the new addresses of the coordinators"), repairing(r))
	}
}

// repairing is the act of giving all servers the new addresses: first the pods, so that one that is not reached is
// tried again, then the status, from which the config map follows.
func repairing(r repair.Moved) act {
	return act{
		Name: "write the new addresses of the coordinators into all pods", Targets: []string{r.To.String()},
		Do: func(ctx context.Context, p *pass) outcome.Outcome {
			var pods []*corev1.Pod
			for i := range p.cluster.Status.ProcessGroups {
				if pod := p.member(p.cluster.Status.ProcessGroups[i].ProcessGroupID).Pod; pod != nil && foundationdb.ContainerReady(pod, foundationdb.MainContainer) {
					pods = append(pods, pod)
				}
			}
			out := each(ctx, pods, "ClusterFileNotWritten", func(pod *corev1.Pod) error { return p.options.WriteClusterFile(ctx, pod, r.To) })
			if !out.IsDone() {
				return out
			}
			p.cluster.Status.ConnectionString = r.To.String()
			p.event(CoordinatorsMoved, "the coordinators on %s have other addresses: %s", some(r.Elsewhere()), r.To)
			return outcome.Fail(p.save(ctx))
		},
	}
}
