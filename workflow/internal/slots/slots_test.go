package slots

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// waiter is a holder whose wake-ups are counted.
type waiter struct {
	*Holder
	inbox chan struct{}

	slotRefused, slotQueued, wantsTurn bool // as in the driver
}

func newWaiter(flow, tenant string) *waiter {
	w := &waiter{Holder: &Holder{Flow: flow, Tenant: tenant}, inbox: make(chan struct{}, 1)}
	w.Wake = func() {
		select {
		case w.inbox <- struct{}{}:
		default:
		}
	}
	return w
}

func (w *waiter) woken() bool {
	select {
	case <-w.inbox:
		return true
	default:
		return false
	}
}

func noLimits(string) int { return 0 }

// A freed slot wakes one driver, in order. A thousand drivers that wait for one slot are woken a
// thousand times in total.
func TestAFreedSlotWakesOne(t *testing.T) {
	s := New(1, 0, noLimits)
	holder := newWaiter("F", "")
	if !s.Acquire(holder.Holder) {
		t.Fatal("the first one gets no slot")
	}
	const n = 1000
	all := make([]*waiter, n)
	for i := range all {
		if all[i] = newWaiter("F", ""); s.Acquire(all[i].Holder) {
			t.Fatal("two have the one slot")
		}
	}
	for i, d := range all {
		s.Release(holder.Holder, 1)
		for k, other := range all {
			if other.woken() != (k == i) {
				t.Fatalf("the slot that was freed as number %d has woken, or not, the driver that waits as number %d", i, k)
			}
		}
		if late := newWaiter("F", ""); s.Acquire(late.Holder) {
			t.Fatal("a driver that has not waited gets the slot that is kept for one that has")
		} else {
			s.Forget(late.Holder)
		}
		if !s.Acquire(d.Holder) {
			t.Fatal("the driver that was woken gets no slot")
		}
		holder = d
	}
	s.Release(holder.Holder, 1)
	if s.used != 0 || len(s.waiting) != 0 || len(s.reserved) != 0 || len(s.queues) != 0 {
		t.Errorf("left: %d used, %d waiting, %d called, %d queues", s.used, len(s.waiting), len(s.reserved), len(s.queues))
	}
}

// Slots that are freed together go to one driver that wants several: a run with many branches needs
// one decision.
func TestSlotsThatAreFreedAtOnceGoToOne(t *testing.T) {
	s := New(3, 0, noLimits)
	holder, wide, other := newWaiter("F", ""), newWaiter("F", ""), newWaiter("F", "")
	for range 3 {
		s.Acquire(holder.Holder)
	}
	for range 4 {
		s.Acquire(wide.Holder)
	}
	s.Acquire(other.Holder)
	s.Release(holder.Holder, 3)
	for range 3 {
		if !s.Acquire(wide.Holder) {
			t.Fatal("a slot is kept for another one")
		}
	}
	wide.Decision++
	if s.Acquire(wide.Holder) {
		t.Fatal("there is no free slot")
	}
	s.Release(wide.Holder, 1)
	if wide.Decision++; other.woken() || !s.Acquire(wide.Holder) {
		t.Error("a driver that still wants a slot has lost its position")
	}
}

// A driver that was woken and does not need the slot passes it on.
func TestASlotIsGivenOn(t *testing.T) {
	s := New(1, 0, noLimits)
	holder, first, second := newWaiter("F", ""), newWaiter("F", ""), newWaiter("F", "")
	s.Acquire(holder.Holder)
	s.Acquire(first.Holder)
	s.Acquire(second.Holder)
	s.Release(holder.Holder, 1)
	<-s.Freed
	s.Forget(first.Holder)
	if !second.woken() || !s.Acquire(second.Holder) {
		t.Error("the slot that the first driver does not want is not passed on")
	}
	if len(s.Freed) != 1 {
		t.Error("the claim loop is not notified of a slot that was passed on")
	}
}

