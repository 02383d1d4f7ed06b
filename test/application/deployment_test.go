package application_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
)

func deployment(image string, replicas int) api.ApplicationComponent {
	return component("Deployment", "web", image, replicas)
}

// deployments are those of the namespace, with their sizes.
func (w *world) deployments() string {
	w.t.Helper()
	var list appsv1.DeploymentList
	if err := w.client.List(w.t.Context(), &list, client.InNamespace(w.namespace)); err != nil {
		w.t.Fatal(err)
	}
	var all []string
	for _, d := range list.Items {
		all = append(all, d.Name+"="+strconv.Itoa(int(*d.Spec.Replicas)))
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// TestDeployments: each template is a Deployment of its own; the old one is deleted when it has no pods.
func TestDeployments(t *testing.T) {
	w := newWorld(t)
	w.apply("shop", batches(1), deployment("r1", 3))
	w.reaches("shop", "shop-v1")
	if got := w.deployments(); got != "web-v1=3" {
		t.Errorf("the Deployments are %s", got)
	}
	w.apply("shop", held(1), deployment("r2", 3))
	w.holds("shop", "shop-v2", 0)
	if got := w.deployments(); got != "web-v1=2 web-v2=1" {
		t.Errorf("the Deployments are %s", got)
	}
	w.expectImages("web", "r1 r1 r2")
	w.apply("shop", held(1), deployment("r3", 3)) // three Deployments: all but the target are the source
	w.holds("shop", "shop-v3", 0)
	if got := w.deployments(); got != "web-v1=1 web-v2=1 web-v3=1" {
		t.Errorf("the Deployments are %s", got)
	}
	w.apply("shop", batches(1), deployment("r3", 3))
	w.reaches("shop", "shop-v3")
	w.expectImages("web", "r3 r3 r3")
	w.until("the old Deployments are deleted", func() bool { return w.deployments() == "web-v3=3" })

	w.apply("shop", batches(1), deployment("r3", 1)) // the same template keeps its Deployment
	w.reaches("shop", "shop-v4")
	if got := w.deployments(); got != "web-v3=1" {
		t.Errorf("the Deployments are %s", got)
	}
	w.apply("shop", batches(), deployment("r5", 3)) // both: a rollout, then a scale
	w.reaches("shop", "shop-v5")
	w.until("the old Deployment is deleted", func() bool { return w.deployments() == "web-v5=3" })
}

// TestDeploymentGoesBack: the earlier content while a rollout is under way grows the source again.
func TestDeploymentGoesBack(t *testing.T) {
	w := newWorld(t)
	w.apply("shop", batches(1), deployment("r1", 3))
	w.reaches("shop", "shop-v1")
	w.apply("shop", held(2), deployment("r2", 3))
	w.holds("shop", "shop-v2", 0)
	w.apply("shop", held(2), deployment("r1", 3))
	w.reaches("shop", "shop-v3")
	w.until("only the first Deployment is left", func() bool { return w.deployments() == "web-v1=3" })
	if events := w.events("shop"); !strings.Contains(events, "RollbackRequested") || strings.Count(events, "RollingModified") != 1 {
		t.Errorf("the history is %s", events)
	}
	w.apply("shop", batches(2), deployment("r4", 3))
	w.reaches("shop", "shop-v4")
	w.until("the fourth Deployment has all pods", func() bool { return w.deployments() == "web-v4=3" })
}
