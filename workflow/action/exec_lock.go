package action

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// runLock is the lock file of the key of a step. The lock belongs to the open file, which the
// processes of the command inherit as descriptor 3. So it is held as long as one of them lives,
// even if the worker was killed. The file contains the process group.
type runLock struct {
	file *os.File
	path string
}

var errHeld = errors.New("the lock is held")

// takeLock takes the lock of a key. First it ends processes of an earlier attempt that hold it:
// with SIGTERM, and after grace with SIGKILL. If they survive, it fails with COMMAND_STILL_RUNNING.
func takeLock(ctx context.Context, stateDir, key string, grace time.Duration) (*runLock, error) {
	path, err := lockPath(stateDir, key)
	if err != nil {
		return nil, StateFolderUnusable.Errorf("%w", err)
	}
	for _, stage := range []struct {
		signal syscall.Signal
		within time.Duration
	}{{0, 0}, {syscall.SIGTERM, grace}, {syscall.SIGKILL, killTimeout}} {
		if stage.signal != 0 {
			for _, group := range oldGroups(path) {
				signalGroup(group, stage.signal)
			}
		}
		lock, err := awaitLock(ctx, path, stage.within)
		if err == nil {
			return lock, nil
		}
		if cause := context.Cause(ctx); cause != nil {
			return nil, fmt.Errorf("the wait for the lock of an earlier attempt ended: %w", cause)
		}
		if !errors.Is(err, errHeld) {
			return nil, StateFolderUnusable.Errorf("%w", err)
		}
	}
	holders := lockHolders(path)
	names := make([]string, len(holders))
	for i, h := range holders {
		names[i] = fmt.Sprintf("%d (%s)", h.pid, h.name)
	}
	if len(names) == 0 {
		names = []string{"unknown to this worker"}
	}
	return nil, CommandStillRunning.Errorf("an earlier attempt still holds %s, processes: %s", path, strings.Join(names, ", ")).With("lock", path)
}

func awaitLock(ctx context.Context, path string, within time.Duration) (lock *runLock, err error) {
	gone(within, func() bool {
		lock, err = tryLock(path)
		return !errors.Is(err, errHeld) || ctx.Err() != nil
	})
	return lock, err
}

// tryLock takes the lock or fails with errHeld.
func tryLock(path string) (*runLock, error) {
	for {
		file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, err
		}
		if err := flock(file); err != nil {
			file.Close()
			return nil, err
		}
		mine, err := file.Stat()
		if err != nil {
			file.Close()
			return nil, err
		}
		// The previous holder may have removed the file in between.
		if now, err := os.Stat(path); err == nil && os.SameFile(mine, now) {
			lock := &runLock{file: file, path: path}
			lock.note(0)
			return lock, nil
		}
		file.Close()
	}
}

func flock(file *os.File) error {
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EWOULDBLOCK):
			return errHeld
		default:
			return err
		}
	}
}

// note stores the process group; 0 means none. If it fails, the next attempt only has to search for
// the holders.
func (l *runLock) note(group int) {
	text := ""
	if group > 0 {
		text = strconv.Itoa(group) + "\n"
	}
	if err := l.file.Truncate(0); err == nil {
		_, _ = l.file.WriteAt([]byte(text), 0)
	}
}

// release releases the lock. It removes the file unless a process still holds it.
func (l *runLock) release() {
	l.file.Close()
	if again, err := tryLock(l.path); err == nil {
		os.Remove(l.path)
		again.file.Close()
	}
}

// oldGroups returns the process groups that must end before the lock is free: those of its holders,
// else the group in the file.
func oldGroups(path string) []int {
	var noted int
	if data, err := os.ReadFile(path); err == nil {
		noted, _ = strconv.Atoi(strings.TrimSpace(string(data)))
	}
	return groupsToEnd(noted, lockHolders(path), syscall.Getpgrp())
}

// groupsToEnd prefers the holders to the noted group, because the number of a group that has ended
// may belong to another group now.
func groupsToEnd(noted int, holders []holder, own int) []int {
	var groups []int
	for _, h := range holders {
		groups = append(groups, h.group)
	}
	if len(holders) == 0 {
		groups = []int{noted}
	}
	groups = slices.DeleteFunc(groups, func(g int) bool { return g <= 1 || g == own })
	slices.Sort(groups)
	return slices.Compact(groups)
}

func lockPath(stateDir, key string) (string, error) {
	if stateDir == "" {
		stateDir = userState()
	}
	dir := filepath.Join(stateDir, "exec")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	// The kernel shows the resolved path of an open file.
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(key))
	name := strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:16]))
	return filepath.Join(dir, name+".lock"), nil
}

// userState returns the directory pawl in the state directory of the user.
func userState() string {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "pawl")
	}
	if home, err := os.UserHomeDir(); err == nil {
		return filepath.Join(home, ".local", "state", "pawl")
	}
	return filepath.Join(os.TempDir(), "pawl-"+strconv.Itoa(os.Getuid()))
}
