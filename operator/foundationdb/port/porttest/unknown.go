package porttest

import (
	"context"
	"slices"

	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb/port"
)

// unknown: what the schema keeps although the types do not have it.
func unknown(e *examinee) {
	c := &v1beta2.FoundationDBCluster{}
	c.Namespace, c.Name = e.namespaces[0], "unknown"
	names := func(object port.Object) []string {
		e.Helper()
		paths, err := e.UnknownFields(context.Background(), object)
		if err != nil {
			e.Fatal(err)
		}
		return paths
	}
	if paths := names(c); paths != nil {
		e.Errorf("fields of what is not there: %q", paths)
	}
	c.Spec.Version = "7.3.69"
	if err := e.Create(context.Background(), c); err != nil {
		e.Fatal(err)
	}
	if paths := names(c); len(paths) > 0 {
		e.Errorf("fields that nobody has set: %q", paths)
	}
	for _, step := range []struct {
		patch string
		want  []string
	}{
		{`{"spec":{"wings":{"count":2},"automationOptions":{"fly":true},"skip":true}}`, []string{"spec.automationOptions.fly", "spec.wings"}},
		{`{"spec":{"wings":null},"metadata":{"labels":{"a":"b"}}}`, []string{"spec.automationOptions.fly"}},
		{`{"metadata":{"labels":{"a":"c"}}}`, []string{"spec.automationOptions.fly"}},
		{`{"spec":{"automationOptions":{"fly":null}}}`, nil},
	} {
		if err := e.Patch(context.Background(), c, []byte(step.patch)); err != nil {
			e.Fatal(err)
		}
		if paths := names(c); !slices.Equal(paths, step.want) {
			e.Errorf("after %s: %q, want %q", step.patch, paths, step.want)
		}
	}
}
