// Package postgres makes PostgreSQL an engine of the shared-storage operator.
// Readers are streaming replicas that stand in for a shared volume.
//
//	operator ─ port.Engine  ─ Engine  ─┐ HTTP          ┌─ pawl instance (Agent) ─ postgres
//	         ─ port.Manager ─ Manager ─┤               ├─ pawl instance (Agent) ─ postgres
//	                                   └─ pawl cluster-manager (Watcher) ─ HTTP ─┘
//
// An Agent owns one data directory and the postgres process in it. What it was
// told is in its record, on disk before it answers; a loop brings the engine
// there. Who may write is in the grant record (Grants). A writer holds a lease
// on it, and three things end it before the lease does: the agent, which renews
// it; the guard, a small process that outlives the agent; and in strict
// durability the readers, which stop receiving before another is promoted.
//
// The Watcher is the cluster manager: it asks every agent once a second, keeps
// the list of readers of which one has each answered commit, and fails over.
package postgres
