package workflow

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// waiter returns a driver with the fields that slots use.
func waiter(flow, tenant string) *driver {
	run := &Run{Flow: flow}
	if tenant != "" {
		run.Labels = map[string]string{"tenant": tenant}
	}
	return &driver{s: &state{run: run}, inbox: make(chan struct{}, 1)}
}

func (d *driver) woken() bool {
	select {
	case <-d.inbox:
		return true
	default:
		return false
	}
}

func noLimits(string) int { return 0 }

// A freed slot wakes one driver, in order. A thousand drivers that wait for one slot are woken a
// thousand times in total.
func TestAFreedSlotWakesOne(t *testing.T) {
	s := newSlots(1, LabelLimit{}, noLimits)
	holder := waiter("F", "")
	if !s.acquire(holder) {
		t.Fatal("the first one gets no slot")
	}
	const n = 1000
	all := make([]*driver, n)
	for i := range all {
		if all[i] = waiter("F", ""); s.acquire(all[i]) {
			t.Fatal("two have the one slot")
		}
	}
	for i, d := range all {
		s.release(holder, 1)
		for k, other := range all {
			if other.woken() != (k == i) {
				t.Fatalf("the slot that was freed as number %d has woken, or not, the driver that waits as number %d", i, k)
			}
		}
		if late := waiter("F", ""); s.acquire(late) {
			t.Fatal("a driver that has not waited gets the slot that is kept for one that has")
		} else {
			s.forget(late)
		}
		if !s.acquire(d) {
			t.Fatal("the driver that was woken gets no slot")
		}
		holder = d
	}
	s.release(holder, 1)
	if s.used != 0 || len(s.waiting) != 0 || len(s.reserved) != 0 || len(s.queues) != 0 {
		t.Errorf("left: %d used, %d waiting, %d called, %d queues", s.used, len(s.waiting), len(s.reserved), len(s.queues))
	}
}

// Slots that are freed together go to one driver that wants several: a run with many branches needs
// one decision.
func TestSlotsThatAreFreedAtOnceGoToOne(t *testing.T) {
	s := newSlots(3, LabelLimit{}, noLimits)
	holder, wide, other := waiter("F", ""), waiter("F", ""), waiter("F", "")
	for range 3 {
		s.acquire(holder)
	}
	for range 4 {
		s.acquire(wide)
	}
	s.acquire(other)
	s.release(holder, 3)
	for range 3 {
		if !s.acquire(wide) {
			t.Fatal("a slot is kept for another one")
		}
	}
	wide.decision++
	if s.acquire(wide) {
		t.Fatal("there is no free slot")
	}
	s.release(wide, 1)
	if wide.decision++; other.woken() || !s.acquire(wide) {
		t.Error("a driver that still wants a slot has lost its position")
	}
}

// A driver that was woken and does not need the slot passes it on.
func TestASlotIsGivenOn(t *testing.T) {
	s := newSlots(1, LabelLimit{}, noLimits)
	holder, first, second := waiter("F", ""), waiter("F", ""), waiter("F", "")
	s.acquire(holder)
	s.acquire(first)
	s.acquire(second)
	s.release(holder, 1)
	<-s.freed
	s.forget(first)
	if !second.woken() || !s.acquire(second) {
		t.Error("the slot that the first driver does not want is not passed on")
	}
	if len(s.freed) != 1 {
		t.Error("the claim loop is not notified of a slot that was passed on")
	}
}

// A flow or tenant at its limit does not block others.
func TestAFullShareKeepsNobodyBack(t *testing.T) {
	s := newSlots(3, LabelLimit{Label: "tenant", Max: 1}, func(flow string) int {
		if flow == "One" {
			return 1
		}
		return 0
	})
	one, blue, other := waiter("One", ""), waiter("F", "blue"), waiter("F", "")
	for _, d := range []*driver{one, blue, other} {
		if !s.acquire(d) {
			t.Fatal("there is a free slot")
		}
	}
	one2, blue2, free := waiter("One", ""), waiter("F", "blue"), waiter("F", "")
	for _, d := range []*driver{one2, blue2, free} {
		if s.acquire(d) {
			t.Fatal("there is no free slot")
		}
	}
	s.release(other, 1)
	if one2.woken() || blue2.woken() || !free.woken() || !s.acquire(free) {
		t.Error("the slot must go only to the driver that may have it")
	}
	s.release(blue, 1)
	if one2.woken() || !blue2.woken() || !s.acquire(blue2) {
		t.Error("the tenant's slot goes to the tenant")
	}
	s.release(one, 1)
	if !one2.woken() || !s.acquire(one2) {
		t.Error("the flow's slot goes to the flow")
	}
}

