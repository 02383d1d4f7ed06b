package events_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/server"
	"github.com/pawl-dev/pawl/server/events"
	"github.com/pawl-dev/pawl/server/servertest"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

func writeLines(t *testing.T, h *servertest.Fixture, run, step string, texts ...string) {
	t.Helper()
	c := &runstore.LogChunk{Step: step, Attempt: 1}
	for _, text := range texts {
		c.Lines = append(c.Lines, runstore.LogLine{At: time.Now().UTC(), Text: text})
	}
	if err := h.Store.WriteLogs(t.Context(), []*runstore.LogWrite{{Run: run, Chunks: []*runstore.LogChunk{c}}}); err != nil {
		t.Fatal(err)
	}
}

// lines reads events until so many lines were read, and returns them with the id of the last event.
func lines(t *testing.T, e *servertest.EventReader, n int) (texts, id string) {
	t.Helper()
	var all []string
	for len(all) < n {
		h := e.Next()
		var data events.LogEvent
		if err := json.Unmarshal([]byte(h.Data), &data); err != nil || h.Kind != "log" {
			t.Fatalf("%s %s, %v", h.Kind, h.Data, err)
		}
		for _, l := range data.Lines {
			all = append(all, l.Text)
		}
		id = h.ID
	}
	return strings.Join(all, " "), id
}

// A reader gets what there is, then each line as it comes, and the end; it goes on where it was.
func TestLogStream(t *testing.T) {
	h := servertest.New(t, nil)
	r := h.Until(h.Start("Waits", "demo/default/c1").ID, runtype.Waiting)
	writeLines(t, h, r.ID, "Caught", "a", "b")
	all, tail, step := h.Listen("/v1/runs/"+r.ID+"/logs/stream", ""), h.Listen("/v1/runs/"+r.ID+"/logs/stream?tail=1", ""), h.Listen("/v1/runs/"+r.ID+"/logs/stream?step=Caught", "")
	first, id := lines(t, all, 2)
	newest, _ := lines(t, tail, 1)
	if first != "a b" || newest != "b" {
		t.Errorf("they begin with %q and %q", first, newest)
	}
	writeLines(t, h, r.ID, "Caught", "c")
	writeLines(t, h, r.ID, "After", "d")
	for what, e := range map[string]*servertest.EventReader{"all": all, "tail": tail, "again": h.Listen("/v1/runs/"+r.ID+"/logs/stream?tail=1", id)} {
		if got, _ := lines(t, e, 2); got != "c d" {
			t.Errorf("%s: then %q", what, got)
		}
	}
	if got, _ := lines(t, step, 3); got != "a b c" {
		t.Errorf("of the step: %q", got)
	}
	h.Do("POST", "/v1/runs/"+r.ID+"/signal", `{"name":"caught-up"}`)
	for what, e := range map[string]*servertest.EventReader{"all": all, "of the step": step} {
		end := e.Next()
		if end.Kind != "end" || what == "all" && end.Data != `{"phase":"Succeeded"}` {
			t.Errorf("%s: the end is %s %s", what, end.Kind, end.Data)
		}
		if e.Lines.Scan() {
			t.Errorf("%s: behind the end comes %q", what, e.Lines.Text())
		}
	}
}

// countedLogs counts the reads of lines, and can be of another process than the engine that executes the run.
type countedLogs struct {
	*runstore.Memory
	reads atomic.Int64
}

func (s *countedLogs) ReadLogs(ctx context.Context, id string, q runstore.LogQuery) (runstore.LogPage, error) {
	s.reads.Add(1)
	return s.Memory.ReadLogs(ctx, id, q)
}

// followed is a server in virtual time with streams of the log of one run.
type followed struct {
	store    *countedLogs
	engine   *workflow.Engine
	accounts *storeOfOne
	run      string
	wires    []*wire
	ended    chan int // receives the number of a stream that has ended
	stop     context.CancelFunc
}

