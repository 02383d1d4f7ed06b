package cli

import (
	"github.com/pawl-dev/pawl/cmd/pawl/internal/library"
	"github.com/pawl-dev/pawl/fault"
)

// FileWrong is the fault of an invalid input file.
var FileWrong = library.FileWrong

// The faults of the command line.
var (
	Usage = fault.Declare(fault.Kind{
		Code: "USAGE_WRONG", Class: fault.Invalid,
		Title:  "the command line does not fit",
		Remedy: "Look at the verb's --help, correct the command and run it again.",
	})
	ConfigWrong = fault.Declare(fault.Kind{
		Code: "CONFIG_WRONG", Class: fault.Invalid,
		Title:  "the configuration does not fit",
		Remedy: "Correct the line that the message names. The keys are the names of flags: see pawl VERB --help.",
	})
	StoreBusy = fault.Declare(fault.Kind{
		Code: "STORE_BUSY", Class: fault.Blocked,
		Title:  "another process works on the store",
		Remedy: "Stop the server or the run that works on it, then run the command again.",
	})
	NotDefined = fault.Declare(fault.Kind{
		Code: "FLOW_DIFFERS", Class: fault.Blocked,
		Title:  "the server does not have the definition of the flow that the file holds",
		Remedy: "Load the file where the server finds its flows (--flows), or start the flow by its name.",
	})
	LocalOnly = fault.Declare(fault.Kind{
		Code: "LOCAL_ONLY", Class: fault.Invalid,
		Title:  "the verb needs the store itself",
		Remedy: "Run the command on the machine of the store, with --dsn or --store sqlite instead of --server, and without PAWL_SERVER.",
	})
)
