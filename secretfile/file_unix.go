//go:build unix

package secretfile

import (
	"io/fs"
	"syscall"
)

// dontWait opens a pipe that nobody writes to, too.
const nonBlocking = syscall.O_NONBLOCK

// owner is whose a file is; ours where it cannot be told.
func owner(info fs.FileInfo, ours int) int {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(stat.Uid)
	}
	return ours
}
