package action

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// holder is a process that has opened or inherited a lock file.
type holder struct {
	pid, group int
	name       string
}

// lockHolders returns the processes that have inherited a lock file. Without /proc, and for
// processes of other users, it returns none. A worker is not a holder: it opens the file
// close-on-exec.
func lockHolders(path string) []holder {
	var found []holder
	for pid := range processes() {
		fds := filepath.Join("/proc", strconv.Itoa(pid), "fd")
		names, err := readNames(fds)
		if err != nil {
			continue
		}
		for _, fd := range names {
			if link, err := os.Readlink(filepath.Join(fds, fd)); err != nil || link != path || closedOnExec(pid, fd) {
				continue
			}
			if group, err := syscall.Getpgid(pid); err == nil {
				found = append(found, holder{pid: pid, group: group, name: processName(pid)})
			}
			break
		}
	}
	return found
}

// groupLives reports whether the group has a process that is not a zombie.
func groupLives(group int) bool {
	if err := syscall.Kill(-group, 0); err == syscall.ESRCH {
		return false
	}
	seen := false
	for pid := range processes() {
		seen = true
		if state, pgrp, ok := processState(pid); ok && pgrp == group && state != 'Z' && state != 'X' {
			return true
		}
	}
	return !seen // without /proc, use the answer of the kernel
}

// processes returns the ids of all processes except this one.
func processes() func(yield func(int) bool) {
	return func(yield func(int) bool) {
		names, err := readNames("/proc")
		if err != nil {
			return
		}
		own := os.Getpid()
		for _, name := range names {
			if pid, err := strconv.Atoi(name); err == nil && pid != own && !yield(pid) {
				return
			}
		}
	}
}

func readNames(dir string) ([]string, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
}

// closedOnExec reports whether a descriptor is close-on-exec.
func closedOnExec(pid int, fd string) bool {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "fdinfo", fd))
	if err != nil {
		return true
	}
	for line := range strings.Lines(string(data)) {
		if text, ok := strings.CutPrefix(line, "flags:"); ok {
			flags, err := strconv.ParseUint(strings.TrimSpace(text), 8, 64)
			return err != nil || flags&syscall.O_CLOEXEC != 0
		}
	}
	return true
}

// processState reads the state and the process group from /proc/<pid>/stat. The name in front of
// them may contain spaces and brackets.
func processState(pid int) (state byte, group int, ok bool) {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, 0, false
	}
	fields := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
	if len(fields) < 3 {
		return 0, 0, false
	}
	group, err = strconv.Atoi(string(fields[2]))
	return fields[0][0], group, err == nil
}

func processName(pid int) string {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "comm"))
	if err != nil {
		return "?"
	}
	return strings.TrimSpace(string(data))
}
