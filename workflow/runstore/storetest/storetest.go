// Package storetest is the conformance suite of runstore.Store.
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, storetest.Harness{
//			Open:   func(t testing.TB) runstore.Store { return runstore.NewMemory() },
//			Reopen: nil, // not durable
//		})
//	}
//
// It tests Store, and Claimer, Lister, Definitions, Retainer, Logs, RunLimiter, StepLimiter and Workers if the store implements them.
package storetest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Harness opens the stores for the suite.
type Harness struct {
	// Open returns an empty store. It closes the store with t.Cleanup.
	Open func(t testing.TB) runstore.Store
	// Reopen ends the store like a crash, without closing it, and opens the same data again. nil:
	// the store is not durable.
	Reopen func(t testing.TB, s runstore.Store) runstore.Store
	// DiskFull makes every write fail as on a full disk until heal is called. nil: the fault cannot
	// be injected.
	DiskFull func(t testing.TB, s runstore.Store) (heal func())
	// LostReply returns a view of the store whose next write succeeds but returns an error. nil:
	// the suite wraps the store itself.
	LostReply func(t testing.TB, s runstore.Store) runstore.Store
	// Lease is the duration of leases in the tests: short enough to wait for, long enough for
	// several calls. Default 300 ms.
	Lease time.Duration
	// Slow reduces the number of repetitions, for a store behind a real API server.
	Slow bool
}

// Run tests a store.
func Run(t *testing.T, h Harness) {
	if h.Lease == 0 {
		h.Lease = 300 * time.Millisecond
	}
	leaks := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		if err := goleak.Find(leaks); err != nil {
			t.Errorf("the store leaves goroutines behind: %v", err)
		}
	})
	for _, part := range []struct {
		name string
		test func(*testing.T, Harness)
	}{
		{"Create", testCreate}, {"Queue", testQueue}, {"Save", testSave}, {"Records", testRecords},
		{"Signals", testSignals}, {"Mail", testMail}, {"Faults", testFaults},
		{"Claim", testClaim}, {"Workers", testWorkers}, {"ListOfWorkers", testListOfWorkers}, {"RunLimits", testRunLimits}, {"StepLimits", testStepLimits},
		{"List", testList}, {"FaultOfRun", testFaultOfRun}, {"History", testHistory}, {"Await", testAwait},
		{"Definitions", testDefinitions}, {"Retention", testRetention}, {"Logs", testLogs},
	} {
		t.Run(part.name, func(t *testing.T) { part.test(t, h) })
	}
}

var serial atomic.Int64

// suite is one test of one store.
type suite struct {
	*testing.T
	runstore.Store
}

func open(t *testing.T, h Harness) suite { return suite{t, h.Open(t)} }

// claimer returns the store as a Claimer. It skips the test if the store is not one.
func (x suite) claimer() runstore.Claimer { return optional[runstore.Claimer](x) }
func (x suite) lister() runstore.Lister   { return optional[runstore.Lister](x) }

func optional[T any](x suite) T {
	x.Helper()
	part, ok := x.Store.(T)
	if !ok {
		x.Skipf("the store is not a %T", *new(T))
	}
	return part
}

// testTime returns a time in the past with nanoseconds.
func testTime(n int) time.Time {
	return time.Date(2024, 2, 29, 23, 59, n%60, 123456789, time.UTC)
}

// newRun returns a run for Create. Its subject is new unless one is given.
func newRun(subject string) *runtype.Run {
	n := serial.Add(1)
	if subject == "" {
		subject = fmt.Sprintf("kind/space/%d", n)
	}
	return &runtype.Run{
		ID: fmt.Sprintf("r%025d", n), Flow: "Flow", Version: 3, Hash: "abc", Subject: subject, RequestID: fmt.Sprint(n),
		Input: []byte(`{"n":1}`), Phase: runtype.Running, CreatedAt: testTime(1), NextAt: testTime(1), Seq: 1,
	}
}

func created() []runtype.Event {
	return []runtype.Event{{Seq: 1, At: testTime(1), Kind: runtype.RunCreated, Actor: "ann"}}
}

func (x suite) create(r *runtype.Run) *runtype.Run {
	x.Helper()
	stored, err := x.Create(x.Context(), r, created())
	if err != nil {
		x.Fatalf("create %s: %v", r.ID, err)
	}
	return stored
}