// slotModel uses slots like the loop of the engine.
type slotModel struct {
	s         *slots
	drivers   []*driver
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
	d.decision++
	refuse := func() { d.slotRefused, d.slotQueued = true, true }
	switch {
	case c.wantsTurn[i] && c.has[i] == 0 && c.wants[i] > 0:
		if c.s.isolate(d, 0) {
			c.has[i], c.hasTurn[i] = 1, true
			c.wants[i]--
		} else {
			d.wantsTurn = true
			refuse()
		}
	case !c.wantsTurn[i]:
		for range c.wants[i] { // each branch requests a slot, as in the engine
			if !c.s.acquire(d) {
				refuse()
				continue
			}
			c.wants[i]--
			c.has[i]++
		}
	}
	if wantedTurn && !d.wantsTurn && !c.hasTurn[i] {
		c.s.endTurn(d)
	}
	if d.slotQueued && !d.slotRefused {
		d.slotQueued = false
		c.s.forget(d)
	}
}

// end simulates the end of one attempt.
func (c *slotModel) end(i int) {
	c.has[i]--
	if c.hasTurn[i] {
		c.hasTurn[i] = false
		c.s.endTurn(c.drivers[i])
	}
	c.s.release(c.drivers[i], 1)
}

// No limit is ever exceeded, and no driver waits for ever: when no new slots are requested and
// attempts end, every driver gets its slots.
func TestNoWakeUpIsLost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit, most := rapid.IntRange(1, 4).Draw(t, "limit"), rapid.IntRange(1, 3).Draw(t, "of a flow")
		c := &slotModel{s: newSlots(limit, LabelLimit{Label: "tenant", Max: 2}, func(flow string) int {
			if flow == "A" {
				return most
			}
			return 0
		})}
		n := rapid.IntRange(2, 12).Draw(t, "drivers")
		for range n {
			c.drivers = append(c.drivers, waiter(rapid.SampledFrom([]string{"A", "B"}).Draw(t, "flow"), rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "tenant")))
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
				t.Fatalf("driver %d of %s still wants %d slots and is never woken: %d used, %d waiting, %d called", i, c.drivers[i].s.run.Flow, k, c.s.used, len(c.s.waiting), len(c.s.reserved))
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
			s := newSlots(64, LabelLimit{}, noLimits)
			var holders, rest []*driver
			for i := range 64 + n {
				if d := waiter("F", ""); s.acquire(d) {
					holders = append(holders, d)
				} else if i >= 64 {
					rest = append(rest, d)
				}
			}
			looks := 0
			for b.Loop() {
				k := rand.IntN(len(holders))
				s.release(holders[k], 1)
				old := holders[k]
				for i, d := range rest { // every woken driver decides again
					if d.woken() {
						if looks++; s.acquire(d) {
							holders[k], rest[i] = d, old
						}
					}
				}
				s.acquire(old)
			}
			b.ReportMetric(float64(looks)/float64(b.N), "decisions/slot")
		})
	}
}

// A suspect that stops between its two calls gets the turn, and no other driver takes it.
func TestFinding9TurnOfOneThatLeft(t *testing.T) {
	s := newSlots(100, LabelLimit{}, noLimits)
	a, b, c := waiter("F", ""), waiter("F", ""), waiter("F", "")
	s.isolate(a, 0)
	s.isolate(b, 0)
	s.withdraw(b)
	s.endTurn(a)
	s.forget(b)
	if !s.isolate(c, 0) {
		t.Errorf("there is no other suspect, but c gets no turn: sole is b: %v", s.turnHolder == b)
	}
}

// The same when many drivers stop together, as after a lost lease.
func TestFinding9ManyLeave(t *testing.T) {
	stuck := 0
	for range 500 {
		e := &Engine{slots: newSlots(100, LabelLimit{}, noLimits)}
		var all []*driver
		for range 64 {
			d := waiter("F", "")
			d.e, d.stopped = e, make(chan struct{})
			_, d.cancel = context.WithCancelCause(context.Background())
			e.slots.isolate(d, 0)
			all = append(all, d)
		}
		var wg sync.WaitGroup
		begin := make(chan struct{})
		for _, d := range all {
			wg.Go(func() { <-begin; d.stop() })
		}
		close(begin)
		wg.Wait()
		if e.slots.turnHolder != nil {
			stuck++
		}
	}
	if stuck > 0 {
		t.Errorf("%d of 500 times a driver that is gone has the turn for ever", stuck)
	}
}
