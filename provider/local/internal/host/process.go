// Package host identifies processes of this machine. A process id alone identifies
// nothing: the kernel reuses ids.
package host

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Process identifies one process of one boot. The zero Process is none.
type Process struct {
	Identity string `json:"identity"` // of its VM
	Boot     string `json:"boot"`     // id of the boot
	PID      int    `json:"pid"`
	Start    string `json:"start"` // ticks between boot and its start; empty where there is no /proc
}

// Self returns this process.
func Self(identity string) Process { return Of(identity, os.Getpid()) }

// Of returns the process that has the id now.
func Of(identity string, pid int) Process {
	start, _ := stat(pid)
	return Process{Identity: identity, Boot: Boot(), PID: pid, Start: start}
}

// Same reports whether both are the same process. It ignores the identity.
func (p Process) Same(o Process) bool {
	return p.PID == o.PID && p.Start == o.Start && p.Boot == o.Boot
}

// IsRunning reports whether this process still runs. Without /proc it only reports that
// some process has its id.
func (p Process) IsRunning() bool {
	if p.PID <= 1 || p.Boot != Boot() {
		return false
	}
	if p.Start == "" {
		return !hasProc() && !errors.Is(syscall.Kill(p.PID, 0), syscall.ESRCH)
	}
	start, alive := stat(p.PID)
	return alive && start == p.Start
}

// HasArgument reports whether the process has this argument. It also returns true if the
// arguments cannot be read: an ending process loses its arguments before it is gone.
func (p Process) HasArgument(argument string) bool {
	if !hasProc() {
		return true
	}
	line, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.PID), "cmdline"))
	if err != nil {
		return false
	}
	if len(line) == 0 {
		return isExiting(p.PID)
	}
	for word := range bytes.SplitSeq(line, []byte{0}) {
		if string(word) == argument {
			return true
		}
	}
	return false
}

// Signal sends a signal to this process, but never to another one that has its id now.
// With group it also signals the process group. It returns nil if the process has ended.
func (p Process) Signal(s syscall.Signal, group bool) error {
	handle, err := os.FindProcess(p.PID) // pins the process, where the kernel can
	if err != nil {
		return err
	}
	defer func() { _ = handle.Release() }() // it holds at most a descriptor
	if !p.IsRunning() {
		return nil
	}
	if err := handle.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	if group {
		if pgid, err := syscall.Getpgid(p.PID); err == nil && pgid == p.PID {
			if err := syscall.Kill(-p.PID, s); err != nil && !errors.Is(err, syscall.ESRCH) {
				return err
			}
		}
	}
	return nil
}

// Boot returns the id of this boot, or "" if the machine has none.
func Boot() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}

func hasProc() bool {
	_, err := os.Stat("/proc/self/stat")
	return err == nil
}

// stat reads state and start time from /proc/<pid>/stat. A zombie has ended.
func stat(pid int) (start string, alive bool) {
	fields := fieldsOf(pid)
	if len(fields) < 20 {
		return "", false
	}
	state := fields[0][0]
	return string(fields[19]), state != 'Z' && state != 'X'
}

// isExiting reports whether the kernel is ending a process (flag PF_EXITING).
func isExiting(pid int) bool {
	const exiting = 0x4
	fields := fieldsOf(pid)
	if len(fields) < 20 {
		return false
	}
	flags, err := strconv.ParseUint(string(fields[6]), 10, 64)
	return err == nil && flags&exiting != 0
}

// fieldsOf returns the fields of /proc/<pid>/stat after the name (which may contain spaces
// and brackets), the state first; nil if there is no such process.
func fieldsOf(pid int) [][]byte {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return nil
	}
	return bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
}
