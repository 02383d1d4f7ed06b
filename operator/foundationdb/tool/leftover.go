package tool

import (
	"os"
	"path/filepath"
	"syscall"
)

// A folder of a Database has this name. Its process holds a lock on it from the moment it has that name, so that one
// without a lock was left by a process that was killed.
const (
	rootPattern = "pawl-fdb-tools-"
	newPattern  = "new-pawl-fdb-tools-"
)

// newRoot makes the folder of a Database, and removes those that killed processes have left.
func newRoot(within string) (path string, lock *os.File, err error) {
	if within == "" {
		within = os.TempDir()
	}
	if within, err = filepath.Abs(within); err != nil {
		return "", nil, err
	}
	removeLeftovers(within)
	made, err := os.MkdirTemp(within, newPattern)
	if err != nil {
		return "", nil, err
	}
	if lock, err = lockFolder(made); err == nil {
		path = filepath.Join(within, rootPattern+filepath.Base(made)[len(newPattern):])
		err = os.Rename(made, path)
	}
	if err != nil {
		if lock != nil {
			lock.Close()
		}
		os.RemoveAll(made)
		return "", nil, err
	}
	return path, lock, nil
}

// removeLeftovers removes the folders that no process holds. What cannot be removed belongs to somebody else.
func removeLeftovers(within string) {
	entries, err := os.ReadDir(within)
	if err != nil {
		return // MkdirTemp says what is wrong
	}
	for _, entry := range entries {
		if ok, _ := filepath.Match(rootPattern+"*", entry.Name()); !ok || !entry.IsDir() {
			continue
		}
		path := filepath.Join(within, entry.Name())
		lock, err := lockFolder(path)
		if err != nil {
			continue
		}
		os.RemoveAll(path)
		lock.Close()
	}
}

// lockFolder locks a folder for as long as this process lives, or until the file is closed. It fails if another
// process holds it.
func lockFolder(path string) (*os.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
