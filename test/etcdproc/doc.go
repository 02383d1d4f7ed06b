// Package etcdproc runs real etcd processes for tests and proves that no
// acknowledged write was lost while they came and went.
//
//	cluster := etcdproc.Start(t, 3)
//	writer := etcdproc.StartWriter(t, cluster.Endpoints()...)
//	cluster.Member("m1").Kill()          // SIGKILL
//	cluster.Member("m1").Start(t)        // the same data, the same ports
//	cluster.WaitReady(t)
//	writer.Stop().NoneLost(t, cluster.Endpoints()...)
//
// The Writer knows nothing of the Cluster: it works on any endpoints, for
// example those of a cluster that Pawl has made.
package etcdproc
