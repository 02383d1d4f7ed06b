package runtype

import "github.com/pawl-dev/pawl/fault"

// The faults of values that the engine and the stores refuse.
var (
	InputInvalid = fault.Declare(fault.Kind{Code: "INPUT_INVALID", Class: fault.Invalid, Title: "the input does not fit",
		Remedy: "Correct the input as the message says and send the request again."})
	OutputTooLarge = fault.Declare(fault.Kind{Code: "OUTPUT_TOO_LARGE", Class: fault.Blocked, Title: "the value is larger than its limit",
		Remedy: "Keep the data elsewhere and store a reference to it, or raise the step's limit."})
)
