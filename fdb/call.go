package fdb

import (
	"strings"
	"time"
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
	CommandConnection     Command = "connection"  // reads the connection string
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
	return Call{Command: CommandKill, Targets: withoutFlags(texts(addresses)), Upgrade: upgrade}
}

// MaintenanceOn keeps data from being moved away from a zone for some time.
func MaintenanceOn(zone string, d time.Duration) Call {
	return Call{Command: CommandMaintenanceOn, Zone: zone, Duration: d}
}

// MaintenanceOff ends any maintenance.
func MaintenanceOff() Call { return Call{Command: CommandMaintenanceOff} }

// Coordinators makes these addresses the coordinators.
func Coordinators[T Target](addresses []T) Call {
	targets := texts(addresses)
	for i, target := range targets {
		targets[i] = strings.TrimSuffix(target, hostnameSuffix)
	}
	return Call{Command: CommandCoordinators, Targets: targets}
}

// Configure changes the configuration, or creates the database with it.
func Configure(c Configuration, create bool) Call {
	return Call{Command: CommandConfigure, Configuration: c.Text(), Create: create}
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

func texts[T Target](targets []T) []string {
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
