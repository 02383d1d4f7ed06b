package kube

import (
	"reflect"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Caches are some milliseconds behind. A write that is older than writtenAge is in the cache, or the API server is
// in such trouble that a conflict is the smallest of it.
const (
	writtenAge  = time.Minute
	writtenMany = 1024 // entries from which old ones are looked for
)

// written remembers what this process has written and the cache may not have yet.
type written struct {
	mu     sync.Mutex
	writes map[objectKey]write
	now    func() time.Time // nil: time.Now
}

type objectKey struct {
	kind reflect.Type
	client.ObjectKey
}

// write is the newest write of an object: a version, or a deletion.
type write struct {
	version string
	deleted types.UID
	object  client.Object // as it was stored; nil: it was not kept
	at      time.Time
}

func keyOf(object client.Object) objectKey {
	return objectKey{reflect.TypeOf(object), client.ObjectKeyFromObject(object)}
}

// stored remembers an object as it was stored. keep: with its content.
func (w *written) stored(object client.Object, keep bool) {
	entry := write{version: object.GetResourceVersion()}
	if keep {
		entry.object = object.DeepCopyObject().(client.Object)
	}
	w.put(keyOf(object), entry)
}

// gone remembers the deletion of an object.
func (w *written) gone(object client.Object) { w.put(keyOf(object), write{deleted: object.GetUID()}) }

func (w *written) put(key objectKey, entry write) {
	w.mu.Lock()
	defer w.mu.Unlock()
	entry.at = w.time()
	if w.writes == nil {
		w.writes = map[objectKey]write{}
	}
	if len(w.writes) >= writtenMany {
		for k, old := range w.writes {
			if entry.at.Sub(old.at) > writtenAge {
				delete(w.writes, k)
			}
		}
	}
	w.writes[key] = entry
}

func (w *written) time() time.Time {
	if w.now != nil {
		return w.now()
	}
	return time.Now()
}

// missing returns the newest write of an object if a cache does not have it. found: the cache has an object.
func (w *written) missing(cached client.Object, found bool) (write, bool) {
	key := keyOf(cached)
	w.mu.Lock()
	defer w.mu.Unlock()
	entry, is := w.writes[key]
	if !is {
		return write{}, false
	}
	behind := !found || older(cached.GetResourceVersion(), entry.version)
	if entry.deleted != "" {
		behind = found && cached.GetUID() == entry.deleted && cached.GetDeletionTimestamp() == nil
	}
	if !behind || w.time().Sub(entry.at) > writtenAge {
		delete(w.writes, key)
		return write{}, false
	}
	return entry, true
}

// content returns the object as this process has stored it in that version. nil: it is not known.
func (w *written) content(object client.Object) client.Object {
	w.mu.Lock()
	defer w.mu.Unlock()
	if entry := w.writes[keyOf(object)]; entry.object != nil && entry.version == object.GetResourceVersion() {
		return entry.object
	}
	return nil
}

// older reports whether the version a comes before b. Versions that cannot be compared are older unless they are the same.
func older(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	if err != nil {
		return a != b
	}
	return order < 0
}
