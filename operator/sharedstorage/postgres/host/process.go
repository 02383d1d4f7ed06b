package host

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Process identifies a process of one boot: a pid alone is not enough, because pids are reused.
// The zero Process is none.
type Process struct {
	PID   int    `json:"pid"`
	Start string `json:"start"` // ticks between boot and its start
	Boot  string `json:"boot"`
}

// ProcessOf returns the process that has the pid now; the zero Process if there is none.
func ProcessOf(pid int) Process {
	start, _, alive := procStat(pid)
	if !alive {
		return Process{}
	}
	return Process{PID: pid, Start: start, Boot: Boot()}
}

// Running reports whether exactly this process runs.
func (p Process) Running() bool {
	if p.PID <= 1 || p.Boot != Boot() {
		return false
	}
	start, _, alive := procStat(p.PID)
	return alive && start == p.Start
}

// Runs reports whether the process was started with this argument. It is also true for a process
// that is ending, which loses its arguments first.
func (p Process) Runs(argument string) bool {
	line, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.PID), "cmdline"))
	if err != nil {
		return false
	}
	if len(line) == 0 {
		const exiting = 0x4 // PF_EXITING
		fields := statFields(filepath.Join("/proc", strconv.Itoa(p.PID), "stat"))
		if len(fields) < 20 {
			return false
		}
		flags, err := strconv.ParseUint(string(fields[6]), 10, 64)
		return err == nil && flags&exiting != 0
	}
	return slices.ContainsFunc(bytes.Split(line, []byte{0}), func(word []byte) bool { return string(word) == argument })
}

// Signal signals exactly this process, not a later one with the same pid. It is not an error if
// the process has ended.
func (p Process) Signal(s syscall.Signal) error {
	if p.PID <= 1 {
		return nil
	}
	handle, err := os.FindProcess(p.PID) // pins the process if the kernel supports it
	if err != nil {
		return err
	}
	defer func() { _ = handle.Release() }() // at worst it leaks a descriptor
	if !p.Running() {
		return nil
	}
	if err := handle.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// Kill ends the process and its children immediately. The backends of PostgreSQL are children in
// sessions of their own, so a signal to the group would not reach them. The process is stopped
// before its children are listed for the last time, so that it cannot start another one in
// between.
func (p Process) Kill() {
	_ = p.Signal(syscall.SIGSTOP)
	p.killChildren() // they may answer commits meanwhile
	for deadline := time.Now().Add(freezeTimeout); !p.frozen() && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	p.killChildren()
	_ = p.Signal(syscall.SIGKILL)
}

func (p Process) killChildren() {
	for _, child := range p.children() {
		_ = child.Signal(syscall.SIGKILL)
	}
}

// freezeTimeout is how long a process may take to stop: a thread that waits for a child to execute
// its program cannot stop before.
const freezeTimeout = 200 * time.Millisecond

// frozen reports whether all threads of the process are stopped.
func (p Process) frozen() bool {
	if !p.Running() {
		return true
	}
	threads, _ := filepath.Glob(filepath.Join("/proc", strconv.Itoa(p.PID), "task", "[0-9]*", "stat"))
	for _, thread := range threads {
		if f := statFields(thread); len(f) > 0 && !bytes.ContainsAny(f[0], "TtZX") {
			return false
		}
	}
	return true
}

func (p Process) children() []Process {
	if !p.Running() {
		return nil
	}
	var children []Process
	names, _ := filepath.Glob("/proc/[0-9]*")
	for _, name := range names {
		pid, err := strconv.Atoi(filepath.Base(name))
		if err != nil {
			continue
		}
		if start, parent, alive := procStat(pid); alive && parent == p.PID {
			children = append(children, Process{PID: pid, Start: start, Boot: p.Boot})
		}
	}
	return children
}

// Boot returns the id of this boot of the machine; "" where there is none.
func Boot() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}

// procStat reads /proc/<pid>/stat. A zombie counts as ended.
func procStat(pid int) (start string, parent int, alive bool) {
	fields := statFields(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if len(fields) < 20 {
		return "", 0, false
	}
	parent, _ = strconv.Atoi(string(fields[1]))
	state := fields[0][0]
	return string(fields[19]), parent, state != 'Z' && state != 'X'
}

// statFields returns the fields after the name, which may contain spaces and brackets. The first
// is the state (proc(5)). A process that has ended has none.
func statFields(file string) [][]byte {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	return bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
}

// SinceBoot is a clock that all processes of a machine share, that nobody can set, and that goes
// on while the machine sleeps.
func SinceBoot() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(bootClock, &t); err != nil {
		panic("host: this system has no clock since boot: " + err.Error())
	}
	return time.Duration(t.Nano())
}
