package request_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/control/request"
)

func TestParse(t *testing.T) {
	for value, want := range map[string][2]string{
		"2": {"2", ""}, "2#x": {"2", "x"}, " 2|n#x ": {"2|n", "x"}, "a#b#c": {"a#b", "c"}, "#x": {"", "x"}, "true": {"true", ""}, "": {"", ""}, "#": {"#", ""},
		"2#ticket-812":                       {"2", "ticket-812"},
		"2# x":                               {"2# x", ""},
		"all; reason=see PR#42":              {"all; reason=see PR#42", ""},
		"reason=#42":                         {"reason=#42", ""},
		"all; by=ann; reason=#1 failed":      {"all; by=ann; reason=#1 failed", ""},
		"all; by=ann#k3":                     {"all; by=ann#k3", ""},
		"see issue #42":                      {"see issue #42", ""},
		"all; reason=see PR#42#k3x4qabcdefg": {"all; reason=see PR#42", "k3x4qabcdefg"},
		"true; reason=see PR#42 #pause-7.k3x4qabcdefg":     {"true; reason=see PR#42", "pause-7.k3x4qabcdefg"},
		"all; reason=of k3x4qabcdefg":                      {"all; reason=of k3x4qabcdefg", ""},
		"all; reason=#k3x4qabcdefg is the one":             {"all; reason=#k3x4qabcdefg is the one", ""},
		"all; reason=commit#deadbeef":                      {"all; reason=commit#deadbeef", ""},
		"all; reason=#K3X4QABCDEFG":                        {"all; reason=#K3X4QABCDEFG", ""},
		"all; reason=the last of many#k3x4qabcdefgh":       {"all; reason=the last of many#k3x4qabcdefgh", ""},
		"all; reason=line\nline#2#none.k3x4qabcdefg":       {"all; reason=line\nline#2", "none.k3x4qabcdefg"},
		"all; reason=pause-7.k3x4qabcdefg has ended":       {"all; reason=pause-7.k3x4qabcdefg has ended", ""},
		"all; reason=two stamps#k3x4qabcdefg#abcdefghijkl": {"all; reason=two stamps#k3x4qabcdefg", "abcdefghijkl"},
	} {
		if args, id := request.Parse(value); args != want[0] || id != want[1] {
			t.Errorf("%q: %q %q", value, args, id)
		}
	}
}

func TestNext(t *testing.T) {
	accepted := func(id string) bool { return id == "old" }
	for value, want := range map[string]request.Step{"": request.Ignore, "  ": request.Ignore, "1": request.StampIt, "1#new": request.AcceptIt, "1#old": request.RemoveIt, "#old": request.RemoveIt} {
		if got := request.Next(value, accepted); got != want {
			t.Errorf("%q: %d, want %d", value, got, want)
		}
	}
}

func TestStampAndParseAreInverse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		args := rapid.StringMatching(`[a-z0-9|#;= ]{0,9}[a-z0-9|#;=]?`).Filter(func(s string) bool { return s == strings.TrimSpace(s) }).Draw(t, "args")
		id := rapid.SampledFrom([]string{"", "none.", "pause-7."}).Draw(t, "of") + request.NewID()
		if gotArgs, gotID := request.Parse(request.Stamp(args, id)); gotArgs != args || gotID != id {
			t.Fatalf("%q stamped with %q reads as %q %q", args, id, gotArgs, gotID)
		}
	})
}

type record struct {
	id     int
	ended  bool
	pinned bool
}

// The newest 20 that have ended stay, and everything that is open or pinned.
func TestTrim(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var list []record
		for i := range rapid.IntRange(0, 60).Draw(t, "n") {
			list = append(list, record{i, rapid.Bool().Draw(t, "ended"), rapid.IntRange(0, 5).Draw(t, "pinned") == 0})
		}
		want, newer := map[int]bool{}, 0
		for i := len(list) - 1; i >= 0; i-- {
			want[i] = !list[i].ended || list[i].pinned || newer < request.Kept
			if list[i].ended {
				newer++
			}
		}
		before := -1
		left := request.Trim(append([]record(nil), list...), func(r *record) bool { return r.ended }, func(r *record) bool { return r.pinned })
		for _, r := range left {
			if r.id <= before {
				t.Fatalf("the order changed: %v", left)
			}
			before = r.id
			delete(want, r.id)
		}
		for id, stays := range want {
			if stays {
				t.Fatalf("request %d of %v was dropped: %v", id, list, left)
			}
		}
	})
}

