// Package objecttest is the conformance suite of control.Objects.
//
//	func TestMemory(t *testing.T) {
//		objecttest.Run(t, objecttest.Suite{Open: func(*testing.T) control.Objects { return control.NewMemory() }})
//	}
package objecttest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/control/controltest"
	"github.com/pawl-dev/pawl/fault"
)

// Suite configures the conformance suite for an implementation.
type Suite struct {
	// Open returns a new, empty store; t.Cleanup closes it.
	Open func(t *testing.T) control.Objects
	// Forget trims the change feed so that all earlier positions are a gap;
	// nil: not tested.
	Forget func(t *testing.T, objects control.Objects)
}

// Run runs the conformance suite.
func Run(t *testing.T, suite Suite) {
	for _, q := range []struct {
		name string
		run  func(t *testing.T, s control.Objects)
	}{
		{"what is applied can be read", applied},
		{"what is missing is OBJECT_NOT_FOUND", missing},
		{"what is malformed is OBJECT_INVALID", malformed},
		{"the generation rises with the spec only", generation},
		{"apply keeps what it does not name", keeps},
		{"apply with an expected revision", expected},
		{"update is compare-and-swap", swap},
		{"a lost update is never written", race},
		{"delete without finalizers removes", remove},
		{"delete with finalizers marks", finalize},
		{"a name used again is another object", again},
		{"what is read is a copy", copies},
		{"list is ordered and chooses", choose},
		{"pages cover everything once", pages},
		{"the feed carries what was written", feed},
		{"the feed folds to the list under many writers", folds},
		{"an ended context ends the call", ended},
	} {
		t.Run(q.name, func(t *testing.T) { q.run(t, suite.Open(t)) })
	}
	t.Run("the feed is a source", func(t *testing.T) {
		controltest.Source(t, func(t *testing.T) controltest.SourceFixture[control.Object] { return sourceFixture(t, suite, "demo") })
	})
	t.Run("the feed of all kinds is a source", func(t *testing.T) {
		controltest.Source(t, func(t *testing.T) controltest.SourceFixture[control.Object] { return sourceFixture(t, suite, "") })
	})
}

func sourceFixture(t *testing.T, suite Suite, kind string) controltest.SourceFixture[control.Object] {
	s := suite.Open(t)
	w := controltest.SourceFixture[control.Object]{
		Source: s.Feed(kind),
		Put: func(key string, value int) {
			if _, err := s.Apply(t.Context(), object(key, value)); err != nil {
				t.Errorf("apply %s: %v", key, err)
			}
		},
		Delete: func(key string) {
			if _, err := s.Delete(t.Context(), ref(key), 0); err != nil {
				t.Errorf("delete %s: %v", key, err)
			}
		},
		Name:  func(key string) string { return ref(key).String() },
		Value: number,
	}
	if suite.Forget != nil {
		w.Forget = func() { suite.Forget(t, s) }
	}
	return w
}

func ref(name string) control.Ref { return control.Ref{Kind: "demo", Namespace: "default", Name: name} }

func object(name string, n int) control.Object {
	return control.Object{Ref: ref(name), Spec: json.RawMessage(fmt.Sprintf(`{"n":%d}`, n))}
}

func number(o control.Object) int {
	var spec struct{ N int }
	_ = json.Unmarshal(o.Spec, &spec)
	return spec.N
}

func apply(t *testing.T, s control.Objects, o control.Object) control.Object {
	t.Helper()
	got, err := s.Apply(t.Context(), o)
	if err != nil {
		t.Fatalf("apply %s: %v", o.Ref, err)
	}
	return got
}

func update(t *testing.T, s control.Objects, o control.Object) control.Object {
	t.Helper()
	got, err := s.Update(t.Context(), o)
	if err != nil {
		t.Fatalf("update %s: %v", o.Ref, err)
	}
	return got
}

func get(t *testing.T, s control.Objects, name string) control.Object {
	t.Helper()
	got, err := s.Get(t.Context(), ref(name))
	if err != nil {
		t.Fatalf("get %s: %v", name, err)
	}
	return got
}

func want(t *testing.T, what string, err error, kind *fault.Kind) {
	t.Helper()
	if fault.Of(err) != kind {
		t.Fatalf("%s: %v, want %v", what, err, kind)
	}
}

func same(t *testing.T, what string, got, want control.Object) {
	t.Helper()
	if !got.Equal(want) || got.Revision != want.Revision {
		t.Fatalf("%s:\n got %s\nwant %s", what, text(got), text(want))
	}
}

