package workload

import (
	"encoding/json"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/pawl-dev/pawl/rollout"
)

var updateStrategy = []string{"spec", "updateStrategy"}

// readStrategy is the update strategy as JSON, for the end of a rollout to restore.
func readStrategy(o map[string]any) string {
	strategy, ok, err := unstructured.NestedMap(o, updateStrategy...)
	if !ok || err != nil {
		return "{}"
	}
	text, err := json.Marshal(strategy)
	if err != nil {
		return "{}"
	}
	return string(text)
}

func strategyOf(text string) (map[string]any, error) {
	var strategy map[string]any
	if err := yaml.Unmarshal([]byte(text), &strategy); err != nil { // numbers are integers
		return nil, rollout.UnsupportedWorkload.Errorf("the recorded update strategy: %w", err)
	}
	return strategy, nil
}

// first is the one term of a priorityStrategy that names pods: those move before the others.
type first struct {
	WeightPriority []struct {
		MatchSelector rollout.Selector `json:"matchSelector"`
	} `json:"weightPriority"`
	OrderPriority []any `json:"orderPriority"`
}

// readPriority returns the pods that move first if a rollout has named them, and whether the user has
// given the workload an order.
func (l layout) readPriority(o *unstructured.Unstructured) (pods []string, ordered bool) {
	if l.priority == nil {
		return nil, false
	}
	raw, ok, err := unstructured.NestedMap(o.Object, l.priority...)
	if !ok || err != nil || len(raw) == 0 {
		return nil, false
	}
	text, err := json.Marshal(raw)
	if err != nil {
		return nil, true
	}
	var p first
	if err := json.Unmarshal(text, &p); err != nil || len(p.WeightPriority) != 1 || len(p.OrderPriority) > 0 {
		return nil, true
	}
	s := p.WeightPriority[0].MatchSelector
	if len(s.MatchLabels) > 0 || len(s.MatchExpressions) != 1 || s.MatchExpressions[0].Key != l.instance || s.MatchExpressions[0].Operator != rollout.In {
		return nil, true
	}
	for _, value := range s.MatchExpressions[0].Values {
		if !l.byName {
			value = o.GetName() + "-" + value
		}
		pods = append(pods, value)
	}
	return pods, true
}

// editPriority names the pods that move first, or puts the order of the user back.
func (l layout) editPriority(o *unstructured.Unstructured, a rollout.Act) error {
	if l.priority == nil {
		return rollout.FieldNotHonoured.Errorf("%s moves pods by their ordinals", l.kind)
	}
	if a.First == nil {
		return l.restorePriority(o, a.Strategy)
	}
	var values []any
	for _, pod := range a.First {
		if !l.byName {
			pod = strings.TrimPrefix(pod, o.GetName()+"-")
		}
		values = append(values, pod)
	}
	return unstructured.SetNestedMap(o.Object, map[string]any{"weightPriority": []any{map[string]any{
		"weight":        int64(100),
		"matchSelector": map[string]any{"matchExpressions": []any{map[string]any{"key": l.instance, "operator": string(rollout.In), "values": values}}},
	}}}, l.priority...)
}

func (l layout) restorePriority(o *unstructured.Unstructured, recorded string) error {
	strategy, err := strategyOf(recorded)
	if err != nil {
		return err
	}
	was, ok, err := unstructured.NestedMap(strategy, l.priority[len(updateStrategy):]...)
	switch {
	case err != nil:
		return rollout.UnsupportedWorkload.Errorf("the recorded update strategy: %w", err)
	case !ok:
		unstructured.RemoveNestedField(o.Object, l.priority...)
		return nil
	}
	return unstructured.SetNestedMap(o.Object, was, l.priority...)
}
