package limit

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/workflow/runtype"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// keyStates keeps the states of keys as a store does: encoded.
type keyStates map[string][]byte

func (k keyStates) request(t fataler, now time.Time, r Request) Answer {
	states := map[string]*State{}
	for _, key := range r.Keys() {
		s, err := Decode(k[key])
		if err != nil {
			t.Fatalf("%v", err)
		}
		states[key] = s
	}
	a := Decide(now, states, r)
	for key, s := range states {
		if k[key] = s.Encode(); k[key] == nil {
			delete(k, key)
		}
	}
	return a
}

type fataler interface{ Fatalf(string, ...any) }

func (k keyStates) state(key string) *State {
	s, _ := Decode(k[key])
	return s
}

func atOnce(key string, n int) Limit { return Limit{Key: key, AtOnce: n} }
func rate(key string, n int, window time.Duration) Limit {
	return Limit{Key: key, Rate: runtype.Rate{Starts: n, Window: window}}
}

// TestDecide is the table of the rules: each line is a request, and what comes of it.
func TestDecide(t *testing.T) {
	second := func(n float64) time.Time { return start.Add(time.Duration(n * float64(time.Second))) }
	type line struct {
		at      float64 // seconds
		run     string
		epoch   int64
		wants   []Limit
		prio    int
		returns []Limit
		lost    []Holder

		waits  bool
		before int
		askAt  float64
		wake   []string
	}
	k, other := []Limit{atOnce("k", 1)}, []Limit{atOnce("other", 1)}
	both := []Limit{atOnce("k", 1), atOnce("other", 1)}
	two := []Limit{rate("k", 2, time.Minute)}
	for name, lines := range map[string][]line{
		"one at a time, the first comes first": {
			{run: "a", wants: k},
			{at: 1, run: "b", wants: k, waits: true, askAt: 11},
			{at: 2, run: "c", wants: k, waits: true, before: 1, askAt: 13},
			{at: 3, run: "a", returns: k, wake: []string{"b"}},
			{at: 3.1, run: "c", wants: k, waits: true, before: 1, askAt: 14.1},
			{at: 3.2, run: "b", wants: k, wake: []string{"c"}}, // c is the first now
			{at: 4, run: "b", returns: k, wake: nil},           // it was woken before, and has not asked
			{at: 4.1, run: "c", wants: k},
		},
		"a point of priority is worth a minute": {
			{run: "a", wants: k},
			{at: 1, run: "b", wants: k, waits: true, askAt: 11},
			{at: 60, run: "c", wants: k, prio: 1, waits: true, askAt: 70, wake: nil},
			{at: 61.5, run: "d", wants: k, prio: 1, waits: true, before: 1, askAt: 72.5},
			{at: 62, run: "a", returns: k, wake: []string{"c"}},
			{at: 62.1, run: "c", wants: k, wake: []string{"d"}}, // b is overdue: it did not ask at 11
			{at: 63, run: "b", wants: k, waits: true, askAt: 73},
			{at: 64, run: "c", returns: k, wake: []string{"b"}},
		},
		"a window is never exceeded, and each knows its time": {
			{run: "a", wants: two},
			{at: 10, run: "b", wants: two},
			{at: 11, run: "c", wants: two, waits: true, askAt: 60},
			{at: 12, run: "d", wants: two, waits: true, before: 1, askAt: 70},
			{at: 13, run: "e", wants: two, waits: true, before: 2, askAt: 120},
			{at: 59.999, run: "c", wants: two, waits: true, askAt: 60},
			{at: 60, run: "c", wants: two, wake: []string{"d"}},
			{at: 61, run: "d", wants: two, waits: true, askAt: 70},
			{at: 70, run: "e", wants: two, waits: true, before: 1, askAt: 120},
			{at: 70, run: "d", wants: two, wake: []string{"e"}},
			{at: 119.9, run: "e", wants: two, waits: true, askAt: 120},
			{at: 120, run: "e", wants: two},
		},
		"one that waits no more lets the next one know": {
			{run: "a", wants: two}, {run: "b", wants: two},
			{at: 1, run: "c", wants: two, waits: true, askAt: 60},
			{at: 2, run: "d", wants: two, waits: true, before: 1, askAt: 60},
			{at: 3, run: "c", returns: two, wake: []string{"d"}},
		},
		"two keys: both or none, and nobody passes": {
			{run: "a", wants: k}, {run: "b", wants: other},
			{at: 1, run: "c", wants: both, waits: true, askAt: 11},
			{at: 2, run: "d", wants: k, waits: true, before: 1, askAt: 13},
			{at: 3, run: "a", returns: k, wake: []string{"c"}},
			{at: 3.1, run: "d", wants: k, waits: true, before: 1, askAt: 14.1},
			{at: 3.2, run: "c", wants: both, waits: true, askAt: 13.2},
			{at: 4, run: "b", returns: other, wake: []string{"c"}},
			{at: 4.1, run: "c", wants: both, wake: []string{"d"}},
		},
		"who wants fewer at once is not passed": {
			{run: "a", wants: []Limit{atOnce("k", 3)}}, {run: "b", wants: []Limit{atOnce("k", 3)}},
			{at: 1, run: "c", wants: k, waits: true, askAt: 11},
			{at: 2, run: "d", wants: []Limit{atOnce("k", 3)}, waits: true, before: 1, askAt: 13},
		},
		"the same request again changes nothing": {
			{run: "a", wants: k},
			{at: 1, run: "a", wants: k},
			{at: 2, run: "b", wants: k, waits: true, askAt: 12},
		},
		"an old worker returns nothing that a newer one has": {
			{run: "a", epoch: 1, wants: k},
			{at: 1, run: "a", epoch: 2, wants: k},
			{at: 2, run: "b", wants: k, waits: true, askAt: 12},
			{at: 3, run: "a", epoch: 1, returns: k},
			{at: 4, run: "b", wants: k, waits: true, askAt: 14},
		},
		"a lost limit is free again": {
			{run: "a", epoch: 1, wants: k},
			{at: 1, run: "b", wants: k, waits: true, askAt: 11},
			{at: 2, run: "c", wants: k, waits: true, before: 1, askAt: 13},
			{at: 11, run: "b", wants: k, lost: []Holder{{"a", "S", 1}}, wake: []string{"c"}},
		},
		"the waiters of a run that has ended are gone": {
			{run: "a", wants: k},
			{at: 1, run: "b", wants: k, waits: true, askAt: 11},
			{at: 2, run: "c", wants: k, waits: true, before: 1, askAt: 13},
			{at: 3, run: "c", wants: k, lost: []Holder{{Run: "b", Epoch: Ended}}, waits: true, askAt: 13},
		},
		"a clock that is set back costs one window": {
			{at: 7200, run: "a", wants: two}, {at: 7200, run: "b", wants: two},
			{at: 0, run: "c", wants: two, waits: true, askAt: 60},
			{at: 59, run: "c", wants: two, waits: true, askAt: 60},
			{at: 60, run: "c", wants: two},
		},
		"clocks that differ a little do not shorten a window": {
			{at: 30, run: "a", wants: two}, {at: 0, run: "b", wants: two}, // as if at 30
			{at: 31, run: "c", wants: two, waits: true, askAt: 90},
			{at: 1, run: "c", wants: two, waits: true, askAt: 60},
			{at: 89, run: "c", wants: two, waits: true, askAt: 90},
			{at: 90, run: "c", wants: two},
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := keyStates{}
			for i, l := range lines {
				r := Request{Run: l.run, Epoch: l.epoch, Lost: l.lost}
				if l.wants != nil {
					r.Acquires = []Acquire{{Step: "S", Rank: Rank(second(l.at), l.prio), Limits: l.wants}}
				}
				if l.returns != nil {
					r.Releases = []Release{{Step: "S", Limits: l.returns}}
				}
				a := d.request(t, second(l.at), r)
				wait, waits := a.Waits["S"]
				if waits != l.waits || wait.Before != l.before || waits && !wait.AskAt.Equal(second(l.askAt)) || !slices.Equal(a.Wake, l.wake) {
					t.Errorf("line %d, %s at %v: waits %v, %d before, asks at %v; wakes %v", i, l.run, l.at, waits, wait.Before, wait.AskAt.Sub(start), a.Wake)
				}
			}
		})
	}
}