// createClaimed creates a run that a worker has claimed on creation.
func (x suite) createClaimed(worker string) *runtype.Run {
	x.Helper()
	r := newRun("")
	r.Owner, r.Epoch = worker, 1
	return x.create(r)
}

func (x suite) load(id string) (*runtype.Run, []runtype.Signal) {
	x.Helper()
	r, signals, err := x.Load(x.Context(), id)
	if err != nil {
		x.Fatalf("load %s: %v", id, err)
	}
	return r, signals
}

// event returns the next event of a run.
func event(r *runtype.Run, kind runtype.EventKind) runtype.Event {
	r.Seq++
	return runtype.Event{Seq: r.Seq, At: testTime(int(r.Seq)), Kind: kind}
}

func (x suite) save(r *runtype.Run, kinds ...runtype.EventKind) {
	x.Helper()
	save := &runstore.Save{Run: r}
	for _, kind := range kinds {
		save.Events = append(save.Events, event(r, kind))
	}
	if err := x.Save(x.Context(), save); err != nil {
		x.Fatalf("save %s: %v", r.ID, err)
	}
}

// endRun saves a run with a final phase.
func (x suite) endRun(r *runtype.Run) {
	x.Helper()
	r.Phase, r.EndedAt, r.Owner, r.NextAt = runtype.Succeeded, testTime(30), "", time.Time{}
	x.save(r, runtype.RunSucceeded)
}

// wait releases a run that waits until a time.
func (x suite) wait(r *runtype.Run, next time.Time) {
	x.Helper()
	r.Phase, r.Owner, r.NextAt = runtype.Waiting, "", next
	x.save(r, runtype.RunWaiting)
}

func (x suite) send(id string, s runtype.Signal) {
	x.Helper()
	if err := x.Send(x.Context(), id, s); err != nil {
		x.Fatalf("send %s to %s: %v", s.ID, id, err)
	}
}

func signal(id string) runtype.Signal {
	return runtype.Signal{ID: id, Name: "go", Payload: []byte(`{"id":"` + id + `"}`), Actor: "ann", At: testTime(5)}
}

func ids(signals []runtype.Signal) []string {
	list := []string{}
	for _, s := range signals {
		list = append(list, s.ID)
	}
	return list
}

func (x suite) wantEqual(what string, got, want any) {
	x.Helper()
	if diff := cmp.Diff(want, got, compareOptions); diff != "" {
		x.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func (x suite) wantError(what string, err, want error) {
	x.Helper()
	if !errors.Is(err, want) {
		x.Errorf("%s: got %v, want %v", what, err, want)
	}
}

func (x suite) wantCode(what string, err error, want *fault.Kind) {
	x.Helper()
	if fault.Of(err) != want {
		x.Errorf("%s: got %v, want %s", what, err, want.Code)
	}
}

// compareOptions compare the visible state: they ignore private data of the store and treat empty
// values as equal to nil.
var compareOptions = cmp.Options{
	cmpopts.IgnoreUnexported(runtype.Run{}, runtype.StepRecord{}),
	cmpopts.IgnoreFields(runtype.Run{}, "Handle"), cmpopts.IgnoreFields(runtype.StepRecord{}, "Row"),
	cmpopts.EquateEmpty(),
	cmp.FilterValues(func(a, b json.RawMessage) bool { return len(a)+len(b) > 0 },
		cmp.Comparer(func(a, b json.RawMessage) bool { return bytes.Equal(a, b) })),
}

func records(r *runtype.Run) []*runtype.StepRecord {
	var list []*runtype.StepRecord
	for s := range r.Steps() {
		list = append(list, s)
	}
	return list
}

// wantSameRun compares two runs with their records.
func (x suite) wantSameRun(what string, got, want *runtype.Run) {
	x.Helper()
	x.wantEqual(what, got, want)
	x.wantEqual(what+": records", records(got), records(want))
}

// waitUntil polls until the condition is true, for tests that depend on the clock of a store.
func (x suite) waitUntil(what string, ask func() bool) {
	x.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !ask() {
		if time.Now().After(deadline) {
			x.Fatalf("%s: not within 20 s", what)
		}
		select {
		case <-x.Context().Done():
			x.Fatal(x.Context().Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
}
