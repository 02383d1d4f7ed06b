package texts

// Files of the source that several texts stand in.
const (
	cliFile          = "fdbcli/fdbcli.actor.cpp"
	statusFile       = "fdbcli/StatusCommand.actor.cpp"
	excludeFile      = "fdbcli/ExcludeCommand.actor.cpp"
	specialKeysFile  = "fdbclient/SpecialKeySpace.actor.cpp"
	configureFile    = "fdbcli/ConfigureCommand.actor.cpp"
	coordinatorsFile = "fdbcli/CoordinatorsCommand.actor.cpp"
	managementFile   = "fdbclient/ManagementAPI.actor.cpp"
	killFile         = "fdbcli/KillCommand.actor.cpp"
	clusterFileFile  = "fdbclient/ClusterConnectionFile.actor.cpp"
	errorsFile       = "flow/error_definitions.h" // flow/include/flow/error_definitions.h from 7.2 on
)

// cliTexts are printed by fdbcli for any command, and by the commands that have few texts.
var cliTexts = []Text{
	{Tool: "fdbcli", Stderr: true, Format: "Specified timeout reached -- exiting...", Effect: Doubted, Reason: "TimedOut", Source: cliFile},
	{Tool: "fdbcli", Stderr: true, Format: "WARNING: Long delay (Ctrl-C to interrupt)", Source: cliFile},
	{Tool: "fdbcli", Stderr: true, Format: "WARNING: The cluster file is not up to date. Type 'status' for more information.", Source: statusFile},
	{Tool: "fdbcli", Format: "The database is available.", Source: statusFile},
	{Tool: "fdbcli", Format: "The database is available, but has issues (type 'status' for more information).", Source: statusFile},
	{Tool: "fdbcli", Format: "The database is unavailable; type `status' for more information.", Source: statusFile},
	{Tool: "fdbcli", Format: "Unable to determine database state, type 'status' for more information.", Source: statusFile},
	{Tool: "fdbcli", Format: "WARNING: the previous command failed, the remaining commands will not be executed.", Source: cliFile},
	{Tool: "fdbcli", Format: "Unable to connect to cluster from `%s'", Effect: Denied, Reason: "ClusterFileInvalid", Source: cliFile},
	{Tool: "fdbcli", Stderr: true, Format: "ERROR: %s", Args: []string{"fdbcli is not configured with TLS, but all of the coordinators have TLS addresses."}, Effect: Denied, Reason: "TLSMissing", Source: cliFile, Lines: []string{"7.3", "7.4"}},
	{Tool: "fdbcli", Stderr: true, Format: "ERROR: Unknown command `%s'. Try `help'?", Effect: Denied, Reason: "CommandRefused", Source: cliFile},
	{Tool: "fdbcli", Stderr: true, Format: "ERROR: Command failed to completely parse.", Effect: Denied, Reason: "CommandRefused", Source: cliFile},
	{Tool: "fdbcli", Stderr: true, Format: "ERROR: unexpected error %d while initializing the multiversion database", Effect: Doubted, Reason: "ToolFailed", Source: cliFile},
	{Tool: "fdbcli", Stderr: true, Format: "ERROR: %s (%d)", Args: []string{"Database is locked", "1038"}, ArgFile: errorsFile, Effect: Denied, Reason: "DatabaseLocked", Source: cliFile},
	{Tool: "fdbcli", Stderr: true, Format: "ERROR: %s (%d)", Effect: Doubted, Reason: "ToolFailed", Source: cliFile},
	{Tool: "fdbcli", Stderr: true, Format: "ERROR: Failed to get status json from the cluster", Effect: Doubted, Reason: "StatusMissing", Source: cliFile},
	{Tool: "fdbcli", Format: "Usage: %s", Effect: Denied, Reason: "CommandRefused", Source: "fdbcli/Util.actor.cpp"},
	{Commands: []string{"status"}, Format: "Could not retrieve status json.", Effect: Doubted, Reason: "StatusMissing", Source: statusFile},

	{Commands: []string{"times"}, Format: "Range limited to %d keys", Effect: Done, Source: cliFile},
	{Commands: []string{"times"}, Format: "`%s' is `%s'", Source: cliFile},
	{Commands: []string{"connection", "times"}, Format: "Option %s for %s", Args: []string{"enabled", "all transactions"}, Source: cliFile},
	{Commands: []string{"connection"}, Format: "`%s' is `%s'", Args: []string{`\xff/coordinators`}, ArgFile: "fdbclient/SystemData.cpp", Effect: Done, Source: cliFile},
	{Commands: []string{"connection"}, Format: "`%s': not found", Effect: Doubted, Reason: "NoAnswer", Source: cliFile},

	{Commands: []string{"include"}, Stderr: true, Format: "ERROR: '%s' is neither a valid network endpoint address nor a locality", Effect: Denied, Reason: "TargetInvalid", Source: "fdbcli/IncludeCommand.actor.cpp"},
	{Commands: []string{"include"}, Format: "        Do not include the `:tls' suffix when naming a process", Source: "fdbcli/IncludeCommand.actor.cpp"},

	{Commands: []string{"kill"}, Format: "No addresses can be killed.", Source: killFile},
	{Commands: []string{"kill"}, Format: "The following address can be killed:", Source: killFile},
	{Commands: []string{"kill"}, Format: "The following %zu addresses can be killed:", Source: killFile},
	{Commands: []string{"kill"}, Format: "Attempted to kill %zu processes", Effect: Doubted, Reason: "KillSent", Source: killFile},
	{Commands: []string{"kill"}, Stderr: true, Format: "ERROR: process `%s' not recognized.", Effect: Denied, Reason: "ProcessUnknown", Source: killFile},
	// rebootWorkerActor sends nothing before it has reached all (fdbclient/NativeAPI.actor.cpp at 7.3.69).
	{Commands: []string{"kill"}, Stderr: true, Format: "ERROR: failed to send requests to kill processes `%s', please run the `kill’ command again to fetch latest addresses.", Effect: Denied, Reason: "ProcessUnreachable", Source: killFile},
	{Commands: []string{"kill"}, Stderr: true, Format: "Error: %s; CLI version is too old, please update to use a newer version", Effect: Doubted, Reason: "ToolFailed", Source: "fdbcli/Util.actor.cpp"},

	{Commands: []string{"maintenance on", "maintenance off"}, Stderr: true, Format: "ERROR: Maintenance mode cannot be used while data distribution is disabled for storage server failures. Use 'datadistribution on' to reenable data distribution.", Effect: Denied, Reason: "DataDistributionOff", Source: "fdbcli/MaintenanceCommand.actor.cpp"},
}

