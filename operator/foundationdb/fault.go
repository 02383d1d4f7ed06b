package foundationdb

import "github.com/pawl-dev/pawl/fault"

// SpecInvalid says that a spec contradicts itself or FoundationDB.
var SpecInvalid = fault.Declare(fault.Kind{
	Code: "FDB_SPEC_INVALID", Class: fault.Invalid,
	Title:  "the spec of the FoundationDB object is not valid",
	Remedy: "Correct the fields that the message names. Until then the pods of existing groups are kept, and nothing else is changed.",
})
