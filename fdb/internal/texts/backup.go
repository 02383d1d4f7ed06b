package texts

const (
	backupFile    = "fdbbackup/backup.actor.cpp"
	agentFile     = "fdbclient/FileBackupAgent.actor.cpp"
	containerFile = "fdbclient/BackupContainer.actor.cpp"
)

// Commands that share texts.
var (
	containerCommands = []string{"start backup", "modify backup", "delete backup", "start restore"}
	discontinue       = []string{"discontinue backup"}
)

// backupTexts are printed by fdbbackup.
var backupTexts = []Text{
	{Commands: []string{"start backup"}, Format: "The backup on tag `%s' was successfully submitted.", Effect: Done, Source: backupFile},
	{Commands: []string{"start backup"}, Format: "The backup on tag `%s' was successfully submitted but no backup agents are responding.", Effect: Done, Reason: "NoAgents", Source: backupFile},
	{Commands: []string{"start backup"}, Stderr: true, Format: "ERROR: A backup is already running on tag `%s'", Effect: Done, Reason: "AlreadyRunning", Exit: 1, Source: backupFile},
	{Commands: []string{"start backup"}, Stderr: true, Format: "ERROR: Could not create backup container: %s", Effect: Denied, Reason: "StoreRefused", Source: agentFile},
	{Commands: []string{"start backup"}, Stderr: true, Format: "ERROR: The last backup `%s' happened in the future.", Effect: Denied, Reason: "ClockBehind", Source: agentFile},
	{Commands: []string{"start backup", "abort backup"}, Stderr: true, Format: "ERROR: An error was encountered during submission", Effect: Denied, Reason: "ToolFailed", Source: backupFile},

	{Commands: []string{"modify backup"}, Stderr: true, Format: "No backup exists on tag '%s'", Effect: Denied, Reason: "BackupMissing", Source: backupFile},
	{Commands: []string{"modify backup"}, Stderr: true, Format: "Cannot modify aborted backup on tag '%s'", Effect: Denied, Reason: "BackupNotRunning", Source: backupFile},
	{Commands: []string{"modify backup"}, Stderr: true, Format: "Backup on tag '%s' is not runnable.", Effect: Denied, Reason: "BackupNotRunning", Source: backupFile},
	{Commands: []string{"modify backup"}, Stderr: true, Format: "ERROR: Could not create backup container at '%s': %s", Effect: Denied, Reason: "StoreRefused", Source: backupFile},
	{Commands: []string{"modify backup"}, Stderr: true, Format: "Destination URL matches the existing backup URL for tag '%s', but the encryption key file does not match.", Effect: Denied, Reason: "BackupEncrypted", Source: backupFile, Lines: []string{"7.3", "7.4"}},

	{Commands: discontinue, Format: "The backup on tag `%s' was successfully discontinued.", Effect: Done, Source: backupFile},
	{Commands: discontinue, Stderr: true, Format: "ERROR: A backup in not running on tag `%s'", Effect: Done, Reason: "NotRunning", Exit: 1, Source: backupFile},
	{Commands: discontinue, Stderr: true, Format: "ERROR: The backup on tag `%s' is already discontinued", Effect: Done, Reason: "NoChange", Exit: 1, Source: backupFile},
	{Commands: discontinue, Stderr: true, Format: "ERROR: An encounter was error during submission", Effect: Denied, Reason: "ToolFailed", Source: backupFile},

	{Commands: []string{"abort backup"}, Format: "The backup on tag `%s' was successfully aborted.", Effect: Done, Source: backupFile},
	{Commands: []string{"abort backup"}, Stderr: true, Format: "ERROR: A backup was not running on tag `%s'", Effect: Done, Reason: "NotRunning", Exit: 1, Source: backupFile},

	{Commands: []string{"pause backups"}, Format: "All backup agents have been %s.", Args: []string{"paused"}, Effect: Done, Source: backupFile},
	{Commands: []string{"resume backups"}, Format: "All backup agents have been %s.", Args: []string{"resumed"}, Effect: Done, Source: backupFile},

	{Commands: []string{"delete backup"}, Format: "Deleting %s...", Source: backupFile},
	{Commands: []string{"delete backup"}, Format: "%d...", Source: backupFile},
	{Commands: []string{"delete backup"}, Format: "%d objects deleted", Source: backupFile},
	{Commands: []string{"delete backup"}, Format: "The entire container has been deleted.", Effect: Done, Source: backupFile},
	{Commands: []string{"delete backup"}, Stderr: true, Format: "ERROR: %s", Args: []string{"Backup does not exist"}, ArgFile: errorsFile, Effect: Done, Reason: "NoChange", Exit: 1, Source: backupFile},
}

