package clusters_test

import (
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/sim"
)

// created counts the calls that create a database.
func (f *fleet) created() (count int) {
	for _, d := range f.acts {
		if d.Verb == "Run" && d.Call.Command == fdb.CommandConfigure && d.Call.Create {
			count++
		}
	}
	return count
}

// Objects that join before there is a database wait for the one that has made the connection string, also when that
// one is given its own string as a seed.
func TestCreatedByOneObject(t *testing.T) {
	f := newFleet(t, shared(36, 3))
	objects := halls()
	tried, held := 0, true
	f.Before(func(e sim.Effect) error {
		if held && e.Verb == "Run" && e.Call.Command == fdb.CommandConfigure {
			if e.Owner != objects[0].Spec.ProcessGroupIDPrefix {
				t.Errorf("%s sends configure new", e.Owner)
			}
			tried++
			return errors.New("the network is down")
		}
		return nil
	})
	first := f.add(objects[0])
	f.until("the first object tries to create the database", 10*time.Minute, func() bool { return tried > 0 })
	f.join(objects[1])
	f.join(objects[2])
	f.goOn(10 * time.Minute)
	for _, u := range f.units[1:] {
		c := meta.FindStatusCondition(u.object().Status.Conditions, "Progressing")
		if c == nil || c.Reason != "CreatedByAnother" {
			f.fail("%s waits: %v", u.owner, c)
		}
	}
	first.edit(`{"spec":{"seedConnectionString":"` + first.object().Status.ConnectionString + `"}}`)
	f.goOn(time.Minute)
	held = false
	f.settle(2 * time.Hour)
	if n := f.created(); n != 1 {
		f.fail("configure new was sent %d times", n)
	}
}
