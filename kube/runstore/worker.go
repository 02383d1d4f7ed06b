package runstore

import (
	"context"
	"errors"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/kube/runstore/client"
	"github.com/pawl-dev/pawl/kube/runstore/format"
	"github.com/pawl-dev/pawl/workflow/runstore"
)

// workers are the leases of the processes that work on runs.
type workers struct {
	*shared
	workers map[string]*worker // by name
}

// firstLease is the lease of a worker that owns a run before its first claim.
const firstLease = 15 * time.Second

const annotationWorker = format.Domain + "worker"

// worker is the Lease of a worker. The clocks of two machines are never compared: a
// process gives a worker up when it has seen no change of the Lease for the whole
// duration of the lease by its own clock. Giving up is a guarded write, which loses
// against a renewal at the same time.
type worker struct {
	name    string
	version uint64
	lease   time.Duration
	seen    time.Time // when this process last saw a change
	lost    bool
	write   chan struct{}
}

func (w *worker) expiresAt() time.Time { return w.seen.Add(w.lease) }

func workerLease(name string) string { return "pawl-worker-" + format.Digest(name) }

func (s *workers) workerRef(name string) client.Ref {
	return client.Ref{Group: leaseGroup, Resource: leaseResource, Namespace: s.o.Namespace, Name: workerLease(name)}
}

// worker returns the entry of a worker and creates it if it is missing. s.mu is held.
func (s *workers) worker(name string) *worker {
	w := s.workers[name]
	if w == nil {
		w = &worker{name: name, write: make(chan struct{}, 1)}
		s.workers[name] = w
	}
	return w
}

// updateWorker stores a Lease that was read or watched. s.mu is held.
func (s *workers) updateWorker(l *coordinationv1.Lease, now time.Time) {
	name := l.Annotations[annotationWorker]
	if name == "" || l.Name != workerLease(name) {
		return
	}
	w := s.worker(name)
	version := format.ParseVersion(l.ResourceVersion)
	if version <= w.version {
		return
	}
	w.version, w.seen = version, now
	w.lost = l.Spec.HolderIdentity == nil || *l.Spec.HolderIdentity != name
	if lease, err := time.ParseDuration(l.Annotations[format.AnnotationLease]); err == nil && lease > 0 {
		w.lease = lease
	} else if l.Spec.LeaseDurationSeconds != nil {
		w.lease = time.Duration(*l.Spec.LeaseDurationSeconds) * time.Second
	}
	if w.lost && len(s.cache.owned[name]) > 0 {
		s.notify("")
	}
}

// workerDeleted notes that a Lease was deleted: the runs of the worker are free. s.mu is held.
func (s *workers) workerDeleted(name string, version uint64) {
	w := s.workers[name]
	if w == nil || w.version > version {
		return
	}
	w.version, w.lost = 0, true
	if len(s.cache.owned[name]) > 0 {
		s.notify("")
		return
	}
	if len(w.write) == 0 {
		delete(s.workers, name)
	}
}

// writeWorker writes the Lease of a worker. holder is the worker's name to renew it, or
// "" to give it up. It returns ErrFenced if revive is false and the worker was given up,
// and errRenewed if the worker has renewed before it could be given up.
func (s *workers) writeWorker(ctx context.Context, name string, lease time.Duration, holder string, revive bool) error {
	s.mu.Lock()
	w := s.worker(name)
	s.mu.Unlock()
	select {
	case w.write <- struct{}{}:
		defer func() { <-w.write }()
	case <-ctx.Done():
		return ctx.Err()
	}
	for try := 0; ; try++ {
		s.mu.Lock()
		if w.lease == 0 || lease > 0 {
			w.lease = max(lease, 0)
			if lease == 0 {
				w.lease = firstLease
			}
		}
		version, length := w.version, w.lease
		fenced := w.lost && !revive
		s.mu.Unlock()
		if fenced {
			return runstore.ErrFenced
		}
		meta, err := s.putWorker(ctx, name, holder, version, length)
		wait, throttled := client.RetryAfter(err)
		switch {
		case err == nil:
			s.mu.Lock()
			defer s.mu.Unlock()
			if v := format.ParseVersion(meta.ResourceVersion); v >= w.version {
				w.version, w.seen, w.lost = v, time.Now(), holder != name
			}
			s.workers[name] = w
			return nil
		case client.IsConflict(err), client.IsExisting(err), client.IsNotFound(err):
			before := version
			if err := s.readWorker(ctx, name); err != nil {
				return err
			}
			s.mu.Lock()
			lost, now := w.lost, w.version
			s.mu.Unlock()
			if holder != name && now != before {
				return errRenewed
			}
			if lost && !revive {
				return runstore.ErrFenced
			}
			if try >= tries {
				return runstore.StoreUnavailable.Errorf("the lease of worker %s cannot be written: %w", name, err)
			}
		case throttled && try < tries:
			if !sleep(ctx, wait) {
				return ctx.Err()
			}
		default:
			return client.StoreError(ctx, "writing the lease of worker "+name, err)
		}
	}
}

