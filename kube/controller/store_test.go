package controller

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strconv"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
)

const held = "example.com/held"

// server is an API server with one object, and a cache that is behind until it is told.
type server struct {
	client.Client // nil: what is not asked here fails
	obj, cached   *demo
	writes        []string // what each write changed
	live          int      // reads past the cache
	crashAt       int      // the write after which the program dies; 0: none
}

var errDied = errors.New("the program died")

func newServer() *server {
	obj := &demo{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a", UID: "u", ResourceVersion: "1", Generation: 1}}
	return &server{obj: obj, cached: obj.DeepCopyObject().(*demo)}
}

func (s *server) read(from, into *demo) error {
	if from == nil {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "demos"}, "a")
	}
	*into = *from.DeepCopyObject().(*demo)
	return nil
}

func (s *server) Get(_ context.Context, _ client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	return s.read(s.cached, obj.(*demo))
}

type liveReader struct {
	client.Reader
	s *server
}

func (r liveReader) Get(_ context.Context, _ client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	r.s.live++
	return r.s.read(r.s.obj, obj.(*demo))
}

func (s *server) Patch(_ context.Context, obj client.Object, patch client.Patch, _ ...client.PatchOption) error {
	return s.patch(obj.(*demo), patch, func(now, next *demo) { next.Status = now.Status })
}

func (s *server) Status() client.SubResourceWriter { return statusOfServer{s: s} }

type statusOfServer struct {
	client.SubResourceWriter
	s *server
}

func (w statusOfServer) Patch(_ context.Context, obj client.Object, patch client.Patch, _ ...client.SubResourcePatchOption) error {
	return w.s.patch(obj.(*demo), patch, func(now, next *demo) {
		version := next.ResourceVersion
		next.ObjectMeta = *now.DeepCopy()
		next.ResourceVersion = version
	})
}

func (d *demo) DeepCopy() *metav1.ObjectMeta { return d.ObjectMeta.DeepCopy() }

func (s *server) patch(obj *demo, patch client.Patch, keep func(now, next *demo)) error {
	raw, err := patch.Data(obj)
	if err != nil {
		return err
	}
	var change struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
			Finalizers      *[]any `json:"finalizers"`
			Annotations     *any   `json:"annotations"`
		} `json:"metadata"`
		Status *any `json:"status"`
	}
	if err := json.Unmarshal(raw, &change); err != nil {
		return err
	}
	if change.Metadata.ResourceVersion != s.obj.ResourceVersion {
		return apierrors.NewConflict(schema.GroupResource{Resource: "demos"}, "a", errors.New("changed"))
	}
	next := s.obj.DeepCopyObject().(*demo)
	if change.Metadata.Finalizers != nil {
		next.Finalizers = nil
	}
	if err := json.Unmarshal(raw, next); err != nil {
		return err
	}
	keep(s.obj, next)
	n, err := strconv.Atoi(s.obj.ResourceVersion)
	if err != nil {
		return err
	}
	next.ResourceVersion = strconv.Itoa(n + 1)
	s.obj = next
	switch {
	case change.Metadata.Finalizers != nil:
		s.writes = append(s.writes, "finalizers")
	case change.Status != nil:
		s.writes = append(s.writes, "status")
	default:
		s.writes = append(s.writes, "annotations")
	}
	if len(s.writes) == s.crashAt {
		return errDied
	}
	return s.read(s.obj, obj)
}

func storeOf(s *server) *Store[*demo] {
	return &Store[*demo]{Client: s, Live: liveReader{s: s}, New: func() *demo { return &demo{} }, Finalizer: held,
		Matters: func(annotation string) bool { return annotation == "pawl.dev/request" }}
}

var keyOfA = client.ObjectKey{Namespace: "default", Name: "a"}

// A load is no older than what this process has written, and reads past the cache only while
// the cache is behind.
func TestStoreSeesItsOwnWrites(t *testing.T) {
	s := newServer()
	store := storeOf(s)
	d, err := store.Load(t.Context(), keyOfA)
	if err != nil || s.live != 0 {
		t.Fatalf("%v, %d reads past the cache", err, s.live)
	}
	d.Object.Status.N = 7
	if err := store.Save(t.Context(), d, true); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if d, err = store.Load(t.Context(), keyOfA); err != nil || d.Object.Status.N != 7 {
			t.Fatalf("%v: a stale load: %+v", err, d)
		}
	}
	if s.live != 2 {
		t.Errorf("%d reads past a cache that was behind, want 2", s.live)
	}
	s.cached = s.obj.DeepCopyObject().(*demo)
	if d, err = store.Load(t.Context(), keyOfA); err != nil || d.Object.Status.N != 7 || s.live != 2 {
		t.Errorf("%v: the cache has caught up, and was read past (%d times): %+v", err, s.live, d)
	}
	s.cached = nil
	if _, err := store.Load(t.Context(), keyOfA); !errors.Is(err, control.NotFound) {
		t.Errorf("an object that is gone: %v", err)
	}
}