// A flow or tenant at its limit does not block others.
func TestAFullShareKeepsNobodyBack(t *testing.T) {
	s := New(3, 1, func(flow string) int {
		if flow == "One" {
			return 1
		}
		return 0
	})
	one, blue, other := newWaiter("One", ""), newWaiter("F", "blue"), newWaiter("F", "")
	for _, d := range []*waiter{one, blue, other} {
		if !s.Acquire(d.Holder) {
			t.Fatal("there is a free slot")
		}
	}
	one2, blue2, free := newWaiter("One", ""), newWaiter("F", "blue"), newWaiter("F", "")
	for _, d := range []*waiter{one2, blue2, free} {
		if s.Acquire(d.Holder) {
			t.Fatal("there is no free slot")
		}
	}
	s.Release(other.Holder, 1)
	if one2.woken() || blue2.woken() || !free.woken() || !s.Acquire(free.Holder) {
		t.Error("the slot must go only to the driver that may have it")
	}
	s.Release(blue.Holder, 1)
	if one2.woken() || !blue2.woken() || !s.Acquire(blue2.Holder) {
		t.Error("the tenant's slot goes to the tenant")
	}
	s.Release(one.Holder, 1)
	if !one2.woken() || !s.Acquire(one2.Holder) {
		t.Error("the flow's slot goes to the flow")
	}
}

// slotModel uses slots like the loop of the engine.
type slotModel struct {
	s         *Pool
	drivers   []*waiter
	wants     []int // slots that the driver still wants
	has       []int
	wantsTurn []bool // wants a turn
	hasTurn   []bool // has the turn
}

// decide simulates one decision of a driver.
func (c *slotModel) decide(i int) {
	d := c.drivers[i]
	wantedTurn := d.wantsTurn
	d.wantsTurn, d.slotRefused = false, false
	d.Decision++
	refuse := func() { d.slotRefused, d.slotQueued = true, true }
	switch {
	case c.wantsTurn[i] && c.has[i] == 0 && c.wants[i] > 0:
		if c.s.Isolate(d.Holder, 0) {
			c.has[i], c.hasTurn[i] = 1, true
			c.wants[i]--
		} else {
			d.wantsTurn = true
			refuse()
		}
	case !c.wantsTurn[i]:
		for range c.wants[i] { // each branch requests a slot, as in the engine
			if !c.s.Acquire(d.Holder) {
				refuse()
				continue
			}
			c.wants[i]--
			c.has[i]++
		}
	}
	if wantedTurn && !d.wantsTurn && !c.hasTurn[i] {
		c.s.EndTurn(d.Holder)
	}
	if d.slotQueued && !d.slotRefused {
		d.slotQueued = false
		c.s.Forget(d.Holder)
	}
}

// end simulates the end of one attempt.
func (c *slotModel) end(i int) {
	c.has[i]--
	if c.hasTurn[i] {
		c.hasTurn[i] = false
		c.s.EndTurn(c.drivers[i].Holder)
	}
	c.s.Release(c.drivers[i].Holder, 1)
}

