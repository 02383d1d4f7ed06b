// Package realcluster tests Pawl on a real Kubernetes cluster that is there: `make test-node`
// runs it on the node of package node, `make test-cluster KUBECONFIG=FILE` on a cluster of
// yours. It applies deploy/install.yaml, which stays, and makes the sample cluster of
// examples/sharedstorage in namespaces of its own, which it deletes.
//
// Clients write from a pod, through the Service and its name. The cluster must be able to pull
// postgres:15 and the image of Pawl (PAWL_TEST_IMAGE, ghcr.io/pawl-dev/pawl:0.1.0 by default),
// have a default class of volumes, and room for 1.5 processors and 3 GiB. The kubeconfig must
// have the rights of an administrator. Without PAWL_TEST_KUBECONFIG nothing is tested.
package realcluster