// The finalizer is written before the status and removed after it, whatever write is the last
// before a crash.
func TestStoreWritesTheFinalizerFirstAndReleasesLast(t *testing.T) {
	for crashAt := range 3 {
		s := newServer()
		s.crashAt = crashAt
		save := func(n int, finalized bool) {
			t.Helper()
			for range 3 { // a new process each time
				s.cached = s.obj.DeepCopyObject().(*demo)
				store := storeOf(s)
				d, err := store.Load(t.Context(), keyOfA)
				if err != nil {
					t.Fatal(err)
				}
				d.Object.Status.N = n
				if err := store.Save(t.Context(), d, finalized); err == nil {
					return
				} else if !errors.Is(err, errDied) {
					t.Fatal(err)
				}
				if n == 1 && s.obj.Status.N == 1 && !slices.Contains(s.obj.Finalizers, held) {
					t.Fatalf("crash after write %d: a status without the finalizer", crashAt)
				}
			}
			t.Fatal("it does not come to an end")
		}
		save(1, true)
		if want := []string{"finalizers", "status"}; !reflect.DeepEqual(s.writes, want) {
			t.Errorf("crash after write %d: writes %v, want %v", crashAt, s.writes, want)
		}
		s.writes = nil
		save(2, false)
		if want := []string{"status", "finalizers"}; !reflect.DeepEqual(s.writes, want) || len(s.obj.Finalizers) > 0 {
			t.Errorf("crash after write %d: writes %v, want %v", crashAt, s.writes, want)
		}
	}
}

// A save meets edits that do not matter and is made again; one that matters is a conflict.
func TestStoreSavesOverForeignEdits(t *testing.T) {
	s := newServer()
	store := storeOf(s)
	edit := func(annotation string) error {
		d, err := store.Load(t.Context(), keyOfA)
		if err != nil {
			t.Fatal(err)
		}
		d.Object.Status.N++
		s.obj.Annotations = map[string]string{annotation: "1"}
		s.obj.ResourceVersion += "0"
		return store.Save(t.Context(), d, false)
	}
	if err := edit("example.com/touched"); err != nil || s.obj.Status.N != 1 {
		t.Errorf("a foreign edit: %v, status %d", err, s.obj.Status.N)
	}
	if err := edit("pawl.dev/request"); !errors.Is(err, fault.WriteConflict) || s.obj.Status.N != 1 {
		t.Errorf("an edit that matters: %v, status %d", err, s.obj.Status.N)
	}
}

// Annotations are set on the version that was read, and the draft goes on from what was written.
func TestStoreSetsAnnotations(t *testing.T) {
	s := newServer()
	store := storeOf(s)
	d, err := store.Load(t.Context(), keyOfA)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.SetAnnotations(t.Context(), d, map[string]string{"a": "1", "none": ""}); err != nil {
		t.Fatal(err)
	}
	if got := s.obj.Annotations; len(got) != 1 || got["a"] != "1" {
		t.Errorf("annotations %v", got)
	}
	d.Object.Status.N = 3
	if err := store.Save(t.Context(), d, false); err != nil || s.obj.Status.N != 3 {
		t.Errorf("a save after it: %v", err)
	}
	s.obj.ResourceVersion = "90"
	if err := store.SetAnnotations(t.Context(), d, map[string]string{"a": "2"}); !errors.Is(err, fault.WriteConflict) {
		t.Errorf("annotations of an older version: %v", err)
	}
}

// counted is a status that counts how often it is encoded.
type counted struct {
	N       int `json:"n"`
	encoded *int
}

func (c counted) MarshalJSON() ([]byte, error) {
	*c.encoded++
	return json.Marshal(map[string]int{"n": c.N})
}

type countedObject struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              counted `json:"spec"`
	Status            counted `json:"status"`
}

func (o *countedObject) DeepCopyObject() runtime.Object { c := *o; return &c }

// A draft encodes nothing while the status is as it was, and never the rest of the object.
func TestDraftEncodesOnlyAChangedStatus(t *testing.T) {
	spec, status := 0, 0
	d, err := NewDraft(nil, &countedObject{Spec: counted{encoded: &spec}, Status: counted{encoded: &status}})
	if err != nil || d.Changed() || status != 0 {
		t.Errorf("%v: %d encodings of a status that did not change", err, status)
	}
	d.Object.Status.N = 1
	if change, err := d.change(); !d.Changed() || err != nil || len(change) != 1 || spec != 0 || status != 2 {
		t.Errorf("a change cost %d encodings of the spec and %d of the status, want 0 and 2", spec, status)
	}
}

// A patch names the object, or its spec, that it was made for.
func TestGuardedPatches(t *testing.T) {
	obj := &demo{ObjectMeta: metav1.ObjectMeta{UID: "u", Generation: 7, ResourceVersion: "9"}}
	op := Operation{Op: "replace", Path: "/spec/n", Value: 2}
	for want, made := range map[string]func(client.Object, ...Operation) (client.Patch, error){
		`[{"op":"test","path":"/metadata/uid","value":"u"},{"op":"replace","path":"/spec/n","value":2}]`:                                                       SameObject,
		`[{"op":"test","path":"/metadata/uid","value":"u"},{"op":"test","path":"/metadata/generation","value":7},{"op":"replace","path":"/spec/n","value":2}]`: SameSpec,
	} {
		patch, err := made(obj, op)
		if err != nil {
			t.Fatal(err)
		}
		if raw, err := patch.Data(obj); err != nil || string(raw) != want {
			t.Errorf("%s (%v), want %s", raw, err, want)
		}
	}
}
