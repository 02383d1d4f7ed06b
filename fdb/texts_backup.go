package fdb

const (
	backupFile    = "fdbbackup/backup.actor.cpp"
	agentFile     = "fdbclient/FileBackupAgent.actor.cpp"
	containerFile = "fdbclient/BackupContainer.actor.cpp"
)

// Commands that share texts.
var (
	containerCommands = []Command{CommandStartBackup, CommandModifyBackup, CommandDeleteBackup, CommandStartRestore}
	discontinue       = []Command{CommandDiscontinueBackup}
)

// backupTexts are printed by fdbbackup.
var backupTexts = []text{
	{Commands: []Command{CommandStartBackup}, Format: "The backup on tag `%s' was successfully submitted.", Effect: done, Source: backupFile},
	{Commands: []Command{CommandStartBackup}, Format: "The backup on tag `%s' was successfully submitted but no backup agents are responding.", Effect: done, Reason: NoAgents, Source: backupFile},
	{Commands: []Command{CommandStartBackup}, Stderr: true, Format: "ERROR: A backup is already running on tag `%s'", Effect: done, Reason: AlreadyRunning, Exit: 1, Source: backupFile},
	{Commands: []Command{CommandStartBackup}, Stderr: true, Format: "ERROR: Could not create backup container: %s", Effect: denied, Reason: StoreRefused, Source: agentFile},
	{Commands: []Command{CommandStartBackup}, Stderr: true, Format: "ERROR: The last backup `%s' happened in the future.", Effect: denied, Reason: ClockBehind, Source: agentFile},
	{Commands: []Command{CommandStartBackup, CommandAbortBackup}, Stderr: true, Format: "ERROR: An error was encountered during submission", Effect: denied, Reason: ToolFailed, Source: backupFile},

	{Commands: []Command{CommandModifyBackup}, Stderr: true, Format: "No backup exists on tag '%s'", Effect: denied, Reason: BackupMissing, Source: backupFile},
	{Commands: []Command{CommandModifyBackup}, Stderr: true, Format: "Cannot modify aborted backup on tag '%s'", Effect: denied, Reason: BackupNotRunning, Source: backupFile},
	{Commands: []Command{CommandModifyBackup}, Stderr: true, Format: "Backup on tag '%s' is not runnable.", Effect: denied, Reason: BackupNotRunning, Source: backupFile},
	{Commands: []Command{CommandModifyBackup}, Stderr: true, Format: "ERROR: Could not create backup container at '%s': %s", Effect: denied, Reason: StoreRefused, Source: backupFile},
	{Commands: []Command{CommandModifyBackup}, Stderr: true, Format: "Destination URL matches the existing backup URL for tag '%s', but the encryption key file does not match.", Effect: denied, Reason: BackupEncrypted, Source: backupFile, Lines: []string{"7.3", "7.4"}},

	{Commands: discontinue, Format: "The backup on tag `%s' was successfully discontinued.", Effect: done, Source: backupFile},
	{Commands: discontinue, Stderr: true, Format: "ERROR: A backup in not running on tag `%s'", Effect: done, Reason: NotRunning, Exit: 1, Source: backupFile},
	{Commands: discontinue, Stderr: true, Format: "ERROR: The backup on tag `%s' is already discontinued", Effect: done, Reason: NoChange, Exit: 1, Source: backupFile},
	{Commands: discontinue, Stderr: true, Format: "ERROR: An encounter was error during submission", Effect: denied, Reason: ToolFailed, Source: backupFile},

	{Commands: []Command{CommandAbortBackup}, Format: "The backup on tag `%s' was successfully aborted.", Effect: done, Source: backupFile},
	{Commands: []Command{CommandAbortBackup}, Stderr: true, Format: "ERROR: A backup was not running on tag `%s'", Effect: done, Reason: NotRunning, Exit: 1, Source: backupFile},

	{Commands: []Command{CommandPauseBackups}, Format: "All backup agents have been %s.", Args: []string{"paused"}, Effect: done, Source: backupFile},
	{Commands: []Command{CommandResumeBackups}, Format: "All backup agents have been %s.", Args: []string{"resumed"}, Effect: done, Source: backupFile},

	{Commands: []Command{CommandDeleteBackup}, Format: "Deleting %s...", Source: backupFile},
	{Commands: []Command{CommandDeleteBackup}, Format: "%d...", Source: backupFile},
	{Commands: []Command{CommandDeleteBackup}, Format: "%d objects deleted", Source: backupFile},
	{Commands: []Command{CommandDeleteBackup}, Format: "The entire container has been deleted.", Effect: done, Source: backupFile},
	{Commands: []Command{CommandDeleteBackup}, Stderr: true, Format: "ERROR: %s", Args: []string{"Backup does not exist"}, ArgFile: errorsFile, Effect: done, Reason: NoChange, Exit: 1, Source: backupFile},
}

