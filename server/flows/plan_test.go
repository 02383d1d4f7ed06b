package flows_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/pawl-dev/pawl/bulk"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/server"
	"github.com/pawl-dev/pawl/server/servertest"
)

func TestPlanOfAnObject(t *testing.T) {
	h := servertest.New(t, func(o *server.Options) {
		o.Kinds = servertest.Planning(func(_ context.Context, object control.Object) (machine.Plan, error) {
			return machine.Plan{Object: object.Ref.String(), Params: object.Spec, Why: fmt.Sprint("generation ", object.Generation)}, nil
		})
	})
	h.Do("PUT", servertest.ObjectPath, `{"spec":{"readers":2}}`)
	for body, want := range map[string]string{
		`{"object":{"kind":"demo","namespace":"default","name":"c1"}}`:           `{"object":"demo/default/c1","act":"","why":"generation 1","params":{"readers":2}}`,
		`{"manifest":{"kind":"demo","name":"c1","spec":{"readers":3}}}`:          `{"object":"demo/default/c1","act":"","why":"generation 2","params":{"readers":3}}`,
		`{"manifest":{"kind":"demo","namespace":"other","name":"c9","spec":{}}}`: `{"object":"demo/other/c9","act":"","why":"generation 1","params":{}}`,
	} {
		var answer struct{ Machine json.RawMessage }
		got := h.Do("POST", "/v1/plans", body)
		got.Into(t, &answer)
		if string(answer.Machine) != want {
			t.Errorf("%s: got %s", body, got.Body)
		}
	}
	if got := h.Do("POST", "/v1/plans", `{"manifest":{"kind":"other","name":"c1","spec":{}}}`); got.Problem(t).Code != machine.Unserved.Code {
		t.Errorf("a kind that nothing serves: %s", got.Body)
	}
	var o control.Object
	h.Do("GET", servertest.ObjectPath, nil).Into(t, &o)
	if o.Generation != 1 {
		t.Error("a plan changed the object")
	}
}

// A plan of a bulk counts the runs that it would ask, and changes nothing.
func TestPlanOfABulk(t *testing.T) {
	h := servertest.New(t, nil)
	var answer struct {
		Bulk struct {
			At   string
			Runs int
		}
	}
	h.Do("POST", "/v1/plans", `{"bulk":{"verb":"cancel","flow":"Nothing"}}`).Into(t, &answer)
	if answer.Bulk.At == "" || answer.Bulk.Runs != 0 {
		t.Errorf("%+v", answer)
	}
	for _, body := range []string{`{"bulk":{"verb":"cancel"}}`, `{"bulk":{"verb":"cancel","flow":"F","mode":"drop","step":"S"}}`} {
		if got := h.Do("POST", "/v1/plans", body); got.Problem(t).Code != bulk.Invalid.Code {
			t.Errorf("%s: %s", body, got.Body)
		}
	}
}
