// Package foundationdb_test tests the kinds of FoundationDB, and the operator's objects and controllers, on a real
// API server.
package foundationdb_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/test/controlplane"
	"github.com/pawl-dev/pawl/test/controlplane/kubelet"
	"github.com/pawl-dev/pawl/test/deploy"
)

// No nodes: nothing runs here. The admission plugin asks for the right on finalizers, as OpenShift does.
var suite = controlplane.NewSuite(controlplane.Options{
	CRDs: []string{"../../deploy/crds", "../../deploy/fdb"}, Kubelet: kubelet.Options{Nodes: -1}, Audit: []string{user, account, deploy.Account},
	Admission: []string{"OwnerReferencesPermissionEnforcement"},
})

func TestMain(m *testing.M) { suite.Main(m) }

// kubectl runs kubectl with a text at its input, in a namespace or, for an empty one, in those of the text.
func kubectl(t *testing.T, namespace, input string, args ...string) (string, error) {
	t.Helper()
	plane := suite.Plane(t)
	if namespace != "" {
		args = append([]string{"-n", namespace}, args...)
	}
	cmd := exec.CommandContext(t.Context(), plane.Binaries.Kubectl, append([]string{"--kubeconfig", plane.Kubeconfig()}, args...)...)
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	return string(out), err
}
