package objecttest_test

import (
	"fmt"
	"testing"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/control/objecttest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMemory(t *testing.T) {
	objecttest.Run(t, objecttest.Suite{
		Open: func(*testing.T) control.Objects { return control.NewMemory() },
		Forget: func(t *testing.T, s control.Objects) {
			for i := range control.MemoryHistory {
				o := control.Object{Ref: control.Ref{Kind: "filler", Namespace: "default", Name: "f"}, Labels: map[string]string{"i": fmt.Sprint(i)}}
				if _, err := s.Apply(t.Context(), o); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := s.Delete(t.Context(), control.Ref{Kind: "filler", Namespace: "default", Name: "f"}, 0); err != nil {
				t.Fatal(err)
			}
		},
	})
}
