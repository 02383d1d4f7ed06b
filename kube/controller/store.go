package controller

import (
	"context"
	"errors"
	"math"
	"strconv"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
)

// Store reads objects of one kind and writes their status, for an operator whose passes may
// be faster than the cache of its manager:
//
//	d, err := s.Load(ctx, key)            // no older than what this process has written
//	d.Object.Status.State = "Running"
//	err = s.Save(ctx, d, true)            // finalizer first, then the status
//
// It is safe for concurrent use; one draft is for one pass.
type Store[T client.Object] struct {
	Client    client.Client // reads from the cache of the manager, writes to the API server
	Live      client.Reader // reads from the API server
	New       func() T      // an empty object
	Finalizer string
	// Matters reports an annotation that a pass must see before its status is written. An
	// edit of any other one, and of labels, does not make a save a conflict. nil: none.
	Matters func(annotation string) bool

	mu      sync.Mutex
	written map[string]uint64 // by namespace/name: the newest version that this process wrote
}

// maxRebases is how often one save meets edits that do not matter. A tool that edits an
// object all the time must not keep it from moving.
const maxRebases = 8

// Load reads an object and begins a draft of its status. It reads from the cache, unless this
// process has written a version that the cache does not have yet. control.NotFound if the
// object is gone.
func (s *Store[T]) Load(ctx context.Context, key client.ObjectKey) (*Draft[T], error) {
	draft, behind, err := s.LoadCached(ctx, key)
	if !behind {
		return draft, err
	}
	return Load(ctx, s.Live, s.Client, key, s.New())
}

// LoadCached is Load without a call to the API server: behind is true while the cache does not have
// what this process has written; then there is no draft.
func (s *Store[T]) LoadCached(ctx context.Context, key client.ObjectKey) (draft *Draft[T], behind bool, err error) {
	obj := s.New()
	err = Fault(s.Client.Get(ctx, key, obj))
	s.mu.Lock()
	newest := s.written[key.String()]
	if errors.Is(err, control.NotFound) || err == nil && version(obj) >= newest {
		delete(s.written, key.String())
		newest = 0
	}
	s.mu.Unlock()
	if err != nil || newest != 0 {
		return nil, newest != 0, err
	}
	draft, err = NewDraft(s.Client, obj)
	return draft, false, err
}

// Save writes the status of a draft if it has changed. The finalizer is there before anything
// that needs it; with finalized false it is removed after everything else.
// fault.WriteConflict if the object was changed in between by an edit that matters; then
// nothing is written, and the pass has to begin again.
func (s *Store[T]) Save(ctx context.Context, d *Draft[T], finalized bool) error {
	obj := d.Object
	defer s.wrote(obj)
	if finalized && !controllerutil.ContainsFinalizer(obj, s.Finalizer) {
		before := obj.DeepCopyObject().(T)
		if err := Finalize(ctx, s.Client, before, s.Finalizer); err != nil {
			return Fault(err)
		}
		obj.SetFinalizers(before.GetFinalizers())
		obj.SetResourceVersion(before.GetResourceVersion())
	}
	if err := s.saveRebased(ctx, d); err != nil {
		return err
	}
	if !finalized {
		return s.Release(ctx, d)
	}
	return nil
}

func (s *Store[T]) saveRebased(ctx context.Context, d *Draft[T]) error {
	matters := s.Matters
	if matters == nil {
		matters = func(string) bool { return false }
	}
	for try := 0; ; try++ {
		_, err := d.Save(ctx)
		if err == nil || !errors.Is(err, fault.WriteConflict) || try == maxRebases {
			return Fault(err)
		}
		if same, failed := d.Rebase(ctx, s.Live, matters); failed != nil || !same {
			return Fault(err)
		}
	}
}

// Release removes the finalizer from the object of a draft.
func (s *Store[T]) Release(ctx context.Context, d *Draft[T]) error {
	defer s.wrote(d.Object)
	return Fault(Release(ctx, s.Client, d.Object, s.Finalizer))
}

// Annotate changes one annotation from one value to another, as the function Annotate does;
// then the draft is one of the object that was written.
func (s *Store[T]) Annotate(ctx context.Context, d *Draft[T], key, from, to string) error {
	if err := Annotate(ctx, s.Client, d.Object, key, from, to); err != nil {
		return err
	}
	return s.renew(d)
}

// SetAnnotations sets annotations of exactly the version that the draft was made from; ""
// removes one. fault.WriteConflict if the object was changed in between. Then the draft is
// one of the object that was written.
func (s *Store[T]) SetAnnotations(ctx context.Context, d *Draft[T], annotations map[string]string) error {
	fresh := map[string]any{}
	for key, value := range annotations {
		if value != "" {
			fresh[key] = value
		} else if _, has := d.Object.GetAnnotations()[key]; has {
			fresh[key] = nil
		}
	}
	patch, err := guarded(d.Object, map[string]any{"annotations": fresh}, map[string]any{})
	if err != nil {
		return err
	}
	if err := s.Client.Patch(ctx, d.Object, patch); err != nil {
		return Fault(err)
	}
	return s.renew(d)
}

func (s *Store[T]) renew(d *Draft[T]) error {
	s.wrote(d.Object)
	next, err := NewDraft(d.client, d.Object)
	if err != nil {
		return err
	}
	*d = *next
	return nil
}

func (s *Store[T]) wrote(obj T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.written == nil {
		s.written = map[string]uint64{}
	}
	s.written[client.ObjectKeyFromObject(obj).String()] = version(obj)
}

// version reads a resourceVersion, which counts up.
func version(obj client.Object) uint64 {
	n, err := strconv.ParseUint(obj.GetResourceVersion(), 10, 64)
	if err != nil {
		return math.MaxUint64
	}
	return n
}
