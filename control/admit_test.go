package control_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/pawl-dev/pawl/control"
)

// An object that the admission refuses is not stored, neither by Apply nor by Update. The
// admission can read the stored object.
func TestAdmit(t *testing.T) {
	refused := errors.New("no")
	seen := ""
	store := control.NewMemory()
	objects := control.Admit(store, func(_ context.Context, want control.Object, stored func() (*control.Object, error)) error {
		before, err := stored()
		if err != nil {
			return err
		}
		if seen = "new"; before != nil {
			seen = string(before.Spec)
		}
		if string(want.Spec) == `{"n":2}` {
			return refused
		}
		return nil
	})
	ref := control.Ref{Kind: "Site", Namespace: "default", Name: "a"}
	spec := func(text string) control.Object { return control.Object{Ref: ref, Spec: json.RawMessage(text)} }
	if _, err := objects.Apply(t.Context(), spec(`{"n":2}`)); !errors.Is(err, refused) || seen != "new" {
		t.Errorf("a creation that is refused: %v, of %s", err, seen)
	}
	if _, err := store.Get(t.Context(), ref); !errors.Is(err, control.NotFound) {
		t.Errorf("it is stored: %v", err)
	}
	o, err := objects.Apply(t.Context(), spec(`{"n":1}`))
	if err != nil {
		t.Fatal(err)
	}
	o.Spec = json.RawMessage(`{"n":2}`)
	if _, err := objects.Update(t.Context(), o); !errors.Is(err, refused) || seen != `{"n":1}` {
		t.Errorf("an update that is refused: %v, of %s", err, seen)
	}
	o.Spec = json.RawMessage(`{"n":3}`)
	if _, err := objects.Update(t.Context(), o); err != nil {
		t.Error(err)
	}
	if _, err := objects.Delete(t.Context(), ref, 0); err != nil {
		t.Errorf("a deletion is not asked for: %v", err)
	}
}