// restoreTexts are printed by fdbrestore. Before a restore it describes the backup (toString in
// fdbclient/BackupContainer.actor.cpp); what stands before the first verb of these lines is enough.
var restoreTexts = []text{
	{Commands: []Command{CommandStartRestore}, Format: "No restore target version given, will use maximum restorable version from backup description.", Source: backupFile},
	{Commands: []Command{CommandStartRestore}, Format: "Ussing target restore version {}", Source: backupFile, Lines: []string{"7.1", "7.3"}},
	{Commands: []Command{CommandStartRestore}, Format: "Using target restore version {}", Source: backupFile, Lines: []string{"7.4"}},
	{Commands: []Command{CommandStartRestore}, Format: "Backup Description", Source: agentFile},
	{Commands: []Command{CommandStartRestore}, Format: "URL: %s", Source: containerFile},
	{Commands: []Command{CommandStartRestore}, Format: "Restorable: %s", Source: containerFile},
	{Commands: []Command{CommandStartRestore}, Format: "Partitioned logs: %s", Source: containerFile},
	{Commands: []Command{CommandStartRestore}, Format: "File-level encryption: %s", Source: containerFile, Lines: []string{"7.3", "7.4"}},
	{Commands: []Command{CommandStartRestore}, Format: "Snapshot:  startVersion=%s  endVersion=%s  totalBytes=%lld  restorable=%s  expiredPct=%.2f", Source: containerFile},
	{Commands: []Command{CommandStartRestore}, Format: "SnapshotBytes: %lld", Source: containerFile},
	{Commands: []Command{CommandStartRestore}, Format: "ExpiredEndVersion:       %s", Source: containerFile},
	{Commands: []Command{CommandStartRestore}, Format: "UnreliableEndVersion:    %s", Source: containerFile},
	{Commands: []Command{CommandStartRestore}, Format: "MinLogBeginVersion:      %s", Source: containerFile},
	{Commands: []Command{CommandStartRestore}, Format: "ContiguousLogEndVersion: %s", Source: containerFile},
	{Commands: []Command{CommandStartRestore}, Format: "MaxLogEndVersion:        %s", Source: containerFile},
	{Commands: []Command{CommandStartRestore}, Format: "MinRestorableVersion:    %s", Source: containerFile},
	{Commands: []Command{CommandStartRestore}, Format: "MaxRestorableVersion:    %s", Source: containerFile},
	{Commands: []Command{CommandStartRestore}, Format: "Restoring backup to version: %lld", Effect: done, Source: agentFile},
	{Commands: []Command{CommandStartRestore}, Stderr: true, Format: "The specified backup is not restorable to any version.", Effect: denied, Reason: VersionNotRestorable, Source: backupFile},
	{Commands: []Command{CommandStartRestore}, Stderr: true, Format: "ERROR: Restore version {0} is not possible from {1}", Effect: denied, Reason: VersionNotRestorable, Source: agentFile, Lines: []string{"7.1", "7.3"}},
	{Commands: []Command{CommandStartRestore}, Stderr: true, Format: "ERROR: Backup is encrypted, please provide the encryption key file path.", Effect: denied, Reason: BackupEncrypted, Source: agentFile, Lines: []string{"7.3", "7.4"}},
	{Commands: []Command{CommandStartRestore}, Stderr: true, Format: "ERROR: Backup is not encrypted, please remove the encryption key file path.", Effect: denied, Reason: BackupEncrypted, Source: agentFile, Lines: []string{"7.3", "7.4"}},
	{Commands: []Command{CommandStartRestore}, Stderr: true, Format: "ERROR: %s", Args: []string{"Invalid restore version"}, ArgFile: errorsFile, Effect: denied, Reason: VersionNotRestorable, Source: backupFile},
	{Commands: []Command{CommandStartRestore}, Stderr: true, Format: "ERROR: %s", Args: []string{"Restore error"}, ArgFile: errorsFile, Source: backupFile},
	{Commands: []Command{CommandStartRestore}, Stderr: true, Format: "ERROR: %s", Args: []string{"Database is locked"}, ArgFile: errorsFile, Effect: denied, Reason: DatabaseLocked, Source: backupFile},
	{Commands: []Command{CommandStartRestore}, Stderr: true, Format: "ERROR: %s", Args: []string{"Restore duplicate request"}, ArgFile: errorsFile, Effect: denied, Reason: RestoreTagInUse, Source: backupFile},
	{Commands: []Command{CommandStartRestore}, Stderr: true, Format: "ERROR: %s", Args: []string{"Attempted to restore into a non-empty destination database"}, ArgFile: errorsFile, Effect: denied, Reason: RangeNotEmpty, Source: backupFile},
	{Commands: []Command{CommandStartRestore}, Stderr: true, Format: "ERROR: %s", Args: []string{"HTTP response code not received or indicated failure"}, ArgFile: errorsFile, Effect: denied, Reason: StoreRefused, Source: backupFile}, // the store is read before a restore is submitted
	{Commands: []Command{CommandStartRestore}, Stderr: true, Format: "ERROR: %s", Args: []string{"HTTP request failed due to bad credentials"}, ArgFile: errorsFile, Effect: denied, Reason: CredentialsRefused, Source: backupFile},
	{Commands: []Command{CommandStartRestore}, Stderr: true, Format: "ERROR: %s", Args: []string{"Missing backup data"}, ArgFile: errorsFile, Effect: denied, Reason: VersionNotRestorable, Source: backupFile},
	{Commands: []Command{CommandAbortRestore}, Format: "RESTORE_ABORT Tag: %s  State: %s", Effect: done, Source: backupFile},
	{Tool: ToolRestore, Stderr: true, Format: "Restore destination cluster file must be specified explicitly.", Effect: denied, Reason: ClusterFileInvalid, Source: backupFile},
	{Tool: ToolRestore, Stderr: true, Format: "Restore destination cluster file '%s' does not exist.", Effect: denied, Reason: ClusterFileInvalid, Source: backupFile},
	{Tool: ToolRestore, Stderr: true, Format: "Restore destination cluster file '%s' invalid: %s", Effect: denied, Reason: ClusterFileInvalid, Source: backupFile},
}

