package program

import (
	"os"
	"path/filepath"

	"github.com/pawl-dev/pawl/fdb"
)

// fdbError is an error of FoundationDB.
type fdbError struct {
	code int
	text string
}

// The errors of files, with the numbers and texts of flow/include/flow/error_definitions.h at 7.3.69.
var (
	errNoClusterFile     = fdbError{1515, "No cluster file found in current directory or default location"}
	errConnectionInvalid = fdbError{2104, "Connection string invalid"}
	errIO                = fdbError{1510, "Disk i/o operation failed"}
	errLock              = fdbError{1529, "Unable to lock the file"}
	errFileUnreadable    = fdbError{1513, "File could not be read"}
)

// defaultClusterFile is where a program looks last (flow/Platform.actor.cpp, getDefaultClusterFilePath).
const defaultClusterFile = "/etc/foundationdb/fdb.cluster"

// clusterFile is a cluster file that was looked up.
type clusterFile struct {
	name       string // as messages print it
	path       string // on this machine
	byDefault  bool   // nobody has named it
	connection fdb.Connection
}

// lookUp finds the cluster file: the one that is given, that of FDB_CLUSTER_FILE, ./fdb.cluster, the default.
// Source: fdbclient/ClusterConnectionFile.actor.cpp at 7.3.69, lookupClusterFileName and getErrorString.
func (p *Process) lookUp(given string) clusterFile {
	f := clusterFile{name: given}
	if given == "" {
		var set bool
		f.name, set = p.lookup("FDB_CLUSTER_FILE")
		f.byDefault = !set
		switch {
		case set:
		case exists("fdb.cluster"):
			f.name = "fdb.cluster"
		default:
			f.name = defaultClusterFile
		}
	}
	f.path = p.path(f.name)
	return f
}

// read reads it; problem is the line that says why not.
func (f *clusterFile) read() (problem string, err *fdbError) {
	if !exists(f.path) {
		if f.byDefault {
			return "Unable to read cluster file `./fdb.cluster' or `" + defaultClusterFile + "' and FDB_CLUSTER_FILE unset: 1515 " + errNoClusterFile.text, &errNoClusterFile
		}
		return "Unable to read cluster file `" + f.name + "': 1515 " + errNoClusterFile.text, &errNoClusterFile
	}
	content, failed := os.ReadFile(f.path)
	if failed != nil {
		return "Unexpected error loading cluster file `" + f.name + "': 1513 " + errFileUnreadable.text, &errFileUnreadable
	}
	c, failed := fdb.ParseConnection(string(content))
	if failed != nil {
		return "Invalid cluster file `" + f.name + "': 2104 " + errConnectionInvalid.text, &errConnectionInvalid
	}
	f.connection = c
	return "", nil
}

// write replaces its content, as persist of the same source does. A file that cannot be written stays as it is.
func (f *clusterFile) write(connection string) {
	content := "# DO NOT EDIT!\n# This file is auto-generated, it is not to be edited by hand\n" + connection + "\n"
	temporary, err := os.CreateTemp(filepath.Dir(f.path), filepath.Base(f.path)+".")
	if err != nil {
		return
	}
	_, err = temporary.WriteString(content)
	closed := temporary.Close()
	if err != nil || closed != nil || os.Chmod(temporary.Name(), 0o644) != nil || os.Rename(temporary.Name(), f.path) != nil {
		os.Remove(temporary.Name())
	}
}
