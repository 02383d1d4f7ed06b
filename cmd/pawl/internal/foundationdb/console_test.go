package foundationdb

import (
	"slices"
	"testing"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/foundationdb/report"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/server/route"
)

// Links are held beside others, released one by one or all, and only those that there are.
func TestRehold(t *testing.T) {
	rest := slices.DeleteFunc(slices.Clone(linkNames), func(link string) bool { return link == "UpdatePods" })
	for what, test := range map[string]struct {
		before        string
		hold, release []string
		want          string
	}{
		"the first":               {"", []string{"UpdatePods"}, nil, "UpdatePods"},
		"beside another":          {"UpdatePods", []string{"AddPods"}, nil, "AddPods,UpdatePods"},
		"again":                   {"UpdatePods", []string{"UpdatePods"}, nil, "UpdatePods"},
		"all":                     {"UpdatePods", []string{}, nil, "*"},
		"one more of all":         {"*", []string{"UpdatePods"}, nil, "*"},
		"released":                {"AddPods, UpdatePods", nil, []string{"UpdatePods"}, "AddPods"},
		"the last is released":    {"UpdatePods", nil, []string{"UpdatePods"}, ""},
		"all are released":        {"*", nil, []string{}, ""},
		"one of all is released":  {"*", nil, []string{"UpdatePods"}, holdText(rest)},
		"one that was never held": {"AddPods", nil, []string{"UpdatePods"}, "AddPods"},
	} {
		objects := control.NewMemory()
		o := control.Object{Ref: control.Ref{Kind: report.ClusterKind, Namespace: "default", Name: "a"}, Spec: []byte(`{"version":"7.3.69"}`), Annotations: map[string]string{"mine": "kept"}}
		if test.before != "" {
			o.Annotations[foundationdb.HoldAnnotation] = test.before
		}
		if _, err := objects.Apply(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		s := consoleSource{source: &source{objects: objects}}
		var err error
		if test.hold != nil {
			err = s.Hold(t.Context(), o.Ref, test.hold)
		} else {
			err = s.Release(t.Context(), o.Ref, test.release)
		}
		is, failed := objects.Get(t.Context(), o.Ref)
		if err != nil || failed != nil || is.Annotations[foundationdb.HoldAnnotation] != test.want || is.Annotations["mine"] != "kept" {
			t.Errorf("%s: %q, %v, %v; want %q", what, is.Annotations, err, failed, test.want)
		}
	}
	s := consoleSource{source: &source{objects: control.NewMemory()}}
	if err := s.Hold(t.Context(), control.Ref{}, []string{"UpdatePod"}); fault.Of(err) != route.Refused {
		t.Errorf("an unknown link: %v", err)
	}
}
