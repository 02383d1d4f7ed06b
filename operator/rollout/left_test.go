package rollout

import (
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/kube/workload"
	"github.com/pawl-dev/pawl/rollout"
)

// TestLeftOn: a deletion in the middle names what it leaves, and one at an end names nothing.
func TestLeftOn(t *testing.T) {
	set := workload.Ref{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "db"}
	clones := workload.Ref{APIVersion: "apps.kruise.io/v1beta1", Kind: "CloneSet", Name: "db"}
	scale := func(state rollout.State) rollout.Position {
		return rollout.Position{State: state, Mode: rollout.Scale, OriginalSize: new(2), TargetSize: new(6)}
	}
	pair := func(state rollout.State, target, source int) (rollout.Position, rollout.Facts) {
		return rollout.Position{State: state, Mode: rollout.Rollout, OriginalSize: new(4), TargetSize: new(4)}, rollout.Facts{
			Target:  &rollout.WorkloadFacts{Kind: rollout.Deployment, Name: "web-v2", Replicas: target},
			Sources: []rollout.WorkloadFacts{{Kind: rollout.Deployment, Name: "web-v1", Replicas: source}},
		}
	}
	of := func(w rollout.WorkloadFacts) rollout.Facts {
		w.Name = "db"
		return rollout.Facts{Target: &w}
	}
	type row struct {
		at   rollout.Position
		f    rollout.Facts
		ref  workload.Ref
		want []string // empty: nothing is left
	}
	held := rollout.WorkloadFacts{Kind: rollout.StatefulSet, Replicas: 3, Held: true}
	tests := map[string]row{
		"two revisions":       {rollout.Position{State: rollout.Failed, Mode: rollout.Rollout}, of(held), set, []string{"two revisions", "`kubectl patch statefulset db --type=merge -p '{", `"pawl.dev/unguarded":"let go"`, `"labels":{"pawl.dev/held":null}`, `"rollingUpdate":{"partition":0}`, "`kubectl annotate statefulset db pawl.dev/unguarded-`"}},
		"two of a CloneSet":   {rollout.Position{State: rollout.Failed, Mode: rollout.Rollout}, of(rollout.WorkloadFacts{Kind: rollout.CloneSet, Replicas: 3, Held: true}), clones, []string{"kubectl patch cloneset.v1beta1.apps.kruise.io db ", `"rollingUpdate":{"partition":0,"paused":false}`}},
		"one revision":        {rollout.Position{State: rollout.Failed, Mode: rollout.Rollout}, of(rollout.WorkloadFacts{Replicas: 3}), set, nil},
		"a scale half way":    {scale(rollout.Failed), of(rollout.WorkloadFacts{Replicas: 4}), set, []string{"from 2 to 6", "stands at 4", "spec.replicas"}},
		"a scale not begun":   {scale(rollout.Failed), of(rollout.WorkloadFacts{Replicas: 2}), set, nil},
		"a scale that ended":  {scale(rollout.Succeeded), of(rollout.WorkloadFacts{Replicas: 6}), set, nil},
		"a paused scale":      {scale(rollout.Failed), of(rollout.WorkloadFacts{Kind: rollout.CloneSet, Replicas: 2, Paused: true}), clones, []string{"spec.updateStrategy.rollingUpdate.paused to false"}},
		"it is not there":     {scale(rollout.Failed), rollout.Facts{}, set, nil},
		"a refused deletion":  {rollout.Position{State: rollout.Locating}, of(rollout.WorkloadFacts{Replicas: 3}), set, nil},
		"a scale that shrank": {rollout.Position{State: rollout.Failed, Mode: rollout.Scale, OriginalSize: new(6), TargetSize: new(2)}, of(rollout.WorkloadFacts{Replicas: 3}), set, []string{"from 6 to 2", "stands at 3"}},
	}
	for name, sizes := range map[string][2]int{"both Deployments": {1, 3}, "only the old one": {0, 4}, "only the new one": {4, 0}} {
		for _, of := range []string{"web-v1", "web-v2"} {
			r := row{ref: workload.Ref{APIVersion: "apps/v1", Kind: "Deployment", Name: of}}
			r.at, r.f = pair(rollout.Failed, sizes[0], sizes[1])
			if name == "both Deployments" {
				r.want = []string{"web-v2 has 1 pods of the new", "web-v1 3 of the old", "spec.replicas"}
			}
			tests[name+" on "+of] = r
		}
	}
	for name, r := range tests {
		got := leftOn("r", r.at, r.f, r.ref)
		if (got == "") != (len(r.want) == 0) {
			t.Errorf("%s: %q", name, got)
		}
		for _, part := range r.want {
			if !strings.Contains(got, part) {
				t.Errorf("%s: %q does not say %q", name, got, part)
			}
		}
	}
}
