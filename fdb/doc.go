// Package fdb says what FoundationDB is: versions, addresses, the cluster file, the status document,
// the configuration and its stages, gates, coordinators, exclusions, the bytes of locks, and the
// texts of its tools.
//
//	live := *status.Cluster.Configuration     what the database has
//	for _, stage := range fdb.Stages(live, wanted) {
//		"configure " + stage.Text()             one command a stage, the last one reaches wanted
//	}
//
// All of it is pure: nothing here reads a clock, starts a process or knows Kubernetes. A fact about
// FoundationDB names the source file and the release tag in which it was read.
package fdb
