// Package argocd_test shows statuses that the operators write to the tools that people watch them with.
package argocd_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

// verdict is what tools say to a situation: kstatus, and Argo CD with the script of deploy/argocd.
type verdict struct {
	kstatus status.Status
	argo    string
}

var toolsSay = map[string]map[string]verdict{
	"rollout": {
		"just made":                                  {status.InProgressStatus, "Progressing"},
		"before the first observation":               {status.InProgressStatus, "Progressing"},
		"a spec that was not seen yet":               {status.InProgressStatus, "Progressing"},
		"a plan that cannot be":                      {status.FailedStatus, "Degraded"},
		"nothing to do":                              {status.CurrentStatus, "Healthy"},
		"pods are not ready":                         {status.InProgressStatus, "Progressing"},
		"past its deadline":                          {status.FailedStatus, "Degraded"},
		"an edit of the plan that is refused":        {status.InProgressStatus, "Progressing"},
		"an edit to a gate that cannot be evaluated": {status.FailedStatus, "Degraded"},
		"held by the partition":                      {status.InProgressStatus, "Suspended"},
		"paused by a person":                         {status.InProgressStatus, "Suspended"},
		"paused by a deadline":                       {status.FailedStatus, "Degraded"},
		"a workload of somebody else":                {status.FailedStatus, "Degraded"},
		"rolling back":                               {status.InProgressStatus, "Progressing"},
		"rolled back":                                {status.FailedStatus, "Degraded"},
		"rolled back, and held":                      {status.FailedStatus, "Degraded"},
		"a refused edit of the plan":                 {status.InProgressStatus, "Progressing"},
		"a Deployment that failed":                   {status.FailedStatus, "Degraded"},
		"a Deployment without a source":              {status.FailedStatus, "Degraded"},
		"a Deployment rolled back":                   {status.FailedStatus, "Degraded"},
		"succeeded":                                  {status.CurrentStatus, "Healthy"},
	},
	"application": {
		"just made":                      {status.InProgressStatus, "Progressing"},
		"before the first observation":   {status.InProgressStatus, "Progressing"},
		"a spec that was not seen yet":   {status.InProgressStatus, "Progressing"},
		"an Application that cannot be":  {status.FailedStatus, "Degraded"},
		"rolling":                        {status.InProgressStatus, "Progressing"},
		"held by the partition":          {status.InProgressStatus, "Suspended"},
		"paused by a person":             {status.InProgressStatus, "Suspended"},
		"paused by a deadline":           {status.FailedStatus, "Degraded"},
		"failed":                         {status.FailedStatus, "Degraded"},
		"the revision before has failed": {status.InProgressStatus, "Progressing"},
		"reached, pods are not ready":    {status.InProgressStatus, "Progressing"},
		"done":                           {status.CurrentStatus, "Healthy"},
	},
}

// TestToolsReadTheHealth: Flux's kstatus and Argo CD read the statuses that the operators write.
func TestToolsReadTheHealth(t *testing.T) {
	scripts := healthScripts(t)
	for kind, situations := range toolsSay {
		text, err := os.ReadFile(filepath.Join("..", "..", "operator", kind, "testdata", "health.json"))
		if err != nil {
			t.Fatal(err)
		}
		var objects map[string]any
		if err := utiljson.Unmarshal(text, &objects); err != nil { // whole numbers stay whole
			t.Fatal(err)
		}
		for name := range objects {
			if _, ok := situations[name]; !ok {
				t.Errorf("%s: nobody says what tools see in %q", kind, name)
			}
		}
		for name, want := range situations {
			object, ok := objects[name].(map[string]any)
			if !ok {
				t.Errorf("%s: there is no situation %q", kind, name)
				continue
			}
			o := unstructured.Unstructured{Object: object}
			got, err := status.Compute(&o)
			if err != nil || got.Status != want.kstatus {
				t.Errorf("%s, %s: kstatus says %+v (%v), expected %s", kind, name, got, err, want.kstatus)
			}
			if is, message := judge(t, scripts["pawl.dev_"+o.GetKind()], o.Object); is != want.argo || message == "" {
				t.Errorf("%s, %s: Argo CD says %s (%s), expected %s", kind, name, is, message, want.argo)
			}
		}
	}
}

