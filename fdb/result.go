package fdb

import "fmt"

// ResultOutcome says what is known of a call's effect.
type ResultOutcome int

// The outcomes of a call. The zero value is Unknown.
const (
	Unknown ResultOutcome = iota // it may have happened: read the database again
	Ok                           // it has happened
	Refused                      // it has not happened; Reason says why
)

// String returns unknown, ok or refused.
func (o ResultOutcome) String() string {
	switch o {
	case Ok:
		return "ok"
	case Refused:
		return "refused"
	default:
		return "unknown"
	}
}

// MarshalText encodes the outcome as its name.
func (o ResultOutcome) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalText decodes the name of an outcome; anything else is unknown.
func (o *ResultOutcome) UnmarshalText(text []byte) error {
	*o = Unknown
	for _, outcome := range []ResultOutcome{Ok, Refused} {
		if string(text) == outcome.String() {
			*o = outcome
		}
	}
	return nil
}

// Reason is why a call was refused or why its effect is unknown, in CamelCase as a condition shows it.
type Reason string

// Result is what is known of the effect of a call.
type Result struct {
	Outcome ResultOutcome `json:"outcome"`
	Reason  Reason        `json:"reason,omitempty"`
	Text    string        `json:"text,omitempty"` // what the tool printed that decided; never a secret
}

// String returns the result on one line.
func (r Result) String() string {
	switch {
	case r.Reason == "":
		return r.Outcome.String()
	case r.Text == "":
		return fmt.Sprintf("%s: %s", r.Outcome, r.Reason)
	default:
		return fmt.Sprintf("%s: %s: %s", r.Outcome, r.Reason, r.Text)
	}
}

// Why a call was refused: nothing has changed.
const (
	ExclusionInProgress    Reason = "ExclusionInProgress" // data or roles are still there
	StillCoordinator       Reason = "StillCoordinator"
	TooLittleSpace         Reason = "TooLittleSpace" // what remains could not take the data
	SpaceUnknown           Reason = "SpaceUnknown"   // the status did not say how much space there is
	TargetInvalid          Reason = "TargetInvalid"  // no address or locality, or with flags
	ProcessUnknown         Reason = "ProcessUnknown" // no process has the address
	ProcessUnreachable     Reason = "ProcessUnreachable"
	DataDistributionOff    Reason = "DataDistributionOff"
	CoordinatorsTwice      Reason = "CoordinatorsTwice"
	CoordinatorsInvalid    Reason = "CoordinatorsInvalid"
	NotCoordinators        Reason = "NotCoordinators" // no server that can coordinate listens there
	CoordinatorUnreachable Reason = "CoordinatorUnreachable"
	DatabaseUnreachable    Reason = "DatabaseUnreachable"
	DatabaseStateBad       Reason = "DatabaseStateBad"
	TooFewMachines         Reason = "TooFewMachines"

	DatabaseExists Reason = "DatabaseExists"
	DatabaseLocked Reason = "DatabaseLocked"

	BackupNotRunning     Reason = "BackupNotRunning"
	BackupMissing        Reason = "BackupMissing"
	BackupEncrypted      Reason = "BackupEncrypted" // the key file is not that of the URL
	StoreRefused         Reason = "StoreRefused"    // the blob store did, or its URL is not understood
	CredentialsMissing   Reason = "CredentialsMissing"
	CredentialsRefused   Reason = "CredentialsRefused"
	ClockBehind          Reason = "ClockBehind" // the last backup began in the future
	RangeNotEmpty        Reason = "RangeNotEmpty"
	RestoreTagInUse      Reason = "RestoreTagInUse"
	VersionNotRestorable Reason = "VersionNotRestorable"
	ClusterFileInvalid   Reason = "ClusterFileInvalid"
	TLSMissing           Reason = "TLSMissing"
	CommandRefused       Reason = "CommandRefused" // the tool does not know the command or its words

	TransactionConflict Reason = "TransactionConflict" // again and again
	TransactionFailed   Reason = "TransactionFailed"   // before anything was written
	TransactionTooLarge Reason = "TransactionTooLarge" // more keys or longer values than a dialogue can carry
	DecisionFailed      Reason = "DecisionFailed"      // decide returned an error
)

// Why it is unknown what a call has done.
const (
	TimedOut         Reason = "TimedOut"
	ToolEnded        Reason = "ToolEnded" // by a signal
	NoAnswer         Reason = "NoAnswer"  // the tool said nothing that decides
	UnknownText      Reason = "UnknownText"
	UnknownExit      Reason = "UnknownExit" // text and exit code contradict each other
	ToolFailed       Reason = "ToolFailed"
	StatusMissing    Reason = "StatusMissing"
	KillSent         Reason = "KillSent" // the next status tells
	ProcessMissing   Reason = "ProcessMissing"
	NoServers        Reason = "NoServers"        // no server has the locality
	IncompleteAnswer Reason = "IncompleteAnswer" // not every target was told about
	CommitUnknown    Reason = "CommitUnknown"
)

// What is told beside an Ok.
const (
	NoChange       Reason = "NoChange"
	AlreadyRunning Reason = "AlreadyRunning"
	NotRunning     Reason = "NotRunning"
	NoAgents       Reason = "NoAgents" // the backup was accepted, and no agent answers
	Experimental   Reason = "Experimental"
)

// Why FoundationDB refuses a configuration (fdbcli/ConfigureCommand.actor.cpp at 7.1.67, 7.3.69 and
// 7.4.6).
const (
	RefusedConfiguration Reason = "RefusedConfiguration" // it would be invalid
	RefusedOptions       Reason = "RefusedOptions"       // unknown, conflicting or not complete
	RefusedMigration     Reason = "RefusedMigration"     // another engine while storage_migration_type is disabled
	RefusedEngine        Reason = "RefusedEngine"
	RefusedUnavailable   Reason = "RefusedUnavailable"
	RefusedStorage       Reason = "RefusedStorage"     // a storage server is in a data center that would be dropped
	RefusedReplication   Reason = "RefusedReplication" // a region is not fully replicated
	RefusedPriorities    Reason = "RefusedPriorities"  // two regions with a priority of 0 or more
	RefusedRegions       Reason = "RefusedRegions"     // regions and usable_regions at the same time
	RefusedWorkers       Reason = "RefusedWorkers"     // too few processes or zones
	RefusedRedundancy    Reason = "RefusedRedundancy"  // it does not go with regions
	RefusedDatacenter    Reason = "RefusedDatacenter"  // no storage server in one of the regions
)
