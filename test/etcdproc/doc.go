// Package etcdproc runs real etcd processes for tests and verifies that no
// acknowledged write is lost while they stop and start.
//
//	cluster := etcdproc.Start(t, 3)
//	writer := etcdproc.StartWriter(t, cluster.Endpoints()...)
//	cluster.Member("m1").Kill()          // SIGKILL
//	cluster.Member("m1").Start(t)        // the same data, the same ports
//	cluster.WaitReady(t)
//	writer.Stop().NoneLost(t, cluster.Endpoints()...)
//
// The Writer does not depend on the Cluster: it works on any endpoints, for
// example those of a cluster that Pawl has created.
package etcdproc