// excludeTexts: the first group of the expression is the target.
var excludeTexts = []Text{
	{Commands: []string{"exclude"}, Format: "Waiting for state to be removed from all excluded servers. This may take a while.", Source: excludeFile},
	{Commands: []string{"exclude"}, Format: "(Interrupting this wait with CTRL+C will not cancel the data movement.)", Source: excludeFile},
	{Commands: []string{"exclude"}, Format: "  %s(Whole machine)  ---- Successfully excluded. It is now safe to remove this machine from the cluster.", Effect: Done, Source: excludeFile},
	{Commands: []string{"exclude"}, Format: "  %s  ---- Successfully excluded. It is now safe to remove this process from the cluster.", Effect: Done, Source: excludeFile},
	{Commands: []string{"exclude"}, Stderr: true, Format: "  %s(Whole machine)  ---- WARNING: Missing from cluster!Be sure that you excluded the correct machines before removing them from the cluster!", Effect: Done, Reason: "ProcessMissing", Source: excludeFile},
	{Commands: []string{"exclude"}, Stderr: true, Format: "  %s  ---- WARNING: Missing from cluster! Be sure that you excluded the correct processes before removing them from the cluster!", Effect: Done, Reason: "ProcessMissing", Source: excludeFile},
	{Commands: []string{"exclude"}, Stderr: true, Format: "  %s(Whole machine)  ---- WARNING: Exclusion in progress! It is not safe to remove this machine from the cluster", Effect: Denied, Reason: "ExclusionInProgress", Source: excludeFile},
	{Commands: []string{"exclude"}, Stderr: true, Format: "  %s  ---- WARNING: Exclusion in progress! It is not safe to remove this process from the cluster", Effect: Denied, Reason: "ExclusionInProgress", Source: excludeFile},
	{Commands: []string{"exclude"}, Stderr: true, Format: "  %s  ---- WARNING: Currently no servers found with this locality match! Be sure that you excluded the correct locality.", Reason: "NoServers", Source: excludeFile},
	{Commands: []string{"exclude"}, Stderr: true, Format: "WARNING: %s is a coordinator!", Effect: Denied, Reason: "StillCoordinator", Source: excludeFile},
	{Commands: []string{"exclude"}, Format: "Type `help coordinators' for information on how to change the", Source: excludeFile},
	{Commands: []string{"exclude"}, Format: "cluster's coordination servers before removing them.", Source: excludeFile},
	{Commands: []string{"exclude"}, Stderr: true, Format: "ERROR: '%s' is neither a valid network endpoint address nor a locality", Effect: Denied, Reason: "TargetInvalid", Source: excludeFile},
	{Commands: []string{"exclude"}, Format: "        Do not include the `:tls' suffix when naming a process", Source: excludeFile},
	{Commands: []string{"exclude"}, Stderr: true, Format: "ERROR: At least one valid network endpoint address or a locality must be provided", Effect: Denied, Reason: "TargetInvalid", Source: excludeFile},
	{Commands: []string{"exclude"}, Stderr: true, Format: "ERROR: Could not calculate the impact of this exclude on the total available space in the cluster.", Effect: Denied, Reason: "SpaceUnknown", Source: specialKeysFile, Lines: []string{"7.3", "7.4"}},
	{Commands: []string{"exclude"}, Stderr: true, Format: "ERROR: Could not calculate the impact of this exclude on the total free space in the cluster.", Effect: Denied, Reason: "SpaceUnknown", Source: specialKeysFile, Lines: []string{"7.1"}},
	{Commands: []string{"exclude"}, Stderr: true, Format: "Please try the exclude again in 30 seconds.", Source: specialKeysFile},
	{Commands: []string{"exclude"}, Stderr: true, Format: `Call set("0xff0xff/management/options/exclude/force", ...) first to exclude without checking available space.`, Source: specialKeysFile, Lines: []string{"7.4"}},
	{Commands: []string{"exclude"}, Stderr: true, Format: "ERROR: This exclude may cause the total available space in the cluster to drop below 10%.", Effect: Denied, Reason: "TooLittleSpace", Source: specialKeysFile, Lines: []string{"7.3", "7.4"}},
	{Commands: []string{"exclude"}, Stderr: true, Format: "ERROR: This exclude may cause the total free space in the cluster to drop below 10%.", Effect: Denied, Reason: "TooLittleSpace", Source: specialKeysFile, Lines: []string{"7.1"}},
	{Commands: []string{"exclude"}, Stderr: true, Format: "Type `exclude FORCE <ADDRESS...>' to exclude without checking free space.", Source: excludeFile},
	{Commands: []string{"exclude"}, Stderr: true, Format: "Type `exclude FORCE failed <ADDRESS...>' to exclude without performing safety checks.", Source: excludeFile},
	{Commands: []string{"exclude"}, Stderr: true, Format: "Error: %s; Client version is too old, please use a newer version", Effect: Doubted, Reason: "ToolFailed", Source: "fdbcli/Util.actor.cpp"},
}

