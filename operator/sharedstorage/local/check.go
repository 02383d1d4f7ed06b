package local

import (
	"context"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

var _ port.Checker = &Instances{}

// Check implements port.Checker: it checks that the version is installed.
func (i *Instances) Check(_ context.Context, _ port.Ref, want port.Instance, _ int, _ int64) error {
	_, _, err := i.placement.binaries(want.Version)
	return err
}