func text(o control.Object) string {
	b, err := json.Marshal(o)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func applied(t *testing.T, s control.Objects) {
	before := time.Now().Add(-time.Minute)
	o := control.Object{
		Ref: ref("c1"), Labels: map[string]string{"tier": "gold", "pawl.dev/team": "a"}, Annotations: map[string]string{"note": "größer > 1"},
		Spec:       json.RawMessage(`{"z": 1, "a": {"big": 9007199254740993, "text": "<&>"}}`),
		Status:     json.RawMessage(`{"forged": true}`),
		Finalizers: []string{"pawl.dev/clean"},
		Owner:      &control.Owner{Ref: ref("parent"), UID: "u-1"},
		Generation: 99, DeletionMark: time.Now(), CreatedAt: time.Unix(0, 0),
	}
	got := apply(t, s, o)
	if got.UID == "" || got.Generation != 1 || got.Revision < 1 || got.Deleting() || got.CreatedAt.Before(before) || got.Status != nil {
		t.Fatalf("a created object must have a uid, generation 1, a revision, a time and no status: %s", text(got))
	}
	if string(got.Spec) != `{"a":{"big":9007199254740993,"text":"<&>"},"z":1}` {
		t.Fatalf("spec %s; want it canonical and its numbers exact", got.Spec)
	}
	if got.Labels["pawl.dev/team"] != "a" || got.Annotations["note"] != "größer > 1" || *got.Owner != *o.Owner || got.Finalizers[0] != "pawl.dev/clean" {
		t.Fatalf("what was applied is not there: %s", text(got))
	}
	same(t, "get", get(t, s, "c1"), got)
	if bare := apply(t, s, control.Object{Ref: ref("c2")}); string(bare.Spec) != `{}` {
		t.Fatalf("spec of an object applied without one: %s, want {}", bare.Spec)
	}
}

func missing(t *testing.T, s control.Objects) {
	_, err := s.Get(t.Context(), ref("c1"))
	want(t, "get", err, control.NotFound)
	_, err = s.Update(t.Context(), object("c1", 1))
	want(t, "update", err, control.NotFound)
	_, err = s.Delete(t.Context(), ref("c1"), 0)
	want(t, "delete", err, control.NotFound)
	o := object("c1", 1)
	o.Revision = 7
	_, err = s.Apply(t.Context(), o)
	want(t, "apply of a known revision", err, control.NotFound)
	apply(t, s, object("c1", 1))
	_, err = s.Get(t.Context(), control.Ref{Kind: "demo", Namespace: "other", Name: "c1"})
	want(t, "get in another namespace", err, control.NotFound)
	_, err = s.Get(t.Context(), control.Ref{Kind: "Demo", Namespace: "default", Name: "c1"})
	want(t, "get of another kind", err, control.NotFound)
}

func malformed(t *testing.T, s control.Objects) {
	for name, spoil := range map[string]func(*control.Object){
		"kind":        func(o *control.Object) { o.Kind = "a/b" },
		"namespace":   func(o *control.Object) { o.Namespace = "" },
		"name":        func(o *control.Object) { o.Name = "Upper" },
		"label key":   func(o *control.Object) { o.Labels = map[string]string{"a b": "c"} },
		"label value": func(o *control.Object) { o.Labels = map[string]string{"a": "b c"} },
		"annotation":  func(o *control.Object) { o.Annotations = map[string]string{"": "c"} },
		"finalizer":   func(o *control.Object) { o.Finalizers = []string{"a", "a"} },
		"spec":        func(o *control.Object) { o.Spec = json.RawMessage(`[1]`) },
		"half a spec": func(o *control.Object) { o.Spec = json.RawMessage(`{`) },
		"status":      func(o *control.Object) { o.Status = json.RawMessage(`3`) },
		"owner":       func(o *control.Object) { o.Owner = &control.Owner{} },
		"too much": func(o *control.Object) {
			o.Annotations = map[string]string{"a": strings.Repeat("x", control.MaxObject)}
		},
		"null for {}":  func(o *control.Object) { o.Spec = json.RawMessage(`null`) },
		"two in a row": func(o *control.Object) { o.Spec = json.RawMessage(`{}{}`) },
	} {
		o := object("c1", 1)
		spoil(&o)
		_, err := s.Apply(t.Context(), o)
		want(t, "apply with bad "+name, err, control.Invalid)
		_, err = s.Update(t.Context(), o)
		want(t, "update with bad "+name, err, control.Invalid)
	}
	if page, err := s.List(t.Context(), control.Query{}); err != nil || len(page.Items) != 0 {
		t.Fatalf("list after refusals: %v, %v; want nothing", page, err)
	}
	_, err := s.List(t.Context(), control.Query{Cursor: "no cursor"})
	want(t, "list with a bad cursor", err, control.Invalid)
}

func generation(t *testing.T, s control.Objects) {
	first := apply(t, s, object("c1", 1))
	twin := object("c1", 1)
	twin.Spec = json.RawMessage(" { \"n\" : 1 } ")
	same(t, "an equal spec in other white space", apply(t, s, twin), first)
	same(t, "get after it", get(t, s, "c1"), first)

	second := apply(t, s, object("c1", 2))
	if second.Generation != 2 || second.Revision <= first.Revision {
		t.Fatalf("after a change of the spec: %s, want generation 2 and a higher revision than %d", text(second), first.Revision)
	}
	labelled := control.Object{Ref: ref("c1"), Labels: map[string]string{"a": "b"}}
	if third := apply(t, s, labelled); third.Generation != 2 || third.Revision <= second.Revision || number(third) != 2 {
		t.Fatalf("after a change of labels: %s", text(third))
	}
	o := get(t, s, "c1")
	o.Status = json.RawMessage(`{"n":2}`)
	o.Generation = 77
	o = update(t, s, o)
	if o.Generation != 2 || string(o.Status) != `{"n":2}` {
		t.Fatalf("after a write of the status: %s", text(o))
	}
	o.Spec = json.RawMessage(`{"n":3}`)
	if o = update(t, s, o); o.Generation != 3 {
		t.Fatalf("after an update of the spec: %s", text(o))
	}
	same(t, "an update that changes nothing", update(t, s, o), o)
}

func keeps(t *testing.T, s control.Objects) {
	o := object("c1", 1)
	o.Labels = map[string]string{"a": "1", "b": "1"}
	o.Annotations = map[string]string{"x": "1", "pawl.dev/resume": "id"}
	o.Finalizers = []string{"f"}
	o.Owner = &control.Owner{Ref: ref("p")}
	created := apply(t, s, o)
	created.Status = json.RawMessage(`{"up":true}`)
	created = update(t, s, created)

	next := apply(t, s, control.Object{Ref: ref("c1"), Labels: map[string]string{"b": "2"}, Annotations: map[string]string{"y": "1"}, Finalizers: []string{}})
	expect := created.Copy()
	expect.Labels = map[string]string{"b": "2"}
	expect.Annotations = map[string]string{"y": "1", "pawl.dev/resume": "id"}
	expect.Revision = next.Revision
	same(t, "labels are replaced, requests, spec, status, finalizers and owner stay", next, expect)
}

func expected(t *testing.T, s control.Objects) {
	o := object("c1", 1)
	o.Revision = control.MustNotExist
	first := apply(t, s, o)
	_, err := s.Apply(t.Context(), o)
	want(t, "apply of what must not exist", err, control.Exists)

	o = object("c1", 2)
	o.Revision = first.Revision
	second := apply(t, s, o)
	o = object("c1", 3)
	o.Revision = first.Revision
	_, err = s.Apply(t.Context(), o)
	want(t, "apply of an old revision", err, fault.WriteConflict)
	o.Revision, o.UID = second.Revision, "another"
	_, err = s.Apply(t.Context(), o)
	want(t, "apply to another uid", err, fault.WriteConflict)
	same(t, "get after refusals", get(t, s, "c1"), second)
	_, err = s.Delete(t.Context(), ref("c1"), first.Revision)
	want(t, "delete of an old revision", err, fault.WriteConflict)
	if _, err = s.Delete(t.Context(), ref("c1"), second.Revision); err != nil {
		t.Fatalf("delete of the current revision: %v", err)
	}
}

func swap(t *testing.T, s control.Objects) {
	first := apply(t, s, object("c1", 1))
	mine, theirs := first.Copy(), first.Copy()
	theirs.Status = json.RawMessage(`{"by":"them"}`)
	second := update(t, s, theirs)
	mine.Status = json.RawMessage(`{"by":"me"}`)
	_, err := s.Update(t.Context(), mine)
	want(t, "update of an old revision", err, fault.WriteConflict)
	same(t, "get after it", get(t, s, "c1"), second)
	foreign := second.Copy()
	foreign.UID = "another"
	_, err = s.Update(t.Context(), foreign)
	want(t, "update of another uid", err, fault.WriteConflict)
	bare := second.Copy()
	bare.Status, bare.UID = nil, ""
	if bare = update(t, s, bare); bare.Status != nil || bare.UID != first.UID || !bare.CreatedAt.Equal(first.CreatedAt) {
		t.Fatalf("after an update without status and uid: %s", text(bare))
	}
}

func race(t *testing.T, s control.Objects) {
	apply(t, s, object("c1", 0))
	const writers, rounds = 8, 10
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for range rounds {
				_, err := control.Modify(t.Context(), s, ref("c1"), func(o *control.Object) error {
					o.Spec = object("c1", number(*o)+1).Spec
					return nil
				})
				if err != nil {
					t.Errorf("modify: %v", err)
				}
			}
		})
	}
	wg.Wait()
	if o := get(t, s, "c1"); number(o) != writers*rounds || o.Generation != writers*rounds+1 {
		t.Fatalf("after %d increments: %s", writers*rounds, text(o))
	}
}

