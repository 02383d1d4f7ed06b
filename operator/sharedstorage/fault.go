package sharedstorage

import (
	"strings"

	"github.com/pawl-dev/pawl/fault"
)

func declare(code fault.Code, class fault.Class, title, remedy string) *fault.Kind {
	return fault.Declare(fault.Kind{Code: code, Class: class, Title: title, Remedy: remedy, Guide: "shared-storage.md"})
}

// The faults of the operator. The faults of the adapters are in port.
var (
	TempInsIDNotFound = declare("TEMP_INS_ID_NOT_FOUND", fault.Blocked, "the temporary reader of a replacement is not there",
		"Nothing is lost: it is created again once by itself. If that fails too, resume the run from its first step.")
	TempRoForRwMetaLost = declare("TEMP_RO_FOR_RW_META_LOST", fault.Blocked, "the temporary reader that is to become the writer is not there",
		"The writer is untouched; the temporary reader is created again once by itself. If that fails too, resume the run from its first step.")
	RoMetaInvalid = declare("RO_META_INVALID", fault.Blocked, "two instances hold one place of the cluster",
		"The one that does not serve is removed once by itself. If that fails too, remove it by hand and resume.")
	ClassUnknown = declare("CLASS_UNKNOWN", fault.Invalid, "there is no class of this name",
		"Name one of the classes of the ConfigMap (or classes file) in spec.class.name, or add this one.")
	ClusterTypeUnsupported = declare("CLUSTER_TYPE_UNSUPPORTED", fault.Invalid, "clusters of this type are not served",
		"Use a cluster on shared storage: remove dbClusterType, or set it to share.")
	SpecInvalid = declare("SPEC_INVALID", fault.Invalid, "the spec asks for what cannot be",
		"Change the field of the spec that the message names.")
	InstanceUnknown = declare("INSTANCE_UNKNOWN", fault.Invalid, "the cluster has no instance of this id",
		"Name one of the ids in status.instances, and ask again.")
	InstanceIsWriter = declare("INSTANCE_IS_WRITER", fault.Invalid, "this instance is the writer",
		"Name a reader, or switch the writer first.")
	RequestIllegible = declare("REQUEST_ILLEGIBLE", fault.Invalid, "the request cannot be read",
		"Write it as the guide says: restart=cluster|ID, switch-writer=ID, migrate=ID|NODE, remove-reader=ID, rebuild=cluster|ID.")
	RecreateFailed = declare("RECREATE_FAILED", fault.Blocked, "an instance does not come up as the spec wants it now",
		"The message says why. The instance was made to run as before, on its data. Make room for it or mend the class, image or placement, and resume; or take the edit back and cancel with undo.")
	TopologyLocked = declare("TOPOLOGY_LOCKED", fault.Blocked, "somebody else holds the lock on the topology",
		"Wait until its end, or remove the annotation pawl.dev/topology-lock when its owner is gone; then resume.")
)

// Code reads a fault code as older clusters wrote it: …_MEAT_LOST is …_META_LOST.
func Code(text string) fault.Code {
	return fault.Code(strings.ReplaceAll(text, "_MEAT_LOST", "_META_LOST"))
}
