package porttest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/port"
)

// DatabaseHarness opens what the suite of port.Database needs.
type DatabaseHarness struct {
	// Open returns a database that is created and available. It may be one that was there before: the suite
	// writes below \xff\x02/porttest/ and includes what it has excluded.
	Open func(t testing.TB) DatabaseFixture
	// Wait lets what is late come: a moment of real time (50 ms without it) or of a virtual clock.
	Wait func(t testing.TB)
	// NoTransactions says that the implementation has none.
	NoTransactions bool
}

// DatabaseFixture is a database, and what runs its tools.
type DatabaseFixture struct {
	Database port.Database
	At       port.Endpoint
}

// Database examines an implementation of port.Database.
func Database(t *testing.T, h DatabaseHarness) {
	run := func(name string, check func(*reader)) {
		t.Run(name, func(t *testing.T) {
			f := h.Open(t)
			check(&reader{TB: t, Database: f.Database, at: f.At, wait: pause(h.Wait)})
		})
	}
	run("the status is read", statusRead)
	run("a line of versions without tools is missing", toolless)
	run("a call is run and judged", judged)
	run("a call with words of no strict form is refused", strict)
	run("an exclusion comes and goes", excluded)
	run("an ended context ends a call", hurried)
	if h.NoTransactions {
		return
	}
	run("a transaction reads what was written", written)
	run("a transaction writes all or nothing", whole)
	run("values and keys keep all bytes", bytewise)
	run("a conflict has decide judge again", conflicting)
}

type reader struct {
	testing.TB
	port.Database
	at   port.Endpoint
	wait func(testing.TB)
}

// space is where the suite writes.
const space = "\xff\x02/porttest/"

// nowhere is an address that no server has (RFC 5737).
const nowhere = "192.0.2.1:4501"

func statusRead(r *reader) {
	for _, limit := range []port.Limit{port.Short, port.Long} {
		s, err := r.Status(r.Context(), r.at, limit)
		if err != nil {
			r.Fatal(err)
		}
		if s.Client.DatabaseStatus.Available == nil || !*s.Client.DatabaseStatus.Available || len(s.Cluster.Processes) == 0 {
			r.Errorf("the status of an available database has %d processes", len(s.Cluster.Processes))
		}
	}
}

func toolless(r *reader) {
	if !slices.Contains(r.Versions(), r.at.Version.Short()) {
		r.Errorf("the lines of versions are %v, and the database runs %s", r.Versions(), r.at.Version)
	}
	other := r.at
	other.Version, _ = fdb.ParseVersion("99.9.9")
	if s, err := r.Status(r.Context(), other, port.Short); fault.Of(err) != port.ToolsMissing {
		r.Errorf("the status is %v, with %v", s, err)
	}
	if a := r.Run(r.Context(), other, fdb.ReadConnection()); a.Outcome != fdb.Refused {
		r.Errorf("without a tool the call is %s", a.Result)
	}
	decided := false
	result := r.Transact(r.Context(), other, nil, func(fdb.Values) ([]fdb.Write, error) { decided = true; return nil, nil })
	if result.Outcome != fdb.Refused || decided {
		r.Errorf("without a tool the transaction is %s, decided: %v", result, decided)
	}
}

func judged(r *reader) {
	a := r.Run(r.Context(), r.at, fdb.ReadConnection())
	c, err := fdb.ConnectionOf(a.Stdout)
	if a.Outcome != fdb.Ok || err != nil || c.ID != r.at.Connection.ID || c.Description != r.at.Connection.Description {
		r.Errorf("the connection string is read as %s with %s, %v", c, a.Result, err)
	}
	if a := r.Run(r.Context(), r.at, fdb.Kill([]string{nowhere}, false)); a.Outcome == fdb.Ok {
		r.Errorf("the kill of an address that is not there is %s", a.Result)
	}
}

func strict(r *reader) {
	for _, call := range []fdb.Call{
		fdb.Exclude([]string{"locality_instance_id:a; configure single"}, true), fdb.Exclude([]string{"10.1.0.1:4501 FORCE"}, true), fdb.Include(nil),
		fdb.MaintenanceOn("zone'", 60), {Command: "status details"}, {},
	} {
		if a := r.Run(r.Context(), r.at, call); a.Outcome != fdb.Refused {
			r.Errorf("%s %v is %s", call.Command, call.Targets, a.Result)
		}
	}
}

func excluded(r *reader) {
	has := func() bool {
		s, err := r.Status(r.Context(), r.at, port.Long)
		if err != nil {
			r.Fatal(err)
		}
		return s.Cluster.Configuration != nil && slices.Contains(s.Cluster.Configuration.ExcludedServers, fdb.ExcludedServer{Address: nowhere})
	}
	if a := r.Run(r.Context(), r.at, fdb.Exclude([]string{nowhere}, true)); a.Outcome == fdb.Refused {
		r.Fatalf("the exclusion is %s", a.Result)
	}
	eventually(r.TB, r.wait, func() string {
		if !has() {
			return "the exclusion is not in the status"
		}
		return ""
	})
	if a := r.Run(r.Context(), r.at, fdb.Include([]string{nowhere})); a.Outcome != fdb.Ok {
		r.Fatalf("the inclusion is %s", a.Result)
	}
	eventually(r.TB, r.wait, func() string {
		if has() {
			return "the exclusion is still in the status"
		}
		return ""
	})
}

