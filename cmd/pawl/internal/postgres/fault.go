package postgres

import "github.com/pawl-dev/pawl/fault"

// The faults of the verbs.
var (
	// Elsewhere says that the processes of a standalone cluster are not on this machine, or not this user's.
	Elsewhere = fault.Declare(fault.Kind{
		Code: "PG_ELSEWHERE", Class: fault.Blocked,
		Title:  "the processes and files of the cluster cannot be reached from here",
		Remedy: "Call it on the machine of the server that serves the cluster, as the user who runs that server.",
		Guide:  "shared-storage.md#verbs",
	})
	// Unreachable says that no program could be run for an instance.
	Unreachable = fault.Declare(fault.Kind{
		Code: "PG_INSTANCE_UNREACHABLE", Class: fault.Blocked,
		Title:  "the instance could not be asked",
		Remedy: "See with pawl pg status why it is not healthy, and on Kubernetes whether you may create pods/exec; or name another one with --instance.",
		Guide:  "shared-storage.md#verbs",
	})
	// ProgramMissing says that a client program of PostgreSQL is not where it would be run.
	ProgramMissing = fault.Declare(fault.Kind{
		Code: "PG_PROGRAM_MISSING", Class: fault.Invalid,
		Title:  "the client program of PostgreSQL is not installed",
		Remedy: "Install it (apt-get install postgresql-client; pgbench is in postgresql-contrib or postgresql), or on Kubernetes use an image of the engine that has it.",
		Guide:  "shared-storage.md#verbs",
	})
	// NoWriter says that no instance takes writes.
	NoWriter = fault.Declare(fault.Kind{
		Code: "PG_NO_WRITER", Class: fault.Blocked,
		Title:  "the cluster has no instance of this role that is healthy",
		Remedy: "See with pawl pg status why not; --instance names one whatever its role.",
		Guide:  "shared-storage.md#verbs",
	})
	// RequestPending says that a request of the same kind waits to be accepted.
	RequestPending = fault.Declare(fault.Kind{
		Code: "PG_REQUEST_PENDING", Class: fault.Blocked,
		Title:  "another request of this kind is not accepted yet",
		Remedy: "Wait until the operator has accepted it, which takes seconds where one runs, and call the verb again.",
		Guide:  "shared-storage.md#verbs",
	})
)
