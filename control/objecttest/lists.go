package objecttest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/control/controltest"
)

func names(t *testing.T, s control.Objects, q control.Query) []string {
	t.Helper()
	page, err := s.List(t.Context(), q)
	if err != nil {
		t.Fatalf("list %+v: %v", q, err)
	}
	if page.Next != "" {
		t.Fatalf("list %+v has a next page %q after all its %d objects", q, page.Next, len(page.Items))
	}
	out := []string{}
	for _, o := range page.Items {
		out = append(out, o.Ref.String())
	}
	return out
}

func choose(t *testing.T, s control.Objects) {
	if page, err := s.List(t.Context(), control.Query{}); err != nil || len(page.Items) != 0 || page.Next != "" {
		t.Fatalf("list of an empty store: %+v, %v", page, err)
	}
	for i, path := range []string{"demo/b/x", "other/a/x", "demo/a/y", "demo/a/x", "demo/a-b/x"} {
		r, err := control.ParseRef(path)
		if err != nil {
			t.Fatal(err)
		}
		labels := map[string]string{"n": strconv.Itoa(i)}
		if i%2 == 0 {
			labels["even"] = ""
		}
		apply(t, s, control.Object{Ref: r, Labels: labels})
	}
	selector := func(text string) control.Selector {
		sel, err := control.ParseSelector(text)
		if err != nil {
			t.Fatal(err)
		}
		return sel
	}
	for _, q := range []struct {
		query control.Query
		want  []string
	}{
		{control.Query{}, []string{"demo/a/x", "demo/a/y", "demo/a-b/x", "demo/b/x", "other/a/x"}},
		{control.Query{Kind: "demo"}, []string{"demo/a/x", "demo/a/y", "demo/a-b/x", "demo/b/x"}},
		{control.Query{Namespace: "a"}, []string{"demo/a/x", "demo/a/y", "other/a/x"}},
		{control.Query{Kind: "demo", Namespace: "a"}, []string{"demo/a/x", "demo/a/y"}},
		{control.Query{Kind: "none"}, []string{}},
		{control.Query{Selector: selector("even")}, []string{"demo/a/y", "demo/a-b/x", "demo/b/x"}},
		{control.Query{Selector: selector("!even")}, []string{"demo/a/x", "other/a/x"}},
		{control.Query{Selector: selector("n=3")}, []string{"demo/a/x"}},
		{control.Query{Selector: selector("n!=3,!even")}, []string{"other/a/x"}},
		{control.Query{Kind: "demo", Selector: selector("none!=x")}, []string{"demo/a/x", "demo/a/y", "demo/a-b/x", "demo/b/x"}},
	} {
		got := names(t, s, q.query)
		if !slices.Equal(got, q.want) {
			t.Errorf("list %+v: %v, want %v", q.query, got, q.want)
		}
	}
}

func pages(t *testing.T, s control.Objects) {
	var expect []string
	for i := range 23 {
		o := object(fmt.Sprintf("c%02d", i), i)
		if i%3 != 0 {
			o.Labels = map[string]string{"keep": "yes"}
			expect = append(expect, o.Ref.String())
		}
		apply(t, s, o)
	}
	q := control.Query{Kind: "demo", Limit: 5, Selector: control.Selector{{Key: "keep", Value: "yes"}}}
	var got []string
	for round := 0; ; round++ {
		page, err := s.List(t.Context(), q)
		if err != nil || len(page.Items) > 5 || round > 5 {
			t.Fatalf("page %d: %d objects, %v", round, len(page.Items), err)
		}
		for _, o := range page.Items {
			got = append(got, o.Ref.String())
		}
		if round == 0 { // changes before and after the cursor do not affect the remaining pages
			if _, err := s.Delete(t.Context(), ref("c01"), 0); err != nil {
				t.Fatal(err)
			}
			apply(t, s, object("a", 1))
		}
		if page.Next == "" {
			break
		}
		q.Cursor = page.Next
	}
	if !slices.Equal(got, expect) {
		t.Fatalf("pages held %v, want %v", got, expect)
	}
}

