package controller

import (
	"context"
	"maps"
	"slices"
	"time"
)

// Limits of pollUnsettled. A cluster that stays unsettled is queued again after
// repollAfter, at most maxRepolls clusters per query. The pause between two
// queries is pollPauseFactor times the duration of the last one, up to
// repollAfter: ten thousand clusters whose runs wait cost less than 1 % of a
// core.
const (
	repollAfter     = 30 * time.Second
	maxRepolls      = 64
	pollPauseFactor = 400
	maxUnsettled    = 100_000
)

// pollUnsettled queues clusters that are not in their desired state. It finds
// the clusters of a process that died between a write and its notification.
func (s *Controller) pollUnsettled(ctx context.Context, add func(string)) {
	seen := map[string]time.Time{}
	every := s.options.Settings.ResyncEvery
	pause := every
	for tick := time.NewTimer(0); ; tick.Reset(pause) {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		began := time.Now()
		found, err := s.options.Store.Unsettled(ctx, s.options.Now(), maxUnsettled)
		if err != nil {
			if ctx.Err() == nil {
				s.options.Logger.Warn("unsettled clusters could not be listed", "error", err)
			}
			continue
		}
		for _, uuid := range pickDue(seen, found, time.Now()) {
			add(uuid)
		}
		pause = max(every, min(pollPauseFactor*time.Since(began), repollAfter))
	}
}

// pickDue returns the clusters to queue: all new ones, and of the others those
// that were queued longest ago. It updates seen, the time of the last queueing.
func pickDue(seen map[string]time.Time, found []string, now time.Time) []string {
	known := make(map[string]bool, len(found))
	var fresh, old []string
	for _, uuid := range found {
		known[uuid] = true
		switch at, before := seen[uuid]; {
		case !before:
			fresh = append(fresh, uuid)
		case now.Sub(at) >= repollAfter:
			old = append(old, uuid)
		}
	}
	maps.DeleteFunc(seen, func(uuid string, _ time.Time) bool { return !known[uuid] })
	slices.SortStableFunc(old, func(a, b string) int { return seen[a].Compare(seen[b]) })
	chosen := slices.Concat(fresh, old[:min(len(old), maxRepolls)])
	for _, uuid := range chosen {
		seen[uuid] = now
	}
	return chosen
}
