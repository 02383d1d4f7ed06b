package foundationdb

import "github.com/pawl-dev/pawl/fault"

var (
	// SpecInvalid says that a spec contradicts itself or FoundationDB.
	SpecInvalid = fault.Declare(fault.Kind{
		Code: "FDB_SPEC_INVALID", Class: fault.Invalid,
		Title:  "the spec of the FoundationDB object is not valid",
		Remedy: "Correct the fields that the message names. Until then the pods of existing groups are kept, and nothing else is changed.",
		Guide:  "foundationdb.md#if-it-does-not-go-on",
	})
	// TemplateForbidden says that a pod template has what the operator's owner forbids: TemplateLimits.
	TemplateForbidden = fault.Declare(fault.Kind{
		Code: "FDB_TEMPLATE_FORBIDDEN", Class: fault.Invalid,
		Title:  "a pod template has what the operator's owner forbids",
		Remedy: "Remove the fields that the message names from the pod template, or ask the operator's owner to allow them (the flags --fdb-allow-… and --fdb-allowed-…).",
		Guide:  "foundationdb.md#install",
	})
)