var errRenewed = runstore.ErrOwned

func (s *workers) putWorker(ctx context.Context, name, holder string, version uint64, lease time.Duration) (metav1.ObjectMeta, error) {
	r := s.workerRef(name)
	spec := format.Tree{"holderIdentity": holder, "renewTime": time.Now().UTC().Format(metav1.RFC3339Micro)}
	notes := format.Tree{annotationWorker: name, format.AnnotationLease: lease.String()}
	if version == 0 {
		spec["leaseDurationSeconds"] = int64((lease + time.Second - 1) / time.Second)
		meta := format.NewMeta(r.Name, r.Namespace, map[string]string{format.LabelKind: "worker"})
		meta["annotations"] = notes
		return s.client.Post(ctx, r, format.Tree{"apiVersion": leaseGroup + "/v1", "kind": "Lease", "metadata": meta, "spec": spec})
	}
	meta := format.Tree{"resourceVersion": format.VersionText(version)}
	if holder == name {
		spec["leaseDurationSeconds"] = int64((lease + time.Second - 1) / time.Second)
		meta["annotations"] = notes
	}
	body, err := client.Encode(format.Tree{"metadata": meta, "spec": spec})
	if err != nil {
		return metav1.ObjectMeta{}, err
	}
	return s.client.Patch(ctx, r, "", body)
}

// readWorker reads the Lease of a worker.
func (s *workers) readWorker(ctx context.Context, name string) error {
	var l coordinationv1.Lease
	err := s.client.Get(ctx, s.workerRef(name), &l)
	if err != nil && !client.IsNotFound(err) {
		return client.StoreError(ctx, "reading the lease of worker "+name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		w := s.worker(name)
		w.version, w.lost = 0, true
		return nil
	}
	s.updateWorker(&l, time.Now())
	return nil
}

// ensureAlive renews the Lease of a worker before it takes runs. In the first third of a
// lease it sends no request.
func (s *workers) ensureAlive(ctx context.Context, name string, lease time.Duration) error {
	s.mu.Lock()
	w := s.workers[name]
	fresh := w != nil && !w.lost && w.version > 0 && (lease == 0 || lease == w.lease) && time.Since(w.seen) < w.lease/3
	s.mu.Unlock()
	if fresh {
		return nil
	}
	return s.writeWorker(ctx, name, lease, name, true)
}

// Renew renews the lease of a worker. See runstore.Claimer.
func (s *Store) Renew(ctx context.Context, worker string, lease time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.workers.writeWorker(ctx, worker, lease, worker, false)
}

// isDead reports whether the owner of a run was given up. unsure: its Lease is unknown or
// has expired and must be checked. s.mu is held.
func (s *workers) isDead(owner string, now time.Time) (dead, unsure bool) {
	w := s.workers[owner]
	switch {
	case w == nil:
		return false, true
	case w.lost:
		return true, false
	}
	return false, !now.Before(w.expiresAt())
}

// giveUpExpired gives up the workers whose lease has expired.
func (s *workers) giveUpExpired(ctx context.Context, alive string) error {
	s.mu.Lock()
	now := time.Now()
	var unknown, silent []string
	for owner := range s.cache.owned {
		if owner == alive {
			continue
		}
		if _, unsure := s.isDead(owner, now); !unsure {
			continue
		}
		if s.workers[owner] == nil {
			unknown = append(unknown, owner)
		} else {
			silent = append(silent, owner)
		}
	}
	s.mu.Unlock()
	for _, owner := range unknown {
		if err := s.readWorker(ctx, owner); err != nil {
			return err
		}
	}
	for _, owner := range silent {
		if err := s.giveUp(ctx, owner); err != nil {
			return err
		}
	}
	return nil
}

// giveUp marks a silent worker as lost, unless it has renewed.
func (s *workers) giveUp(ctx context.Context, owner string) error {
	err := s.writeWorker(ctx, owner, 0, "", true)
	if errors.Is(err, errRenewed) {
		return nil
	}
	if err == nil {
		s.log.Warn("kube/runstore: a worker has not renewed its lease and is given up", "worker", owner)
	}
	return err
}

// confirmDead reports whether an owner is dead. It reads or gives up its Lease if that is
// not known.
func (s *workers) confirmDead(ctx context.Context, owner string) (bool, error) {
	for range 3 {
		s.mu.Lock()
		dead, unsure := s.isDead(owner, time.Now())
		known := s.workers[owner] != nil
		s.mu.Unlock()
		switch {
		case !unsure:
			return dead, nil
		case !known:
			if err := s.readWorker(ctx, owner); err != nil {
				return false, err
			}
		default:
			if err := s.giveUp(ctx, owner); err != nil {
				return false, err
			}
		}
	}
	return false, nil
}
