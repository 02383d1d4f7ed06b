// Package node runs one real Kubernetes node on this machine: containerd and runc, kubelet,
// kube-proxy and CoreDNS, against the real etcd, kube-apiserver, kube-controller-manager and
// kube-scheduler. Pods have a network and Services have routes; volumes are folders.
//
//	make real-cluster       # start it, and print KUBECONFIG
//	make real-cluster-down  # stop it
//	make test-node          # start it, run the tests of package realcluster, stop it
//
// It needs root, cgroups and Debian's containerd, runc, containernetworking-plugins,
// nftables, iproute2 and mmdebstrap. Kubelet, kube-proxy, kubeadm and CoreDNS are built from
// the module proxy (test/nodebin) into bin/node; kubeadm only writes the certificates and
// kubeconfigs. No registry is asked: this package writes the images of the sandbox, of
// CoreDNS and of Pawl from programs, and that of PostgreSQL from Debian's packages.
//
// A machine has one node: bridge, addresses and Dir are fixed. The programs outlive the
// process that starts them. Stop finds them again by a variable in their environment, and
// removes what they have made: processes, mounts, the bridge, cgroups, rules of nftables and
// Dir. It also sets back the settings of the kernel that Start and kubelet change.
package node
