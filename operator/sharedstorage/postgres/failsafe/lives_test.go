package failsafe_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/failsafe"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/lease"
)

// trouble is something that may happen.
type trouble string

const (
	away    trouble = "the API server is away"
	cut     trouble = "it is cut off from a node, or reached again"
	link    trouble = "a link between two nodes is cut, or mended"
	halves  trouble = "two sides do not reach each other, and one of them reaches the API server"
	mend    trouble = "all reach each other again"
	freeze  trouble = "a process is frozen"
	restart trouble = "an agent is restarted, perhaps with its engine"
	move    trouble = "an instance is moved, and the old one may run on"
	come    trouble = "a member comes"
	leave   trouble = "a member leaves, and may run on"
	lose    trouble = "the record is deleted"
	grant   trouble = "somebody is granted the right to write"
)

var everything = []trouble{away, cut, cut, link, halves, mend, mend, freeze, restart, restart, move, come, leave, lose, grant, grant}

// disturb lets one thing happen to the world.
func (w *world) disturb() {
	node := w.r.IntN(nodes)
	names := slices.Sorted(maps.Keys(w.current))
	p := w.current[names[w.r.IntN(len(names))]]
	switch everything[w.r.IntN(len(everything))] {
	case away:
		w.api = [nodes + 1]bool{}
	case cut:
		w.api[node] = !w.api[node]
	case link:
		to := w.r.IntN(nodes)
		w.links[node][to] = !w.links[node][to]
		w.links[to][node] = w.links[node][to]
	case halves:
		side := w.r.Perm(nodes)
		for i, a := range side {
			w.api[a] = i < 2
			for j, b := range side {
				w.links[a][b] = (i < 2) == (j < 2)
			}
		}
	case mend:
		w.mend()
	case freeze:
		p.thaws = w.now + time.Duration(w.r.IntN(80))*step
	case restart:
		w.say("%s is restarted", p.identity())
		w.restart(p, w.chance(0.5))
	case move:
		w.say("%s is moved to node %d", p.identity(), node)
		w.add(p.name, node).wrote = p.wrote
		p.dead = p.dead || w.chance(0.3)
	case come:
		if name := string(rune('a' + w.r.IntN(6))); w.current[name] == nil {
			w.say("%s comes, on node %d", name, node)
			w.add(name, node)
		}
	case leave:
		if len(names) > 2 {
			w.say("%s leaves", p.identity())
			delete(w.current, p.name)
		}
	case lose:
		if w.chance(0.3) && !w.lost {
			w.say("the record is deleted")
			w.lost = true
		}
	case grant: // by the manager, or the operator
		if w.api[nodes] && !w.lost {
			w.grant.Writer, w.grant.Epoch = p.name, w.grant.Epoch+1
			w.version++
			w.say("epoch %d is granted to %s", w.grant.Epoch, p.name)
		}
	}
	if w.lost && w.chance(0.4) {
		w.restore()
	}
}

// restart starts the agent of a process anew. Its engine may run on; what was in memory is gone.
func (w *world) restart(p *process, engine bool) {
	p.promise, p.holder, p.success, p.renewal, p.round, p.stamp, p.born, p.thaws = failsafe.Promise{}, failsafe.Holder{}, nil, nil, nil, -1, w.now, 0
	p.on = p.on && engine
}

// restore restores the deleted record, as kube.Storage does.
func (w *world) restore() {
	holder := lease.Unknown
	if p := w.current[w.grant.Writer]; p != nil && p.wrote == w.grant.Epoch {
		holder = p.name
	}
	w.grant.Lease = lease.Lease{Holder: holder, Epoch: w.grant.Epoch, Failsafe: failsafe.Restored(limit)}
	if w.broken.restoredIsKnown {
		w.grant.Lease.Failsafe = nil
	}
	w.lost = false
	w.version++
	w.stamp++
	w.stamped = w.now
	w.say("the record is restored: lease of %s", holder)
}

// live lets a world live, and returns what must not be: two writers.
func (w *world) live(length time.Duration, calm float64) error {
	for end := w.now + length; w.now < end; w.now += step {
		if !w.chance(calm) {
			w.disturb()
		}
		for _, p := range w.current { // the manager sends the membership
			if w.now%time.Second == 0 && p.up() {
				p.members = nil
				for _, name := range slices.Sorted(maps.Keys(w.current)) {
					p.members = append(p.members, w.current[name].identity())
				}
			}
		}
		for _, p := range w.processes {
			p.tick()
		}
		var writers []string
		for _, p := range w.processes {
			if p.writes() {
				writers = append(writers, fmt.Sprintf("%s under epoch %d until %s", p.identity(), p.epoch, p.deadline))
			}
		}
		if len(writers) > 1 {
			return fmt.Errorf("at %s two write: %s", w.now, strings.Join(writers, ", "))
		}
	}
	return nil
}