func hurried(r *reader) {
	ctx, cancel := context.WithCancel(r.Context())
	cancel()
	if _, err := r.Status(ctx, r.at, port.Short); err == nil {
		r.Error("the status is read after the end of the context")
	}
	if a := r.Run(ctx, r.at, fdb.ReadConnection()); a.Outcome == fdb.Ok {
		r.Errorf("a call is %s after the end of its context", a.Result)
	}
	result := r.Transact(ctx, r.at, nil, func(fdb.Values) ([]fdb.Write, error) { return []fdb.Write{fdb.Set(space+"late", nil)}, nil })
	if result.Outcome == fdb.Ok {
		r.Errorf("a transaction is %s after the end of its context", result)
	}
}

// write commits writes, and tries again while it is not known whether they are there.
func (r *reader) write(writes ...fdb.Write) {
	r.Helper()
	var result fdb.Result
	for range 5 {
		if result = r.Transact(r.Context(), r.at, nil, func(fdb.Values) ([]fdb.Write, error) { return writes, nil }); result.Outcome != fdb.Unknown {
			break
		}
	}
	if result.Outcome != fdb.Ok {
		r.Fatalf("the writes are %s", result)
	}
}

// read returns what is below the suite's space.
func (r *reader) read() fdb.Values {
	r.Helper()
	var found fdb.Values
	result := r.Transact(r.Context(), r.at, []fdb.Range{fdb.PrefixRange(space)}, func(v fdb.Values) ([]fdb.Write, error) {
		found = slices.Clone(v)
		return nil, nil
	})
	if result.Outcome != fdb.Ok {
		r.Fatalf("a transaction that only reads is %s", result)
	}
	return found
}

func (r *reader) clear() { r.write(fdb.Clear(fdb.PrefixRange(space))) }

func written(r *reader) {
	r.clear()
	defer r.clear()
	r.write(fdb.Set(space+"b", []byte("2")), fdb.Set(space+"a", []byte("1")), fdb.Set(space+"c", []byte{}))
	want := fdb.Values{{Key: space + "a", Value: []byte("1")}, {Key: space + "b", Value: []byte("2")}, {Key: space + "c", Value: []byte{}}}
	if got := r.read(); !sameValues(got, want) {
		r.Errorf("the values are %q, want %q", got, want)
	}
	var some fdb.Values
	result := r.Transact(r.Context(), r.at, []fdb.Range{fdb.SingleKey(space + "b"), fdb.SingleKey(space + "none")}, func(v fdb.Values) ([]fdb.Write, error) {
		some = slices.Clone(v)
		return []fdb.Write{fdb.Clear(fdb.SingleKey(space + "a")), fdb.Set(space+"b", []byte("3"))}, nil
	})
	if result.Outcome != fdb.Ok || !sameValues(some, want[1:2]) {
		r.Errorf("the transaction is %s, and has read %q", result, some)
	}
	if got := r.read(); !sameValues(got, fdb.Values{{Key: space + "b", Value: []byte("3")}, want[2]}) {
		r.Errorf("the values are %q after a clear and a set", got)
	}
}

func sameValues(a, b fdb.Values) bool {
	return slices.EqualFunc(a, b, func(x, y fdb.KeyValue) bool { return x.Key == y.Key && bytes.Equal(x.Value, y.Value) })
}

func whole(r *reader) {
	r.clear()
	defer r.clear()
	result := r.Transact(r.Context(), r.at, []fdb.Range{fdb.PrefixRange(space)}, func(fdb.Values) ([]fdb.Write, error) {
		return []fdb.Write{fdb.Set(space+"a", []byte("1"))}, errors.New("not so")
	})
	if result.Outcome != fdb.Refused {
		r.Errorf("a transaction whose decision failed is %s", result)
	}
	if got := r.read(); len(got) != 0 {
		r.Errorf("a refused transaction has written %q", got)
	}
}

func bytewise(r *reader) {
	r.clear()
	defer r.clear()
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	key := space + "all/" + string(all)
	r.write(fdb.Set(key, all))
	if got := r.read(); !sameValues(got, fdb.Values{{Key: key, Value: all}}) {
		r.Errorf("the bytes are %q", got)
	}
}

func conflicting(r *reader) {
	r.clear()
	defer r.clear()
	r.write(fdb.Set(space+"n", []byte("0")))
	calls := 0
	result := r.Transact(r.Context(), r.at, []fdb.Range{fdb.SingleKey(space + "n")}, func(v fdb.Values) ([]fdb.Write, error) {
		if calls++; calls == 1 {
			r.write(fdb.Set(space+"n", []byte("7"))) // another one is faster
		}
		n, _ := v.Get(space + "n")
		return []fdb.Write{fdb.Set(space+"n", fmt.Appendf(nil, "%s+1", n))}, nil
	})
	got := r.read()
	if result.Outcome != fdb.Ok || calls != 2 || !reflect.DeepEqual(got, fdb.Values{{Key: space + "n", Value: []byte("7+1")}}) {
		r.Errorf("the transaction is %s after %d decisions, the value %q", result, calls, got)
	}
}
