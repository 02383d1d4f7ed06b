package application_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/test/rollouttest"
)

func deployment(image string, replicas int) api.ApplicationComponent {
	return rollouttest.Component("Deployment", "web", image, replicas)
}

// deployments are those of the namespace, with their sizes.
func deployments(w *rollouttest.World) string {
	w.Helper()
	var list appsv1.DeploymentList
	if err := w.Client.List(w.Context(), &list, client.InNamespace(w.Namespace)); err != nil {
		w.Fatal(err)
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
	w.Apply("shop", rollouttest.Plan(1), deployment("r1", 3))
	w.Reaches("shop", "shop-v1")
	if got := deployments(w); got != "web-v1=3" {
		t.Errorf("the Deployments are %s", got)
	}
	w.Apply("shop", held(1), deployment("r2", 3))
	w.Holds("shop", "shop-v2", 0)
	if got := deployments(w); got != "web-v1=2 web-v2=1" {
		t.Errorf("the Deployments are %s", got)
	}
	w.Expect("web", "r1=2 r2=1")
	w.Apply("shop", held(1), deployment("r3", 3)) // three Deployments: all but the target are the source
	w.Holds("shop", "shop-v3", 0)
	if got := deployments(w); got != "web-v1=1 web-v2=1 web-v3=1" {
		t.Errorf("the Deployments are %s", got)
	}
	w.Apply("shop", rollouttest.Plan(1), deployment("r3", 3))
	w.Reaches("shop", "shop-v3")
	w.Expect("web", "r3=3")
	w.Until("the old Deployments are deleted", func() bool { return deployments(w) == "web-v3=3" })

	w.Apply("shop", rollouttest.Plan(1), deployment("r3", 1)) // the same template keeps its Deployment
	w.Reaches("shop", "shop-v4")
	if got := deployments(w); got != "web-v3=1" {
		t.Errorf("the Deployments are %s", got)
	}
	w.Apply("shop", rollouttest.Plan(), deployment("r5", 3)) // both: a rollout, then a scale
	w.Reaches("shop", "shop-v5")
	w.Until("the old Deployment is deleted", func() bool { return deployments(w) == "web-v5=3" })
}

// TestDeploymentGoesBack: the earlier content while a rollout is under way grows the source again.
func TestDeploymentGoesBack(t *testing.T) {
	w := newWorld(t)
	w.Apply("shop", rollouttest.Plan(1), deployment("r1", 3))
	w.Reaches("shop", "shop-v1")
	w.Apply("shop", held(2), deployment("r2", 3))
	w.Holds("shop", "shop-v2", 0)
	w.Apply("shop", held(2), deployment("r1", 3))
	w.Reaches("shop", "shop-v3")
	w.Until("only the first Deployment is left", func() bool { return deployments(w) == "web-v1=3" })
	if events := w.History("shop"); !strings.Contains(events, "RollbackRequested") || strings.Count(events, "RollingModified") != 1 {
		t.Errorf("the history is %s", events)
	}
	w.Apply("shop", rollouttest.Plan(2), deployment("r4", 3))
	w.Reaches("shop", "shop-v4")
	w.Until("the fourth Deployment has all pods", func() bool { return deployments(w) == "web-v4=3" })
}