// restoreTexts are printed by fdbrestore. Before a restore it describes the backup (toString in
// fdbclient/BackupContainer.actor.cpp); what stands before the first verb of these lines is enough.
var restoreTexts = []Text{
	{Commands: []string{"start restore"}, Format: "No restore target version given, will use maximum restorable version from backup description.", Source: backupFile},
	{Commands: []string{"start restore"}, Format: "Ussing target restore version {}", Source: backupFile, Lines: []string{"7.1", "7.3"}},
	{Commands: []string{"start restore"}, Format: "Using target restore version {}", Source: backupFile, Lines: []string{"7.4"}},
	{Commands: []string{"start restore"}, Format: "Backup Description", Source: agentFile},
	{Commands: []string{"start restore"}, Format: "URL: %s", Source: containerFile},
	{Commands: []string{"start restore"}, Format: "Restorable: %s", Source: containerFile},
	{Commands: []string{"start restore"}, Format: "Partitioned logs: %s", Source: containerFile},
	{Commands: []string{"start restore"}, Format: "File-level encryption: %s", Source: containerFile, Lines: []string{"7.3", "7.4"}},
	{Commands: []string{"start restore"}, Format: "Snapshot:  startVersion=%s  endVersion=%s  totalBytes=%lld  restorable=%s  expiredPct=%.2f", Source: containerFile},
	{Commands: []string{"start restore"}, Format: "SnapshotBytes: %lld", Source: containerFile},
	{Commands: []string{"start restore"}, Format: "ExpiredEndVersion:       %s", Source: containerFile},
	{Commands: []string{"start restore"}, Format: "UnreliableEndVersion:    %s", Source: containerFile},
	{Commands: []string{"start restore"}, Format: "MinLogBeginVersion:      %s", Source: containerFile},
	{Commands: []string{"start restore"}, Format: "ContiguousLogEndVersion: %s", Source: containerFile},
	{Commands: []string{"start restore"}, Format: "MaxLogEndVersion:        %s", Source: containerFile},
	{Commands: []string{"start restore"}, Format: "MinRestorableVersion:    %s", Source: containerFile},
	{Commands: []string{"start restore"}, Format: "MaxRestorableVersion:    %s", Source: containerFile},
	{Commands: []string{"start restore"}, Format: "Restoring backup to version: %lld", Effect: Done, Source: agentFile},
	{Commands: []string{"start restore"}, Stderr: true, Format: "The specified backup is not restorable to any version.", Effect: Denied, Reason: "VersionNotRestorable", Source: backupFile},
	{Commands: []string{"start restore"}, Stderr: true, Format: "ERROR: Restore version {0} is not possible from {1}", Effect: Denied, Reason: "VersionNotRestorable", Source: agentFile, Lines: []string{"7.1", "7.3"}},
	{Commands: []string{"start restore"}, Stderr: true, Format: "ERROR: Backup is encrypted, please provide the encryption key file path.", Effect: Denied, Reason: "BackupEncrypted", Source: agentFile, Lines: []string{"7.3", "7.4"}},
	{Commands: []string{"start restore"}, Stderr: true, Format: "ERROR: Backup is not encrypted, please remove the encryption key file path.", Effect: Denied, Reason: "BackupEncrypted", Source: agentFile, Lines: []string{"7.3", "7.4"}},
	{Commands: []string{"start restore"}, Stderr: true, Format: "ERROR: %s", Args: []string{"Invalid restore version"}, ArgFile: errorsFile, Effect: Denied, Reason: "VersionNotRestorable", Source: backupFile},
	{Commands: []string{"start restore"}, Stderr: true, Format: "ERROR: %s", Args: []string{"Restore error"}, ArgFile: errorsFile, Source: backupFile},
	{Commands: []string{"start restore"}, Stderr: true, Format: "ERROR: %s", Args: []string{"Database is locked"}, ArgFile: errorsFile, Effect: Denied, Reason: "DatabaseLocked", Source: backupFile},
	{Commands: []string{"start restore"}, Stderr: true, Format: "ERROR: %s", Args: []string{"Restore duplicate request"}, ArgFile: errorsFile, Effect: Denied, Reason: "RestoreTagInUse", Source: backupFile},
	{Commands: []string{"start restore"}, Stderr: true, Format: "ERROR: %s", Args: []string{"Attempted to restore into a non-empty destination database"}, ArgFile: errorsFile, Effect: Denied, Reason: "RangeNotEmpty", Source: backupFile},
	{Commands: []string{"start restore"}, Stderr: true, Format: "ERROR: %s", Args: []string{"HTTP response code not received or indicated failure"}, ArgFile: errorsFile, Effect: Denied, Reason: "StoreRefused", Source: backupFile}, // the store is read before a restore is submitted
	{Commands: []string{"start restore"}, Stderr: true, Format: "ERROR: %s", Args: []string{"HTTP request failed due to bad credentials"}, ArgFile: errorsFile, Effect: Denied, Reason: "CredentialsRefused", Source: backupFile},
	{Commands: []string{"start restore"}, Stderr: true, Format: "ERROR: %s", Args: []string{"Missing backup data"}, ArgFile: errorsFile, Effect: Denied, Reason: "VersionNotRestorable", Source: backupFile},
	{Commands: []string{"abort restore"}, Format: "RESTORE_ABORT Tag: %s  State: %s", Effect: Done, Source: backupFile},
	{Tool: "fdbrestore", Stderr: true, Format: "Restore destination cluster file must be specified explicitly.", Effect: Denied, Reason: "ClusterFileInvalid", Source: backupFile},
	{Tool: "fdbrestore", Stderr: true, Format: "Restore destination cluster file '%s' does not exist.", Effect: Denied, Reason: "ClusterFileInvalid", Source: backupFile},
	{Tool: "fdbrestore", Stderr: true, Format: "Restore destination cluster file '%s' invalid: %s", Effect: Denied, Reason: "ClusterFileInvalid", Source: backupFile},
}

