package restores

import "github.com/pawl-dev/pawl/fault"

// TagUsed says that the tag of a restore was used before.
var TagUsed = fault.Declare(fault.Kind{
	Code: "FDB_RESTORE_TAG_USED", Class: fault.Invalid,
	Title:  "the tag of the restore was used before",
	Remedy: "Leave spec.tag out, or make the restore anew with a tag that no other restore of the cluster has had.",
	Guide:  "foundationdb.md#back-up-and-restore",
})
