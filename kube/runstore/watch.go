package runstore

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/pawl-dev/pawl/kube/runstore/client"
	"github.com/pawl-dev/pawl/kube/runstore/format"
)

// watches feed the cache.
type watches struct {
	*shared
	synced   chan struct{} // closed when all watches have read their lists
	unsynced int
}

// watch starts the watch of runs and, unless Options.Client is set, the watch of the
// leases of workers.
func (s *watches) watch() {
	_, _, selector, _ := s.format.Resource()
	s.reflect(s.runRef(s.watchNamespace(), ""), selector, s.format.NewList, s.format.NewObject(), &runSink{s: s.shared})
	if s.o.Client {
		return
	}
	s.reflect(client.Ref{Group: leaseGroup, Resource: leaseResource, Namespace: s.o.Namespace}, format.LabelKind+"=worker",
		func() runtime.Object { return &coordinationv1.LeaseList{} }, &coordinationv1.Lease{}, &workerSink{s: s.shared})
}

func (s *watches) reflect(r client.Ref, selector string, list func() runtime.Object, empty runtime.Object, sink toolscache.ReflectorStore) {
	lw := &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.LabelSelector = selector
			into := list()
			return into, s.client.List(ctx, r, o, into)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector = selector
			return s.client.Watch(ctx, r, o)
		},
	}
	quiet := logr.Discard() // the reflector retries; the store logs what matters
	reflector := toolscache.NewReflectorWithOptions(lw, empty, sink, toolscache.ReflectorOptions{Name: "pawl/" + r.Resource, Logger: &quiet})
	s.all.Go(func() { reflector.RunWithContext(klog.NewContext(s.ctx, quiet)) })
}

// markSynced notes that a watch has read its list; s.mu is held.
func (s *watches) markSynced(once *bool) {
	if *once {
		return
	}
	*once = true
	if s.unsynced--; s.unsynced == 0 {
		close(s.synced)
	}
}

// runSink receives the watch of runs.
type runSink struct {
	s      *shared
	synced bool
}

func (k *runSink) Add(obj any) error    { return k.take(obj) }
func (k *runSink) Update(obj any) error { return k.take(obj) }
func (k *runSink) Resync() error        { return nil }

func (k *runSink) take(obj any) error {
	s := k.s
	if s.foreign(obj) {
		m, err := meta.Accessor(obj)
		s.mu.Lock()
		defer s.mu.Unlock()
		if err == nil {
			s.history.advanceWatermark(format.ParseVersion(m.GetResourceVersion()))
		}
		return nil
	}
	o, err := s.format.Decode(obj.(runtime.Object))
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.watches.skipUnreadable(obj, err)
		return nil
	}
	s.upsert(o)
	s.history.advanceWatermark(o.Version)
	return nil
}

func (k *runSink) Delete(obj any) error {
	s := k.s
	m, err := meta.Accessor(obj)
	if err != nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(m.GetNamespace(), m.GetName(), format.ParseVersion(m.GetResourceVersion()))
	delete(s.cache.deleted, objectKey{m.GetNamespace(), m.GetName()})
	s.history.advanceWatermark(format.ParseVersion(m.GetResourceVersion()))
	return nil
}

// Bookmark notes that the watch has reported everything up to a version.
func (k *runSink) Bookmark(version string) error {
	k.s.mu.Lock()
	defer k.s.mu.Unlock()
	k.s.history.advanceWatermark(format.ParseVersion(version))
	return nil
}

func (k *runSink) Replace(list []any, version string) error {
	s := k.s
	objects := make([]*format.Object, 0, len(list))
	present := map[objectKey]bool{}
	var unreadable []any
	var reasons []error
	for _, item := range list {
		if s.foreign(item) {
			continue
		}
		o, err := s.format.Decode(item.(runtime.Object))
		if err != nil {
			unreadable, reasons = append(unreadable, item), append(reasons, err)
			if m, err := meta.Accessor(item); err == nil {
				present[objectKey{m.GetNamespace(), m.GetName()}] = true
			}
			continue
		}
		objects = append(objects, o)
		present[objectKey{o.Namespace, o.Name}] = true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	at := format.ParseVersion(version)
	for key := range s.cache.objects {
		if !present[key] {
			s.forget(key.namespace, key.name, at)
		}
	}
	clear(s.cache.deleted)
	for _, o := range objects {
		s.upsert(o)
	}
	for i := range unreadable {
		s.watches.skipUnreadable(unreadable[i], reasons[i])
	}
	s.history.advanceWatermark(at)
	s.watches.markSynced(&k.synced)
	return nil
}

// skipUnreadable removes an object that cannot be decoded from the cache and logs it.
// s.mu is held.
func (s *watches) skipUnreadable(obj any, err error) {
	if m, e := meta.Accessor(obj); e == nil {
		s.forget(m.GetNamespace(), m.GetName(), format.ParseVersion(m.GetResourceVersion()))
	}
	s.log.Error("kube/runstore: a run cannot be read and is skipped", "error", err)
}

// workerSink receives the watch of the leases of workers.
type workerSink struct {
	s      *shared
	synced bool
}

func (k *workerSink) Add(obj any) error    { return k.take(obj) }
func (k *workerSink) Update(obj any) error { return k.take(obj) }
func (k *workerSink) Resync() error        { return nil }

func (k *workerSink) take(obj any) error {
	l, ok := obj.(*coordinationv1.Lease)
	if !ok {
		return nil
	}
	k.s.mu.Lock()
	defer k.s.mu.Unlock()
	k.s.workers.updateWorker(l, time.Now())
	return nil
}

func (k *workerSink) Delete(obj any) error {
	if l, ok := obj.(*coordinationv1.Lease); ok {
		k.s.mu.Lock()
		defer k.s.mu.Unlock()
		k.s.workers.workerDeleted(l.Annotations[annotationWorker], format.ParseVersion(l.ResourceVersion))
	}
	return nil
}

func (k *workerSink) Replace(list []any, version string) error {
	s := k.s
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	present := map[string]bool{}
	for _, item := range list {
		if l, ok := item.(*coordinationv1.Lease); ok {
			present[l.Annotations[annotationWorker]] = true
			s.workers.updateWorker(l, now)
		}
	}
	for name := range s.workers.workers {
		if !present[name] {
			s.workers.workerDeleted(name, format.ParseVersion(version))
		}
	}
	s.watches.markSynced(&k.synced)
	return nil
}
