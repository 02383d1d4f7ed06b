package foundationdb_test

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pawl-dev/pawl/operator/foundationdb/kube"
	"github.com/pawl-dev/pawl/test/controlplane"
	"github.com/pawl-dev/pawl/test/deploy"
)

// ran are the tests that have used the operator's role.
var ran sync.Map

// All that the tests before have done was done under the operator's role: each of its rights was needed, and nothing was
// refused but what they wanted to see refused.
func TestTheRole(t *testing.T) {
	for _, name := range []string{"TestObjectsOfEachKind", "TestObjectsLists", "TestObjectsRefused", "TestSaveStatus", "TestNodesOfObjects"} {
		if _, has := ran.Load(name); !has {
			t.Skipf("%s has not run", name)
		}
	}
	requests, err := suite.Plane(t).Requests()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range deploy.Refused(requests) {
		if r.Object.Resource == "configmaps" && (r.Verb == "list" || r.Verb == "delete" || r.Object.Name == "m") || r.Object.Resource == "pods" && r.Verb == "create" {
			continue // TestObjectsOfEachKind, TestObjectsLists, TestObjectsRefused
		}
		if r.Object.Namespace == "pawl-system" {
			continue // the operator of TestChart, when the chart is uninstalled: its role goes before its pod
		}
		t.Errorf("refused: %s", r)
	}
	var granted []deploy.Right
	for _, rule := range append(kube.Rules(), kube.NodeRules()...) {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				granted = append(granted, deploy.Right{Group: rule.APIGroups[0], Resource: resource, Verb: verb})
			}
		}
	}
	unused := slices.DeleteFunc(deploy.Unused(granted, requests), func(r deploy.Right) bool {
		finalizers := strings.HasSuffix(r.Resource, "/finalizers") // admission asks for it: TestObjectsRefused
		return finalizers || r.Verb == "list" && slices.ContainsFunc(requests, streams(r))
	})
	for _, r := range unused {
		t.Errorf("not needed: %s", r)
	}
}

// streams reports a watch that begins with a list. An API server that cannot do so is asked for the list.
func streams(r deploy.Right) func(controlplane.Request) bool {
	return func(q controlplane.Request) bool {
		return q.Verb == "watch" && q.Object.Group == r.Group && q.Object.Resource == r.Resource && strings.Contains(q.URI, "sendInitialEvents=true")
	}
}