func remove(t *testing.T, s control.Objects) {
	first := apply(t, s, object("c1", 1))
	last, err := s.Delete(t.Context(), ref("c1"), 0)
	if err != nil || last.UID != first.UID || last.Revision <= first.Revision {
		t.Fatalf("delete: %s, %v; want the object as it was, at a higher revision", text(last), err)
	}
	_, err = s.Get(t.Context(), ref("c1"))
	want(t, "get of what is gone", err, control.NotFound)
	_, err = s.Delete(t.Context(), ref("c1"), 0)
	want(t, "delete of what is gone", err, control.NotFound)
	_, err = s.Update(t.Context(), first)
	want(t, "update of what is gone", err, control.NotFound)
}

func finalize(t *testing.T, s control.Objects) {
	o := object("c1", 1)
	o.Finalizers = []string{"a", "b"}
	apply(t, s, o)
	marked, err := s.Delete(t.Context(), ref("c1"), 0)
	if err != nil || !marked.Deleting() || marked.Generation != 2 {
		t.Fatalf("delete with finalizers: %s, %v; want the mark, and a new generation", text(marked), err)
	}
	same(t, "get of what is marked", get(t, s, "c1"), marked)
	twice, err := s.Delete(t.Context(), ref("c1"), 0)
	if err != nil {
		t.Fatalf("delete again: %v", err)
	}
	same(t, "the mark is set once", twice, marked)

	_, err = s.Apply(t.Context(), object("c1", 2))
	want(t, "apply of another spec", err, control.BeingDeleted)
	more := marked.Copy()
	more.Finalizers = append(more.Finalizers, "c")
	_, err = s.Update(t.Context(), more)
	want(t, "another finalizer", err, control.BeingDeleted)

	marked.Finalizers = []string{"b"}
	marked.Status = json.RawMessage(`{"cleaned":["a"]}`)
	marked.DeletionMark = time.Time{} // the mark cannot be removed
	left := update(t, s, marked)
	if !left.Deleting() || !slices.Equal(left.Finalizers, []string{"b"}) {
		t.Fatalf("after the first finalizer: %s", text(left))
	}
	left.Finalizers = nil
	update(t, s, left)
	_, err = s.Get(t.Context(), ref("c1"))
	want(t, "get after the last finalizer", err, control.NotFound)
}

