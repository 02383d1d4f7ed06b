package rollout_test

import (
	"encoding/json"
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

// verdict is what tools say to a situation: kstatus, and Argo CD with the script of the guide.
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
			if is, message := judge(t, scripts[o.GetKind()], o.Object); is != want.argo || message == "" {
				t.Errorf("%s, %s: Argo CD says %s (%s), expected %s", kind, name, is, message, want.argo)
			}
		}
	}
}

// TestJustMade: a Rollout and an Application that no operator has seen are not taken for done.
func TestJustMade(t *testing.T) {
	t.Parallel()
	w := newQuietWorld(t)
	for kind, spec := range map[string]string{
		"Rollout":     `{"targetRef":{"apiVersion":"apps/v1","kind":"StatefulSet","name":"db"},"rolloutPlan":{}}`,
		"Application": `{"components":[{"name":"db","workload":{"apiVersion":"apps/v1","kind":"StatefulSet","spec":{}}}]}`,
	} {
		o := &unstructured.Unstructured{}
		if err := json.Unmarshal([]byte(`{"apiVersion":"pawl.dev/v1alpha1","kind":"`+kind+`","metadata":{"name":"new","namespace":"`+w.namespace+`"},"spec":`+spec+`}`), o); err != nil {
			t.Fatal(err)
		}
		if err := w.client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		w.get("new", o)
		if got, err := status.Compute(o); err != nil || got.Status != status.InProgressStatus {
			t.Errorf("kstatus says of a %s with status %v: %+v (%v)", kind, o.Object["status"], got, err)
		}
	}
}

// healthScripts are the scripts that the guide gives for Argo CD, by kind.
func healthScripts(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "guide", "rollouts.md"))
	if err != nil {
		t.Fatal(err)
	}
	scripts := map[string]string{}
	for _, block := range fenced.FindAllStringSubmatch(string(text), -1) {
		var m struct {
			Metadata struct{ Name string }
			Data     map[string]string
		}
		if yaml.Unmarshal([]byte(block[1]), &m) != nil || m.Metadata.Name != "argocd-cm" {
			continue
		}
		for key, script := range m.Data {
			kind, ok := strings.CutPrefix(key, "resource.customizations.health.pawl.dev_")
			if !ok {
				t.Errorf("Argo CD does not know the key %s", key)
			}
			scripts[kind] = script
		}
	}
	if scripts["Rollout"] == "" || scripts["Application"] == "" {
		t.Fatalf("the guide has scripts for %d kinds", len(scripts))
	}
	return scripts
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