// healthScripts are the scripts that deploy/argocd gives Argo CD, by group and kind.
func healthScripts(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "deploy", "argocd", "health.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var m struct{ Data map[string]string }
	if err := yaml.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	scripts := map[string]string{}
	for key, script := range m.Data {
		kind, ok := strings.CutPrefix(key, "resource.customizations.health.")
		if !ok {
			t.Errorf("Argo CD does not know the key %s", key)
		}
		scripts[kind] = script
	}
	return scripts
}

// TestEveryKindHasAHealth: each kind that people make has a script.
func TestEveryKindHasAHealth(t *testing.T) {
	scripts := healthScripts(t)
	files, err := filepath.Glob(filepath.Join("..", "..", "deploy", "*", "*_*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatal(err, files)
	}
	for _, file := range files {
		var crd struct {
			Spec struct {
				Group string
				Names struct{ Kind string }
			}
		}
		text, err := os.ReadFile(file)
		if err == nil {
			err = yaml.Unmarshal(text, &crd)
		}
		if err != nil {
			t.Fatal(file, err)
		}
		switch kind := crd.Spec.Names.Kind; {
		case kind == "RunHistory" || kind == "ApplicationRevision": // made by Pawl
		case scripts[crd.Spec.Group+"_"+kind] == "":
			t.Errorf("%s of %s has no script", kind, crd.Spec.Group)
		}
	}
}

// TestHealthOfOtherKinds: situations of kinds whose operators are not tested with these tools.
func TestHealthOfOtherKinds(t *testing.T) {
	const fdb, ssc = "apps.foundationdb.org_FoundationDBCluster", "pawl.dev_SharedStorageCluster"
	scripts := healthScripts(t)
	for name, c := range map[string]struct {
		kind, status, health, message string
	}{
		"a database that nobody has seen":         {ssc, `{}`, "Progressing", "the operator has not seen it yet"},
		"a database of the generation before":     {ssc, `{"observedGeneration":1,"conditions":[{"type":"Ready","status":"True","reason":"Writes","message":"it takes writes"}]}`, "Progressing", "the operator has not seen it yet"},
		"a database":                              {ssc, `{"observedGeneration":2,"conditions":[{"type":"Ready","status":"True","reason":"Writes","message":"it takes writes"},{"type":"Interrupted","status":"False"}]}`, "Healthy", "it takes writes"},
		"a database without writer":               {ssc, `{"observedGeneration":2,"conditions":[{"type":"Ready","status":"False","reason":"NoWriter","message":"no writer"}]}`, "Progressing", "no writer"},
		"a database whose run is paused":          {ssc, `{"observedGeneration":2,"conditions":[{"type":"Ready","status":"True","reason":"Writes","message":"it takes writes"},{"type":"Interrupted","status":"True","reason":"VolumeBusy","message":"volume data is busy"}]}`, "Degraded", "volume data is busy"},
		"a database that sleeps":                  {ssc, `{"observedGeneration":2,"conditions":[{"type":"Ready","status":"False","reason":"Hibernated","message":"no instance runs"}]}`, "Suspended", "no instance runs"},
		"a database of no class":                  {ssc, `{"observedGeneration":2,"conditions":[{"type":"Ready","status":"False","reason":"ClassUnknown","message":"class xl"}]}`, "Degraded", "class xl"},
		"a database that is refused":              {ssc, `{"observedGeneration":2,"conditions":[{"type":"Ready","status":"False","reason":"SpecInvalid","message":"spec.class: no such class"}]}`, "Degraded", "spec.class: no such class"},
		"a backup":                                {"pawl.dev_SharedStorageBackup", `{"state":"Completed","observedGeneration":2,"conditions":[{"type":"Ready","status":"True","reason":"Completed","message":"20261129F"}]}`, "Healthy", "20261129F"},
		"a backup that is interrupted":            {"pawl.dev_SharedStorageBackup", `{"state":"Interrupted","observedGeneration":2,"conditions":[{"type":"Ready","status":"False","reason":"RepositoryFull","message":"the repository is full"}]}`, "Degraded", "the repository is full"},
		"FoundationDB":                            {fdb, `{"observedGeneration":2,"conditions":[{"type":"Ready","status":"True","reason":"Available","message":"available"},{"type":"Reconciled","status":"True","reason":"AsDesired","message":"as its spec says"}]}`, "Healthy", "available"},
		"FoundationDB, of whose groups one fails": {fdb, `{"observedGeneration":2,"conditions":[{"type":"Ready","status":"True","reason":"Available","message":"available"},{"type":"Reconciled","status":"False","reason":"InProgress","message":"1 group"},{"type":"Degraded","status":"True","reason":"GroupsFail","message":"storage-1"}]}`, "Degraded", "storage-1"},
		"FoundationDB, under way":                 {fdb, `{"observedGeneration":2,"conditions":[{"type":"Ready","status":"True","reason":"Available","message":"available"},{"type":"Reconciled","status":"False","reason":"InProgress","message":"3 pods are made anew"}]}`, "Progressing", "3 pods are made anew"},
		"FoundationDB that is refused":            {fdb, `{"observedGeneration":2,"conditions":[{"type":"Ready","status":"True","reason":"Available","message":"available"},{"type":"Reconciled","status":"False","reason":"FdbSpecInvalid","message":"spec.version: 6.3 is not supported"}]}`, "Degraded", "spec.version: 6.3 is not supported"},
		"a run":                                   {"pawl.dev_Run", `{"phase":"Running","step":"migrate"}`, "Progressing", "Running at migrate"},
		"a run that nobody has seen":              {"pawl.dev_Run", `null`, "Progressing", "Queued"},
		"a run that is done":                      {"pawl.dev_Run", `{"phase":"Succeeded"}`, "Healthy", "Succeeded"},
		"a run that is paused by a fault":         {"pawl.dev_Run", `{"phase":"Paused","step":"migrate","fault":{"code":"STEP_FAILED","message":"exit status 1"}}`, "Degraded", "STEP_FAILED: exit status 1"},
		"a run that a person has paused":          {"pawl.dev_Run", `{"phase":"Paused","step":"migrate"}`, "Suspended", "Paused at migrate"},
		"a run that was cancelled":                {"pawl.dev_Run", `{"phase":"Cancelled"}`, "Degraded", "Cancelled"},
	} {
		var object map[string]any
		if err := utiljson.Unmarshal([]byte(`{"metadata":{"generation":2},"status":`+c.status+`}`), &object); err != nil {
			t.Fatal(name, err)
		}
		if health, message := judge(t, scripts[c.kind], object); health != c.health || message != c.message {
			t.Errorf("%s: Argo CD says %s (%s), expected %s (%s)", name, health, message, c.health, c.message)
		}
	}
}

// judge runs a health check as Argo CD does: the object is the global obj, and what it returns is a table.
func judge(t *testing.T, script string, object map[string]any) (health, message string) {
	t.Helper()
	l := lua.NewState()
	defer l.Close()
	l.SetGlobal("obj", toLua(l, object))
	if err := l.DoString(script); err != nil {
		t.Fatal(err)
	}
	table, ok := l.Get(-1).(*lua.LTable)
	if !ok {
		t.Fatalf("the script returns %v", l.Get(-1))
	}
	return lua.LVAsString(table.RawGetString("status")), lua.LVAsString(table.RawGetString("message"))
}

func toLua(l *lua.LState, value any) lua.LValue {
	switch v := value.(type) {
	case map[string]any:
		table := l.NewTable()
		for key, inner := range v {
			table.RawSetString(key, toLua(l, inner))
		}
		return table
	case []any:
		table := l.NewTable()
		for _, inner := range v {
			table.Append(toLua(l, inner))
		}
		return table
	case string:
		return lua.LString(v)
	case bool:
		return lua.LBool(v)
	case float64:
		return lua.LNumber(v)
	case int64:
		return lua.LNumber(v)
	}
	return lua.LNil
}
