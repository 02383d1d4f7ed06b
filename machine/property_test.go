package machine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
	"pgregory.net/rapid"
)

// A scenario is what people ask for and what becomes of the runs. The same scenario
// is told twice: without trouble, and with a crash or a lost compare-and-set
// around position writes and lost answers of starts. Both must end the same,
// after the same states and runs.
type scenario struct {
	requests []request
}

type request struct {
	kind string // what is asked for while the object rests or works
	fate string // of the runs that follow
}

var errCrash = errors.New("the process died")

type driver interface {
	Fatal(...any)
	Fatalf(string, ...any)
	Context() context.Context
}

func (s scenario) play(t driver, trouble func() string) (string, string) {
	objects := &memory{objects: map[control.Ref]testObject{ref: {Revision: 1}}}
	flows := &runs{runs: map[string]*runtype.Run{}}
	opened := func() *Machine[*testObject] {
		m, err := New(lifecycle(), Options[*testObject]{Objects: objects, Flows: flows, Logger: quiet, Now: func() time.Time { return epoch }})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	m := opened()
	objects.before = func(Move) error {
		switch trouble() {
		case "crash before":
			return errCrash
		case "lost":
			objects.edit(func(o *testObject) { o.Bad = false }) // someone else writes the object
		}
		return nil
	}
	objects.after = func(Move) error {
		if trouble() == "crash after" {
			return errCrash
		}
		return nil
	}
	settle := func() {
		for range 300 {
			flows.lost = trouble() == "crash after"
			visit := func() int64 { o := objects.objects[ref]; p, _ := objects.Position(&o); return p.Visit }
			before := visit()
			out := m.Advance(t.Context(), ref)
			if visit() > before+1 {
				t.Fatalf("an Advance made %d visits", visit()-before)
			}
			switch {
			case errors.Is(out.Err(), errCrash):
				m = opened() // memory is gone; the object and the runs are not
			case out.IsFail() && !errors.Is(out.Err(), fault.WriteConflict) && !errors.Is(out.Err(), runstore.StoreUnavailable):
				t.Fatalf("outcome %v", out)
			case !out.IsFail() && out.After() != soon:
				return
			}
		}
		t.Fatal("the object does not come to rest")
	}
	active := func() string {
		for _, id := range flows.started {
			if !flows.runs[id].Phase.Final() && flows.runs[id].Phase != runtype.Queued {
				return id
			}
		}
		return ""
	}
	settle()
	for _, w := range s.requests {
		objects.edit(func(o *testObject) {
			switch w.kind {
			case "size":
				o.Size = o.Has + 1
			case "move":
				o.Move = "b"
			case "delete":
				o.Deleted = true
			}
		})
		settle()
		for range 4 {
			id := active()
			if id == "" {
				break
			}
			switch phase := flows.runs[id].Phase; {
			case phase == runtype.Cancelling, w.fate == "cancel":
				flows.set(id, runtype.Cancelled, nil)
				objects.edit(func(o *testObject) { o.Size, o.Move = o.Has, "" })
			case w.fate == "pause" && phase == runtype.Running:
				flows.set(id, runtype.Paused, &runtype.Fault{Code: "TIMEOUT", Message: "slow"})
			case w.fate == "pause" && phase == runtype.Paused:
				flows.set(id, runtype.Running, nil)
				settle()
				fallthrough
			default:
				flows.set(id, runtype.Succeeded, nil)
				objects.edit(func(o *testObject) {
					switch flows.runs[id].Flow {
					case "Grow":
						o.Has = o.Size
					case "Move":
						o.Move = ""
					}
				})
			}
			settle()
			if seen := nonFinal(flows); seen > 1 {
				t.Fatalf("%d runs of one object at once", seen)
			}
		}
	}
	final := objects.objects[ref]
	p, err := objects.Position(&final)
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	for _, move := range objects.moves {
		if move.Cause.Changes() {
			told = append(told, fmt.Sprintf("%s/%d by %s", move.To.State, move.To.Visit, move.Cause))
		}
	}
	return fmt.Sprintf("%+v size %d has %d move %q", p, final.Size, final.Has, final.Move), strings.Join(told, "\n") + "\n" + strings.Join(flows.started, "\n")
}

func nonFinal(flows *runs) int {
	n := 0
	for _, run := range flows.runs {
		if !run.Phase.Final() {
			n++
		}
	}
	return n
}

func TestTroubleChangesNothingInTheEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s scenario
		for range rapid.IntRange(1, 6).Draw(t, "requests") {
			s.requests = append(s.requests, request{
				kind: rapid.SampledFrom([]string{"size", "move", "size", "none", "delete"}).Draw(t, "kind"),
				fate: rapid.SampledFrom([]string{"succeed", "succeed", "pause", "cancel"}).Draw(t, "fate"),
			})
		}
		end, way := s.play(t, func() string { return "" })
		troubles := []string{"", "", "crash before", "crash after", "lost"}
		troubledEnd, troubledWay := s.play(t, func() string { return rapid.SampledFrom(troubles).Draw(t, "trouble") })
		if end != troubledEnd {
			t.Fatalf("the end differs:\nwithout trouble %s\n   with trouble %s", end, troubledEnd)
		}
		if way != troubledWay {
			t.Fatalf("the way differs:\nwithout trouble\n%s\nwith trouble\n%s", way, troubledWay)
		}
	})
}

// A crash before and after each single position write of a full life.
func TestACrashAroundEveryWrite(t *testing.T) {
	s := scenario{requests: []request{{"size", "pause"}, {"size", "succeed"}, {"move", "cancel"}, {"size", "none"}, {"delete", "pause"}}}
	calls := 0
	end, way := s.play(t, func() string { calls++; return "" })
	if calls < 60 {
		t.Fatalf("only %d places for trouble", calls)
	}
	for _, kind := range []string{"crash before", "crash after", "lost"} {
		for at := 1; at <= calls; at++ {
			n := 0
			e, w := s.play(t, func() string {
				if n++; n == at {
					return kind
				}
				return ""
			})
			if e != end || w != way {
				t.Fatalf("%s at %d of %d:\n%s\n%s\nwant\n%s\n%s", kind, at, calls, e, w, end, way)
			}
		}
	}
}
