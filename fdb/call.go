package fdb

import (
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/fdb/internal/cli"
)

// Tool is a program of FoundationDB.
type Tool string

// The tools.
const (
	ToolCLI     Tool = "fdbcli"
	ToolBackup  Tool = "fdbbackup"
	ToolRestore Tool = "fdbrestore"
)

// Command is what a call does.
type Command string

// The commands of fdbcli.
const (
	CommandStatus         Command = "status"
	CommandExclude        Command = "exclude"
	CommandInclude        Command = "include"
	CommandKill           Command = "kill"
	CommandMaintenanceOn  Command = "maintenance on"
	CommandMaintenanceOff Command = "maintenance off"
	CommandCoordinators   Command = "coordinators"
	CommandConfigure      Command = "configure"
	CommandConnection     Command = "connection" // reads the connection string
	CommandTimes          Command = "times"      // reads which versions the database had when
	CommandForceRecovery  Command = "force recovery"
	CommandTransaction    Command = "transaction" // an interactive process: see Dialogue
	CommandVersion        Command = "version"
)

// The commands of fdbbackup and fdbrestore.
const (
	CommandStartBackup       Command = "start backup"
	CommandModifyBackup      Command = "modify backup"
	CommandDiscontinueBackup Command = "discontinue backup"
	CommandAbortBackup       Command = "abort backup"
	CommandPauseBackups      Command = "pause backups"
	CommandResumeBackups     Command = "resume backups"
	CommandBackupStatus      Command = "backup status"
	CommandDeleteBackup      Command = "delete backup"

	CommandStartRestore  Command = "start restore"
	CommandAbortRestore  Command = "abort restore"
	CommandRestoreStatus Command = "restore status"
)

// How long a call may take unless Timeout says something else. A call that waits for data, for
// processes, for the whole status or for a blob store takes up to the longer time.
const (
	CallTimeout       = 10 * time.Second
	LongCallTimeout   = 40 * time.Second
	DeleteCallTimeout = 10 * time.Minute
)

// Call is one run of a tool. A function such as Exclude makes it; the fields of the second half say
// where it runs and may be set afterwards.
type Call struct {
	Command       Command       `json:"command"`
	Targets       []string      `json:"targets,omitempty"` // of exclude, include, kill and coordinators
	NoWait        bool          `json:"noWait,omitempty"`  // exclude does not wait until the data has moved
	Upgrade       bool          `json:"upgrade,omitempty"` // kill twice, so that no process keeps its old version
	Zone          string        `json:"zone,omitempty"`
	Duration      time.Duration `json:"duration,omitempty"` // of the maintenance
	Create        bool          `json:"create,omitempty"`   // configure new
	Configuration string        `json:"configuration,omitempty"`
	Datacenter    string        `json:"datacenter,omitempty"` // that the database is recovered in
	Times         Range         `json:"times,omitzero"`
	Backup        Backup        `json:"backup,omitzero"`
	Restore       Restore       `json:"restore,omitzero"`

	Version         Version       `json:"version,omitzero"`          // of the tool
	ClusterFile     string        `json:"clusterFile,omitempty"`     // empty: the tool's default
	Timeout         time.Duration `json:"timeout,omitempty"`         // 0: CallTimeout, LongCallTimeout or DeleteCallTimeout
	LogDir          string        `json:"logDir,omitempty"`          // empty: no trace files
	LogGroup        string        `json:"logGroup,omitempty"`        // only beside LogDir
	TraceFormat     string        `json:"traceFormat,omitempty"`     // xml (the default) or json; fdbcli only
	Knobs           []string      `json:"knobs,omitempty"`           // as BackupKnobs returns them; not for fdbcli
	BlobCredentials string        `json:"blobCredentials,omitempty"` // the file that BlobStore.Credentials fills
	// Secrets is the content of that file, for callers that have none: who runs the tool writes it into a file
	// that only the tool can read, names the file in BlobCredentials, and removes it afterwards.
	Secrets Secret `json:"-"`
}

// Target is an address, or its text.
type Target interface{ string | Address }

// Exclude moves data and roles away from targets: localities such as locality_instance_id:storage-1, IPs,
// or IPs with port. It waits until that is done, unless noWait is set.
func Exclude(targets []string, noWait bool) Call {
	return Call{Command: CommandExclude, Targets: withoutFlags(targets), NoWait: noWait}
}

// Include lets excluded targets take part again.
func Include(targets []string) Call {
	return Call{Command: CommandInclude, Targets: withoutFlags(targets)}
}

// Kill restarts the processes at these addresses. For an upgrade it does so twice.
func Kill[T Target](addresses []T, upgrade bool) Call {
	return Call{Command: CommandKill, Targets: withoutFlags(textsOf(addresses)), Upgrade: upgrade}
}

// MaintenanceOn keeps data from being moved away from a zone for some time.
func MaintenanceOn(zone string, d time.Duration) Call {
	return Call{Command: CommandMaintenanceOn, Zone: zone, Duration: d}
}

// MaintenanceOff ends any maintenance.
func MaintenanceOff() Call { return Call{Command: CommandMaintenanceOff} }

// Coordinators makes these addresses the coordinators.
func Coordinators[T Target](addresses []T) Call {
	targets := textsOf(addresses)
	for i, target := range targets {
		targets[i] = strings.TrimSuffix(target, hostnameSuffix)
	}
	return Call{Command: CommandCoordinators, Targets: targets}
}

