package stage

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pawl-dev/pawl/test/deploy"
)

// Edit changes an object of deploy/install.yaml, and says why it is not what it has to be.
type Edit func(*unstructured.Unstructured) error

// Install applies deploy/install.yaml with the changes that this kubelet needs, and waits until the
// operators run.
func (s *Stage) Install(ctx context.Context, edits ...Edit) error {
	s.Print("$ kubectl apply --server-side -f deploy/install.yaml")
	var wrong error
	err := deploy.Install(ctx, s.Plane, func(u *unstructured.Unstructured) bool {
		for _, edit := range edits {
			if err := edit(u); err != nil && wrong == nil {
				wrong = fmt.Errorf("deploy/install.yaml: %s %s: %w", u.GetKind(), u.GetName(), err)
			}
		}
		return true
	})
	if wrong != nil {
		return wrong
	}
	if err != nil {
		return err
	}
	return s.Kubectl(ctx, "-n", deploy.Namespace, "rollout", "status", "deployment/"+deploy.Name, "--timeout=3m")
}

// RolloutExec is what the value rollout.exec of the chart adds: probes and handovers of Rollouts may run
// commands in pods.
func RolloutExec(u *unstructured.Unstructured) error {
	if u.GetKind() == "ClusterRole" && u.GetName() == deploy.Name {
		rules, _, err := unstructured.NestedSlice(u.Object, "rules")
		if err != nil {
			return err
		}
		rules = append(rules, map[string]any{"apiGroups": []any{""}, "resources": []any{"pods/exec"}, "verbs": []any{"get", "create"}})
		return unstructured.SetNestedSlice(u.Object, rules, "rules")
	}
	return operator(u, func(container map[string]any) error {
		args, _ := container["args"].([]any)
		container["args"] = append(args, "--rollout-exec")
		return nil
	})
}

// operator changes the container of the operator's Deployment.
func operator(u *unstructured.Unstructured, change func(container map[string]any) error) error {
	if u.GetKind() != "Deployment" {
		return nil
	}
	containers, _, err := unstructured.NestedSlice(u.Object, "spec", "template", "spec", "containers")
	if err != nil {
		return err
	}
	container, ok := containers[0].(map[string]any)
	if !ok {
		return fmt.Errorf("its container is %v", containers[0])
	}
	if err := change(container); err != nil {
		return err
	}
	return unstructured.SetNestedSlice(u.Object, containers, "spec", "template", "spec", "containers")
}