// toolTexts are printed by more than one tool, or by fdbbackup and fdbrestore for any command.
var toolTexts = []text{
	{Stderr: true, Format: "Invalid cluster file `%s': %d %s", Effect: denied, Reason: ClusterFileInvalid, Source: clusterFileFile},
	{Stderr: true, Format: "Unable to read cluster file `%s': %d %s", Effect: denied, Reason: ClusterFileInvalid, Source: clusterFileFile},
	{Stderr: true, Format: "Unexpected error loading cluster file `%s': %d %s", Effect: denied, Reason: ClusterFileInvalid, Source: clusterFileFile},

	{Commands: containerCommands, Stderr: true, Format: "ERROR: '%s' on URL '%s'", Open: true, Effect: denied, Reason: StoreRefused, Source: backupFile},
	{Commands: containerCommands, Stderr: true, Format: "ERROR: Backup Container URL '%s' contains directory traversals", Effect: denied, Reason: StoreRefused, Source: backupFile, Lines: []string{"7.4"}},
	{Commands: containerCommands, Stderr: true, Format: "ERROR: %s", Args: []string{"Backup does not exist"}, ArgFile: errorsFile, Effect: denied, Reason: BackupMissing, Source: backupFile},
	{Commands: containerCommands, Stderr: true, Format: "ERROR: %s", Args: []string{"Cannot find authentication details (such as a password or secret key) for the specified Backup Container URL"}, ArgFile: errorsFile, Effect: denied, Reason: CredentialsMissing, Source: backupFile},
	{Commands: containerCommands, Stderr: true, Format: "ERROR: %s", Args: []string{"Cannot read or parse one or more sources of authentication information for Backup Container URLs"}, ArgFile: errorsFile, Effect: denied, Reason: CredentialsMissing, Source: backupFile},
	{Tool: ToolBackup, Stderr: true, Format: "ERROR: Unable to connect to cluster from `%s'", Effect: denied, Reason: ClusterFileInvalid, Source: backupFile},
	{Tool: ToolBackup, Stderr: true, Format: "ERROR: unknown option `%s'", Effect: denied, Reason: CommandRefused, Source: backupFile},
	{Tool: ToolBackup, Stderr: true, Format: "ERROR: missing argument for option `%s'", Effect: denied, Reason: CommandRefused, Source: backupFile},
	{Tool: ToolBackup, Stderr: true, Format: "ERROR: Unsupported backup action %s", Effect: denied, Reason: CommandRefused, Source: backupFile},
	{Tool: ToolBackup, Stderr: true, Format: "Try `%s --help' for more information.", Source: backupFile},
	{Tool: ToolBackup, Stderr: true, Format: "Fatal Error: %s", Source: "flow/genericactors.actor.h"},
	{Tool: ToolBackup, Stderr: true, Format: "ERROR: %s", Effect: doubted, Reason: ToolFailed, Source: backupFile},
	{Tool: ToolRestore, Stderr: true, Format: "ERROR: unknown option `%s'", Effect: denied, Reason: CommandRefused, Source: backupFile},
	{Tool: ToolRestore, Stderr: true, Format: "ERROR: missing argument for option `%s'", Effect: denied, Reason: CommandRefused, Source: backupFile},
	{Tool: ToolRestore, Stderr: true, Format: "Try `%s --help' for more information.", Source: backupFile},
	{Tool: ToolRestore, Stderr: true, Format: "Fatal Error: %s", Source: "flow/genericactors.actor.h"},
	{Tool: ToolRestore, Stderr: true, Format: "ERROR: %s", Effect: doubted, Reason: ToolFailed, Source: backupFile},
}