// TestOneRequestOfManySteps: the steps of one run that become ready together share what is free.
func TestOneRequestOfManySteps(t *testing.T) {
	d := keyStates{}
	var wants []Acquire
	for i := range 5 {
		wants = append(wants, Acquire{Step: fmt.Sprint("S", i), Rank: Rank(start, 0), Limits: []Limit{atOnce("k", 2)}})
	}
	a := d.request(t, start, Request{Run: "a", Acquires: wants})
	if got := slices.Sorted(maps.Keys(a.Waits)); !slices.Equal(got, []string{"S2", "S3", "S4"}) {
		t.Errorf("waiting: %v", got)
	}
	a = d.request(t, start, Request{Run: "a", Acquires: wants[2:], Releases: []Release{{"S0", wants[0].Limits}}})
	if got := slices.Sorted(maps.Keys(a.Waits)); !slices.Equal(got, []string{"S3", "S4"}) {
		t.Errorf("waiting after a return: %v", got)
	}
	want := []Holder{{"a", "S1", 0}, {"a", "S2", 0}}
	if diff := cmp.Diff(want, d.state("k").Holders); diff != "" {
		t.Error(diff)
	}
}

// TestNothingIsLeft: a key that nobody uses any more is not stored.
func TestNothingIsLeft(t *testing.T) {
	d := keyStates{}
	limits := []Limit{{Key: "k", AtOnce: 1, Rate: runtype.Rate{Starts: 1, Window: time.Second}}}
	d.request(t, start, Request{Run: "a", Acquires: []Acquire{{Step: "S", Limits: limits}}})
	d.request(t, start.Add(500*time.Millisecond), Request{Run: "a", Releases: []Release{{"S", limits}}})
	if len(d) != 1 {
		t.Fatal("the start is forgotten within its window")
	}
	for after, over := range map[time.Duration]bool{900 * time.Millisecond: false, time.Second: true} {
		if got := IsOver(start.Add(after), d["k"]); got != over {
			t.Errorf("after %s: over is %v", after, got)
		}
	}
	if IsOver(start, []byte("1")) {
		t.Error("what cannot be read is over")
	}
}