func feed(t *testing.T, s control.Objects) {
	ctx, cancel := context.WithTimeout(t.Context(), controltest.Timeout)
	defer cancel()
	other := control.Object{Ref: control.Ref{Kind: "other", Namespace: "default", Name: "o"}}
	apply(t, s, other)
	_, version, err := s.Feed("demo").List(ctx)
	if err != nil {
		t.Fatal(err)
	}
	o := object("c1", 1)
	o.Finalizers = []string{"f"}
	created := apply(t, s, o)
	other.Labels = map[string]string{"a": "b"}
	apply(t, s, other)
	created.Status = json.RawMessage(`{"ok":true}`)
	reported := update(t, s, created)
	marked, err := s.Delete(ctx, ref("c1"), 0)
	if err != nil {
		t.Fatal(err)
	}
	marked.Finalizers = nil
	gone := update(t, s, marked)
	end := apply(t, s, object("end", 1))

	var last control.Object // the newest put of c1 that was seen
	deleted := false
	for c, err := range s.Feed("demo").Watch(ctx, version) {
		if err != nil {
			t.Fatal(err)
		}
		if c.Type == control.Bookmark {
			continue
		}
		if c.Item.Key == "other/default/o" {
			t.Fatalf("the feed of demo carries %s", c.Item.Key)
		}
		switch c.Item.Key {
		case end.Ref.String():
			if c.Item.Version != strconv.FormatInt(end.Revision, 10) {
				t.Fatalf("version %q of an item of revision %d", c.Item.Version, end.Revision)
			}
			same(t, "put", c.Item.Value, end)
			if !deleted {
				t.Fatal("the removal was not told before what came after it")
			}
			return
		case created.Ref.String():
			switch c.Type {
			case control.Put:
				if c.Item.Version != strconv.FormatInt(c.Item.Value.Revision, 10) || c.Item.Value.Revision <= last.Revision {
					t.Fatalf("version %q, revision %d after revision %d", c.Item.Version, c.Item.Value.Revision, last.Revision)
				}
				if last = c.Item.Value; last.Revision == reported.Revision {
					same(t, "put of the status", last, reported)
				}
			case control.Delete:
				deleted = true
				if c.Item.Version != strconv.FormatInt(gone.Revision, 10) {
					t.Fatalf("the removal has version %q, want %d", c.Item.Version, gone.Revision)
				}
				if o := c.Item.Value; o.Ref != gone.Ref || o.UID != gone.UID || o.Revision != gone.Revision {
					t.Fatalf("the removal tells of %s; want at least ref, uid and revision of %s", text(o), text(gone))
				}
			}
		}
	}
	t.Fatal("the feed ended before its last change")
}

func folds(t *testing.T, s control.Objects) {
	ctx, cancel := context.WithTimeout(t.Context(), controltest.Timeout)
	defer cancel()
	_, version, err := s.Feed("").List(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for n := range 12 {
				name := fmt.Sprintf("c%d", (i+n)%5)
				if n%4 == 3 {
					_, _ = s.Delete(ctx, ref(name), 0) // may be deleted already
					continue
				}
				if _, err := s.Apply(ctx, object(name, 100*i+n)); err != nil {
					t.Errorf("apply: %v", err)
				}
			}
		})
	}
	state, position := map[string]int64{}, int64(-1)
	started := make(chan struct{})
	folded := make(chan error, 1)
	go func() { // reads during the writes: a revision that becomes visible late would be missed
		close(started)
		for c, err := range s.Feed("").Watch(ctx, version) {
			if err != nil {
				folded <- err
				return
			}
			switch c.Type {
			case control.Put:
				if c.Item.Value.Revision <= position {
					folded <- fmt.Errorf("revision %d after %d", c.Item.Value.Revision, position)
					return
				}
				position = c.Item.Value.Revision
				state[c.Item.Key] = position
			case control.Delete:
				delete(state, c.Item.Key)
			}
			if c.Item.Key == ref("end").String() {
				folded <- nil
				return
			}
		}
		folded <- ctx.Err()
	}()
	<-started
	wg.Wait()
	apply(t, s, object("end", 1))
	if err := <-folded; err != nil {
		t.Fatal(err)
	}
	items, _, err := s.Feed("").List(ctx)
	if err != nil {
		t.Fatal(err)
	}
	expect := map[string]int64{}
	for _, item := range items {
		expect[item.Key] = item.Value.Revision
	}
	if !maps.Equal(state, expect) {
		t.Fatalf("the feed folds to %v, the list holds %v", state, expect)
	}
}