// toolTexts are printed by more than one tool, or by fdbbackup and fdbrestore for any command.
var toolTexts = []Text{
	{Stderr: true, Format: "Invalid cluster file `%s': %d %s", Effect: Denied, Reason: "ClusterFileInvalid", Source: clusterFileFile},
	{Stderr: true, Format: "Unable to read cluster file `%s': %d %s", Effect: Denied, Reason: "ClusterFileInvalid", Source: clusterFileFile},
	{Stderr: true, Format: "Unexpected error loading cluster file `%s': %d %s", Effect: Denied, Reason: "ClusterFileInvalid", Source: clusterFileFile},

	{Commands: containerCommands, Stderr: true, Format: "ERROR: '%s' on URL '%s'", Open: true, Effect: Denied, Reason: "StoreRefused", Source: backupFile},
	{Commands: containerCommands, Stderr: true, Format: "ERROR: Backup Container URL '%s' contains directory traversals", Effect: Denied, Reason: "StoreRefused", Source: backupFile, Lines: []string{"7.4"}},
	{Commands: containerCommands, Stderr: true, Format: "ERROR: %s", Args: []string{"Backup does not exist"}, ArgFile: errorsFile, Effect: Denied, Reason: "BackupMissing", Source: backupFile},
	{Commands: containerCommands, Stderr: true, Format: "ERROR: %s", Args: []string{"Cannot find authentication details (such as a password or secret key) for the specified Backup Container URL"}, ArgFile: errorsFile, Effect: Denied, Reason: "CredentialsMissing", Source: backupFile},
	{Commands: containerCommands, Stderr: true, Format: "ERROR: %s", Args: []string{"Cannot read or parse one or more sources of authentication information for Backup Container URLs"}, ArgFile: errorsFile, Effect: Denied, Reason: "CredentialsMissing", Source: backupFile},
	{Tool: "fdbbackup", Stderr: true, Format: "ERROR: Unable to connect to cluster from `%s'", Effect: Denied, Reason: "ClusterFileInvalid", Source: backupFile},
	{Tool: "fdbbackup", Stderr: true, Format: "ERROR: unknown option `%s'", Effect: Denied, Reason: "CommandRefused", Source: backupFile},
	{Tool: "fdbbackup", Stderr: true, Format: "ERROR: missing argument for option `%s'", Effect: Denied, Reason: "CommandRefused", Source: backupFile},
	{Tool: "fdbbackup", Stderr: true, Format: "ERROR: Unsupported backup action %s", Effect: Denied, Reason: "CommandRefused", Source: backupFile},
	{Tool: "fdbbackup", Stderr: true, Format: "Try `%s --help' for more information.", Source: backupFile},
	{Tool: "fdbbackup", Stderr: true, Format: "Fatal Error: %s", Source: "flow/genericactors.actor.h"},
	{Tool: "fdbbackup", Stderr: true, Format: "ERROR: %s", Effect: Doubted, Reason: "ToolFailed", Source: backupFile},
	{Tool: "fdbrestore", Stderr: true, Format: "ERROR: unknown option `%s'", Effect: Denied, Reason: "CommandRefused", Source: backupFile},
	{Tool: "fdbrestore", Stderr: true, Format: "ERROR: missing argument for option `%s'", Effect: Denied, Reason: "CommandRefused", Source: backupFile},
	{Tool: "fdbrestore", Stderr: true, Format: "Try `%s --help' for more information.", Source: backupFile},
	{Tool: "fdbrestore", Stderr: true, Format: "Fatal Error: %s", Source: "flow/genericactors.actor.h"},
	{Tool: "fdbrestore", Stderr: true, Format: "ERROR: %s", Effect: Doubted, Reason: "ToolFailed", Source: backupFile},
}
