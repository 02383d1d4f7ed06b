package objects_test

import (
	"fmt"
	"net/http"
	"reflect"
	"testing"

	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/machine/driver"
	"github.com/pawl-dev/pawl/server"
	"github.com/pawl-dev/pawl/server/servertest"
	"github.com/pawl-dev/pawl/view"
)

func TestMachines(t *testing.T) {
	table := machine.Table[*machine.Subject]{Name: "lamp", Kind: "demo", Initial: "Dark", States: map[machine.State]machine.StateSpec[*machine.Subject]{
		"Dark": {On: []machine.Transition[*machine.Subject]{{To: "Lit", Event: "switch", Text: "object.spec.on"}}}, "Lit": {Rests: true},
	}}
	h := servertest.New(t, func(o *server.Options) {
		o.Kinds = func() ([]driver.ServedKind, error) {
			kinds, err := driver.KindsOf([]machine.Standalone{{Table: table, File: "lamp.yaml"}})
			return append(kinds, driver.ServedKind{Kind: "other"}), err
		}
	})
	for i := range 3 {
		h.Do("PUT", fmt.Sprintf("/v1/objects/demo/default/c%d", i), `{"spec":{}}`)
	}
	h.Do("PATCH", "/v1/objects/demo/default/c0", `{"status":{"state":"Lit"}}`, "If-Match", "*", "Content-Type", "application/merge-patch+json")
	counts := &view.ObjectCounts{Total: 3, ByState: []view.StateCount{{State: "Dark", Objects: 2}, {State: "Lit", Objects: 1}}}

	var list view.Machines
	h.Do("GET", "/v1/machines", nil).Into(t, &list)
	if want := (view.Machines{Items: []view.Machine{{Name: "lamp", Kind: "demo", Initial: "Dark", File: "lamp.yaml", Count: 2, Objects: counts}}}); !reflect.DeepEqual(list, want) {
		t.Errorf("got %+v", list)
	}
	var one view.Machine
	h.Do("GET", "/v1/machines/demo", nil).Into(t, &one)
	if len(one.States) != 2 || !reflect.DeepEqual(one.Transitions, table.Graph().Transitions) || !reflect.DeepEqual(one.Objects, counts) {
		t.Errorf("got %+v", one)
	}
	one = view.Machine{}
	h.Do("GET", "/v1/machines/demo?counts=false", nil).Into(t, &one)
	if one.Objects != nil || len(one.States) != 2 {
		t.Errorf("without counts: %+v", one)
	}
	for _, kind := range []string{"other", "dem"} {
		if got := h.Do("GET", "/v1/machines/"+kind, nil); got.Status != http.StatusNotFound || got.Problem(t).Code != machine.Unserved.Code {
			t.Errorf("%s: %d %s", kind, got.Status, got.Body)
		}
	}
	if got := servertest.New(t, nil).Do("GET", "/v1/machines", nil); got.Status != http.StatusNotImplemented {
		t.Errorf("a server without machines: %d %s", got.Status, got.Body)
	}
}
