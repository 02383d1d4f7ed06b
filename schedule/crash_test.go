package schedule

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// world is a store that several servers share. Each call of a server waits for its turn, so that
// a test decides how they interleave, and where they die.
type world struct {
	*control.Memory
	t       *rapid.T
	ref     control.Ref
	runs    map[string]*runtype.Run
	order   []string
	records map[time.Time]Record // what was told of each tick
	told    int64
	through time.Time
}

// server is one of the servers of a world.
type server struct {
	*world
	skew  time.Duration
	now   time.Time
	turn  chan string // "go", "die before", "die after"
	ready chan bool   // it waits for a turn; false: the pass has ended
	dead  bool
}

// lister lists the runs of a world.
type lister struct{ *server }

// do is one call: nothing happens before its turn.
func (s *server) do(call func() error) error {
	if s.dead {
		return runstore.StoreUnavailable.Errorf("the server is dead")
	}
	s.ready <- true
	how := <-s.turn
	if how == "die before" {
		s.dead = true
		return runstore.StoreUnavailable.Errorf("died before the call")
	}
	err := call()
	if how == "die after" {
		s.dead = true
		return runstore.StoreUnavailable.Errorf("died after the call")
	}
	return err
}

func (s *server) Get(ctx context.Context, ref control.Ref) (o control.Object, err error) {
	return o, s.do(func() (err error) { o, err = s.Memory.Get(ctx, ref); return err })
}

func (s *server) Update(ctx context.Context, next control.Object) (o control.Object, err error) {
	err = s.do(func() (err error) {
		if o, err = s.Memory.Update(ctx, next); err == nil {
			s.saw(o)
		}
		return err
	})
	return o, err
}

func (s *server) Start(_ context.Context, req workflow.Request) (r *runtype.Run, err error) {
	err = s.do(func() error {
		id := workflow.RunID(req.Subject, req.Flow, req.RequestID)
		if r = s.runs[id]; r == nil {
			r = &runtype.Run{ID: id, Subject: req.Subject, Labels: req.Labels, Phase: runtype.Running}
			s.runs[id], s.order = r, append(s.order, id)
		}
		return nil
	})
	return r, err
}

func (s *server) Cancel(_ context.Context, id string, _ runtype.Mode, _ bool, _ workflow.Actor) error {
	return s.do(func() error { s.runs[id].Phase = runtype.Cancelled; return nil })
}

func (l lister) List(_ context.Context, q runstore.Query) (all []*runtype.Run, _ string, err error) {
	err = l.do(func() error {
		for _, id := range l.order {
			if q.Matches(l.runs[id]) {
				all = append(all, l.runs[id])
			}
		}
		return nil
	})
	return all, "", err
}

// saw checks what a server has written.
func (w *world) saw(o control.Object) {
	s, err := StatusOf(o)
	if err != nil {
		w.t.Fatal(err)
	}
	if s.Through.Before(w.through) {
		w.t.Fatalf("%s was decided before, and is again from %s", w.through, s.Through)
	}
	w.through = s.Through
	fresh := 0
	for n := s.Started + s.Skipped - w.told; n > 0; fresh++ {
		n -= int64(max(1, s.Recent[fresh].Count))
	}
	w.told = s.Started + s.Skipped
	for _, r := range s.Recent[:fresh] {
		last := r.Tick
		if !r.Until.IsZero() {
			last = r.Until
		}
		for tick := r.Tick; !tick.After(last); tick = tick.Add(time.Minute) {
			if before, twice := w.records[tick]; twice {
				w.t.Fatalf("%s was told twice: %+v and %+v", tick, before, r)
			}
			w.records[tick] = r
		}
	}
}

// Two servers with clocks that differ and jump, each of which dies before or after any of its
// calls: each tick has exactly one run, or a record of why it was skipped, and never both.
func TestEachTickOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ctx := context.Background()
		w := &world{Memory: control.NewMemory(), t: t, ref: control.Ref{Kind: Kind, Namespace: "default", Name: "s"},
			runs: map[string]*runtype.Run{}, records: map[time.Time]Record{}}
		overlap := rapid.SampledFrom([]Overlap{Skip, Queue, Replace}).Draw(t, "overlap")
		spec := fmt.Sprintf(`{"flow": "F", "interval": "1m", "overlap": %q, "catchUp": %d}`, overlap, rapid.IntRange(0, 4).Draw(t, "catchUp"))
		o, err := w.Apply(ctx, control.Object{Ref: w.ref, Spec: json.RawMessage(spec)})
		if err != nil {
			t.Fatal(err)
		}
		begin := o.CreatedAt
		servers := []*server{{world: w}, {world: w, skew: -20 * time.Second}}
		for _, s := range servers {
			s.now = begin.Add(s.skew)
		}
		active := map[*server]bool{}
		settle := func(s *server) { // until it waits for a turn, or its pass has ended
			active[s] = <-s.ready
		}
		pass := func(s *server) {
			s.dead, s.turn, s.ready = false, make(chan string), make(chan bool)
			now := s.now
			scheduler := New(Options{Objects: s, Engine: s, Runs: lister{s}, Now: func() time.Time { return now }})
			go func() {
				_, _ = scheduler.Pass(ctx, w.ref) // a death is its only error
				s.ready <- false
			}()
			settle(s)
		}
		for range rapid.IntRange(10, 60).Draw(t, "steps") {
			s := rapid.SampledFrom(servers).Draw(t, "server")
			if !active[s] {
				s.now = s.now.Add(time.Duration(rapid.IntRange(-200, 400).Draw(t, "seconds")) * time.Second)
				pass(s)
				continue
			}
			s.turn <- rapid.SampledFrom([]string{"go", "go", "go", "go", "die before", "die after"}).Draw(t, "turn")
			settle(s)
			if len(w.order) > 0 && rapid.Bool().Draw(t, "a run ends") {
				w.runs[rapid.SampledFrom(w.order).Draw(t, "run")].Phase = runtype.Succeeded
			}
		}
		for _, s := range servers { // what is under way ends, and one more pass finds nothing left
			for active[s] {
				s.turn <- "go"
				settle(s)
			}
			for pass(s); active[s]; settle(s) {
				s.turn <- "go"
			}
		}
		for tick := begin.Truncate(time.Minute).Add(time.Minute); !tick.After(w.through); tick = tick.Add(time.Minute) {
			r, told := w.records[tick]
			id := workflow.RunID(o.Ref.String()+"/"+o.UID, "F", RequestID(o.UID, tick))
			switch _, runs := w.runs[id]; {
			case !told:
				t.Fatalf("nothing was told of %s", tick)
			case runs != (r.Run != ""):
				t.Fatalf("%s: run %v, told %+v", tick, runs, r)
			}
			delete(w.runs, id)
		}
		if len(w.runs) > 0 {
			t.Fatalf("runs of no tick: %v", w.runs)
		}
	})
}
