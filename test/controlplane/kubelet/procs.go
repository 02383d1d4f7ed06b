package kubelet

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Proc is a process from /proc. PID and Started together identify it until the machine
// restarts.
type Proc struct {
	PID, Parent, Group int
	Started            uint64 // clock ticks since the machine started
	zombie             bool
}

// FindProcess returns a process. A zombie counts as gone.
func FindProcess(pid int) (Proc, bool) {
	p, ok := readProcess(pid)
	return p, ok && !p.zombie
}

func readProcess(pid int) (Proc, bool) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return Proc{}, false
	}
	// The name in parentheses may contain any character.
	_, rest, ok := cutLast(string(text), ") ")
	fields := strings.Fields(rest)
	if !ok || len(fields) < 20 {
		return Proc{}, false
	}
	p := Proc{PID: pid, zombie: fields[0] == "Z" || fields[0] == "X"}
	var errs [3]error
	p.Parent, errs[0] = strconv.Atoi(fields[1])
	p.Group, errs[1] = strconv.Atoi(fields[2])
	p.Started, errs[2] = strconv.ParseUint(fields[19], 10, 64)
	return p, errors.Join(errs[:]...) == nil
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// Procs lists the processes of the machine.
func Procs() []Proc {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var all []Proc
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if p, ok := FindProcess(pid); ok {
			all = append(all, p)
		}
	}
	return all
}

// Args returns the command line; nil if it cannot be read.
func (p Proc) Args() []string {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.PID), "cmdline"))
	if err != nil || len(text) == 0 {
		return nil
	}
	return strings.Split(string(bytes.TrimSuffix(text, []byte{0})), "\x00")
}

// Environ returns a variable of the process's environment; "" if it is not set or cannot
// be read.
func (p Proc) Environ(name string) string {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.PID), "environ"))
	if err != nil {
		return ""
	}
	for entry := range bytes.SplitSeq(text, []byte{0}) {
		if value, ok := bytes.CutPrefix(entry, []byte(name+"=")); ok {
			return string(value)
		}
	}
	return ""
}

// Gone reports whether the process has ended.
func (p Proc) Gone() bool {
	now, ok := FindProcess(p.PID)
	return !ok || now.Started != p.Started
}

// End kills the processes and waits until they are gone, five seconds at most.
func End(all []Proc) error {
	for _, p := range all {
		if !p.Gone() {
			_ = syscall.Kill(p.PID, syscall.SIGKILL) // ignore the error of an ended process
		}
	}
	deadline := time.Now().Add(5 * time.Second)
	for _, p := range all {
		for !p.Gone() {
			if time.Now().After(deadline) {
				return fmt.Errorf("process %d does not end", p.PID)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	return nil
}

// descendants returns the children of a process and their descendants.
func descendants(pid int) []Proc {
	children := map[int][]Proc{}
	for _, p := range Procs() {
		children[p.Parent] = append(children[p.Parent], p)
	}
	var found []Proc
	for next := []int{pid}; len(next) > 0; next = next[1:] {
		for _, p := range children[next[0]] {
			found = append(found, p)
			next = append(next, p.PID)
		}
	}
	return found
}

// processesOfRoot returns the processes whose RootVariable is this folder.
func processesOfRoot(root string) []Proc {
	var found []Proc
	for _, p := range Procs() {
		if p.Environ(RootVariable) == root {
			found = append(found, p)
		}
	}
	return found
}