// No limit is ever exceeded, and no driver waits for ever: when no new slots are requested and
// attempts end, every driver gets its slots.
func TestNoWakeUpIsLost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit, most := rapid.IntRange(1, 4).Draw(t, "limit"), rapid.IntRange(1, 3).Draw(t, "of a flow")
		c := &slotModel{s: New(limit, 2, func(flow string) int {
			if flow == "A" {
				return most
			}
			return 0
		})}
		n := rapid.IntRange(2, 12).Draw(t, "drivers")
		for range n {
			c.drivers = append(c.drivers, newWaiter(rapid.SampledFrom([]string{"A", "B"}).Draw(t, "flow"), rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "tenant")))
		}
		c.wants, c.has, c.wantsTurn, c.hasTurn = make([]int, n), make([]int, n), make([]bool, n), make([]bool, n)
		check := func() {
			used := 0
			for _, k := range c.has {
				used += k
			}
			kept := 0
			for _, k := range c.s.reserved {
				kept += k
			}
			if used+kept > limit || used+kept != c.s.used {
				t.Fatalf("%d slots of %d are used, %d kept, %d counted", used, limit, kept, c.s.used)
			}
			suspects := 0
			for _, solo := range c.hasTurn {
				if solo {
					suspects++
				}
			}
			if suspects > 1 {
				t.Fatalf("%d suspects are open at once", suspects)
			}
		}
		for range rapid.IntRange(1, 60).Draw(t, "acts") {
			i := rapid.IntRange(0, n-1).Draw(t, "driver")
			switch rapid.SampledFrom([]string{"want", "want", "end", "look", "give up", "alone"}).Draw(t, "act") {
			case "want":
				c.wants[i]++
				c.decide(i)
			case "alone":
				if c.has[i] == 0 {
					c.wantsTurn[i], c.wants[i] = true, 1
					c.decide(i)
				}
			case "end":
				if c.has[i] > 0 {
					c.end(i)
					c.decide(i)
				}
			case "look":
				if c.drivers[i].woken() {
					c.decide(i)
				}
			case "give up": // paused or cancelled: it wants no slot any more
				c.wants[i], c.wantsTurn[i] = 0, false
				c.decide(i)
			}
			check()
		}
		for rounds := 0; ; rounds++ {
			moved := false
			for i, d := range c.drivers {
				if d.woken() {
					c.decide(i)
					moved = true
				}
				check()
				if c.has[i] > 0 {
					c.end(i)
					c.decide(i)
					moved = true
				}
				check()
			}
			if !moved {
				break
			}
			if rounds > 1000 {
				t.Fatal("it does not come to rest")
			}
		}
		for i, k := range c.wants {
			if k > 0 {
				t.Fatalf("driver %d of %s still wants %d slots and is never woken: %d used, %d waiting, %d called", i, c.drivers[i].Flow, k, c.s.used, len(c.s.waiting), len(c.s.reserved))
			}
		}
		if c.s.used != 0 || len(c.s.waiting) != 0 || len(c.s.reserved) != 0 || c.s.turnHolder != nil || len(c.s.suspects) != 0 {
			t.Fatalf("left: %d used, %d waiting, %d called", c.s.used, len(c.s.waiting), len(c.s.reserved))
		}
	})
}

// BenchmarkSlots frees one slot that the next driver takes, while others wait for it.
func BenchmarkSlots(b *testing.B) {
	for _, n := range []int{10, 100, 1000, 10_000} {
		b.Run(fmt.Sprintf("waiting=%d", n), func(b *testing.B) {
			s := New(64, 0, noLimits)
			var holders, rest []*waiter
			for i := range 64 + n {
				if d := newWaiter("F", ""); s.Acquire(d.Holder) {
					holders = append(holders, d)
				} else if i >= 64 {
					rest = append(rest, d)
				}
			}
			looks := 0
			for b.Loop() {
				k := rand.IntN(len(holders))
				s.Release(holders[k].Holder, 1)
				old := holders[k]
				for i, d := range rest { // every woken driver decides again
					if d.woken() {
						if looks++; s.Acquire(d.Holder) {
							holders[k], rest[i] = d, old
						}
					}
				}
				s.Acquire(old.Holder)
			}
			b.ReportMetric(float64(looks)/float64(b.N), "decisions/slot")
		})
	}
}

// A suspect that stops between its two calls gets the turn, and no other driver takes it.
func TestFinding9TurnOfOneThatLeft(t *testing.T) {
	s := New(100, 0, noLimits)
	a, b, c := newWaiter("F", ""), newWaiter("F", ""), newWaiter("F", "")
	s.Isolate(a.Holder, 0)
	s.Isolate(b.Holder, 0)
	s.Withdraw(b.Holder)
	s.EndTurn(a.Holder)
	s.Forget(b.Holder)
	if !s.Isolate(c.Holder, 0) {
		t.Errorf("there is no other suspect, but c gets no turn: sole is b: %v", s.turnHolder == b.Holder)
	}
}
