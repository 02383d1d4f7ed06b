// Package postgres makes PostgreSQL an engine of the shared-storage operator, in mode port.Copies:
// readers are streaming replicas, each with its own data.
//
//	operator ─ port.Engine  ─ Engine  ─┐ HTTP          ┌─ pawl instance (Agent) ─ postgres
//	         ─ port.Manager ─ Manager ─┤               ├─ pawl instance (Agent) ─ postgres
//	                                   └─ pawl cluster-manager (Watcher) ─ HTTP ─┘
//
// An Agent owns one data directory and the postgres process in it. It stores each order in its
// record on disk before it answers; a loop brings the engine to the state of the record. The grant
// record (package lease) says who may write. A writer holds a lease on it, and three things end its
// writing before the lease ends: the agent, which renews the lease; the guard, a small process
// that outlives the agent; and in strict durability the readers, which stop receiving before
// another one is promoted. A writer that cannot renew its lease goes on while the agents of all
// members promise not to take its place (package failsafe).
//
// The Watcher is the cluster manager: it polls every agent once a second, maintains the list of
// readers of which one has each answered commit, and fails over.
package postgres
