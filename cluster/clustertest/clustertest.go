// Package clustertest is the conformance suite of cluster.Store.
//
//	func TestMemory(t *testing.T) {
//		clustertest.Run(t, func(testing.TB) cluster.Store { return memory.New() })
//	}
package clustertest

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/machine"
)

// Run tests a store. open returns a new, empty store and closes it by t.Cleanup.
func Run(t *testing.T, open func(t testing.TB) cluster.Store) {
	for _, part := range []struct {
		name string
		test func(suite)
	}{
		{"every field comes back", everyField},
		{"commits fill in what is left empty", fillsIn},
		{"copies go in and out", copies},
		{"a commit is all or nothing", allOrNothing},
		{"a cluster is compared and set", clusterConflict},
		{"a name is one living cluster's of an account", uniqueName},
		{"a journal row is compared and set", rowConflict},
		{"a journal key is unique within its cluster", uniqueKey},
		{"a completed job stays", jobStays},
		{"a job id is one request's", jobIsOneRequest},
		{"unknown objects have distinct errors", unknown},
		{"of two committers one wins", concurrency},
		{"many commit at once", manyAtOnce},
		{"a cancelled context writes nothing", cancelled},
		{"list filters", listFilters},
		{"list scopes", listScopes},
		{"list is ordered by created, then id", listOrder},
		{"list pages", listPages},
		{"list goes on behind an id", listAfter},
		{"a name is text, not a pattern", listPatterns},
		{"a record omits removed nodes", recordNodes},
		{"nodes of several clusters in one read", nodesOfSeveral},
		{"workers and VMs of several clusters in one read", workersAndVMs},
		{"totals follow changes at once", totalsFollow},
		{"totals are right when several change and list", totalsOfSeveral},
		{"pages by number are parts of the whole list", pagesByNumber},
		{"pages behind a cluster lose and repeat nothing", pagesUnderChange},
		{"how several clusters are reached in one read", reachOfSeveral},
		{"a scan goes on while others write", scanWhileWriting},
		{"a scan selects", scanSelects},
		{"unsettled is exact", unsettledExact},
		{"jobs are listed newest first", jobsNewest},
		{"events are in order and within the scope", eventsInOrder},
		{"events become visible in order", eventsVisible},
		{"the newest heartbeat wins", newestHeartbeatWins},
		{"a commit keeps a newer heartbeat", newerHeartbeatKept},
		{"rows contain cluster and owner", rowsOwned},
		{"usage counts what lives", usageCounts},
		{"prune keeps what is young, leaked or forgotten", pruneKeeps},
		{"a notice stays until an empty one replaces it", notices},
		{"nothing refers to a row that must exist", noForeignKeys},
		{"random use agrees with memory", agreesWithMemory},
	} {
		t.Run(part.name, func(t *testing.T) { part.test(suite{t, open(t)}) })
	}
}

// suite is one test with its store.
type suite struct {
	*testing.T
	store cluster.Store
}

var (
	now      = time.Date(2030, 5, 1, 12, 0, 0, 123456789, time.UTC)
	everyone = cluster.Scope{All: true}
)

func (e suite) commit(c *cluster.Change) {
	e.Helper()
	if err := e.store.Commit(e.Context(), c); err != nil {
		e.Fatalf("commit: %v", err)
	}
}

// conflict checks that the store refuses a change because of an earlier write.
func (e suite) conflict(c *cluster.Change) {
	e.Helper()
	if err := e.store.Commit(e.Context(), c); !errors.Is(err, fault.WriteConflict) {
		e.Fatalf("commit gave %v, want WRITE_CONFLICT", err)
	}
}

func (e suite) record(uuid string) *cluster.Record {
	e.Helper()
	b, err := e.store.Record(e.Context(), uuid)
	if err != nil {
		e.Fatalf("record %s: %v", uuid, err)
	}
	return b
}

func (e suite) list(q cluster.ClusterQuery) ([]cluster.Cluster, int) {
	e.Helper()
	all, total, err := e.store.List(e.Context(), q)
	if err != nil {
		e.Fatalf("list: %v", err)
	}
	return all, total
}

// names checks that a list contains these clusters, and this total.
func (e suite) names(what string, q cluster.ClusterQuery, total int, want ...string) {
	e.Helper()
	if q.Scope.AccountID == "" && q.Scope.DomainIDs == nil {
		q.Scope = everyone
	}
	all, n := e.list(q)
	var got []string
	for _, c := range all {
		got = append(got, c.Name)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		e.Errorf("%s: clusters (-want +got):\n%s", what, diff)
	}
	if n != total {
		e.Errorf("%s: total %d, want %d", what, n, total)
	}
}

func (e suite) rows(q cluster.RowQuery) ([]cluster.OwnedRow, int) {
	e.Helper()
	rows, total, err := e.store.Rows(e.Context(), q)
	if err != nil {
		e.Fatalf("rows: %v", err)
	}
	return rows, total
}

func (e suite) events(q cluster.EventQuery) []cluster.Event {
	e.Helper()
	events, err := e.store.Events(e.Context(), q)
	if err != nil {
		e.Fatalf("events: %v", err)
	}
	return events
}

// equal compares records, including the values that the store fills in.
func (e suite) equal(what string, want, got any) {
	e.Helper()
	if diff := cmp.Diff(want, got, secrets); diff != "" {
		e.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// secrets compares secrets by their text, not by what they print.
var secrets = cmpopts.AcyclicTransformer("Reveal", func(s cluster.Secret) string { return s.Reveal() })

// newCluster returns a running cluster that the controller need not visit.
func newCluster(name string) *cluster.Cluster {
	return &cluster.Cluster{
		UUID: "uuid-" + name, Name: name, Owner: cluster.Owner{AccountID: "amy", DomainID: "east"},
		Provider: "sim", Zone: cluster.Entity{ID: "z1", Name: "zone one"}, Offering: cluster.Entity{ID: "o1"}, Template: cluster.Entity{ID: "t1"},
		Desired: cluster.WantRunning, State: cluster.Running, NodeCount: 3, ControlCount: 1, Cores: 8, MemoryMB: 4096, Created: now, GC: true,
	}
}

func newRow(key string) *cluster.JournalRow {
	return &cluster.JournalRow{Kind: cluster.VM, Name: "name-" + key, Key: key, CallID: "call-" + key, Phase: cluster.Intent, Origin: cluster.OriginCreated, IntentAt: now}
}

func newJob(id string) *cluster.Job {
	return &cluster.Job{ID: id, Command: "createContainerCluster", Kind: "create", Digest: "d", Created: now}
}

// with returns a changed copy.
func with[T any](v *T, change func(*T)) *T {
	n := *v
	change(&n)
	return &n
}

// fill sets every field of a record to a different value.
func fill(v reflect.Value, n *int) {
	*n++
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(now.Add(time.Duration(*n) * 1001 * time.Millisecond)))
		return
	case json.RawMessage:
		v.Set(reflect.ValueOf(json.RawMessage(fmt.Sprintf(`{"n":"<%d>"}`, *n))))
		return
	case machine.CancelMode:
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprintf("v%d ä", *n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(*n))
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).Tag.Get("json") != "-" || v.Type() == reflect.TypeFor[cluster.Event]() {
				fill(v.Field(i), n)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0), n)
		fill(v.Index(1), n)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, n)
		fill(value, n)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	default:
		panic("clustertest: no value for " + v.Type().String())
	}
}

// filled returns a record without an empty field.
func filled[T any]() *T {
	var v T
	n := 0
	fill(reflect.ValueOf(&v).Elem(), &n)
	return &v
}
