package workflow

import "github.com/pawl-dev/pawl/fault"

func declare(code fault.Code, class fault.Class, free bool, title, remedy string) *fault.Kind {
	return fault.Declare(fault.Kind{Code: code, Class: class, Uncharged: free, Title: title, Remedy: remedy})
}

// The faults of the engine.
var (
	Timeout = declare("TIMEOUT", fault.Transient, false, "the attempt took longer than its timeout",
		"Find out what held the step up, or raise its timeout, then resume.")
	HeartbeatLost = declare("HEARTBEAT_LOST", fault.Transient, false, "the step gave no sign of life for longer than its heartbeat",
		"Check the process or worker that does the work, then resume.")
	Crashed = declare("CRASHED", fault.Transient, false, "the process died at least twice in a row while the step ran, the last time with no other suspect",
		"Read the last output of the process, fix the step, then resume. If something else killed the process (memory, an operator, the machine), resume.")
	WaitExpired = declare("WAIT_EXPIRED", fault.Blocked, false, "the awaited event did not happen before the deadline",
		"Find out why it did not happen; resume to wait once more, or skip the step.")
	DeadlineEnded = declare("DEADLINE", fault.Blocked, false, "the flow took longer than its deadline",
		"Decide whether it may take longer: resume to continue, or cancel with undo.")
	PausedByPerson = declare("PAUSED", fault.Blocked, false, "a person paused the run",
		"Resume the run when you are ready.")
	CancelledByPerson = declare("CANCELLED", fault.Blocked, false, "a person stopped the run and kept what is done",
		"Resume the run to continue, or cancel with undo or drop to end it.")
	FlowChanged = declare("FLOW_CHANGED", fault.Blocked, false, "the definition of the flow is not the one the run was started with",
		"Compare the two with pawl diff, then resume with --on-definition old or new.")
	FlowMissing = declare("FLOW_MISSING", fault.Blocked, false, "the flow is not loaded, and its stored definition cannot be executed",
		"Load the flow again and resume, or cancel the run.")
	ActionMissing = declare("ACTION_MISSING", fault.Blocked, false, "the action the step uses is not registered",
		"Start the server with the action, or cancel the run.")
	OutputInvalid = declare("OUTPUT_INVALID", fault.Blocked, false, "the output of the step does not fit its schema",
		"Fix the step or its schema, then resume.")
	SecretMissing = declare("SECRET_MISSING", fault.Blocked, false, "a secret the step refers to cannot be read",
		"Create the secret or allow the server to read it, then resume.")
	ExpressionFailed = declare("EXPRESSION_FAILED", fault.Blocked, false, "an expression of the flow could not be evaluated",
		"Correct the values it reads, then resume; a corrected expression is used with resume --on-definition new.")
	StepStillRunning = declare("STEP_STILL_RUNNING", fault.Blocked, false, "an attempt of the step ignores its cancelled context",
		"Wait until it returns, or restart the worker that runs it.")
	ChildPaused = declare("CHILD_PAUSED", fault.Blocked, false, "the child run is paused",
		"Apply the remedy of the child's fault; resuming the parent resumes the child.")
	UndoFailed = declare("UNDO_FAILED", fault.Blocked, false, "a step could not be undone",
		"Fix the cause and resume to continue the undo, or cancel with --undo --give-up to leave the rest.")
	NoReturn = declare("NO_RETURN", fault.Invalid, false, "a finished step cannot be undone",
		"Let the run end, then change back; or cancel it with drop.")
	SkipRefused = declare("SKIP_REFUSED", fault.Invalid, false, "the step may not be skipped",
		"Give an output if later steps read one; add --force if the step is not skippable.")
	Rejected = declare("REJECTED", fault.Blocked, false, "an approver rejected the step",
		"Talk to the approver; resume to ask again, or cancel the run.")
	HealerExhausted = declare("HEALER_EXHAUSTED", fault.Blocked, false, "the healer of the fault gave up",
		"Apply the fault's remedy by hand, then resume.")
	Fenced = declare("FENCED", fault.Transient, true, "a newer worker owns the run",
		"Nothing to do: the newer worker continues the run.")
	RunNotFound = declare("RUN_NOT_FOUND", fault.Invalid, false, "there is no such run",
		"List the runs with pawl get.")
	RunFinished = declare("RUN_FINISHED", fault.Invalid, false, "the run has ended",
		"Start a new run.")
	RequestInvalid = declare("REQUEST_REFUSED", fault.Invalid, false, "the run's phase does not allow the request",
		"Look at the run with pawl describe and send a request that fits its phase.")
	FlowInvalid = declare("FLOW_INVALID", fault.Invalid, false, "the definition of the flow is not valid",
		"Correct the flow as the message says.")
	LimitsNotKept = declare("LIMITS_NOT_KEPT", fault.Invalid, false, "the store cannot limit how many runs or steps run at once or start in a window",
		"Use a store in SQLite or PostgreSQL, or remove atOnce from limits.runs of the flow: Run objects keep rates and limits of steps.")
	LimitNotHeld = declare("LIMIT_NOT_HELD", fault.Blocked, false, "a sub-flow needs a limit that its parent run does not have",
		"Add the limit to the flow of the parent, cancel the run, and start it again.")
	PriorityInvalid = declare("PRIORITY_INVALID", fault.Invalid, false, "the priority is out of range",
		"Give a priority between -1000 and 1000.")
	FlowUnknown = declare("FLOW_UNKNOWN", fault.Invalid, false, "no flow of this name is loaded",
		"List the flows with pawl get flows, or load the file that defines it.")
)
