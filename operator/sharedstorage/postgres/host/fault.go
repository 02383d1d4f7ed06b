package host

import (
	"errors"
	"os"
	"strings"
	"syscall"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// Trouble returns the fault of a folder that cannot be used.
func Trouble(err error) error {
	switch {
	case err == nil:
		return nil
	case IsFull(err):
		return port.StorageFull.Errorf("%w", err)
	case errors.Is(err, os.ErrNotExist):
		return port.StorageFailed.Errorf("the folder of the volume is not there: %w", err)
	}
	return port.StorageFailed.Errorf("%w", err)
}

// IsFull recognizes a full disk in an error or in the output of a program.
func IsFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || strings.Contains(err.Error(), "No space left on device")
}
