package foundationdb

import "github.com/pawl-dev/pawl/fault"

// The faults of the verbs.
var (
	// Unreachable says that the database could not be asked through a pod.
	Unreachable = fault.Declare(fault.Kind{
		Code: "FDB_POD_UNREACHABLE", Class: fault.Blocked,
		Title:  "no fdbcli could be run in a pod of the cluster",
		Remedy: "See with kubectl get pods whether a pod of the cluster runs, and whether you may create pods/exec; or give the status document with --status-file.",
		Guide:  "foundationdb.md#repair",
	})
	// PlanDiffers says that the plan that was approved is not the one that the cluster has.
	PlanDiffers = fault.Declare(fault.Kind{
		Code: "FDB_PLAN_DIFFERS", Class: fault.Blocked,
		Title:  "the cluster has another plan than the one that was approved",
		Remedy: "Look at pawl fdb plan, and approve the hash that it shows.",
		Guide:  "foundationdb.md#hold-and-approve",
	})
	// GateClosed says that a repair would disturb the database now.
	GateClosed = fault.Declare(fault.Kind{
		Code: "FDB_GATE_CLOSED", Class: fault.Blocked,
		Title:  "the database does not admit the change now",
		Remedy: "Wait until the gate that the message names is open, or pass over it with --force.",
		Guide:  "foundationdb.md#what-each-step-waits-for",
	})
	// RepairNotNeeded says that a cluster is not in the state that a repair is for.
	RepairNotNeeded = fault.Declare(fault.Kind{
		Code: "FDB_REPAIR_NOT_NEEDED", Class: fault.Blocked,
		Title:  "the cluster is not in the state that the repair is for",
		Remedy: "Look at pawl fdb analyze, which names the command that mends what is wrong.",
		Guide:  "foundationdb.md#repair",
	})
	// RepairUnfinished says that the database has not come as far as the next step of a repair needs.
	RepairUnfinished = fault.Declare(fault.Kind{
		Code: "FDB_REPAIR_UNFINISHED", Class: fault.Blocked,
		Title:  "the database has not come as far as the next step of the repair needs",
		Remedy: "Look at pawl fdb analyze, and call the verb again: it goes on where it was.",
		Guide:  "foundationdb.md#repair",
	})
	// DatabaseShared says that a repair would reach only a part of the servers of a database.
	DatabaseShared = fault.Declare(fault.Kind{
		Code: "FDB_DATABASE_SHARED", Class: fault.Blocked,
		Title:  "other objects hold parts of the database",
		Remedy: "Write the connection string of the message to each of these objects with pawl fdb update connection-string --pods.",
		Guide:  "foundationdb.md#repair",
	})
	// ConnectionForeign says that a connection string is that of another database.
	ConnectionForeign = fault.Declare(fault.Kind{
		Code: "FDB_CONNECTION_FOREIGN", Class: fault.Invalid,
		Title:  "the connection string is that of another database",
		Remedy: "Look whether the cluster is the one you mean; if the string is right nevertheless, give --force.",
		Guide:  "foundationdb.md#repair",
	})
	// CommandRefused says that the database has refused a command, or that its answer is not understood.
	CommandRefused = fault.Declare(fault.Kind{
		Code: "FDB_COMMAND_REFUSED", Class: fault.Blocked,
		Title:  "the database has refused a command, or it is not known whether it was carried out",
		Remedy: "Read the message, look at pawl fdb analyze, and call the verb again.",
		Guide:  "foundationdb.md#repair",
	})
)
