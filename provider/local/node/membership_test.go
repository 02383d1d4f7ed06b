package node

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

func names(members []Member) string {
	var all []string
	for _, m := range members {
		all = append(all, m.Name)
	}
	return strings.Join(all, " ")
}

// Workers leave the membership after 30 s of silence, and not before.
func TestMembershipForgetsTheSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newMembership(Times{}.filled().Silence)
		began := time.Now()
		for _, name := range []string{"w2", "w1"} {
			if isNew, ok := r.renew(time.Now(), Member{Name: name, Identity: name}); !isNew || !ok {
				t.Fatalf("%s: new %t, ok %t", name, isNew, ok)
			}
		}
		time.Sleep(10 * time.Second)
		if isNew, _ := r.renew(time.Now(), Member{Name: "w1", Identity: "w1"}); isNew {
			t.Error("a renewal makes no new node")
		}
		time.Sleep(20 * time.Second)
		if got := names(r.list(time.Now())); got != "w1 w2" {
			t.Errorf("after 30 s of w2's silence: %s", got)
		}
		time.Sleep(time.Nanosecond)
		got := r.list(time.Now())
		if names(got) != "w1" || !got[0].Since.Equal(began) || !got[0].Ready {
			t.Errorf("after more than 30 s: %+v", got)
		}
		time.Sleep(time.Minute)
		if isNew, _ := r.renew(time.Now(), Member{Name: "w2", Identity: "w2"}); !isNew {
			t.Error("who was forgotten comes as a new one")
		}
	})
}

func TestMembershipLeaveAndForget(t *testing.T) {
	now := time.Unix(1000, 0)
	r := newMembership(time.Minute)
	r.renew(now, Member{Name: "w1", Identity: "old"})
	if isNew, _ := r.renew(now.Add(time.Second), Member{Name: "w1", Identity: "new"}); !isNew {
		t.Error("another node of the name is a new one")
	}
	if r.leave("w1", "old") || names(r.list(now)) != "w1" {
		t.Error("the old node took the new one out of the list")
	}
	if !r.leave("w1", "new") || r.leave("w1", "new") || len(r.list(now)) != 0 {
		t.Error("a node leaves once")
	}
	r.renew(now, Member{Name: "w2", Identity: "x"})
	r.forget([]string{"w2", "w9"})
	if _, ok := r.renew(now, Member{Name: "w2", Identity: "x"}); ok || len(r.list(now)) != 0 {
		t.Error("a removed node came back")
	}
}

// The membership always contains exactly the nodes with a recent renewal that have not
// left and were not removed.
func TestMembershipInvariant(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const silence = 30 * time.Second
		r, now := newMembership(silence), time.Unix(1000, 0)
		seen, removed := map[string]time.Time{}, map[string]bool{}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 20).Draw(t, "seconds")) * time.Second)
			name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name")
			switch rapid.SampledFrom([]string{"renew", "renew", "renew", "leave", "forget"}).Draw(t, "do") {
			case "renew":
				if _, ok := r.renew(now, Member{Name: name, Identity: name}); ok == removed[name] {
					t.Fatalf("%s renews: %t, removed: %t", name, ok, removed[name])
				}
				if !removed[name] {
					seen[name] = now
				}
			case "leave":
				r.leave(name, name)
				delete(seen, name)
			case "forget":
				r.forget([]string{name})
				removed[name] = true
				delete(seen, name)
			}
			var want []Member
			for _, n := range []string{"a", "b", "c"} {
				if at, there := seen[n]; there && now.Sub(at) <= silence {
					want = append(want, Member{Name: n})
				}
			}
			if got := names(r.list(now)); got != names(want) {
				t.Fatalf("list %q, want %q", got, names(want))
			}
		}
	})
}
