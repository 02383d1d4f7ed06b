package view

import (
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/rollout"
)

func application(status string) control.Object {
	return control.Object{
		Ref: control.Ref{Kind: ApplicationKind, Namespace: "n", Name: "shop"}, Generation: 3,
		Spec:   []byte(`{"rolloutComponent":"db","components":[{"name":"db","workload":{"kind":"StatefulSet","spec":{"replicas":3}}},{"name":"web","workload":{"kind":"Deployment","spec":{}}}]}`),
		Status: []byte(status),
	}
}

func revision(name string) control.Object {
	return control.Object{Ref: control.Ref{Kind: "ApplicationRevision", Namespace: "n", Name: name}, Spec: []byte(`{"hash":"h-` + name + `","components":[{"name":"db","workloadName":"db"},{"name":"web","workloadName":"web-v2"}]}`)}
}

const (
	holding = `{"observedGeneration":3,"latestRevision":"shop-v10","reachedRevision":"shop-v2","reachedReplicas":{"db":3},"conditions":[{"type":"Ready","status":"False","reason":"HeldByPartition","message":"batch 1 may run"}]}`
	settled = `{"observedGeneration":3,"latestRevision":"shop-v2","reachedRevision":"shop-v2","conditions":[{"type":"Ready","status":"True","reason":"Ready","message":"all"}]}`
	behind  = `{"observedGeneration":2,"latestRevision":"shop-v2","reachedRevision":"shop-v2","conditions":[{"type":"Ready","status":"True","reason":"Ready","message":"all"}]}`
)

func TestApplicationOf(t *testing.T) {
	a, err := ApplicationOf(application(holding), []control.Object{revision("shop-v10"), revision("shop-v2"), revision("other-v1")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(a.Revisions) != 2 || a.Revisions[0].Name != "shop-v2" || a.Revisions[1].Hash != "h-shop-v10" {
		t.Errorf("the revisions are %+v", a.Revisions)
	}
	if db, web := a.Components[0], a.Components[1]; !db.Planned || *db.Reached != 3 || db.Replicas != 3 || web.Workload != "web-v2" || web.Replicas != 1 || web.Reached != nil {
		t.Errorf("the components are %+v, %+v", db, web)
	}
	text := DescribeApplication(a, time.Now(), Style{})
	for _, want := range []string{"db (by the plan)  StatefulSet db     3     3", "web               Deployment web-v2  1     –", "Ready      False   HeldByPartition", "newest", "reached"} {
		if !strings.Contains(text, want) {
			t.Errorf("describe does not say %q:\n%s", want, text)
		}
	}
}

func TestApplicationExit(t *testing.T) {
	paused := &Rollout{Conditions: []Condition{{Type: "Paused", Status: "True"}}}
	failed := &Rollout{Position: rollout.Position{State: rollout.Failed}}
	done := &Rollout{Conditions: []Condition{{Type: "Ready", Status: "True"}}}
	for _, test := range []struct {
		name, status string
		rollout      *Rollout
		want         int
	}{
		{"settled", settled, done, ExitDone},
		{"without a plan", settled, nil, ExitDone},
		{"an older spec", behind, nil, ExitActive},
		{"not observed", "", nil, ExitActive},
		{"its Rollout holds", holding, paused, ExitRemedy},
		{"its Rollout has failed", holding, failed, ExitFailed},
		{"its Rollout has not seen it yet", holding, done, ExitActive},
	} {
		a, err := ApplicationOf(application(test.status), nil, test.rollout)
		if err != nil || a.Exit() != test.want {
			t.Errorf("%s: %d, %v, expected %d", test.name, a.Exit(), err, test.want)
		}
	}
}

// Other programs have objects of the kind Application.
func TestIsApplication(t *testing.T) {
	foreign := control.Object{Ref: control.Ref{Kind: ApplicationKind}, Spec: []byte(`{"source":{"repoURL":"x"}}`)}
	if IsApplication(foreign) || !IsApplication(application("")) {
		t.Error("only objects with components are Applications of Pawl")
	}
	if s := StateOf(application(holding)); s.State != "shop-v10" || s.Line() != "HeldByPartition batch 1 may run" {
		t.Errorf("the state is %+v", s)
	}
}