// TestManyThatWait: more than MaxWaiting wait, and all of them come to their turn in order.
func TestManyThatWait(t *testing.T) {
	d, now := keyStates{}, start
	const n = MaxWaiting + 20
	k := []Limit{atOnce("k", 1)}
	want := func(i int) Request {
		return Request{Run: fmt.Sprintf("%05d", i), Acquires: []Acquire{{Step: "S", Rank: int64(i), Limits: k}}}
	}
	for i := range n {
		d.request(t, now, want(i))
	}
	if len(d.state("k").Waiters) != MaxWaiting {
		t.Fatalf("%d waiters", len(d.state("k").Waiters))
	}
	for i := range n {
		a := d.request(t, now, want(i))
		if len(a.Waits) > 0 {
			t.Fatalf("%d waits: %+v", i, a.Waits)
		}
		d.request(t, now, Request{Run: fmt.Sprintf("%05d", i), Releases: []Release{{"S", k}}})
	}
}

// TestAtRandom: whatever happens, no number is exceeded, and nobody waits for ever. Workers die, wake-ups are lost,
// answers are lost, clocks are set back; a step asks only when it was told to, or was woken.
func TestAtRandom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := keyStates{}
		const keys = 3
		var limits [keys]Limit
		for i := range limits {
			l := Limit{Key: fmt.Sprint("k", i)}
			kind := rapid.IntRange(0, 2).Draw(t, "kind")
			if kind != 1 {
				l.AtOnce = rapid.IntRange(1, 3).Draw(t, "at once")
			}
			if kind != 0 {
				l.Rate = runtype.Rate{Starts: rapid.IntRange(1, 3).Draw(t, "starts"), Window: time.Duration(rapid.IntRange(1, 90).Draw(t, "window")) * time.Second}
			}
			limits[i] = l
		}
		type step struct {
			limits      []Limit
			epoch       int64
			since       time.Duration
			askAt       time.Duration // of real time
			waits, runs bool
			done, dead  bool
			asked       int
		}
		var steps []*step
		var real, offset time.Duration // time that passes, and what the clock shows beyond it
		starts := map[string][]time.Duration{}
		clock := func() time.Time { return start.Add(real + offset) }
		name := func(i int) string { return fmt.Sprintf("%03d", i) }
		wake := func(runs []string, lose bool) {
			for i, s := range steps {
				if !lose && s.waits && slices.Contains(runs, name(i)) {
					s.askAt = real
				}
			}
		}
		ask := func(i int, lose bool) {
			s := steps[i]
			r := Request{Run: name(i), Epoch: s.epoch, Acquires: []Acquire{{Step: "S", Rank: Rank(start.Add(s.since), 0), Limits: s.limits}}}
			a := d.request(t, clock(), r)
			var lost []Holder
			for _, h := range a.Check {
				k, _ := strconv.Atoi(h.Run)
				switch o := steps[k]; {
				case o.done && h.Epoch == Ended, h.Epoch != Ended && (!o.runs || o.dead || h.Epoch < o.epoch):
					lost = append(lost, h)
				}
			}
			if len(lost) > 0 && len(a.Waits) > 0 {
				wake(a.Wake, lose)
				r.Lost = lost
				a = d.request(t, clock(), r)
			}
			wake(a.Wake, lose)
			wait, waits := a.Waits["S"]
			s.waits, s.runs = waits, !waits
			if waits {
				s.askAt = real + wait.AskAt.Sub(clock())
				if s.asked++; s.asked > 1000 {
					t.Fatalf("step %d of %v has asked %d times: %+v", i, s.limits, s.asked, wait)
				}
				return
			}
			for _, l := range s.limits {
				if l.Rate.Starts > 0 {
					list := append(starts[l.Key], real)
					if n := len(list) - 1 - l.Rate.Starts; n >= 0 && list[n+1]-list[n] >= 0 && real-list[n] < l.Rate.Window {
						t.Fatalf("%d starts of %s within %s: %v", l.Rate.Starts+1, l.Key, real-list[n], list)
					}
					starts[l.Key] = list
				}
			}
		}
		check := func() {
			for _, l := range limits {
				n := 0
				for _, s := range steps {
					if s.runs && !s.dead && slices.Contains(s.limits, l) {
						n++
					}
				}
				if l.AtOnce > 0 && n > l.AtOnce {
					t.Fatalf("%d steps of %s run at once", n, l.Key)
				}
			}
		}
		end := func(i int, lose bool) {
			s := steps[i]
			s.runs, s.waits, s.done = false, false, true
			a := d.request(t, clock(), Request{Run: name(i), Epoch: s.epoch, Releases: []Release{{"S", s.limits}}})
			wake(a.Wake, lose)
		}
		for range rapid.IntRange(1, 40).Draw(t, "acts") {
			lose := rapid.IntRange(0, 5).Draw(t, "lost wake-up") == 0
			switch act := rapid.IntRange(0, 9).Draw(t, "act"); {
			case act < 4:
				var of []Limit
				for _, l := range limits {
					if rapid.Bool().Draw(t, "key") {
						of = append(of, l)
					}
				}
				if len(of) == 0 {
					continue
				}
				steps = append(steps, &step{limits: of, epoch: 1, since: real + offset - time.Duration(rapid.IntRange(0, 2).Draw(t, "age"))*time.Second})
				ask(len(steps)-1, lose)
			case act < 6 && len(steps) > 0:
				if i := rapid.IntRange(0, len(steps)-1).Draw(t, "step"); !steps[i].dead && (steps[i].runs || steps[i].waits) {
					end(i, lose)
				}
			case act == 6 && len(steps) > 0: // its worker dies, and it runs no more
				if s := steps[rapid.IntRange(0, len(steps)-1).Draw(t, "step")]; !s.done {
					s.dead, s.waits = true, false
				}
			case act == 7:
				offset -= time.Duration(rapid.IntRange(0, 7200).Draw(t, "set back")) * time.Second
			default:
				real += time.Duration(rapid.IntRange(1, 40_000).Draw(t, "milliseconds")) * time.Millisecond
				for i, s := range steps {
					if s.waits && s.askAt <= real {
						ask(i, lose)
					}
				}
			}
			check()
		}
		for i, s := range steps { // another worker takes over those of dead workers
			if s.dead {
				s.dead, s.runs, s.epoch = false, false, s.epoch+1
				ask(i, false)
			}
		}
		for turns := 0; ; turns++ {
			next := time.Duration(-1)
			for i, s := range steps {
				if s.runs {
					end(i, false)
				}
			}
			for i, s := range steps {
				if s.waits && s.askAt <= real {
					ask(i, false)
					check()
				}
			}
			left := false
			for _, s := range steps {
				left = left || s.runs
				if s.waits && (next < 0 || s.askAt < next) {
					next = s.askAt
				}
			}
			if next < 0 && !left {
				break
			}
			if !left {
				real = max(real, next)
			}
			if turns > 5000 {
				t.Fatalf("some wait for ever: %v", d)
			}
		}
	})
}

