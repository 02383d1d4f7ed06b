// Package application_test runs the operators of Applications and of Rollouts against a real control
// plane: the workloads are those of kube-controller-manager, the pods are on paper.
package application_test

import (
	"flag"
	"testing"

	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/test/controlplane"
	"github.com/pawl-dev/pawl/test/controlplane/kubelet"
	"github.com/pawl-dev/pawl/test/rollouttest"
)

var suite = controlplane.NewSuite(controlplane.Options{CRDs: []string{"../../deploy/crds"}, Kubelet: kubelet.Options{Nodes: 2}})

func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given { // worlds wait most of the time
		_ = flag.Set("test.parallel", "8")
	}
	suite.Main(m)
}

// newWorld is a namespace with the operators.
func newWorld(t *testing.T) *rollouttest.World {
	t.Helper()
	t.Parallel()
	w := newQuietWorld(t)
	w.Start(w.Config)
	return w
}

// newQuietWorld is a namespace without an operator.
func newQuietWorld(t *testing.T) *rollouttest.World {
	t.Helper()
	w := rollouttest.New(t, suite.Plane(t))
	w.Applications = true
	return w
}

func stateful(name, image string, replicas int) api.ApplicationComponent {
	return rollouttest.Component("StatefulSet", name, image, replicas)
}
