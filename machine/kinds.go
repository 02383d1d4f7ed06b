package machine

import "github.com/pawl-dev/pawl/fault"

// The faults of machines.
var (
	Invalid = fault.Declare(fault.Kind{
		Code: "MACHINE_INVALID", Class: fault.Invalid,
		Title:  "the table of the machine is not valid",
		Remedy: "Fix what the message names, then load the machine again.",
	})
	StateUnknown = fault.Declare(fault.Kind{
		Code: "STATE_UNKNOWN", Class: fault.Blocked,
		Title:  "the object stands in a state that its machine does not have",
		Remedy: "Load a machine that has this state, or correct the position in the object's status.",
	})
	PositionInvalid = fault.Declare(fault.Kind{
		Code: "POSITION_INVALID", Class: fault.Blocked,
		Title:  "the position kept in the object cannot be read",
		Remedy: "Correct the position in the object's status; an object without one begins at the initial state.",
	})
	EventFailed = fault.Declare(fault.Kind{
		Code: "EVENT_FAILED", Class: fault.Blocked,
		Title:  "the condition or the parameters of an event could not be evaluated",
		Remedy: "Correct the expression or the values of the object that it reads. Events behind it are not looked at before that.",
	})
	EventLoops = fault.Declare(fault.Kind{
		Code: "EVENT_LOOPS", Class: fault.Blocked,
		Title:  "an event still holds after its work is done, again and again",
		Remedy: "Let the work change what the condition of the event reads (the action status writes facts), or correct the condition. It is repeated meanwhile, with a delay that grows.",
	})
	Unserved = fault.Declare(fault.Kind{
		Code: "MACHINE_NOT_FOUND", Class: fault.Invalid,
		Title:  "no machine for objects of this kind is loaded",
		Remedy: "Correct the kind, or load its machine's file: a server takes files with --machines.",
	})
	Unplanned = fault.Declare(fault.Kind{
		Code: "KIND_UNPLANNED", Class: fault.Invalid,
		Title:  "objects of this kind have no plan",
		Remedy: "Look at the object with pawl describe: its status says what is done with it.",
	})
	SpecUnfit = fault.Declare(fault.Kind{
		Code: "SPEC_UNFIT", Class: fault.Invalid,
		Title:  "the spec does not fit the schema that its machine declares",
		Remedy: "Correct the fields that the message names. What a spec may hold stands in the machine's file, under the key spec.",
	})
	NotHeld = fault.Declare(fault.Kind{
		Code: "NOT_HELD", Class: fault.Invalid,
		Title:  "the object does not wait for someone to send it on",
		Remedy: "Look at the object's state. If its run is paused, resume the run.",
	})
)
