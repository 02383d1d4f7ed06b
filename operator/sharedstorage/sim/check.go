package sim

import (
	"context"
	"slices"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

var _ port.Checker = instances{}

// Check implements port.Checker.
func (s instances) Check(_ context.Context, _ port.Ref, want port.Instance, count int, _ int64) error {
	w := s.w
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case len(w.o.Versions) > 0 && want.Version != "" && !slices.Contains(w.o.Versions, want.Version):
		return port.VersionUnsupported.Errorf("there is no version %q: %v", want.Version, w.o.Versions)
	case w.quota > 0 && count > w.quota:
		return port.QuotaExceeded.Errorf("quota: %d more instances, and there is room for %d", count, w.quota)
	}
	return nil
}

// Quota sets room for this many more instances; 0: there is no quota.
func (w *Simulation) Quota(room int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.quota = room
}
