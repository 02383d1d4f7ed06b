package runstore

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/kube/runstore/client"
	"github.com/pawl-dev/pawl/kube/runstore/format"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// retention removes ended runs and what is left of them.
type retention struct{ *shared }

// Expired returns finished runs that the policy does not keep. See runstore.Retainer.
func (s *Store) Expired(ctx context.Context, now time.Time, policy func(flow string) runtype.Retention, limit int) ([]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.retention.sweep(ctx)
	s.slots.sweepSlots(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	type candidate struct {
		e     *entry
		ended time.Time
	}
	order := func(a, b candidate) int {
		return cmp.Or(a.ended.Compare(b.ended), cmp.Compare(a.e.created, b.e.created), cmp.Compare(a.e.ID(), b.e.ID()))
	}
	var old []candidate
	for _, sub := range s.cache.subjects {
		var ended []candidate
		for e := range sub.runs {
			if e.Accepted() && e.Phase().Final() {
				d := &format.Decoder{}
				ended = append(ended, candidate{e, d.Time(e.Status.EndedAt)})
			}
		}
		slices.SortFunc(ended, func(a, b candidate) int { return order(b, a) })
		for rank, c := range ended {
			if parent := s.cache.ids[c.e.Spec.Parent]; parent != nil && !parent.Phase().Final() {
				continue // its parent is still active
			}
			if !policy(c.e.Spec.Flow).Keeps(now, c.ended, rank) {
				old = append(old, c)
			}
		}
	}
	slices.SortFunc(old, order)
	if limit > 0 && len(old) > limit {
		old = old[:limit]
	}
	ids := make([]string, len(old))
	for i, c := range old {
		ids[i] = c.e.ID()
	}
	return ids, nil
}

// Remove deletes finished runs. See runstore.Retainer.
func (s *Store) Remove(ctx context.Context, ids []string) error {
	for _, id := range ids {
		s.mu.Lock()
		e := s.cache.ids[id]
		s.mu.Unlock()
		if e == nil {
			continue
		}
		if err := s.retention.remove(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

func (s *retention) remove(ctx context.Context, e *entry) error {
	if !e.lock(ctx.Done()) {
		return ctx.Err()
	}
	defer e.unlock()
	for try := 0; ; try++ {
		s.mu.Lock()
		o, final, gone := *e.Object, e.Phase().Final(), e.removed
		s.mu.Unlock()
		if gone || !final {
			return nil
		}
		if o.Status.Seq > keepEvents+historyEvents {
			group, resource := s.format.HistoryResource()
			err := s.client.DeleteAll(ctx, client.Ref{Group: group, Resource: resource, Namespace: o.Namespace}, format.LabelRun+"="+format.LabelValue(o.Name))
			if err != nil && !client.IsNotFound(err) {
				return client.StoreError(ctx, "removing the history of run "+o.ID(), err)
			}
		}
		err := s.client.Delete(ctx, s.runRef(o.Namespace, o.Name), o.UID, format.VersionText(o.Version))
		switch wait, throttled := client.RetryAfter(err); {
		case err == nil, client.IsNotFound(err):
			s.mu.Lock()
			s.forget(o.Namespace, o.Name, 0)
			s.mu.Unlock()
			return nil
		case client.IsConflict(err) && try < tries:
			if err := s.refresh(ctx, e); errors.Is(err, runstore.ErrNotFound) {
				return nil
			} else if err != nil {
				return err
			}
		case throttled && try < tries:
			if !sleep(ctx, wait) {
				return ctx.Err()
			}
		default:
			return client.StoreError(ctx, "removing run "+o.ID(), err)
		}
	}
}

// sweepAfter is how long an expired Lease of a worker without runs is kept, and the
// interval of sweepSlots.
const sweepAfter = time.Hour

// sweep deletes the Leases of dead workers: each start of a process creates one.
func (s *retention) sweep(ctx context.Context) {
	s.mu.Lock()
	versions := map[string]uint64{}
	for name, w := range s.workers.workers {
		if w.version > 0 && len(s.cache.owned[name]) == 0 && time.Since(w.expiresAt()) > sweepAfter {
			versions[name] = w.version
		}
	}
	s.mu.Unlock()
	for name, version := range versions {
		err := s.client.Delete(ctx, s.workers.workerRef(name), "", format.VersionText(version))
		if err != nil && !client.IsNotFound(err) && !client.IsConflict(err) {
			s.log.Debug("kube/runstore: the lease of a dead worker stays", "worker", name, "error", err)
		}
	}
}
