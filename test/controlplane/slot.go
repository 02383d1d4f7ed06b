package controlplane

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/pawl-dev/pawl/test/controlplane/kubelet"
)

// Slots are numbered from 1; the number is the second byte of the addresses.
const slots = 250

// slot is the folder of one plane with a lock, which ends with its owner.
type slot struct {
	number int
	dir    string
	lock   *os.File

	mu        sync.Mutex
	processes *os.File // the recorded processes
}

// takeSlot removes the processes and folders of killed owners, and takes the first free
// slot.
func takeSlot() (*slot, error) {
	base := filepath.Join(os.TempDir(), fmt.Sprintf("pawl-planes-%d", os.Getuid()))
	if err := os.MkdirAll(base, 0o755); err != nil {
		return nil, err
	}
	base, err := filepath.EvalSymlinks(base)
	if err != nil {
		return nil, err
	}
	var mine *slot
	for n := 1; n <= slots; n++ {
		dir := filepath.Join(base, strconv.Itoa(n))
		_, err := os.Lstat(dir)
		left := err == nil
		if mine != nil && !left {
			continue
		}
		lock, err := tryLock(dir + ".lock")
		switch {
		case errors.Is(err, syscall.EWOULDBLOCK):
			continue
		case err != nil:
			return nil, err
		}
		if left {
			if err := wipe(dir); err != nil {
				lock.Close()
				return nil, err
			}
		}
		if mine == nil {
			mine = &slot{number: n, dir: dir, lock: lock}
		} else {
			lock.Close()
		}
	}
	if mine == nil {
		return nil, SlotsTaken.Errorf("all %d slots in %s are locked", slots, base)
	}
	if err := mine.open(); err != nil {
		return nil, err
	}
	return mine, nil
}

func (s *slot) open() error {
	if err := os.Mkdir(s.dir, 0o755); err != nil {
		s.lock.Close()
		return err
	}
	file, err := os.OpenFile(filepath.Join(s.dir, "processes"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		s.lock.Close()
		return err
	}
	s.processes = file
	return nil
}

// record records a process, so that it can be ended after its owner was killed.
func (s *slot) record(pid int) {
	p, ok := kubelet.FindProcess(pid)
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// Ignore errors: without the record the next start may not find the process.
	fmt.Fprintf(s.processes, "%d %d\n", p.PID, p.Started)
}

// leftovers returns the recorded processes that still run.
func (s *slot) leftovers() []kubelet.Proc { return recorded(s.dir) }

// free ends the remaining processes of the plane, removes its folder unless keep is set,
// and releases the slot.
func (s *slot) free(keep bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.processes.Close()
	if !keep {
		err = errors.Join(err, wipe(s.dir))
	}
	return errors.Join(err, s.lock.Close())
}

// wipe ends the processes of a slot without owner and removes its folder.
func wipe(dir string) error {
	all := recorded(dir)
	for _, p := range kubelet.Procs() {
		if component(p, dir) || strings.HasPrefix(p.Environ(kubelet.RootVariable), dir+string(filepath.Separator)) {
			all = append(all, p)
		}
	}
	if err := kubelet.End(all); err != nil {
		return fmt.Errorf("ending what an earlier plane left in %s: %w", dir, err)
	}
	return os.RemoveAll(dir)
}

// component reports whether a process is a program of the plane in this folder: by its
// name and a flag with the folder. An editor or kubectl of a person is not.
func component(p kubelet.Proc, dir string) bool {
	args := p.Args()
	if len(args) == 0 {
		return false
	}
	switch filepath.Base(args[0]) {
	case "etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler":
	default:
		return false
	}
	for _, arg := range args[1:] {
		if _, value, ok := strings.Cut(arg, "="); ok && strings.HasPrefix(value, dir+string(filepath.Separator)) {
			return true
		}
	}
	return false
}

func recorded(dir string) []kubelet.Proc {
	text, err := os.ReadFile(filepath.Join(dir, "processes"))
	if err != nil {
		return nil
	}
	var found []kubelet.Proc
	for line := range strings.Lines(string(text)) {
		var pid int
		var started uint64
		if _, err := fmt.Sscan(line, &pid, &started); err != nil {
			continue // the incomplete last line of a killed process
		}
		if p, ok := kubelet.FindProcess(pid); ok && p.Started == started {
			found = append(found, p)
		}
	}
	return found
}

// tryLock opens and locks a file; the lock ends with the file or the process.
func tryLock(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}