// Configure changes the configuration, or creates the database with it.
func Configure(c Configuration, create bool) Call {
	return Call{Command: CommandConfigure, Configuration: c.Text(), Create: create}
}

// ForceRecovery makes the database go on in one data center with what has arrived there: the last commits may be lost.
// It sets usable_regions to 1, and does nothing where the database has recovered already (help of
// force_recovery_with_data_loss in fdbcli/ForceRecoveryWithDataLossCommand.actor.cpp at 7.3.69).
func ForceRecovery(datacenter string) Call {
	return Call{Command: CommandForceRecovery, Datacenter: datacenter}
}

// ReadStatus reads the status document.
func ReadStatus() Call { return Call{Command: CommandStatus} }

// ReadConnection reads the connection string as the database holds it.
func ReadConnection() Call { return Call{Command: CommandConnection} }

// Transaction is the interactive process that a Dialogue talks to.
func Transaction() Call { return Call{Command: CommandTransaction} }

// ReadVersion reads version and protocol of the tool. It needs no cluster.
func ReadVersion() Call { return Call{Command: CommandVersion} }

// withoutFlags returns the targets without flags: exclude, include and kill refuse them.
func withoutFlags(targets []string) []string {
	plain := make([]string, len(targets))
	for i, target := range targets {
		plain[i] = target
		if !strings.HasPrefix(target, LocalityPrefix) {
			plain[i] = strings.TrimSuffix(strings.TrimSuffix(target, hostnameSuffix), tlsSuffix)
		}
	}
	return plain
}

func textsOf[T Target](targets []T) []string {
	list := make([]string, len(targets))
	for i, target := range targets {
		switch t := any(target).(type) {
		case Address:
			list[i] = t.String()
		case string:
			list[i] = t
		}
	}
	return list
}

// tool is the program that runs the command.
func (c Command) tool() Tool {
	switch c {
	case CommandStartBackup, CommandModifyBackup, CommandDiscontinueBackup, CommandAbortBackup,
		CommandPauseBackups, CommandResumeBackups, CommandBackupStatus, CommandDeleteBackup:
		return ToolBackup
	case CommandStartRestore, CommandAbortRestore, CommandRestoreStatus:
		return ToolRestore
	default:
		return ToolCLI
	}
}

// Tool is the program of the call; Arguments are what follows its name.
func (c Call) Tool() Tool { return c.Command.tool() }

// ToolFolder is the folder of the tools below the tools' root: major.minor of the running version, or
// of the wanted one (spec) while nothing runs.
func ToolFolder(spec, running string) (string, error) {
	version := running
	if version == "" {
		version = spec
	}
	v, err := ParseVersion(version)
	if err != nil {
		return "", err
	}
	return v.Short(), nil
}

// ParseCommands splits the text of --exec, or a line of an interactive fdbcli, into commands and their
// words, as fdbcli does. It refuses what fdbcli calls malformed, an open quote, and the escape \u, which 7.1 does not
// know.
func ParseCommands(text string) ([][]string, error) { return cli.Split(text) }

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
		return cli.Join([]string{"status", "json"})
	case CommandExclude:
		words := []string{"exclude"}
		if c.NoWait {
			words = append(words, "no_wait")
		}
		return cli.Join(append(words, c.Targets...))
	case CommandInclude:
		return cli.Join(append([]string{"include"}, c.Targets...))
	case CommandKill:
		kill := append([]string{"kill"}, c.Targets...)
		if c.Upgrade {
			return cli.Join([]string{"kill"}, kill, []string{"sleep", "1"}, kill, []string{"sleep", "5"})
		}
		return cli.Join([]string{"kill"}, kill, []string{"sleep", "5"})
	case CommandMaintenanceOn:
		return cli.Join([]string{"maintenance", "on", c.Zone, secondsText(c.Duration)})
	case CommandMaintenanceOff:
		return cli.Join([]string{"maintenance", "off"})
	case CommandCoordinators:
		return cli.Join(append([]string{"coordinators"}, c.Targets...))
	case CommandConfigure:
		if c.Create {
			return "configure new " + c.Configuration
		}
		return "configure " + c.Configuration
	case CommandTimes:
		return cli.Join([]string{"option", "on", "READ_SYSTEM_KEYS"}, []string{"option", "on", "LOCK_AWARE"},
			[]string{"getrange", c.Times.Begin, c.Times.End, strconv.Itoa(maxRows)})
	case CommandForceRecovery:
		return cli.Join([]string{"force_recovery_with_data_loss", c.Datacenter})
	case CommandConnection:
		return cli.Join([]string{"option", "on", "READ_SYSTEM_KEYS"}, []string{"get", coordinatorsKey})
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
	case CommandStatus, CommandExclude, CommandKill, CommandForceRecovery:
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

// Secret is a text that is written nowhere: it prints, logs and encodes as "***", or as nothing if it is empty.
// string(s) is the text itself.
type Secret string

const hidden = "***"

// String hides the secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return hidden
}

// GoString hides the secret from %#v.
func (s Secret) GoString() string { return s.String() }

// MarshalText hides the secret from encoders.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue hides the secret from logs.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }
