// Package fdb says what FoundationDB is: versions, addresses, the cluster file, the status document,
// the configuration and its stages, gates, coordinators, exclusions, the bytes of locks, and the
// texts of its tools.
package fdb
