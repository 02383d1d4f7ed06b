//go:build !unix

package sqlite

import (
	"errors"
	"os"
)

// lockFile takes the lock; nil if another process has it: on these systems an open file
// cannot be removed.
func lockFile(path string) (*os.File, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
}
