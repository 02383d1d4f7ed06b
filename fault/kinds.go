package fault

// The kinds that several packages return.
var (
	Unknown = Declare(Kind{
		Code: "UNKNOWN", Class: Transient,
		Title:  "an error that no fault declares",
		Remedy: "Read the message and the history, fix the cause, then resume.",
	})
	Panic = Declare(Kind{
		Code: "PANIC", Class: Transient,
		Title:  "the code panicked",
		Remedy: "Read the stack in the history and report the defect to the author of the code; resume once it is mended.",
	})
	APIUnavailable = Declare(Kind{
		Code: "API_UNAVAILABLE", Class: Transient, Uncharged: true,
		Title:  "the control plane does not answer",
		Remedy: "Wait: the work continues by itself when the control plane is back. Check its health if this lasts.",
	})
	ListenFailed = Declare(Kind{
		Code: "LISTEN_FAILED", Class: Blocked,
		Title:  "it cannot listen on this address",
		Remedy: "Stop the program that has the port (`ss -ltnp` shows it), or choose another address with the flag for it (--listen): HOST:PORT, with port 0 for a free one.",
	})
	WriteConflict = Declare(Kind{
		Code: "WRITE_CONFLICT", Class: Transient, Uncharged: true,
		Title:  "the record was changed by another client in between",
		Remedy: "Read the newest version and repeat the request.",
	})
)
