package clusters_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters"
	"github.com/pawl-dev/pawl/operator/foundationdb/port"
	"github.com/pawl-dev/pawl/operator/foundationdb/sim"
)

// asked is a database that remembers for which version a status was asked, and how long that may have taken.
type asked struct {
	port.Database
	versions []string
	killed   bool
}

func (a *asked) Status(ctx context.Context, at port.Endpoint, limit port.Limit) (*fdb.Status, error) {
	text := at.Version.Short()
	if limit == port.Short {
		text += " short"
	}
	a.versions = append(a.versions, text)
	return a.Database.Status(ctx, at, limit)
}

func (a *asked) Run(ctx context.Context, at port.Endpoint, call fdb.Call) port.Answer {
	a.killed = a.killed || call.Command == fdb.CommandKill
	return a.Database.Run(ctx, at, call)
}

// Tools of the former version use up their time-out once the servers have restarted: those of the new one are asked
// first, and the others only if they do not answer.
func TestToolsAfterAnUpgrade(t *testing.T) {
	for _, dies := range []bool{false, true} {
		l := begin(t, sim.Options{}, nil)
		instance := l.As("operator")
		a := &asked{Database: instance.Database}
		operator := func() {
			l.operator = clusters.New(instance.Objects, a, instance.Sidecars, clusters.Options{Now: l.Now, Parallel: 1})
		}
		operator()
		l.settle(time.Hour)
		l.edit(`{"spec":{"version":"7.4.6"}}`)
		for a.versions = nil; !a.killed; a.versions = nil {
			l.pass()
		}
		if dies {
			operator()
		}
		var old []string
		for range 20 {
			a.versions = nil
			l.pass()
			if dies && len(old) == 0 { // it does not know that it has restarted the servers
				if want := []string{"7.3", "7.4 short"}; !slices.Equal(a.versions, want) {
					t.Errorf("a new instance asks %v, want %v", a.versions, want)
				}
				old = a.versions
				continue
			}
			if want := []string{"7.4"}; !slices.Equal(a.versions, want) {
				t.Errorf("after the restart it asks %v, want %v", a.versions, want)
			}
		}
		l.settle(12 * time.Hour)
	}
}