// Whatever happens to the API server, the network, the processes and the members, there are never
// two writers.
func TestNeverTwoWriters(t *testing.T) {
	gone, writers := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(rapid.Uint64().Draw(t, "seed"), rules{})
		err := w.live(time.Duration(rapid.IntRange(20, 300).Draw(t, "seconds"))*time.Second, 1-rapid.Float64Range(0.005, 0.1).Draw(t, "trouble"))
		if err != nil {
			t.Fatalf("%v\n%s", err, strings.Join(w.log, "\n"))
		}
		gone, writers = gone+w.gone, writers+w.writers
	})
	if gone == 0 || writers == 0 {
		t.Errorf("the lives say nothing: %d leases were taken, and writers went on %d times", writers, gone)
	}
	t.Logf("%d leases were taken, and writers went on %d times", writers, gone)
}

// Each rule is needed: without it two writers are found, in random lives or in a story that leads
// there. With it they are not found in the same lives.
func TestABrokenRuleIsFound(t *testing.T) {
	const second = time.Second
	for name, c := range map[string]struct {
		broken rules
		story  func(w *world) error // nil: a random life
	}{
		"promises are forgotten":                 {rules{forgetPromises: true}, nil},
		"who is not in the record does not wait": {rules{othersTakeAtOnce: true}, nil},
		"a writer goes on without a limit":       {rules{endless: true}, nil},
		"an instance is its name":                {rules{nameOnly: true}, nil},
		"one may be missing":                     {rules{oneMayBeMissing: true}, nil},
		"a restored record says who may take it": {rules{restoredIsKnown: true}, nil},
		"a forgotten promise counts for nothing": {rules{forgottenCounts: true}, nil},

		// b began to take the lease before it was asked, and its call takes long.
		"a promise while a lease is taken": {rules{promiseAnyway: true}, func(w *world) error {
			err := w.live(second, 1)
			w.grant.Writer, w.grant.Epoch = "b", 2
			w.version++
			w.api[0], w.links[0][1], w.links[1][0] = false, false, false
			err = errors.Join(err, w.live(3*second/2, 1)) // b sees the lease of a
			w.current["b"].lags = 7 * second / 2
			err = errors.Join(err, w.live(3*second/4, 1)) // it begins to take it
			w.links[0][1], w.links[1][0] = true, true
			return errors.Join(err, w.live(14*second, 1))
		}},
		// The renewal that names d was written, and its answer was lost.
		"only those of the last success are asked": {rules{lastSuccess: true}, func(w *world) error {
			err := w.live(2*second, 1)
			w.add("d", 3)
			w.lossy = 1
			for err == nil && !w.grant.Lease.Failsafe.Names("d@3") && w.now < 9*second {
				err = w.live(step, 1)
			}
			w.api[0], w.lossy = false, 0
			w.grant.Writer, w.grant.Epoch = "d", 2
			w.version++
			return errors.Join(err, w.live(14*second, 1))
		}},
		// The answers are late, and then b is cut off from a.
		"counted from the answers": {rules{countFromAnswers: true}, func(w *world) error {
			err := w.live(second, 1)
			w.grant.Writer, w.grant.Epoch = "b", 2
			w.version++
			w.api[0] = false
			w.current["b"].late = 6 * step
			for err == nil && w.gone < 4 && w.now < 20*second {
				err = w.live(step, 1)
			}
			w.links[0][1], w.links[1][0] = false, false
			return errors.Join(err, w.live(14*second, 1))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if c.story == nil {
				c.story = func(w *world) error { return w.live(150*time.Second, 0.96) }
			}
			for seed := range uint64(2_000) {
				if err := c.story(newWorld(seed, rules{})); err != nil {
					t.Fatalf("seed %d, with all rules: %v", seed, err)
				}
				if err := c.story(newWorld(seed, c.broken)); err != nil {
					t.Logf("seed %d: %v", seed, err)
					return
				}
			}
			t.Error("no life finds it")
		})
	}
}
