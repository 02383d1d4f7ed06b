// Package secretfile reads secrets that flags and configurations name a file for.
package secretfile

import (
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/pawl-dev/pawl/fault"
)

// Refused is the fault of a file whose secret cannot be used.
var Refused = fault.Declare(fault.Kind{
	Code: "SECRET_FILE_REFUSED", Class: fault.Invalid,
	Title:  "a file with a secret cannot be read, is empty, or may be read by others",
	Remedy: "Name a file that holds the secret and that only its owner may read (chmod 600). In a pod mount the Secret with defaultMode 0440 and an fsGroup.",
})

// most is more than any secret has.
const most = 64 << 10

// Read gives the content of a file without the spaces around it.
// A file that others may read is refused. SECRET_FILE_REFUSED.
func Read(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", Refused.Errorf("%w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return "", Refused.Errorf("%w", err)
	}
	if exposed(info, os.Geteuid()) {
		return "", Refused.Errorf("%s may be read by others: its mode is %o", path, info.Mode().Perm())
	}
	text, err := io.ReadAll(io.LimitReader(file, most+1))
	secret := strings.TrimSpace(string(text))
	switch {
	case err != nil:
		return "", Refused.Errorf("%w", err)
	case len(text) > most:
		return "", Refused.Errorf("%s is larger than any secret", path)
	case secret == "":
		return "", Refused.Errorf("%s is empty", path)
	}
	return secret, nil
}

// exposed reports a file that others may read. A group may where the file is not
// ours: so a pod reads a Secret, which belongs to root and is shown to its fsGroup.
func exposed(info fs.FileInfo, me int) bool {
	mode := info.Mode().Perm()
	stat, ok := info.Sys().(*syscall.Stat_t)
	ours := !ok || int(stat.Uid) == me
	return mode&0o007 != 0 || ours && mode&0o070 != 0
}
