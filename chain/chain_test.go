package chain_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/chain"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/outcome"
	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var full = fault.Declare(fault.Kind{Code: "TEST_FULL", Class: fault.Blocked, Title: "full", Remedy: "Empty it."})

type scope struct{ visited []string }

func link(name string, out outcome.Outcome) chain.Sub[*scope] {
	return chain.Sub[*scope]{Name: name, Run: func(_ context.Context, s *scope) outcome.Outcome {
		s.visited = append(s.visited, name)
		return out
	}}
}

func done(name string) chain.Sub[*scope] { return link(name, outcome.Done()) }

func later(name string, d time.Duration) chain.Sub[*scope] {
	return link(name, outcome.Later(d, "Later"+name, "%s is late", name))
}

func wait(name string, d time.Duration) chain.Sub[*scope] {
	return link(name, outcome.Wait(d, "Wait"+name, "%s waits for 100%%", name))
}

func fail(name string) chain.Sub[*scope] { return link(name, outcome.Fail(full.Errorf("%s", name))) }

func TestReconcile(t *testing.T) {
	for _, c := range []struct {
		name    string
		chain   chain.Chain[*scope]
		visited string // names of the links that ran
		not     string // names of those not reached
		blocker string
		want    string // the outcome of the whole
	}{
		{"empty", nil, "", "", "", "done"},
		{"all done", chain.Chain[*scope]{done("a"), done("b")}, "a b", "", "", "done"},
		{"wait stops", chain.Chain[*scope]{done("a"), wait("b", time.Second), done("c"), done("d")}, "a b", "c d", "b", "wait 1s Waitb: b waits for 100%"},
		{"fail stops", chain.Chain[*scope]{fail("a"), done("b")}, "a", "b", "a", "fail TEST_FULL: a"},
		{"later goes on", chain.Chain[*scope]{later("a", 9*time.Second), done("b"), later("c", 3*time.Second)}, "a b c", "", "a", "later 3s Latera: a is late"},
		{"later, then wait: the soonest counts", chain.Chain[*scope]{later("a", time.Second), wait("b", time.Minute), done("c")}, "a b", "c", "b", "wait 1s Waitb: b waits for 100%"},
		{"wait without delay", chain.Chain[*scope]{wait("a", 0)}, "a", "", "a", "wait 0s Waita: a waits for 100%"},
		{"wait without delay after later", chain.Chain[*scope]{later("a", 5*time.Second), wait("b", 0)}, "a b", "", "b", "wait 5s Waitb: b waits for 100%"},
		{"later without delay", chain.Chain[*scope]{later("a", 0), later("b", time.Hour)}, "a b", "", "a", "later 1h0m0s Latera: a is late"},
		{"later, then fail", chain.Chain[*scope]{later("a", time.Second), fail("b")}, "a b", "", "b", "fail TEST_FULL: b"},
		{"nested", chain.Chain[*scope]{done("a"), {Name: "in", Subs: chain.Chain[*scope]{done("b"), wait("c", time.Second), done("d")}}, done("e")}, "a b c", "in/d e", "in/c", "wait 1s Waitc: c waits for 100%"},
		{"nested later", chain.Chain[*scope]{{Name: "in", Subs: chain.Chain[*scope]{later("b", time.Second)}}, done("e")}, "b e", "", "in/b", "later 1s Laterb: b is late"},
		{"nested empty", chain.Chain[*scope]{{Name: "in", Subs: chain.Chain[*scope]{}}, done("e")}, "e", "", "", "done"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s scope
			r := c.chain.Reconcile(t.Context(), &s)
			b, ok := r.Blocker()
			if got := strings.Join(s.visited, " "); got != c.visited {
				t.Errorf("ran %q, want %q", got, c.visited)
			}
			if got := strings.Join(r.NotReached, " "); got != c.not {
				t.Errorf("not reached %q, want %q", got, c.not)
			}
			if b.Name != c.blocker || ok != (c.blocker != "") {
				t.Errorf("blocker %q %t, want %q", b.Name, ok, c.blocker)
			}
			if got := r.Outcome().String(); got != c.want {
				t.Errorf("outcome %q, want %q", got, c.want)
			}
			if len(r.Links) != len(s.visited) {
				t.Errorf("%d links reported, %d ran", len(r.Links), len(s.visited))
			}
			if (r.Err() != nil) != r.Outcome().IsFail() {
				t.Errorf("error %v beside outcome %s", r.Err(), r.Outcome())
			}
		})
	}
}

func TestPanicIsAFailureOfItsLink(t *testing.T) {
	cause := errors.New("deep")
	for _, value := range []any{"text", cause} {
		var s scope
		r := chain.Chain[*scope]{done("a"), {Name: "b", Run: func(context.Context, *scope) outcome.Outcome { panic(value) }}, done("c")}.Reconcile(t.Context(), &s)
		err := r.Err()
		if fault.Of(err) != fault.Panic || !strings.Contains(err.Error(), "b: ") {
			t.Fatalf("error %v, want PANIC of b", err)
		}
		if value == any(cause) && !errors.Is(err, cause) {
			t.Fatalf("error %v does not wrap what was thrown", err)
		}
		if stack, _ := fault.Details(err)["stack"].(string); !strings.Contains(stack, "chain_test") || len(stack) > chain.MaxStack {
			t.Fatalf("stack of %d bytes does not name the panic's place", len(stack))
		}
		if !slices.Equal(r.NotReached, []string{"c"}) {
			t.Fatalf("not reached: %v", r.NotReached)
		}
	}
	var nothing chain.Sub[*scope]
	if r := (chain.Chain[*scope]{nothing}).Reconcile(t.Context(), nil); fault.Of(r.Err()) != fault.Panic {
		t.Fatalf("a link without Run: %v, want PANIC", r.Err())
	}
}

func TestTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nap := func(d time.Duration) chain.Sub[*scope] {
			return chain.Sub[*scope]{Name: d.String(), Run: func(ctx context.Context, _ *scope) outcome.Outcome {
				select {
				case <-time.After(d):
				case <-ctx.Done():
				}
				return outcome.Done()
			}}
		}
		start := time.Now()
		r := chain.Chain[*scope]{nap(time.Second), nap(time.Minute)}.Reconcile(t.Context(), nil)
		if r.Took != 61*time.Second || r.Links[0].Took != time.Second || r.Links[1].Took != time.Minute ||
			!r.Started.Equal(start) || !r.Links[1].Started.Equal(start.Add(time.Second)) {
			t.Fatalf("times: %+v", r)
		}
	})
}

func TestEndedContextReachesNothingMore(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("draining")
	var s scope
	c := chain.Chain[*scope]{
		{Name: "a", Run: func(context.Context, *scope) outcome.Outcome { cancel(cause); return outcome.Done() }},
		done("b"), done("c"),
	}
	saved := 0
	r := c.ReconcileAndSave(ctx, &s, func(ctx context.Context, _ *scope, _ chain.Report) error {
		saved++
		return ctx.Err()
	})
	if !errors.Is(r.Err(), cause) || len(s.visited) != 0 || !slices.Equal(r.NotReached, []string{"c"}) {
		t.Fatalf("report %v, visited %v, not reached %v", r, s.visited, r.NotReached)
	}
	if saved != 1 || r.Save != nil {
		t.Fatalf("saved %d times with %v; want once, with a context that still lives", saved, r.Save)
	}
}

func TestSaveIsMadeOnceWhateverHappened(t *testing.T) {
	bad := errors.New("no disk")
	for _, c := range []struct {
		name string
		link chain.Sub[*scope]
		save func() error
		want string
	}{
		{"done", done("a"), func() error { return nil }, "done"},
		{"fail", fail("a"), func() error { return nil }, "fail TEST_FULL: a"},
		{"panic", chain.Sub[*scope]{Name: "a", Run: func(context.Context, *scope) outcome.Outcome { panic("p") }}, func() error { return nil }, "fail PANIC: a: p"},
		{"wait and a lost save", wait("a", time.Second), func() error { return bad }, "fail no disk"},
		{"fail and a lost save", fail("a"), func() error { return bad }, "fail TEST_FULL: a"},
		{"a save that panics", done("a"), func() error { panic("p") }, "fail PANIC: the status write: p"},
	} {
		t.Run(c.name, func(t *testing.T) {
			saved := 0
			r := chain.Chain[*scope]{c.link, later("z", time.Second)}.ReconcileAndSave(t.Context(), &scope{}, func(_ context.Context, s *scope, r chain.Report) error {
				saved++
				if len(r.Links) == 0 {
					t.Error("the status is written before the chain has run")
				}
				return c.save()
			})
			got := r.Outcome().String()
			if c.want == "done" {
				c.want = "later 1s Laterz: z is late"
			}
			if saved != 1 || got != c.want {
				t.Fatalf("saved %d times, outcome %q; want once and %q", saved, got, c.want)
			}
		})
	}
}

// Nested and flat chains have the same result, and the rules hold for any mix of outcomes.
func TestRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kinds := rapid.SliceOfN(rapid.IntRange(0, 3), 0, 12).Draw(t, "kinds")
		var flat, nested chain.Chain[*scope]
		for i, kind := range kinds {
			name := string(rune('a' + i))
			d := time.Duration(rapid.IntRange(0, 5).Draw(t, "delay")) * time.Second
			sub := []chain.Sub[*scope]{done(name), later(name, d), wait(name, d), fail(name)}[kind]
			flat = append(flat, sub)
			if rapid.Bool().Draw(t, "nest") {
				inner := chain.Chain[*scope]{sub}
				sub = chain.Sub[*scope]{Name: name, Run: func(ctx context.Context, s *scope) outcome.Outcome {
					return inner.Reconcile(ctx, s).Outcome()
				}}
			}
			nested = append(nested, sub)
		}
		var one, two scope
		r, n := flat.Reconcile(t.Context(), &one), nested.Reconcile(t.Context(), &two)
		if r.Outcome().String() != n.Outcome().String() || !slices.Equal(one.visited, two.visited) || !slices.Equal(r.NotReached, n.NotReached) {
			t.Fatalf("flat %v visited %v, nested %v visited %v", r, one.visited, n, two.visited)
		}
		stop := slices.IndexFunc(kinds, func(k int) bool { return k >= 2 })
		reached := len(kinds)
		if stop >= 0 {
			reached = stop + 1
		}
		if len(one.visited) != reached || len(r.NotReached) != len(kinds)-reached {
			t.Fatalf("kinds %v: ran %v, not reached %v", kinds, one.visited, r.NotReached)
		}
		if r.Outcome().IsDone() && slices.Max(append(kinds, 0)) > 0 {
			t.Fatalf("kinds %v: done", kinds)
		}
	})
}
