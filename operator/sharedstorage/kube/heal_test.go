package kube

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pawl-dev/pawl/kube/controller"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// A run that an API server forbids continues by itself once the role exists. One that is forbidden
// for good is left to a person.
func TestRefusedForAWhile(t *testing.T) {
	for name, c := range map[string]struct {
		refusals int
		want     runtype.Phase
	}{"an API server that has just begun": {2, runtype.Succeeded}, "a role that is too small": {1000, runtype.Paused}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				refused := 0
				step := func(context.Context, *workflow.Task) outcome.Outcome {
					if refused++; refused > c.refusals {
						return outcome.Done()
					}
					return outcome.Fail(controller.Fault(apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "a", errors.New("no role"))))
				}
				flow := workflow.Flow{Name: "Ask", Steps: []workflow.Step{{Name: "Ask", Do: step}}}
				engine, err := workflow.New(runstore.NewMemory(), []workflow.Flow{flow}, workflow.Options{Healers: Healers()})
				if err != nil {
					t.Fatal(err)
				}
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- engine.Serve(ctx) }()
				run, err := engine.Start(t.Context(), workflow.Request{Flow: "Ask", Subject: "K/n/a"})
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(2 * time.Hour)
				if run, err = engine.Get(t.Context(), run.ID); err != nil || run.Phase != c.want {
					t.Errorf("the run is %v, %v, after %d refusals", run.Phase, err, refused)
				}
				if refused > 12 {
					t.Errorf("it was tried %d times", refused)
				}
				stop()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		})
	}
}
