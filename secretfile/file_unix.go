//go:build unix

package secretfile

import (
	"io/fs"
	"syscall"
)

// nonBlocking lets the process open a pipe without a writer.
const nonBlocking = syscall.O_NONBLOCK

// owner returns the user id of the owner of a file; ours if it is unknown.
func owner(info fs.FileInfo, ours int) int {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(stat.Uid)
	}
	return ours
}
