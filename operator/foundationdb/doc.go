// Package foundationdb judges FoundationDB clusters on Kubernetes: how many process groups there should be, what
// their configuration files say, what may be replaced, restarted or removed, and whether an object is as it
// should be.
//
//	wanted := foundationdb.Groups(cluster.Spec)              // 5 storage, 4 log, 9 stateless
//	files, err := foundationdb.ConfigMap(cluster)            // what their pods read
//	pod, err := foundationdb.Pod(cluster, id, facts)         // of one group; Claim and GroupService likewise
//	next := foundationdb.ReplaceFailed(cluster, facts, now)  // who has failed for too long
//
// All functions are pure. They know the kinds of kube/api/fdb/v1beta2 and no client. What needs no field of
// these kinds stands in package fdb.
package foundationdb
