package sandbox

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/pawl-dev/pawl/operator/foundationdb/port"
)

// journal has the last changes of objects.
type journal struct {
	version int64 // of the last object that was written
	dropped int   // entries that are not kept any more
	entries []entry
}

// entry is a change. A deletion has the version of the write before it.
type entry struct {
	version     int64
	before, now port.Object // nil: there was none, there is none
}

// kept is how many changes are kept at most.
const kept = 20000

func (j *journal) add(before, now port.Object) {
	if now != nil {
		if n, err := strconv.ParseInt(now.GetResourceVersion(), 10, 64); err == nil {
			j.version = n
		}
	}
	if len(j.entries) == 2*kept {
		j.dropped += kept
		j.entries = slices.Clone(j.entries[kept:])
	}
	j.entries = append(j.entries, entry{j.version, before, now})
}

// after returns the place of the first change that a list of a version does not have, and false if it is not kept. A
// deletion right after that version cannot be told from one right before it, and is told again.
func (j *journal) after(version int64) (int, bool) {
	at, _ := slices.BinarySearchFunc(j.entries, version, func(e entry, v int64) int {
		if e.version > v || e.version == v && e.now == nil {
			return 1
		}
		return -1
	})
	return j.dropped + at, j.dropped == 0 || at > 0
}

// since returns the changes from a place on, and the next place.
func (j *journal) since(at int) ([]entry, int) {
	return j.entries[max(0, at-j.dropped):], j.dropped + len(j.entries)
}

// change is a change as a watch tells it. ok: the watch sees it.
func (e entry) change(q query) (kind watch.EventType, o runtime.Object, ok bool) {
	was, is := e.before != nil && q.matches(e.before), e.now != nil && q.matches(e.now)
	switch {
	case is && was:
		return watch.Modified, e.now, true
	case is:
		return watch.Added, e.now, true
	case was:
		gone, _ := e.before.DeepCopyObject().(port.Object)
		gone.SetResourceVersion(strconv.FormatInt(e.version, 10))
		return watch.Deleted, gone, true
	}
	return "", nil, false
}

// watch tells the changes of objects until the caller goes.
func (s *Sandbox) watch(w http.ResponseWriter, r *http.Request, q query) error {
	values := r.URL.Query()
	if values.Get("sendInitialEvents") != "" {
		return apierrors.NewInvalid(q.version.WithKind(q.Kind).GroupKind(), "", nil) // the caller lists instead
	}
	flusher, ok := w.(http.Flusher)
	if !ok || q.object == nil {
		return apierrors.NewMethodNotSupported(q.resource(), "watch")
	}
	place, first, err := s.begin(q, values.Get("resourceVersion"))
	if err != nil {
		return err
	}
	var ended <-chan time.Time
	if seconds, err := strconv.Atoi(values.Get("timeoutSeconds")); err == nil && seconds > 0 {
		timer := time.NewTimer(time.Duration(seconds) * time.Second)
		defer timer.Stop()
		ended = timer.C
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	out := json.NewEncoder(w)
	tell := func(kind watch.EventType, o runtime.Object) error {
		return out.Encode(map[string]any{"type": kind, "object": q.shown(r, []runtime.Object{o}, o)})
	}
	for _, o := range first {
		if tell(watch.Added, o) != nil {
			return nil // the caller is gone
		}
	}
	for {
		s.mu.Lock()
		changes, next := s.history.since(place)
		changed, now := s.changed, s.world.Now()
		s.mu.Unlock()
		q.now = now
		place = next
		for _, e := range changes {
			if kind, o, ok := e.change(q); ok && tell(kind, o) != nil {
				return nil
			}
		}
		flusher.Flush()
		select {
		case <-changed:
		case <-ended:
			return nil
		case <-r.Context().Done():
			return nil
		}
	}
}

// begin returns where a watch begins, and what it tells first: a watch from no version begins with all there is.
func (s *Sandbox) begin(q query, version string) (int, []runtime.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if cmp.Or(version, "0") == "0" {
		_, place := s.history.since(0)
		all, err := s.find(q)
		return place, all, err
	}
	n, err := strconv.ParseInt(version, 10, 64)
	if err != nil {
		return 0, nil, apierrors.NewBadRequest("resourceVersion: " + err.Error())
	}
	place, there := s.history.after(n)
	if !there {
		return 0, nil, apierrors.NewResourceExpired("the version is too old")
	}
	return place, nil, nil
}

// listed is a list of objects, as JSON has it.
type listed struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []runtime.Object `json:"items"`
}