// BenchmarkDecide is one limit that goes from one step to the next while others wait.
func BenchmarkDecide(b *testing.B) {
	for _, waiting := range []int{0, 10, 1000} {
		b.Run(fmt.Sprintf("waiting=%d", waiting), func(b *testing.B) {
			d, k := keyStates{}, []Limit{atOnce("k", 1)}
			for i := range waiting {
				d.request(b, start, Request{Run: fmt.Sprint("w", i), Acquires: []Acquire{{Step: "S", Rank: int64(i) + 1, Limits: k}}})
			}
			for b.Loop() {
				d.request(b, start, Request{Run: "a", Acquires: []Acquire{{Step: "S", Limits: k}}})
				d.request(b, start, Request{Run: "a", Releases: []Release{{"S", k}}})
			}
		})
	}
}

// TestHalfOfItsLimits: a step that holds a limit of one of its keys does not pass the limit of the other one.
func TestHalfOfItsLimits(t *testing.T) {
	d := keyStates{}
	k, l := atOnce("k", 1), atOnce("l", 1)
	d.request(t, start, Request{Run: "a", Epoch: 1, Acquires: []Acquire{{Step: "S", Limits: []Limit{k}}}})
	d.request(t, start, Request{Run: "b", Epoch: 1, Acquires: []Acquire{{Step: "S", Limits: []Limit{l}}}})
	both := Request{Run: "a", Epoch: 1, Acquires: []Acquire{{Step: "S", Limits: []Limit{k, l}}}}
	if a := d.request(t, start, both); len(a.Waits) != 1 || a.Waits["S"].Key != "l" {
		t.Errorf("waits: %+v", a.Waits)
	}
	if n := len(d.state("k").Holders); n != 0 {
		t.Errorf("%d hold k while they wait for l", n)
	}
	d.request(t, start, Request{Run: "b", Epoch: 1, Releases: []Release{{"S", []Limit{l}}}})
	for range 2 { // the second answer is that of a request that is made again
		if a := d.request(t, start, both); len(a.Waits) != 0 {
			t.Errorf("waits: %+v", a.Waits)
		}
	}
	if n, m := len(d.state("k").Holders), len(d.state("l").Holders); n != 1 || m != 1 {
		t.Errorf("%d hold k, %d hold l", n, m)
	}
}
