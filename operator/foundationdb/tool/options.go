package tool

import (
	"cmp"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/pawl-dev/pawl/fdb"
)

// Options say where the tools are and how they run. The zero value of each field is its default.
type Options struct {
	// Folder holds the tools: <folder>/<major.minor>/fdbcli. Empty: DefaultFolder.
	Folder string
	// TempDir holds the folder of this Database, with cluster files and credentials; best a file system in
	// memory. New removes there what operators have left that were killed. Empty: os.TempDir.
	TempDir string
	// LogDir is where the tools write their trace files. Empty: they write none.
	LogDir string
	// LogGroup marks their trace files. Empty: pawl.
	LogGroup string
	// TraceFormat of fdbcli: xml or json. Empty: xml.
	TraceFormat string
	// Timeout is for calls that answer at once and for a status with port.Short: fdb.CallTimeout.
	Timeout time.Duration
	// MaxTimeout is for calls that wait for data, processes or a blob store, and for a status with
	// port.Long: fdb.LongCallTimeout.
	MaxTimeout time.Duration
	// Environment of the tools, as NAME=value, beside what they need and the variables of this process
	// that they read: FDB_TLS_…, FDB_BLOB_CREDENTIALS, HTTP_PROXY, HTTPS_PROXY.
	Environment []string
	// Processes is how many tools may run at the same time; other calls wait, which does not count against
	// their deadline. 0: 8.
	Processes int
	// MaxStatus is how many bytes a status document, or what a transaction reads, may have. 0: 16 MiB,
	// which is the status of some 5,000 processes.
	MaxStatus int
	// Allowed is asked right before a tool starts that may change a database, and before each line of a
	// transaction: its error refuses it, as when this process is not the leader any more. nil: all are allowed.
	Allowed func() error
	// Log is told what a person should know. nil: nobody.
	Log *slog.Logger
}

// DefaultFolder is where deployments put the tools.
const DefaultFolder = "/usr/bin/fdb"

// maxOutput is how much any other call may print, in bytes.
const maxOutput = 1 << 20

func (o Options) withDefaults() (Options, error) {
	o.Folder = cmp.Or(o.Folder, DefaultFolder)
	o.LogGroup = cmp.Or(o.LogGroup, "pawl")
	o.Timeout = cmp.Or(o.Timeout, fdb.CallTimeout)
	o.MaxTimeout = cmp.Or(o.MaxTimeout, fdb.LongCallTimeout)
	o.Processes = max(0, o.Processes)
	o.Processes = cmp.Or(o.Processes, 8)
	o.MaxStatus = cmp.Or(o.MaxStatus, 16<<20)
	if o.Allowed == nil {
		o.Allowed = func() error { return nil }
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	for _, path := range []*string{&o.Folder, &o.LogDir} { // tools run in another folder
		if *path == "" {
			continue
		}
		absolute, err := filepath.Abs(*path)
		if err != nil {
			return o, err
		}
		*path = absolute
	}
	return o, nil
}

// passed are the variables of this process that the tools read (flow/TLSConfig.actor.cpp,
// fdbbackup/BackupTLSConfig.cpp and fdbbackup/backup.actor.cpp at 7.3.69).
var passed = []string{
	"FDB_TLS_CERTIFICATE_FILE", "FDB_TLS_KEY_FILE", "FDB_TLS_CA_FILE", "FDB_TLS_VERIFY_PEERS", "FDB_TLS_PASSWORD",
	"FDB_BLOB_CREDENTIALS", "HTTP_PROXY", "HTTPS_PROXY",
}

// environment is that of a tool with this home folder.
func (o Options) environment(home string) []string {
	var list []string
	for _, name := range passed {
		if value, ok := os.LookupEnv(name); ok {
			list = append(list, name+"="+value)
		}
	}
	list = append(list, o.Environment...)
	return append(list, "HOME="+home, "TERM=dumb") // of a variable that is there twice the last value counts
}

// timed fills in the time-out of a call that has none. Which of the two it is says package fdb.
func (o Options) timed(call fdb.Call) fdb.Call {
	if call.Timeout > 0 {
		return call
	}
	_, limit := call.Arguments()
	if call.Tool() == fdb.ToolCLI {
		limit /= 2
	}
	switch limit {
	case fdb.CallTimeout:
		call.Timeout = o.Timeout
	case fdb.LongCallTimeout:
		call.Timeout = o.MaxTimeout
	}
	return call
}
