//go:build !linux

package program

import (
	"os"
	"syscall"
)

// isTerminal tells whether a file is a device of characters, as terminals are.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// dieWithParent does nothing: children outlive a parent that is killed.
func dieWithParent() *syscall.SysProcAttr { return nil }
