package port

import "github.com/pawl-dev/pawl/fault"

func declare(code fault.Code, class fault.Class, title, remedy string) *fault.Kind {
	return fault.Declare(fault.Kind{Code: code, Class: class, Title: title, Remedy: remedy, Guide: "shared-storage.md"})
}

// The faults that ports return.
var (
	PodLost = declare("POD_LOST", fault.Transient, "an instance is gone, or its node does not answer",
		"Check the node of the instance and bring it back, then resume the run.")
	PodUnscheduled = declare("POD_UNSCHEDULED", fault.Blocked, "no node takes the instance",
		"Free room on a node or add one; the run goes on by itself.")
	NoAvailableNode = declare("NO_AVAILABLE_NODE", fault.Blocked, "no node is ready for an instance",
		"Make a node ready and schedulable; the run goes on by itself.")
	TargetNodeUnavailable = declare("TARGET_NODE_UNAVAILABLE", fault.Invalid, "the node that was named cannot take the instance",
		"Name another node: one that is ready, schedulable and not the present one.")
	StartFailed = declare("DB_START_FAIL", fault.Blocked, "the database engine does not start",
		"Read the engine's log (its last lines are in the message), fix the cause and resume; a reader is rebuilt once by itself.")
	WriterUnhealthy = declare("WRITER_UNHEALTHY", fault.Blocked, "the writer does not answer",
		"Fix what the message names, if it names something. No data are lost while it comes back; otherwise a reader takes over. The run goes on when a writer is healthy.")
	ReplicaLag = declare("REPLICA_LAG", fault.Blocked, "a reader does not catch up with the writer",
		"Lessen the writes or give the reader a larger class; the run goes on below the limit.")
	SwitchRefused = declare("SWITCH_REFUSED", fault.Blocked, "this instance cannot become the writer now",
		"Choose a reader that streams and has caught up, and ask again.")
	FailoverUnsafe = declare("FAILOVER_UNSAFE", fault.Blocked, "a failover could lose rows that were answered",
		"Bring back the instances named in the message. Nothing is lost while one of them can come back, and the cluster goes on by itself when they have.")
	DataLost = declare("DATA_LOST", fault.Blocked, "the instances that had rows which were answered are gone for good",
		"If a copy of the volume of one of them exists, bring it back. Otherwise go on with what is left, by the request pawl.dev/rebuild=cluster: what only those instances had is lost. Where no instance with data is left, delete the cluster and create it again from a backup.")
	GrantLost = declare("GRANT_LOST", fault.Blocked, "the record of who may write is gone",
		"It is restored by itself, and no data are lost. Where the message names an instance, bring that one back: it may be the one that wrote last. Where it names a right, grant it.")
	TwoWriters = declare("TWO_WRITERS", fault.Blocked, "two engines accept writes",
		"The one with the lower epoch is fenced at once; compare the rows of both by the guide before it is rebuilt.")
	ManagerUnreachable = declare("MANAGER_UNREACHABLE", fault.Transient, "the cluster manager does not answer",
		"Check its process or pod; it is created again twice by itself.")
	StorageFailed = declare("STORAGE_FAILED", fault.Blocked, "the volume cannot be used",
		"Repair the volume or its claim, then resume.")
	ClaimRetained = declare("CLAIM_RETAINED", fault.Blocked, "an earlier cluster of this name has left its data",
		"To go on with these data, set spec.storage.adoptClaims to true; the run goes on by itself. To begin with an empty database, delete the claim that the message names, or take its label pawl.dev/cluster away, and resume.")
	StorageFull = declare("STORAGE_FULL", fault.Blocked, "the volume has no space left",
		"Raise storage.size, or remove data. The volume grows while the cluster is Running: where a run is paused by this, cancel it first, or resume it once there is space.")
	StorageShrink = declare("STORAGE_SHRINK", fault.Invalid, "a volume cannot shrink",
		"Ask for at least the size there is.")
	VersionUnsupported = declare("VERSION_UNSUPPORTED", fault.Invalid, "this version of the engine cannot be had, or not reached from the present one",
		"Choose a minor version of the same major version for which there is an image.")
	QuotaExceeded = declare("NAMESPACE_QUOTA_EXCEEDED", fault.Blocked, "the quota of the namespace leaves no room for the instances",
		"Raise the quota that the message names, or ask for fewer readers or a smaller class.")
	ParameterInvalid = declare("PARAMETER_INVALID", fault.Invalid, "the engine does not take this parameter",
		"Change or remove the parameter in spec.parameters.")
	CloneSourceMissing = declare("CLONE_SOURCE_MISSING", fault.Invalid, "the cluster to copy is not there or not ready",
		"Name a cluster of the same namespace that is ready, in spec.cloneFrom of a new cluster.")
)
