// Package controlplane starts a real Kubernetes control plane for tests: etcd,
// kube-apiserver, kube-controller-manager and kube-scheduler as processes, and
// a fake kubelet (package kubelet) that simulates the nodes. `make controlplane`
// builds the programs into bin/, and so does the first Start without them; no
// binary is downloaded.
//
// A test package has one plane, which starts with the first test that uses
// it (3 to 6 seconds, 620 MiB), and each test has its own namespace:
//
//	var suite = controlplane.NewSuite(controlplane.Options{CRDs: []string{"../../deploy/crd"}})
//
//	func TestMain(m *testing.M) { suite.Main(m) }
//
//	func TestRollout(t *testing.T) {
//		plane := suite.Plane(t)
//		namespace := plane.Namespace(t)
//		...
//	}
//
// With PAWL_TEST_CONTROLPLANE=skip such a test is skipped with a message if the
// programs are missing.
//
// # Why one plane a package
//
// Test packages run concurrently, need different CRDs, stop API servers and lose
// nodes. A shared plane would need an owner, and the faults of one package would
// affect the others. Instead each plane has its own slot: a folder
// <temporary folder>/pawl-planes-<uid>/<slot> with a lock that ends with its owner,
// and the addresses 127.<slot>.0.0/16 for nodes and pods. The next start removes the
// remains of a killed owner: processes with a recorded pid and start time, processes
// with the folder in their command line or environment, then the folder itself.
//
// # What differs from a cluster
//
// There is no kube-proxy, DNS or CNI: a Service has no route, and as the API
// server takes no loopback address in an EndpointSlice, a Service of pods with
// such addresses has no endpoints. Pods are reached at status.podIP. With
// Options.Endpoints kubectl logs and exec work for pods with processes; port-forward
// and attach do not. Logs are files too (kubelet.Kubelet.LogFile;
// <Plane.Dir>/by-name for a person), and Kubelet.Exec runs a command in a
// container. Package kubelet lists what its pods do and what they do not.
package controlplane
