package control

import (
	"context"
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"pgregory.net/rapid"
)

func TestRef(t *testing.T) {
	r, err := ParseRef("SharedStorageCluster/db-1/c1.example")
	if err != nil || r.String() != "SharedStorageCluster/db-1/c1.example" {
		t.Fatalf("%v, %v", r, err)
	}
	for text, word := range map[string]string{
		"": "kind/namespace/name", "a/b": "kind/namespace/name", "a/b/c/d": "kind/namespace/name",
		"1a/b/c": "kind", "a//c": "namespace", "a/B/c": "namespace", "a/b/": "name", "a/b/-c": "name", "a/b/c..d": "name",
		"a/b/" + strings.Repeat("c", 254): "name", "a/" + strings.Repeat("b", 64) + "/c": "namespace", strings.Repeat("a", 64) + "/b/c": "kind",
	} {
		if _, err := ParseRef(text); fault.Of(err) != Invalid || !strings.Contains(err.Error(), word) {
			t.Errorf("%q: %v; want OBJECT_INVALID that names the %s", text, err, word)
		}
	}
}

func TestValidateReportsAllAtOnce(t *testing.T) {
	o := Object{Ref: Ref{"demo", "A", "B"}, Labels: map[string]string{"a/b/c": "-"}, Finalizers: []string{""}, Spec: json.RawMessage(`1`)}
	err := o.Validate()
	problems, _ := fault.Details(err)["problems"].([]string)
	if fault.Of(err) != Invalid || len(problems) != 6 {
		t.Fatalf("%d problems: %v", len(problems), err)
	}
	for _, word := range []string{`namespace "A"`, `name "B"`, `label key "a/b/c"`, `value "-"`, `finalizer ""`, "spec"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%v does not name %s", err, word)
		}
	}
}

func TestObjectJSON(t *testing.T) {
	o := Object{Ref: demo("a"), UID: "u", Generation: 1, Revision: 7, Spec: json.RawMessage(`{"n":1}`), CreatedAt: time.Date(2025, 1, 2, 3, 4, 5, 0, time.UTC), Owner: &Owner{Ref: demo("p"), UID: "v"}}
	b, err := json.Marshal(o)
	want := `{"kind":"demo","namespace":"default","name":"a","uid":"u","spec":{"n":1},"generation":1,"revision":7,"createdAt":"2025-01-02T03:04:05Z","owner":{"kind":"demo","namespace":"default","name":"p","uid":"v"}}`
	if err != nil || string(b) != want {
		t.Fatalf("%s, %v", b, err)
	}
	var back Object
	if err := json.Unmarshal(b, &back); err != nil || !back.Equal(o) || back.Revision != 7 {
		t.Fatalf("%+v, %v", back, err)
	}
}

func TestUID(t *testing.T) {
	form := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	a, b := NewUID(), NewUID()
	if a == b || !form.MatchString(a) || !form.MatchString(b) {
		t.Fatalf("%s, %s", a, b)
	}
}

func TestSelector(t *testing.T) {
	for text, want := range map[string]string{"": "", " a = b , !c,d, e!=f,g==h ": "a=b,!c,d,e!=f,g=h", "pawl.dev/x=1": "pawl.dev/x=1", "a=": "a="} {
		if s, err := ParseSelector(text); err != nil || s.String() != want {
			t.Errorf("%q: %q, %v; want %q", text, s, err, want)
		}
	}
	for _, text := range []string{",", "a,,b", "=b", "a=b c", "a b", "!", "a/b/c", "a in (b)", "a=b=c"} {
		if s, err := ParseSelector(text); fault.Of(err) != Invalid {
			t.Errorf("%q: %q, %v; want OBJECT_INVALID", text, s, err)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		var s Selector
		for range rapid.IntRange(0, 4).Draw(t, "terms") {
			r := Requirement{Key: rapid.SampledFrom([]string{"a", "b", "x.y/z"}).Draw(t, "key"), Any: rapid.Bool().Draw(t, "any"), Not: rapid.Bool().Draw(t, "not")}
			if !r.Any {
				r.Value = rapid.SampledFrom([]string{"", "1", "2"}).Draw(t, "value")
			}
			s = append(s, r)
		}
		back, err := ParseSelector(s.String())
		if err != nil || back.String() != s.String() {
			t.Fatalf("%q read back as %q, %v", s, back, err)
		}
		labels := rapid.MapOf(rapid.SampledFrom([]string{"a", "b", "x.y/z"}), rapid.SampledFrom([]string{"", "1", "2"})).Draw(t, "labels")
		if s.Matches(labels) != back.Matches(labels) {
			t.Fatalf("%q and its copy disagree on %v", s, labels)
		}
		for i, r := range s {
			turned := r
			turned.Not = !r.Not
			if (Selector{r}).Matches(labels) == (Selector{turned}).Matches(labels) {
				t.Fatalf("term %d of %q and its opposite agree on %v", i, s, labels)
			}
		}
	})
}

