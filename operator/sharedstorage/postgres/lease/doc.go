// Package lease says who may write to a PostgreSQL cluster, and ends a writer in time.
//
//	grant   {writer: blue-1, epoch: 4}             set by the operator or the cluster manager
//	lease   {holder: blue-1, epoch: 4, until: …}   taken and renewed by the agent of blue-1
//
//	k := lease.New(lease.Options{Name: "blue-1", Lease: 6 * time.Second, …})
//	go k.Run(ctx)           renews the lease; stops the engine before its end
//	err := k.Acquire(ctx, 4)  before the engine becomes a writer
//	k.EnsureGuard()         a small process that stops the engine if the agent is gone
//
// Grants is the record, GrantFile the one in a folder. A Holder that cannot renew its lease lets the
// writer go on while all members confirm (package failsafe).
package lease
