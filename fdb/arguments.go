package fdb

import (
	"strconv"
	"time"
)

// Arguments returns what follows the name of the tool, and when the process is ended: at twice the
// timeout for fdbcli, which ends by itself at the timeout, else at the timeout. Of a call that Check
// refuses nothing may run: argv is nil.
func (c Call) Arguments() (argv []string, kill time.Duration) {
	if c.Check() != nil {
		return nil, 0
	}
	timeout := c.timeout()
	switch c.Tool() {
	case ToolBackup:
		argv = append(c.backupArguments(), c.clusterFile("-C")...)
		return append(argv, c.shared("--logdir", "--loggroup")...), timeout
	case ToolRestore:
		argv = append(c.restoreArguments(), c.clusterFile("--dest_cluster_file")...)
		return append(argv, c.shared("--logdir", "--loggroup")...), timeout
	}
	switch c.Command {
	case CommandVersion:
		return []string{"--version"}, 2 * timeout
	case CommandTransaction: // fdbcli takes --timeout only beside --exec
		argv = append([]string{"--no-status", "--no-hints"}, c.clusterFile("-C")...)
		return append(argv, c.shared("--log-dir", "--log-group")...), 2 * timeout
	}
	argv = append([]string{"--exec", c.Text()}, c.clusterFile("-C")...)
	argv = append(argv, c.shared("--log-dir", "--log-group")...)
	return append(argv, "--timeout", secondsText(timeout)), 2 * timeout
}

// Text is what follows --exec. It is empty for calls of other tools.
func (c Call) Text() string {
	switch c.Command {
	case CommandStatus:
		return commandText([]string{"status", "json"})
	case CommandExclude:
		words := []string{"exclude"}
		if c.NoWait {
			words = append(words, "no_wait")
		}
		return commandText(append(words, c.Targets...))
	case CommandInclude:
		return commandText(append([]string{"include"}, c.Targets...))
	case CommandKill:
		kill := append([]string{"kill"}, c.Targets...)
		if c.Upgrade {
			return commandText([]string{"kill"}, kill, []string{"sleep", "1"}, kill, []string{"sleep", "5"})
		}
		return commandText([]string{"kill"}, kill, []string{"sleep", "5"})
	case CommandMaintenanceOn:
		return commandText([]string{"maintenance", "on", c.Zone, secondsText(c.Duration)})
	case CommandMaintenanceOff:
		return commandText([]string{"maintenance", "off"})
	case CommandCoordinators:
		return commandText(append([]string{"coordinators"}, c.Targets...))
	case CommandConfigure:
		if c.Create {
			return "configure new " + c.Configuration
		}
		return "configure " + c.Configuration
	case CommandConnection:
		return commandText([]string{"option", "on", "READ_SYSTEM_KEYS"}, []string{"get", coordinatorsKey})
	default:
		return ""
	}
}

// coordinatorsKey holds the connection string (fdbclient/SystemData.cpp at 7.3.69).
const coordinatorsKey = "\xff/coordinators"

func (c Call) timeout() time.Duration {
	if c.Timeout > 0 {
		return c.Timeout
	}
	switch c.Command {
	case CommandStatus, CommandExclude, CommandKill:
		return LongCallTimeout
	case CommandStartBackup, CommandModifyBackup, CommandStartRestore:
		return LongCallTimeout // the blob store alone may take 30 s (submitBackup in fdbclient/FileBackupAgent.actor.cpp at 7.3.69)
	case CommandDeleteBackup:
		return DeleteCallTimeout
	default:
		return CallTimeout
	}
}

// secondsText is whole seconds, at least one.
func secondsText(d time.Duration) string {
	return strconv.FormatInt(max(1, int64(d/time.Second)), 10)
}

func (c Call) clusterFile(flag string) []string {
	if c.ClusterFile == "" || c.Command == CommandDeleteBackup { // delete takes none
		return nil
	}
	return []string{flag, c.ClusterFile}
}

// shared are the arguments that say where traces go, and the knobs.
func (c Call) shared(dirFlag, groupFlag string) (argv []string) {
	if c.LogDir != "" {
		argv = append(argv, "--log")
		if c.Tool() == ToolCLI {
			format := c.TraceFormat
			if format == "" {
				format = "xml"
			}
			argv = append(argv, "--trace_format", format)
		}
		argv = append(argv, dirFlag, c.LogDir)
		if c.LogGroup != "" {
			argv = append(argv, groupFlag, c.LogGroup)
		}
	}
	if c.Tool() != ToolCLI {
		argv = append(argv, c.Knobs...)
	}
	return argv
}

// backupArguments follow the option tables of fdbbackup/backup.actor.cpp at 7.1.67, 7.3.69 and 7.4.6:
// only start, modify and delete take credentials there.
func (c Call) backupArguments() []string {
	b := c.Backup.defaulted()
	period := strconv.Itoa(b.SnapshotPeriodSeconds)
	switch c.Command {
	case CommandStartBackup:
		argv := []string{"start", "-d", b.URL, "-t", b.Tag}
		if !b.OneTime {
			argv = append(argv, "-s", period, "-z")
		}
		argv = append(argv, c.encryption(b.EncryptionKeyPath)...)
		switch {
		case b.PartitionedLog && c.Version.Has(FeatureMutationLogType):
			argv = append(argv, "--mutation-log-type", "partitioned-log-experimental")
		case b.PartitionedLog:
			argv = append(argv, "--partitioned-log-experimental")
		}
		return append(argv, c.credentials()...)
	case CommandModifyBackup:
		argv := []string{"modify", "-s", period, "-d", b.URL, "-t", b.Tag}
		return append(append(argv, c.encryption(b.EncryptionKeyPath)...), c.credentials()...)
	case CommandDiscontinueBackup:
		return []string{"discontinue", "-t", b.Tag}
	case CommandAbortBackup:
		return []string{"abort", "-t", b.Tag}
	case CommandPauseBackups:
		return []string{"pause"}
	case CommandResumeBackups:
		return []string{"resume"}
	case CommandBackupStatus:
		return []string{"status", "--json", "-t", b.Tag}
	default:
		return append([]string{"delete", "-d", b.URL}, c.credentials()...)
	}
}

func (c Call) restoreArguments() []string {
	r := c.Restore
	switch c.Command {
	case CommandStartRestore:
		argv := []string{"start", "-r", r.URL, "-t", r.Tag}
		if r.BackupVersion != nil {
			argv = append(argv, "-v", strconv.FormatUint(*r.BackupVersion, 10))
		}
		if len(r.KeyRanges) > 0 {
			argv = append(argv, "-k", keyRangesText(r.KeyRanges))
		}
		return append(append(argv, c.encryption(r.EncryptionKeyPath)...), c.credentials()...)
	case CommandAbortRestore:
		return []string{"abort", "-t", r.Tag}
	default:
		return []string{"status", "-t", r.Tag}
	}
}

// encryption names the key file to the versions that can use it.
func (c Call) encryption(path string) []string {
	if path == "" || !c.Version.Has(FeatureBackupEncryption) {
		return nil
	}
	return []string{"--encryption-key-file", path}
}

func (c Call) credentials() []string {
	if c.BlobCredentials == "" {
		return nil
	}
	return []string{"--blob-credentials", c.BlobCredentials}
}