// Any sequence of requests keeps the rules of generation, revision and deletion mark.
func TestDecisions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		store, ctx := NewMemory(), context.Background()
		var last Object // returned by the store
		for range rapid.IntRange(1, 40).Draw(t, "requests") {
			before, present := last, last.UID != ""
			var next Object
			var err error
			switch rapid.IntRange(0, 3).Draw(t, "request") {
			case 0:
				next, err = store.Apply(ctx, Object{Ref: demo("a"), Finalizers: []string{"f"}, Spec: json.RawMessage(rapid.SampledFrom([]string{`{}`, `{"n":1}`, `{"n":2}`}).Draw(t, "spec"))})
			case 1:
				change := before.Copy()
				change.Ref = demo("a")
				change.Status = json.RawMessage(rapid.SampledFrom([]string{`{}`, `{"s":1}`}).Draw(t, "status"))
				next, err = store.Update(ctx, change)
			case 2:
				change := before.Copy()
				change.Ref = demo("a")
				change.Finalizers = nil
				next, err = store.Update(ctx, change)
			case 3:
				next, err = store.Delete(ctx, demo("a"), 0)
			}
			now, missing := store.Get(ctx, demo("a"))
			if err != nil {
				if present != (missing == nil) || present && (now.Revision != before.Revision || !now.Equal(before)) {
					t.Fatalf("refused with %v, but changed: %+v", err, now)
				}
				continue
			}
			if missing != nil { // removed
				if !present || !next.Deleting() || len(next.Finalizers) > 0 || next.Revision <= before.Revision {
					t.Fatalf("removed %+v after %+v", next, before)
				}
				last = Object{}
				continue
			}
			if !now.Equal(next) || now.Revision != next.Revision {
				t.Fatalf("stored %+v, answered %+v", now, next)
			}
			if present {
				changed := string(before.Spec) != string(now.Spec)
				renewed := changed || now.Deleting() && !before.Deleting()
				if renewed != (now.Generation == before.Generation+1) || !renewed && now.Generation != before.Generation {
					t.Fatalf("spec %s → %s, generation %d → %d", before.Spec, now.Spec, before.Generation, now.Generation)
				}
				if now.Equal(before) != (now.Revision == before.Revision) || now.Revision < before.Revision {
					t.Fatalf("revision %d → %d of %+v and %+v", before.Revision, now.Revision, before, now)
				}
				if before.Deleting() && (!now.DeletionMark.Equal(before.DeletionMark) || changed) || now.UID != before.UID {
					t.Fatalf("%+v became %+v", before, now)
				}
			}
			last = now
		}
	})
}

func TestModifyStopsAtAnError(t *testing.T) {
	store := NewMemory()
	apply(t, store, "a", 1)
	_, err := Modify(t.Context(), store, demo("a"), func(o *Object) error { o.Status = json.RawMessage(`{"a":1}`); return Invalid.Errorf("no") })
	if fault.Of(err) != Invalid || status(t, store, "a") != "" {
		t.Fatalf("%v, status %s", err, status(t, store, "a"))
	}
	if _, err := Modify(t.Context(), store, demo("none"), func(*Object) error { return nil }); fault.Of(err) != NotFound {
		t.Fatalf("%v", err)
	}
}
