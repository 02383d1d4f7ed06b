package workload

import (
	"encoding/json"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pawl-dev/pawl/rollout"
)

// object is a workload of a version with an update strategy, in JSON.
func object(t *testing.T, l layout, strategy string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"replicas": int64(4)}}}
	o.SetGroupVersionKind(l.resource)
	o.SetName("db")
	if strategy != "" {
		parsed, err := strategyOf(strategy)
		if err != nil {
			t.Fatal(err)
		}
		o.Object["spec"].(map[string]any)["updateStrategy"] = parsed
	}
	return o
}

// TestLayouts: what an act writes into the update strategy of each version, and what is read back.
func TestLayouts(t *testing.T) {
	const alpha, beta = "apps.kruise.io/v1alpha1", "apps.kruise.io/v1beta1"
	for _, test := range []struct {
		name, version, kind, before string
		act                         rollout.Act
		want                        string
	}{
		{"hold", alpha, "CloneSet", ``, rollout.Act{Partition: new(rollout.HoldAll), Paused: new(false)}, `{"partition":"100%","paused":false}`},
		{"hold", beta, "CloneSet", ``, rollout.Act{Partition: new(rollout.HoldAll), Paused: new(false)}, `{"rollingUpdate":{"partition":"100%","paused":false}}`},
		{"hold", beta, "StatefulSet", ``, rollout.Act{Partition: new(rollout.HoldAll), Paused: new(false)}, `{"rollingUpdate":{"partition":2147483647,"paused":false}}`},
		{"release", alpha, "CloneSet", `{"type":"InPlaceIfPossible","partition":"100%"}`, rollout.Act{Partition: new(3)}, `{"partition":3,"type":"InPlaceIfPossible"}`},
		{"release", beta, "CloneSet", `{"rollingUpdate":{"partition":"100%","podUpdatePolicy":"ReCreate"}}`, rollout.Act{Partition: new(3)}, `{"rollingUpdate":{"partition":3,"podUpdatePolicy":"ReCreate"}}`},
		{
			"first", alpha, "CloneSet", ``, rollout.Act{Partition: new(3), First: []string{"db-abc"}},
			`{"partition":3,"priorityStrategy":{"weightPriority":[{"matchSelector":{"matchExpressions":[{"key":"apps.kruise.io/cloneset-instance-id","operator":"In","values":["abc"]}]},"weight":100}]}}`,
		},
		{
			"first", beta, "CloneSet", ``, rollout.Act{Partition: new(3), First: []string{"db-abc"}},
			`{"rollingUpdate":{"partition":3,"priorityStrategy":{"weightPriority":[{"matchSelector":{"matchExpressions":[{"key":"apps.kruise.io/cloneset-instance-id","operator":"In","values":["abc"]}]},"weight":100}]}}}`,
		},
		{
			"first", beta, "StatefulSet", `{"rollingUpdate":{"unorderedUpdate":{}}}`, rollout.Act{Partition: new(3), First: []string{"db-1"}},
			`{"rollingUpdate":{"partition":3,"unorderedUpdate":{"priorityStrategy":{"weightPriority":[{"matchSelector":{"matchExpressions":[{"key":"statefulset.kubernetes.io/pod-name","operator":"In","values":["db-1"]}]},"weight":100}]}}}}`,
		},
		{
			"restore", beta, "CloneSet", `{"rollingUpdate":{"partition":0,"maxSurge":1,"priorityStrategy":{"weightPriority":[]}}}`,
			rollout.Act{Strategy: `{"rollingUpdate":{"partition":"100%","priorityStrategy":{"orderPriority":[{"orderedKey":"a"}]}}}`},
			`{"rollingUpdate":{"maxSurge":1,"partition":0,"priorityStrategy":{"orderPriority":[{"orderedKey":"a"}]}}}`,
		},
		{"restore", alpha, "CloneSet", `{"partition":0,"priorityStrategy":{"weightPriority":[]}}`, rollout.Act{Strategy: `{}`}, `{"partition":0}`},
		{"rolls", alpha, "CloneSet", `{"type":"OnDelete"}`, rollout.Act{UpdateType: rollout.RollingUpdate}, `{"type":"ReCreate"}`},
		{"rolls", beta, "CloneSet", `{"type":"OnDelete"}`, rollout.Act{UpdateType: rollout.RollingUpdate}, `{"type":"RollingUpdate"}`},
		{
			"on delete", beta, "StatefulSet", `{"type":"RollingUpdate","rollingUpdate":{"partition":2147483647,"podUpdatePolicy":"InPlaceOnly"}}`,
			rollout.Act{UpdateType: rollout.OnDelete, Partition: new(rollout.HoldAll)}, `{"type":"OnDelete"}`,
		},
		{
			"rolls again", beta, "StatefulSet", `{"type":"OnDelete"}`,
			rollout.Act{UpdateType: rollout.RollingUpdate, Partition: new(0), Strategy: `{"type":"RollingUpdate","rollingUpdate":{"partition":2147483647,"podUpdatePolicy":"InPlaceOnly"}}`},
			`{"rollingUpdate":{"partition":0,"podUpdatePolicy":"InPlaceOnly"},"type":"RollingUpdate"}`,
		},
		{
			"rolls again", "apps/v1", "StatefulSet", `{"type":"OnDelete"}`,
			rollout.Act{UpdateType: rollout.RollingUpdate, Strategy: `{"type":"RollingUpdate","rollingUpdate":{"partition":1,"maxUnavailable":2}}`},
			`{"rollingUpdate":{"maxUnavailable":2,"partition":2147483647},"type":"RollingUpdate"}`,
		},
	} {
		t.Run(test.version+" "+test.kind+" "+test.name, func(t *testing.T) {
			l, err := layoutOf(test.version, test.kind)
			if err != nil {
				t.Fatal(err)
			}
			o := object(t, l, test.before)
			if err := (&Workload{}).edit(t.Context(), o, l, test.act); err != nil {
				t.Fatal(err)
			}
			got, err := json.Marshal(o.Object["spec"].(map[string]any)["updateStrategy"])
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != test.want {
				t.Errorf("it is %s, expected %s", got, test.want)
			}
			if test.act.Partition != nil && test.act.UpdateType != rollout.OnDelete && l.readPartition(o.Object, 4) != *test.act.Partition {
				t.Errorf("the partition is read as %d", l.readPartition(o.Object, 4))
			}
			pods, ordered := l.readPriority(o)
			if test.act.First != nil && (len(pods) != 1 || pods[0] != test.act.First[0] || !ordered) {
				t.Errorf("the pods that go first are read as %v", pods)
			}
			if test.act.First == nil && pods != nil {
				t.Errorf("%v go first", pods)
			}
		})
	}
}

// TestPartitionOfCloneSet: percentages are rounded up, and one below 100 keeps no pod that is born later.
func TestPartitionOfCloneSet(t *testing.T) {
	for text, want := range map[string]int{
		`{"partition":"100%"}`: rollout.HoldAll, `{"partition":"150%"}`: rollout.HoldAll, `{"partition":"60%"}`: 3, `{"partition":"0%"}`: 0, `{"partition":2}`: 2, `{}`: 0,
	} {
		l, err := layoutOf("apps.kruise.io/v1alpha1", "CloneSet")
		if err != nil {
			t.Fatal(err)
		}
		if got := l.readPartition(object(t, l, text).Object, 4); got != want {
			t.Errorf("%s is read as %d, expected %d", text, got, want)
		}
	}
}