func again(t *testing.T, s control.Objects) {
	first := apply(t, s, object("c1", 1))
	last, err := s.Delete(t.Context(), ref("c1"), 0)
	if err != nil {
		t.Fatal(err)
	}
	second := apply(t, s, object("c1", 1))
	if second.UID == first.UID || second.Revision <= last.Revision || second.Generation != 1 {
		t.Fatalf("created anew: %s; want another uid than %s, a higher revision than %d and generation 1", text(second), first.UID, last.Revision)
	}
	_, err = s.Update(t.Context(), first)
	want(t, "update of the former object", err, fault.WriteConflict)
}

func copies(t *testing.T, s control.Objects) {
	o := object("c1", 1)
	o.Labels = map[string]string{"a": "1"}
	got := apply(t, s, o)
	spoil := func(o control.Object) {
		o.Labels["a"] = "2"
		o.Spec[1] = 'x'
	}
	spoil(o)
	spoil(got)
	spoil(get(t, s, "c1"))
	page, err := s.List(t.Context(), control.Query{})
	if err != nil || len(page.Items) != 1 {
		t.Fatalf("list: %v, %v", page, err)
	}
	spoil(page.Items[0])
	items, _, err := s.Feed("demo").List(t.Context())
	if err != nil || len(items) != 1 {
		t.Fatalf("list of the feed: %v, %v", items, err)
	}
	spoil(items[0].Value)
	if o := get(t, s, "c1"); o.Labels["a"] != "1" || string(o.Spec) != `{"n":1}` {
		t.Fatalf("a caller changed what is stored: %s", text(o))
	}
}

func ended(t *testing.T, s control.Objects) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Apply(ctx, object("c1", 1))
	if err == nil {
		t.Fatal("apply with an ended context succeeded")
	}
	if _, err = s.Get(ctx, ref("c1")); err == nil || fault.Of(err) == control.NotFound {
		t.Fatalf("get with an ended context: %v; want its end, not an answer", err)
	}
	if _, err = s.List(ctx, control.Query{}); err == nil {
		t.Fatal("list with an ended context succeeded")
	}
	if _, _, err = s.Feed("").List(ctx); err == nil {
		t.Fatal("list of the feed with an ended context succeeded")
	}
}
