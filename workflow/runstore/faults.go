package runstore

import "github.com/pawl-dev/pawl/fault"

// The faults of stores.
var (
	QueueFull = fault.Declare(fault.Kind{Code: "QUEUE_FULL", Class: fault.Transient, Uncharged: true, Title: "the queue has reached its limit",
		Remedy: "Wait until earlier requests are carried out, or cancel some of them."})
	StoreUnavailable = fault.Declare(fault.Kind{Code: "STORE_UNAVAILABLE", Class: fault.Transient, Uncharged: true, Title: "the store does not answer",
		Remedy: "Check the database; a server continues by itself when the database answers again; repeat any other command."})
	StoreFull = fault.Declare(fault.Kind{Code: "STORE_FULL", Class: fault.Transient, Uncharged: true, Title: "the store has no space left or is read-only",
		Remedy: "Free space for the database; the work continues by itself."})
	StoreCorrupt = fault.Declare(fault.Kind{Code: "STORE_CORRUPT", Class: fault.Blocked, Title: "the store is damaged",
		Remedy: "Stop every writer. Check the store with pawl store check, save the readable data with pawl store export, and restore it with pawl store restore."})
)
