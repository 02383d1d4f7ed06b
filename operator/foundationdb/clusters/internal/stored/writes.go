package stored

import (
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pawl-dev/pawl/operator/foundationdb/port"
)

// sight is how long a list may miss what was written: later the list is right.
const sight = time.Minute

// Writes are what was written, until the lists show it.
type Writes struct {
	written map[types.UID]written
	deleted map[types.UID]time.Time
}

type written struct {
	object  port.Object
	created bool // and not only changed
	at      time.Time
}

// Wrote notes an object as the API server has returned it.
func (w *Writes) Wrote(object port.Object, created bool, now time.Time) {
	if w.written == nil {
		w.written = map[types.UID]written{}
	}
	if before, ok := w.written[object.GetUID()]; ok && before.created {
		w.written[object.GetUID()] = written{object: object, created: true, at: before.at}
		return
	}
	w.written[object.GetUID()] = written{object: object, created: created, at: now}
}

// Deleted notes that an object was deleted.
func (w *Writes) Deleted(uid types.UID, now time.Time) {
	if w.deleted == nil {
		w.deleted = map[types.UID]time.Time{}
	}
	w.deleted[uid] = now
}

// Seen returns the objects of a list as they are now: a list may miss what this operator has written
// within the last minute.
func Seen[T any, P interface {
	*T
	port.Object
}](w *Writes, items []T) []P {
	all := make([]P, 0, len(items))
	listed := make(map[string]bool, len(items))
	for i := range items {
		object := P(&items[i])
		listed[object.GetName()] = true
		if one, ok := w.written[object.GetUID()]; ok {
			if newer, ok := one.object.(P); ok && older(object.GetResourceVersion(), newer.GetResourceVersion()) {
				object = newer.DeepCopyObject().(P) //nolint:forcetypeassert // it is a copy of a P
			}
			one.created = false // when the lists do not have it any more, somebody has deleted it
			w.written[one.object.GetUID()] = one
		}
		if at, gone := w.deleted[object.GetUID()]; gone && object.GetDeletionTimestamp() == nil {
			t := metav1.NewTime(at)
			object.SetDeletionTimestamp(&t)
		}
		all = append(all, object)
	}
	for uid, one := range w.written {
		object, ok := one.object.(P)
		if _, gone := w.deleted[uid]; !ok || gone || listed[object.GetName()] || !one.created {
			continue
		}
		all = append(all, object.DeepCopyObject().(P)) //nolint:forcetypeassert // it is a copy of a P
	}
	return all
}

// Tidy drops what the lists must have shown by now.
func (w *Writes) Tidy(now time.Time) {
	for uid, one := range w.written {
		if now.Sub(one.at) > sight {
			delete(w.written, uid)
		}
	}
	for uid, at := range w.deleted {
		if now.Sub(at) > sight {
			delete(w.deleted, uid)
		}
	}
}

// older reports whether a resource version comes before another one; false where that cannot be said.
func older(a, b string) bool {
	x, err := strconv.ParseUint(a, 10, 64)
	if err != nil {
		return false
	}
	y, err := strconv.ParseUint(b, 10, 64)
	return err == nil && x < y
}
