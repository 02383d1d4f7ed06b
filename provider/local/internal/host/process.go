// Package host knows processes of this machine. A process id alone says
// nothing: ids are given anew.
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

// Process is one process of one boot. The zero Process is none.
type Process struct {
	Identity string `json:"identity"` // of the VM that it is
	Boot     string `json:"boot"`     // id of the boot
	PID      int    `json:"pid"`
	Start    string `json:"start"` // ticks between boot and its start; empty where there is no /proc
}

// Self is this process.
func Self(identity string) Process { return Of(identity, os.Getpid()) }

// Of is the process that has the id now.
func Of(identity string, pid int) Process {
	start, _ := stat(pid)
	return Process{Identity: identity, Boot: Boot(), PID: pid, Start: start}
}

// Same reports the same process, whatever its identity.
func (p Process) Same(o Process) bool {
	return p.PID == o.PID && p.Start == o.Start && p.Boot == o.Boot
}

// Lives reports that this very process runs. Where there is no /proc it can
// only tell that some process has its id.
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

// Runs reports that the process was started with this argument, or that the
// machine does not tell: one that is ending gives up its arguments before it is gone.
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

// Signal signals this very process, and no other that has its id by now. With
// group the rest of its group is told too. It reports nothing about one that has ended.
func (p Process) Signal(s syscall.Signal, group bool) error {
	handle, err := os.FindProcess(p.PID) // pins the process, where the kernel can
	if err != nil {
		return err
	}
	defer func() { _ = handle.Release() }() // it holds a descriptor at most
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

// Boot is the id of this boot, or empty where the machine has none.
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

// ends reports that the kernel is ending a process (PF_EXITING of its flags).
func isExiting(pid int) bool {
	const exiting = 0x4
	fields := fieldsOf(pid)
	if len(fields) < 20 {
		return false
	}
	flags, err := strconv.ParseUint(string(fields[6]), 10, 64)
	return err == nil && flags&exiting != 0
}

// fieldsOf are those of /proc/<pid>/stat behind the name (which may hold spaces and
// brackets), the state first; nil: there is no such process.
func fieldsOf(pid int) [][]byte {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return nil
	}
	return bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
}
