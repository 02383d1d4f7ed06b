package runs_test

import (
	"testing"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/machine/driver"
	"github.com/pawl-dev/pawl/server/servertest"
	"github.com/pawl-dev/pawl/view"
)

// A machine starts its runs with the uid of the object, people leave it out: the name of the object finds both.
func TestRunsOfAnObjectAreFoundByItsName(t *testing.T) {
	h := servertest.New(t, nil)
	h.Do("PUT", servertest.ObjectPath, `{"spec":{"size":3}}`)
	var o control.Object
	h.Do("GET", servertest.ObjectPath, nil).Into(t, &o)
	machine, person := h.Start("Quick", driver.Subject(o)), h.Start("Quick", o.String())
	h.Start("Quick", o.String()+"/another-uid") // of an earlier object of this name
	h.Start("Quick", "demo/default/c11")
	for subject, want := range map[string][]string{
		o.String():          {person.ID, machine.ID},
		driver.Subject(o):   {machine.ID},
		"demo/default/none": {},
	} {
		var got view.Runs
		h.Do("GET", "/v1/runs?subject="+subject, nil).Into(t, &got)
		var ids []string
		for _, r := range got.Items {
			ids = append(ids, r.ID)
		}
		if len(ids) != len(want) || (len(ids) > 0 && ids[0] != want[0]) || (len(ids) > 1 && ids[1] != want[1]) {
			t.Errorf("runs of %s: got %v, want %v", subject, ids, want)
		}
	}
}
