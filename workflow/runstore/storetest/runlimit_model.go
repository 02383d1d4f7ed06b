package storetest

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// modelLimits is the rule of limits, written down without regard to time.
type modelLimits struct {
	set     map[string]int
	waiting []*runtype.Run
	running []*runtype.Run
}

func (m *modelLimits) start() (started []string) {
	for again := true; again; {
		again = false
		slices.SortStableFunc(m.waiting, func(a, b *runtype.Run) int { return cmp.Or(cmp.Compare(a.Rank(), b.Rank()), cmp.Compare(a.ID, b.ID)) })
		taken := map[string]bool{} // keys of runs that are before
		for i, r := range m.waiting {
			may := true
			for _, l := range r.Limits {
				atOnce, set := m.set[l.Key]
				if !set {
					atOnce = l.AtOnce
				}
				n := 0
				for _, other := range m.running {
					if slices.ContainsFunc(other.Limits, func(o runtype.Limit) bool { return o.Key == l.Key }) {
						n++
					}
				}
				may = may && !taken[l.Key] && n < atOnce
			}
			if may {
				m.running, m.waiting = append(m.running, r), slices.Delete(m.waiting, i, i+1)
				started, again = append(started, r.ID), true
				break
			}
			for _, l := range r.Limits {
				taken[l.Key] = true
			}
		}
	}
	slices.Sort(started)
	return started
}

// testLimitsAtRandom compares the runs that start with those of the model, and in the end all have started.
func testLimitsAtRandom(t *testing.T, h Harness) {
	x := open(t, h)
	limiter, c := optional[runstore.RunLimiter](x), x.claimer()
	checks := 0
	rapid.Check(t, func(rt *rapid.T) {
		if checks++; h.Reopen != nil && checks > 12 { // a write of a durable store takes its time
			return
		}
		m := &modelLimits{set: map[string]int{}}
		prefix := fmt.Sprint(serial.Add(1))
		a, b, d := prefix+"a", prefix+"b", prefix+"d"
		check := func() {
			got := slices.Sorted(slices.Values(x.start(c)))
			if want := m.start(); !slices.Equal(got, want) {
				rt.Fatalf("started %v, want %v", got, want)
			}
		}
		reset := func() {
			for _, key := range []string{a, b, d} {
				delete(m.set, key)
				if err := limiter.ResetRunLimit(x.Context(), key); err != nil {
					rt.Fatal(err)
				}
				check()
			}
		}
		end := func(list *[]*runtype.Run, i int) {
			x.end(c, (*list)[i].ID)
			*list = slices.Delete(*list, i, i+1)
		}
		for range rapid.IntRange(1, 25).Draw(rt, "operations") {
			switch op := rapid.IntRange(0, 9).Draw(rt, "operation"); {
			case op < 5:
				keys := rapid.SampledFrom([][]string{{a}, {b}, {d}, {a, b}, {b, d}, {a, b, d}}).Draw(rt, "keys")
				r := limited("", rapid.IntRange(1, 3).Draw(rt, "at once"), keys...)
				r.Priority = rapid.IntRange(-1, 1).Draw(rt, "priority")
				r.CreatedAt = testTime(0).Add(time.Duration(rapid.IntRange(0, 3).Draw(rt, "age")) * runtype.PriorityAge / 2)
				x.create(r)
				m.waiting = append(m.waiting, r)
			case op < 7 && len(m.running) > 0:
				end(&m.running, rapid.IntRange(0, len(m.running)-1).Draw(rt, "running"))
			case op == 7 && len(m.waiting) > 0:
				end(&m.waiting, rapid.IntRange(0, len(m.waiting)-1).Draw(rt, "waiting"))
			case op == 8:
				key, n := rapid.SampledFrom([]string{a, b, d}).Draw(rt, "key"), rapid.IntRange(0, 3).Draw(rt, "set")
				m.set[key] = n
				if err := limiter.SetRunLimit(x.Context(), key, n); err != nil {
					rt.Fatal(err)
				}
			default:
				reset()
			}
			check()
		}
		reset()
		for check(); len(m.running) > 0; check() {
			end(&m.running, 0)
		}
		if len(m.waiting) > 0 {
			rt.Fatalf("%d runs wait and none runs", len(m.waiting))
		}
	})
}