// newFollowed starts a run that waits, and follows it. The caller calls stop, and receives from ended for each stream.
func newFollowed(t *testing.T, streams int) *followed {
	t.Helper()
	f := &followed{store: &countedLogs{Memory: runstore.NewMemory()}, accounts: &storeOfOne{}, ended: make(chan int, streams)}
	var err error
	if f.engine, err = workflow.New(f.store, []workflow.Flow{{Name: "F", Steps: []workflow.Step{{Name: "Wait", Wait: &workflow.WaitFor{Signal: "go"}}, {Name: "Print", Do: func(ctx context.Context, task *workflow.Task) outcome.Outcome {
		fmt.Fprintln(task.Stdout(), "printed")
		<-ctx.Done()
		return outcome.Done()
	}, Timeout: 2 * time.Hour}}}}, workflow.Options{}); err != nil {
		t.Fatal(err)
	}
	s, err := server.New(server.Options{Engine: f.engine, Reviewer: f.accounts, Listen: "127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	r, err := f.engine.Start(t.Context(), workflow.Request{Flow: "F", Subject: "demo/default/c1"})
	if err != nil {
		t.Fatal(err)
	}
	f.run = r.ID
	ctx, stop := context.WithCancel(t.Context())
	f.stop = stop
	for i := range streams {
		w := &wire{header: http.Header{}}
		f.wires = append(f.wires, w)
		request := httptest.NewRequestWithContext(ctx, "GET", "http://127.0.0.1/v1/runs/"+f.run+"/logs/stream", nil)
		request.Header.Set("Authorization", "Bearer "+servertest.Secret)
		go func() { s.ServeHTTP(w, request); f.ended <- i }()
	}
	return f
}

// print stores a line as another process does.
func (f *followed) print(t *testing.T, text string) {
	t.Helper()
	c := &runstore.LogChunk{Step: "Wait", Attempt: 1, Lines: []runstore.LogLine{{At: time.Now().UTC(), Text: text}}}
	if err := f.store.WriteLogs(t.Context(), []*runstore.LogWrite{{Run: f.run, Chunks: []*runstore.LogChunk{c}}}); err != nil {
		t.Fatal(err)
	}
}

// have reports whether all streams have a text.
func (f *followed) have(text string) bool {
	return !slices.ContainsFunc(f.wires, func(w *wire) bool { return !strings.Contains(w.String(), text) })
}

// A stream of lines ends with the next comment after its credentials were revoked, and sends no lines then, whether
// lines come or not.
func TestLogStreamEndsWithItsToken(t *testing.T) {
	for _, busy := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f := newFollowed(t, 1)
			defer f.stop()
			writing, done := context.WithCancel(t.Context())
			var writer sync.WaitGroup
			if busy {
				writer.Go(func() {
					for writing.Err() == nil {
						f.print(t, "secret")
						time.Sleep(20 * time.Millisecond)
					}
				})
			}
			time.Sleep(40 * time.Second)
			select {
			case <-f.ended:
				t.Fatal("the stream ended by itself")
			default:
			}
			f.accounts.gone.Store(true)
			began := time.Now()
			select {
			case <-f.ended:
			case <-time.After(time.Minute):
				t.Fatal("a revoked token reads lines")
			}
			if took := time.Since(began); took > 15*time.Second {
				t.Errorf("a revoked token got lines for %s", took)
			}
			done()
			writer.Wait()
		})
	}
}

// A hundred followers of a run that prints nothing read the store as one does, and each gets a line of another process
// in less than 100 ms.
func TestFollowersShareOnePoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const streams = 100
		f := newFollowed(t, streams)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		f.store.reads.Store(0)
		time.Sleep(10 * time.Second)
		if got := f.store.reads.Load(); got > 200 {
			t.Errorf("%d reads in 10 s, want 20 a second", got)
		}
		f.print(t, "elsewhere")
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		if !f.have("elsewhere") {
			t.Error("a stream has no line of another process after 100 ms")
		}
		f.stop()
		for range streams {
			<-f.ended
		}
	})
}

// While this process executes a run, its followers are woken and do not poll for lines.
func TestTheEngineWakesFollowers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const streams = 5
		f := newFollowed(t, streams)
		serving, stop := context.WithCancel(t.Context())
		served := make(chan error)
		go func() { served <- f.engine.Serve(serving) }()
		time.Sleep(2 * time.Second)
		if err := f.engine.Send(t.Context(), f.run, runtype.Signal{Name: "go"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		if !f.have("printed") {
			t.Error("a stream has no line after 100 ms")
		}
		time.Sleep(2 * time.Second)
		f.store.reads.Store(0)
		time.Sleep(10 * time.Second)
		if got := f.store.reads.Load(); got > 11 {
			t.Errorf("%d reads in 10 s, want one a second", got)
		}
		f.stop()
		for range streams {
			<-f.ended
		}
		stop()
		<-served
	})
}
