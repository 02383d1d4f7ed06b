package workload

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestSelectorOfAll: the pods of several Deployments, by what their selectors have in common.
func TestSelectorOfAll(t *testing.T) {
	type plain = map[string]any
	of := func(labels plain, expressions ...any) *unstructured.Unstructured {
		selector := map[string]any{"matchLabels": labels}
		if expressions != nil {
			selector["matchExpressions"] = expressions
		}
		return &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"selector": selector}}}
	}
	exists := map[string]any{"key": "app", "operator": "Exists"}
	for name, c := range map[string]struct {
		target *unstructured.Unstructured
		others []*unstructured.Unstructured
		want   string
	}{
		"one":                {of(plain{"app": "web"}), nil, "app=web"},
		"another version":    {of(plain{"app": "web", "v": "2"}), []*unstructured.Unstructured{of(plain{"app": "web", "v": "1"})}, "app=web,v in (1,2)"},
		"the same":           {of(plain{"app": "web"}), []*unstructured.Unstructured{of(plain{"app": "web"})}, "app=web"},
		"another name":       {of(plain{"app": "b"}), []*unstructured.Unstructured{of(plain{"app": "a"})}, "app in (a,b)"},
		"a key of one":       {of(plain{"app": "web", "track": "new"}), []*unstructured.Unstructured{of(plain{"app": "web", "tier": "front"})}, "app=web"},
		"nothing in common":  {of(plain{"a": "1"}), []*unstructured.Unstructured{of(plain{"b": "1"})}, "a=1"},
		"expressions":        {of(plain{"app": "b"}), []*unstructured.Unstructured{of(plain{"app": "a"}, exists)}, "app=b"},
		"own expressions":    {of(plain{"app": "b"}, exists), []*unstructured.Unstructured{of(plain{"app": "a"})}, "app=b,app"},
		"three":              {of(plain{"v": "3"}), []*unstructured.Unstructured{of(plain{"v": "1"}), of(plain{"v": "2"})}, "v in (1,2,3)"},
		"three, one without": {of(plain{"v": "3", "app": "x"}), []*unstructured.Unstructured{of(plain{"v": "1"}), of(plain{"app": "x"})}, "app=x,v=3"},
	} {
		got, err := SelectorOfAll(c.target, c.others...)
		if err != nil || got.String() != c.want {
			t.Errorf("%s: %v, %v, expected %s", name, got, err, c.want)
		}
	}
}
