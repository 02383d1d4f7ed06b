package clusters

import (
	"context"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/operator/foundationdb"
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
		return later(startAgain, "AddressesConvert", "not every server has an address of the new kind: %s", why)
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
	texts := make([]string, len(chosen))
	for i, a := range chosen {
		texts[i] = a.String()
	}
	return acts(outcome.Done(), locked(act{
		Name: "change coordinators to", Targets: texts,
		Assume: func(p *pass) { p.cluster.Status.NeedsNewCoordinators = false },
		Do: func(ctx context.Context, p *pass) outcome.Outcome {
			p.disturb("change of coordinators")
			result := p.run(ctx, fdb.Coordinators(chosen))
			if result.Outcome == fdb.Refused {
				return outcome.Later(startAgain, reasonOf(result), "coordinators %s: %s", some(texts), result)
			}
			if !p.readConnection(ctx) || result.Outcome != fdb.Ok {
				return outcome.Later(startAgain, reasonOf(result), "coordinators %s: %s", some(texts), result)
			}
			p.cluster.Status.NeedsNewCoordinators = false
			p.cluster.Status.HasIncorrectConfigMap = true
			p.event("CoordinatorsChanged", "%s: %s", some(texts), why)
			if out := outcome.Fail(p.save(ctx)); out.IsFail() {
				return out
			}
			return outcome.Later(time.Second, "ConnectionStringChanged", "the config map gets the new connection string next")
		},
	}))
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