// testNobodyWaits: runs with limits start child runs for subjects of each other and end after them. A run whose children have
// ended ends; so nothing is left in the end, whatever the order. A child is started for no subject of a run that has begun and has
// children: two runs can always wait for each other's subjects, without limits too.
func testNobodyWaits(t *testing.T, h Harness, crash bool) {
	if crash && h.Reopen == nil {
		t.Skip("the store is not durable")
	}
	x := open(t, h)
	optional[runstore.RunLimiter](x)
	checks := 0
	rapid.Check(t, func(rt *rapid.T) {
		if checks++; h.Reopen != nil && checks > 12 || crash && checks > 3 { // a write of a durable store takes its time
			return
		}
		prefix := fmt.Sprint(serial.Add(1))
		keys := []string{prefix + "a", prefix + "b", prefix + "c"}
		subjects := make([]string, 4)
		for i := range subjects {
			subjects[i] = newRun("").Subject
		}
		type node struct {
			*runtype.Run
			children       int // that go on
			planned        int
			begun, hasGone bool
		}
		nodes := map[string]*node{}
		var order []*node
		c := x.claimer()
		wrote := func() {
			if crash {
				x.Store = h.Reopen(t, x.Store)
				c = x.claimer()
			}
		}
		// held reports whether a run that has begun and has children, or will have, keeps the subject busy.
		held := func(subject string) bool {
			return slices.ContainsFunc(order, func(n *node) bool { return n.begun && !n.hasGone && n.planned+n.children > 0 && n.Subject == subject })
		}
		begin := func() {
			for _, n := range order {
				if got, _ := x.load(n.ID); got.Phase == runtype.Running {
					n.begun = true
				}
			}
		}
		add := func(r *runtype.Run, planned int) {
			n := &node{Run: r, planned: planned}
			nodes[r.ID], order = n, append(order, n)
			if p := nodes[r.Parent]; p != nil {
				p.children++
			}
			x.create(r)
			wrote()
			begin()
		}
		running := func() {
			for range 3 { // a claim starts what may start
				if claimed := x.claim(c, runstore.Claim{Worker: "w"}); len(claimed.Runs) == 0 {
					break
				}
			}
			begin()
		}
		for range rapid.IntRange(2, 8).Draw(rt, "runs") {
			r := newRun(rapid.SampledFrom(subjects).Draw(rt, "subject"))
			for _, key := range rapid.SampledFrom([][]string{nil, keys[:1], keys[1:2], keys[:2], keys[1:], keys}).Draw(rt, "keys") {
				r.Limits = append(r.Limits, runtype.Limit{Key: key, AtOnce: rapid.IntRange(1, 2).Draw(rt, "at once")})
			}
			r.Priority = rapid.IntRange(-1, 1).Draw(rt, "priority")
			add(r, rapid.IntRange(0, 2).Draw(rt, "children"))
			if rapid.Bool().Draw(rt, "claim") {
				running()
			}
		}
		for rounds := 0; ; rounds++ {
			running()
			var open, busy []*node
			for _, n := range order {
				if !n.hasGone {
					open = append(open, n)
					if n.begun {
						busy = append(busy, n)
					}
				}
			}
			if len(open) == 0 {
				return
			}
			i := slices.IndexFunc(busy, func(n *node) bool { return n.planned > 0 || n.children == 0 })
			if i < 0 || rounds > 200 {
				for _, n := range open {
					got, _ := x.load(n.ID)
					rt.Logf("%s of %s: %s with number %d, parent %s, limits %v", n.ID, n.Subject, got.Phase, got.Queue, n.Parent, n.Limits)
				}
				rt.Fatalf("%d runs wait for ever", len(open))
			}
			if n := busy[i]; n.planned > 0 {
				subject := rapid.SampledFrom(subjects).Draw(rt, "subject of the child")
				may := !held(subject)
				n.planned--
				if !may {
					continue
				}
				child := newRun(subject)
				child.Parent = n.ID
				add(child, rapid.IntRange(0, 1).Draw(rt, "children of the child"))
			} else {
				x.end(c, n.ID)
				wrote()
				n.hasGone = true
				if p := nodes[n.Parent]; p != nil {
					p.children--
				}
			}
		}
	})
}