var errCrash = errors.New("the program died")

// object is one annotation and the answers in the status, with a crash before or after the
// write that crashAt counts to.
type object struct {
	value    string
	set      bool
	accepted map[string]int // answers by value
	writes   int
	crashAt  int
	after    bool // the write that dies was carried out
}

func (o *object) write(do func()) error {
	o.writes++
	dies := o.writes == o.crashAt
	if dies && !o.after {
		return errCrash
	}
	do()
	if dies {
		return errCrash
	}
	return nil
}

func (o *object) Set(_ context.Context, _, old, value string) (bool, error) {
	if !o.set || o.value != old {
		return false, nil
	}
	return true, o.write(func() { o.value = value })
}

func (o *object) Remove(_ context.Context, _, old string) (bool, error) {
	if !o.set || o.value != old {
		return false, nil
	}
	return true, o.write(func() { o.value, o.set = "", false })
}

// accept saves an answer under the id of the value; a second one for that id changes nothing.
func (o *object) accept(_ context.Context, value string) error {
	_, id := request.Parse(value)
	if id == "" {
		return fmt.Errorf("%q was accepted without an id", value)
	}
	if o.accepted[id] > 0 {
		return nil
	}
	return o.write(func() { o.accepted[id]++ })
}

// A crash before or after any write changes nothing in the end: each request is accepted
// once, and the annotation goes. A request that a person sets in between is accepted too.
func TestAcceptOnceWhateverCrashes(t *testing.T) {
	for crashAt := range 5 {
		for _, after := range []bool{false, true} {
			for setAgainAt := range 5 { // the pass before which a person sets the annotation again
				o := &object{value: "restart", set: true, accepted: map[string]int{}, crashAt: crashAt, after: after}
				requests := 1
				for pass := range 6 {
					if setAgainAt > 0 && pass == setAgainAt {
						if _, id := request.Parse(o.value); !o.set || o.accepted[id] > 0 { // else it replaces a request nobody has accepted
							requests++
						}
						o.value, o.set = "restart again", true
					}
					if !o.set {
						continue
					}
					_, id := request.Parse(o.value)
					err := request.Accept(t.Context(), request.Annotation{Key: "pawl.dev/restart", Value: o.value, Stamped: id != ""}, o,
						func(value string) string { return request.Stamp(value, request.NewID()) }, o.accept)
					if err != nil && !errors.Is(err, errCrash) {
						t.Fatal(err)
					}
				}
				if o.set || len(o.accepted) != requests {
					t.Errorf("crash at write %d (carried out: %t), set again before pass %d: %d requests, accepted %v, annotation left: %t", crashAt, after, setAgainAt, requests, o.accepted, o.set)
				}
				for id, n := range o.accepted {
					if n != 1 {
						t.Errorf("%s was accepted %d times", id, n)
					}
				}
			}
		}
	}
}

// A value that changed between read and stamp is left to the next pass.
func TestAcceptLeavesWhatChanged(t *testing.T) {
	o := &object{value: "new", set: true, accepted: map[string]int{}}
	err := request.Accept(t.Context(), request.Annotation{Key: "k", Value: "old"}, o, func(v string) string { return request.Stamp(v, "1") }, o.accept)
	if err != nil || !o.set || o.value != "new" || len(o.accepted) != 0 {
		t.Errorf("%v %+v", err, o)
	}
	failed := errors.New("store away")
	err = request.Accept(t.Context(), request.Annotation{Key: "k", Value: "new"}, o, func(v string) string { return request.Stamp(v, "1") }, func(context.Context, string) error { return failed })
	if !errors.Is(err, failed) || o.value != "new#1" {
		t.Errorf("trouble must leave the stamped annotation: %v %+v", err, o)
	}
}
