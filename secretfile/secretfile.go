// Package secretfile reads files that hold secrets: tokens, passwords, keys.
//
// Only the owner may have permission to read such a file. If the file belongs to
// another user than that of the process, its group may read it too. So a pod can
// read a mounted Secret, which root owns and the fsGroup may read.
package secretfile

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/pawl-dev/pawl/fault"
)

// Refused is the fault of a file whose secret cannot be used.
var Refused = fault.Declare(fault.Kind{
	Code: "SECRET_FILE_REFUSED", Class: fault.Invalid,
	Title:  "a file with a secret cannot be read, is empty, is no regular file, or may be read by others",
	Remedy: "Name a regular file that holds the secret and that only its owner may read (chmod 600); a pipe is none. In a pod mount the Secret with defaultMode 0440 and an fsGroup, and run as another user than root.",
})

// maxSize is the greatest accepted size in bytes.
const maxSize = 1 << 20

// Secret returns the only secret in a file, without surrounding spaces, by the rule
// of Read. SECRET_FILE_REFUSED.
func Secret(path string) (string, error) {
	text, err := Read(path)
	if err != nil {
		return "", Refused.Errorf("%w", err)
	}
	secret := strings.TrimSpace(text)
	if secret == "" {
		return "", Refused.Errorf("%s is empty", path)
	}
	return secret, nil
}

// Read returns the text of a file. It refuses a file that others may read, and
// whatever ReadAnyMode refuses. The errors are no faults: callers declare their
// own.
func Read(path string) (string, error) { return read(path, os.Geteuid()) }

// ReadAnyMode is Read without the rule about permissions, for files whose mode
// another system sets. It refuses anything but a regular file (a pipe, for example)
// without waiting for it, and a file larger than 1 MiB.
func ReadAnyMode(path string) (string, error) { return read(path, anyUser) }

// anyUser stands for no user: the file may have any mode.
const anyUser = -2

func read(path string, uid int) (string, error) {
	info, err := os.Stat(path) // before opening: opening a device may have an effect
	if err != nil {
		return "", err
	}
	if err := checkMode(path, info, uid); err != nil {
		return "", err
	}
	file, err := os.OpenFile(path, os.O_RDONLY|nonBlocking, 0)
	if err != nil {
		return "", err
	}
	defer file.Close()
	if info, err = file.Stat(); err != nil { // the path may name another file by now
		return "", err
	}
	if err := checkMode(path, info, uid); err != nil {
		return "", err
	}
	text, err := io.ReadAll(io.LimitReader(file, maxSize+1))
	if err != nil {
		return "", err
	}
	if len(text) > maxSize {
		return "", fmt.Errorf("%s is larger than any secret", path)
	}
	return string(text), nil
}

// checkMode returns the reason why a file is not read.
func checkMode(path string, info fs.FileInfo, uid int) error {
	mode := info.Mode()
	switch {
	case !mode.IsRegular():
		return fmt.Errorf("%s is no regular file but %s: write the secret into a file", path, kindOfFile(mode))
	case uid != anyUser && exposed(info, uid):
		return fmt.Errorf("%s may be read by others: its mode is %o", path, mode.Perm())
	}
	return nil
}

func kindOfFile(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "a folder"
	case mode&fs.ModeNamedPipe != 0:
		return "a pipe"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	default:
		return "a device"
	}
}

// exposed reports a file that users other than the rule allows may read.
func exposed(info fs.FileInfo, uid int) bool {
	mode := info.Mode().Perm()
	return mode&0o007 != 0 || mode&0o070 != 0 && owner(info, uid) == uid
}
