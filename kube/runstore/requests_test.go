package runstore

import (
	"context"
	"testing"

	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/kube/runstore/format"
	"github.com/pawl-dev/pawl/kube/runstore/kubetest"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
)

// A Run object that another store serves is not refused although its flow is unknown to
// this engine: nothing is written to it.
func TestObjectsOfOtherKindsAreNotAnswered(t *testing.T) {
	s := openOn(t, kubetest.NewServer(t), Options{Serves: Kinds("K")})
	e, err := workflow.New(s, []workflow.Flow{{Name: "F", Steps: []workflow.Step{{Name: "S", Do: func(context.Context, *workflow.Task) outcome.Outcome { return outcome.Done() }}}}}, workflow.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.ServeRequests(ctx, e) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	post := func(name, subject string) string {
		t.Helper()
		meta := format.NewMeta(name, "n", nil)
		meta["annotations"] = format.Tree{"pawl.dev/pause": "true"}
		created, err := s.client.Post(t.Context(), s.runRef("n", ""), format.Tree{"apiVersion": api.GroupVersion.String(), "kind": "Run", "metadata": meta, "spec": format.Tree{"flow": "Nothing", "subject": subject}})
		if err != nil {
			t.Fatal(err)
		}
		return created.ResourceVersion
	}
	versions := map[string]string{"theirs": post("theirs", "Other/n/x"), "nobodys": post("nobodys", "")}
	post("mine", "K/n/x")
	eventually(t, "the answer to its own", func() bool {
		var r api.Run
		err := s.client.Get(t.Context(), s.runRef("n", "mine"), &r)
		return err == nil && r.Status.LastRequest != nil && r.Status.LastRequest.Code == string(workflow.FlowUnknown.Code)
	})
	for name, version := range versions {
		var r api.Run
		if err := s.client.Get(t.Context(), s.runRef("n", name), &r); err != nil || r.ResourceVersion != version {
			t.Errorf("%s was written: %v, %+v", name, err, r.Status)
		}
	}
}
