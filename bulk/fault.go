package bulk

import "github.com/pawl-dev/pawl/fault"

// The faults of bulks.
var (
	Invalid = fault.Declare(fault.Kind{
		Code: "BULK_INVALID", Class: fault.Invalid,
		Title:  "the spec of the bulk cannot be used",
		Remedy: "Fix what the message names and ask again. The spec of a bulk that has begun stays as it is: order another one.",
	})
	Refused = fault.Declare(fault.Kind{
		Code: "BULK_REFUSED", Class: fault.Blocked,
		Title:  "some runs of the bulk have refused the request",
		Remedy: "`pawl describe bulk NAME` tells which runs, and why. The others have it. Follow the remedies of the refusals, and ask again: runs that have gone on are not selected any more.",
	})
)
