// Package controlplane starts a real Kubernetes control plane for tests: etcd,
// kube-apiserver, kube-controller-manager and kube-scheduler as processes, and
// a fake kubelet (package kubelet) that plays the nodes. `make controlplane`
// builds the programs into bin/, and so does the first Start that misses them;
// nothing is downloaded as a binary.
//
// A test package has one plane, which starts with the first test that asks for
// it (3 to 6 seconds, 620 MiB), and each test has a namespace of its own:
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
// With PAWL_TEST_CONTROLPLANE=skip such a test is skipped where the programs are
// missing, and says why.
//
// # Why one plane a package
//
// Test packages run side by side, want different CRDs, stop API servers and
// lose nodes. A plane that they shared would need someone to own it, and one
// package's faults would be the other's. Each plane has a slot of its own
// instead: a folder <temporary folder>/pawl-planes-<uid>/<slot> under a lock
// that ends with its owner, and the addresses 127.<slot>.0.0/16 for nodes and
// pods. What a killed owner left behind is ended by the next start: processes
// by the pid and start time that were recorded, and those that name the folder
// or carry its mark, then the folder itself.
//
// # What differs from a cluster
//
// There is no kube-proxy, DNS or CNI: a Service has no route, and as the API
// server takes no loopback address in an EndpointSlice, a Service of pods with
// such addresses has no endpoints. Pods are reached at status.podIP. The fake
// kubelet serves no requests: kubectl logs, exec and port-forward do not work.
// Logs are files (kubelet.Kubelet.LogFile; <Plane.Dir>/by-name for a person),
// and Kubelet.Exec runs a command in a container.
package controlplane
