package foundationdb

import "github.com/pawl-dev/pawl/fault"

// The faults of the verbs.
var (
	// Unreachable says that the database could not be asked through a pod.
	Unreachable = fault.Declare(fault.Kind{
		Code: "FDB_POD_UNREACHABLE", Class: fault.Blocked,
		Title:  "no fdbcli could be run in a pod of the cluster",
		Remedy: "See with kubectl get pods whether a pod of the cluster runs, and whether you may create pods/exec; or give the status document with --status-file.",
	})
	// Unconfirmed says that a verb changes something, and nobody could be asked.
	Unconfirmed = fault.Declare(fault.Kind{
		Code: "FDB_UNCONFIRMED", Class: fault.Invalid,
		Title:  "the verb changes a cluster, and nobody has confirmed it",
		Remedy: "Look at what it would do with --dry-run, then call it on a terminal, or with -y.",
	})
	// PlanDiffers says that the plan that was approved is not the one that the cluster has.
	PlanDiffers = fault.Declare(fault.Kind{
		Code: "FDB_PLAN_DIFFERS", Class: fault.Blocked,
		Title:  "the cluster has another plan than the one that was approved",
		Remedy: "Look at pawl fdb plan, and approve the hash that it shows.",
	})
	// GateClosed says that a repair would disturb the database now.
	GateClosed = fault.Declare(fault.Kind{
		Code: "FDB_GATE_CLOSED", Class: fault.Blocked,
		Title:  "the database does not admit the change now",
		Remedy: "Wait until the gate that the message names is open, or pass over it with --force.",
	})
	// CommandRefused says that the database has refused a command, or that its answer is not understood.
	CommandRefused = fault.Declare(fault.Kind{
		Code: "FDB_COMMAND_REFUSED", Class: fault.Blocked,
		Title:  "the database has refused a command, or it is not known whether it was carried out",
		Remedy: "Read the message, look at pawl fdb analyze, and call the verb again.",
	})
)
