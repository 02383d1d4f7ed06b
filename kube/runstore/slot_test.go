package runstore

import (
	"fmt"
	"slices"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/kube/runstore/format"
	"github.com/pawl-dev/pawl/workflow/runstore"
)

func line(names ...string) []queued {
	var q []queued
	for i, name := range names {
		q = append(q, queued{name, int64(i + 1)})
	}
	return q
}

// A subject has one active run. The next run waits until the earlier one has ended.
func TestAdmit(t *testing.T) {
	for name, c := range map[string]struct {
		slot          slot
		ended         []string
		holder, front string // after; front: first of the queue
		number        int64
		promote       string
		write         bool
	}{
		"a free slot":                     {slot: slot{}, holder: "new", write: true},
		"its own slot":                    {slot: slot{holder: "new"}, holder: "new"},
		"a number it has already":         {slot: slot{holder: "a", last: 1, queue: line("new")}, holder: "a", number: 1},
		"behind a holder":                 {slot: slot{holder: "a"}, holder: "a", front: "new", number: 1, write: true},
		"after a holder that has ended":   {slot: slot{holder: "a"}, ended: []string{"a"}, holder: "new", write: true},
		"behind those who waited longer":  {slot: slot{holder: "a", last: 2, queue: line("b", "c")}, ended: []string{"a"}, holder: "b", front: "c", number: 3, promote: "b", write: true},
		"past those who ended in a queue": {slot: slot{holder: "a", last: 2, queue: line("b", "c")}, ended: []string{"a", "b", "c"}, holder: "new", write: true},
	} {
		t.Run(name, func(t *testing.T) {
			v, err := c.slot.admit("new", func(n string) bool { return slices.Contains(c.ended, n) })
			if err != nil {
				t.Fatal(err)
			}
			after := c.slot
			if v.write {
				after = v.next
			}
			front := ""
			if v.write && len(after.queue) > 0 {
				front = after.queue[0].name
			}
			if after.holder != c.holder || v.number != c.number || v.promote != c.promote || v.write != c.write || front != c.front {
				t.Errorf("holder %q, number %d, promote %q, write %v, front %q: want %+v", after.holder, v.number, v.promote, v.write, front, c)
			}
		})
	}
	full := slot{holder: "a", last: runstore.MaxQueued}
	for i := range runstore.MaxQueued {
		full.queue = append(full.queue, queued{fmt.Sprint("q", i), int64(i + 1)})
	}
	if _, err := full.admit("new", func(string) bool { return false }); fault.Of(err) != runstore.QueueFull {
		t.Errorf("a full queue: %v", err)
	}
	if v, err := full.admit("new", func(n string) bool { return n == "q50" }); err != nil || len(v.next.queue) != runstore.MaxQueued {
		t.Errorf("a full queue with one that has ended: %v, %v", v, err)
	}
}

// For any sequence of new and ended runs: after promoteNext the holder is not finished,
// queue numbers only grow, and the order of the queue is kept.
func TestSlotKeepsOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sl := slot{version: 1}
		ended := map[string]bool{}
		finished := func(n string) bool { return ended[n] }
		var order []string // of creation
		var held []string
		note := func() {
			if sl.holder != "" && (len(held) == 0 || held[len(held)-1] != sl.holder) {
				held = append(held, sl.holder)
			}
		}
		for i := range rapid.IntRange(1, 40).Draw(t, "acts") {
			switch rapid.IntRange(0, 2).Draw(t, "act") {
			case 0:
				name := fmt.Sprint("r", i)
				last := sl.last
				v, err := sl.admit(name, finished)
				if err != nil {
					t.Fatal(err)
				}
				sl = v.next
				order = append(order, name)
				if v.number != 0 && v.number <= last {
					t.Fatalf("number %d after %d", v.number, last)
				}
			case 1:
				if len(order) > 0 {
					ended[rapid.SampledFrom(order).Draw(t, "who ends")] = true
				}
			case 2:
				if v := sl.promoteNext(finished); v.write {
					sl = v.next
					if ended[sl.holder] {
						t.Fatalf("%s was given the slot after its end", sl.holder)
					}
				}
			}
			note()
			read, err := readSlot(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "1",
				Annotations: map[string]string{format.AnnotationLast: fmt.Sprint(sl.last), format.AnnotationQueue: sl.text()}}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &sl.holder}})
			if err != nil || read.text() != sl.text() || read.last != sl.last || read.holder != sl.holder {
				t.Fatalf("read back %+v, %v, want %+v", read, err, sl)
			}
		}
		if !slices.IsSortedFunc(held, func(a, b string) int { return slices.Index(order, a) - slices.Index(order, b) }) {
			t.Fatalf("held in order %v, came in order %v", held, order)
		}
	})
}