var coordinatorTexts = []Text{
	{Commands: []string{"coordinators"}, Format: "Coordination state changed", Effect: Done, Source: coordinatorsFile},
	{Commands: []string{"coordinators"}, Format: "No change (existing configuration satisfies request)", Effect: Done, Reason: "NoChange", Source: coordinatorsFile},
	{Commands: []string{"coordinators"}, Stderr: true, Format: "ERROR: passed redundant coordinators: `%s'", Effect: Denied, Reason: "CoordinatorsTwice", Source: coordinatorsFile},
	{Commands: []string{"coordinators"}, Stderr: true, Format: "ERROR: '%s' is not a valid network endpoint address", Effect: Denied, Reason: "TargetInvalid", Source: coordinatorsFile},
	{Commands: []string{"coordinators"}, Stderr: true, Format: "ERROR: %s", Args: []string{"The specified network addresses are invalid"}, ArgFile: managementFile, Effect: Denied, Reason: "CoordinatorsInvalid", Source: coordinatorsFile},
	{Commands: []string{"coordinators"}, Stderr: true, Format: "ERROR: %s", Args: []string{"Coordination servers are not running on the specified network addresses"}, ArgFile: managementFile, Effect: Denied, Reason: "NotCoordinators", Source: coordinatorsFile},
	{Commands: []string{"coordinators"}, Stderr: true, Format: "ERROR: %s", Args: []string{"Database unreachable"}, ArgFile: managementFile, Effect: Denied, Reason: "DatabaseUnreachable", Source: coordinatorsFile},
	{Commands: []string{"coordinators"}, Stderr: true, Format: "ERROR: %s", Args: []string{"The database is in an unexpected state from which changing coordinators might be unsafe"}, ArgFile: managementFile, Effect: Denied, Reason: "DatabaseStateBad", Source: coordinatorsFile},
	{Commands: []string{"coordinators"}, Stderr: true, Format: "ERROR: %s", Args: []string{"One of the specified coordinators is unreachable"}, ArgFile: managementFile, Effect: Denied, Reason: "CoordinatorUnreachable", Source: coordinatorsFile},
	{Commands: []string{"coordinators"}, Stderr: true, Format: "ERROR: %s", Args: []string{"Too few fdbserver machines to provide coordination at the current redundancy level"}, ArgFile: managementFile, Effect: Denied, Reason: "TooFewMachines", Source: coordinatorsFile},
}
