package notification

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// clusters is a queue of events of container clusters.
type clusters struct{ events []Event }

func (c *clusters) Events(_ context.Context, cursor string, limit int) ([]Event, string, error) {
	n := len(c.events)
	if cursor != "now" {
		n, _ = strconv.Atoi(cursor)
	}
	end := min(len(c.events), n+limit)
	return slices.Clone(c.events[n:end]), strconv.Itoa(end), nil
}

// recorder is a receiver that records type and subject of what comes.
type recorder struct {
	mu   sync.Mutex
	seen []string
	code int
}

func (r *recorder) client() *http.Client {
	return &http.Client{Transport: trip(func(q *http.Request) (*http.Response, error) {
		body, err := io.ReadAll(q.Body)
		if err != nil {
			return nil, err
		}
		var e struct{ Data Event }
		if err := json.Unmarshal(body, &e); err != nil {
			return nil, err
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.code != 0 {
			return answer(r.code), nil
		}
		r.seen = append(r.seen, strings.TrimSpace(e.Data.Type+" "+e.Data.Subject+" "+e.Data.Code))
		return answer(204), nil
	})}
}

// answer sets the status that refuses; 0: it accepts.
func (r *recorder) answer(code int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.code = code
}

func (r *recorder) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	slices.Sort(r.seen)
	seen := r.seen
	r.seen = nil
	return seen
}

// Objects that are interrupted and recover are told, across a restart of the server and a receiver that is away, each once.
// What was interrupted before the notification is not told, and what is deleted did not recover.
func TestObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, got, queue := control.NewMemory(), &recorder{}, &clusters{}
		var stop context.CancelFunc
		done := make(chan error)
		serve := func() {
			var ctx context.Context
			ctx, stop = context.WithCancel(t.Context())
			s := New(Options{Objects: m, History: &growing{}, Secrets: secrets{}, Client: got.client, Clusters: queue})
			go func() { done <- s.Serve(ctx) }()
		}
		end := func() {
			stop()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		object := func(name, status string) {
			t.Helper()
			ref := control.Ref{Kind: "Volume", Namespace: "default", Name: name}
			if _, err := m.Apply(t.Context(), control.Object{Ref: ref, Spec: json.RawMessage(`{}`)}); err != nil {
				t.Fatal(err)
			}
			if _, err := control.Modify(t.Context(), m, ref, func(o *control.Object) error { o.Status = json.RawMessage(status); return nil }); err != nil {
				t.Fatal(err)
			}
		}
		held := func(since int) string {
			return fmt.Sprintf(`{"machine": {"state": "Broken", "held": true, "code": "DISK_FULL", "visit": 3, "since": %q}}`, time.Unix(int64(since), 0).UTC().Format(time.RFC3339))
		}
		const running = `{"machine": {"state": "Running", "visit": 3}}`
		expect := func(want ...string) {
			t.Helper()
			time.Sleep(3 * time.Second)
			synctest.Wait()
			if seen := got.take(); !slices.Equal(seen, want) {
				t.Errorf("%q, not %q", seen, want)
			}
		}
		serve()
		object("before", held(1))
		apply(t, m, spec)
		expect()
		object("a", held(2))
		object("b", `{"position": {"state": "Interrupted", "since": "2026-01-01T00:00:00Z"}}`)
		object("fine", running)
		expect("object.interrupted Volume/default/a DISK_FULL", "object.interrupted Volume/default/b")
		object("a", held(2))
		expect()
		object("a", running)
		object("before", running)
		expect("object.recovered Volume/default/a DISK_FULL", "object.recovered Volume/default/before DISK_FULL")
		end()
		object("a", held(5)) // while no server is there
		queue.events = append(queue.events, Event{Type: ClusterAlert, Seq: 7, Subject: "ContainerCluster/default/u", Code: "CLUSTER_FAULTY"})
		serve()
		expect("cluster.alert ContainerCluster/default/u CLUSTER_FAULTY", "object.interrupted Volume/default/a DISK_FULL")
		if _, err := m.Delete(t.Context(), control.Ref{Kind: "Volume", Namespace: "default", Name: "b"}, 0); err != nil {
			t.Fatal(err)
		}
		expect()
		got.answer(503)
		object("a", held(6))
		expect()
		got.answer(0)
		time.Sleep(10 * time.Second)
		expect("object.interrupted Volume/default/a DISK_FULL", "object.recovered Volume/default/a DISK_FULL")
		end()
	})
}

// The type of an event hangs on its kind, code and reason, and on no message.
func TestTypes(t *testing.T) {
	for _, c := range []struct {
		e    runtype.Event
		want string
	}{
		{runtype.Event{Kind: runtype.RunCancelled}, RunCancelled},
		{runtype.Event{Kind: runtype.RunCancelled, Code: "DEADLINE"}, RunFailed},
		{runtype.Event{Kind: runtype.HealingEnded, Code: "X", Reason: runtype.Healed}, FaultHealed},
		{runtype.Event{Kind: runtype.HealingEnded, Code: "X", Message: "healed"}, ""},
		{runtype.Event{Kind: runtype.HealingEnded, Code: "HEALER_EXHAUSTED", Reason: "X"}, ""},
		{runtype.Event{Kind: runtype.StepDoneEvent}, ""},
	} {
		if got := typeOf(c.e); got != c.want {
			t.Errorf("%+v: %q", c.e, got)
		}
	}
	for _, name := range Types {
		if verbs[name] == "" {
			t.Errorf("%s has no text", name)
		}
	}
}

func TestFilter(t *testing.T) {
	e := Event{Type: RunPaused, Flow: "Backup", Subject: "Volume/default/v", Labels: map[string]string{"team": "blue"}, Code: "DISK_FULL", Seq: 4, Time: time.Unix(1_800_000_000, 0)}
	for filter, want := range map[string]bool{
		`event.flow == "Backup" && event.labels.team == "blue"`: true,
		`event.labels.colour == "blue"`:                         false,
		`event.code in ["DISK_FULL", "DISK_SLOW"]`:              true,
		`event.subject.startsWith("Volume/") && event.seq > 3`:  true,
		`event.time > timestamp("2030-01-01T00:00:00Z")`:        false,
		`[1,2,3,4,5,6,7,8,9].all(a, [1,2,3,4,5,6,7,8,9].all(b, [1,2,3,4,5,6,7,8,9].all(c, [1,2,3,4,5,6,7,8,9].all(d, [1,2,3,4,5,6,7,8,9].all(e, a > 0)))))`: false, // costs too much
	} {
		p, err := compileFilter(filter)
		if err != nil {
			t.Errorf("%s: %v", filter, err)
			continue
		}
		if got := holds(p, e); got != want {
			t.Errorf("%s: %v", filter, got)
		}
	}
	for filter, want := range map[string]string{
		"event.flow == \"Backup\" &&\n  event.flwo == \"\"": "line 2, column 8: undefined field 'flwo'",
		`event.flow`:              "the expression is a string, not true or false",
		`event.flow ==`:           "line 1, column 14: the expression ends too early",
		`event.seq == "4"`:        "line 1, column 11: found no matching overload for '_==_' applied to '(int, string)'",
		strings.Repeat(" ", 9000): "the expression has more than 8192 bytes",
	} {
		if _, err := compileFilter(filter); err == nil || err.Error() != want {
			t.Errorf("%s: %v", filter, err)
		}
	}
}
