package tool

import (
	"errors"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/port"
)

// A process that may not act any more, as a leader whose lease has ended, starts no tool that could change a database. It
// may still look.
func TestWhatIsNotAllowedIsNotStarted(t *testing.T) {
	late := errors.New("the lease ended 3s ago")
	s := newStage(t, play{Stdout: "{}"}, Options{Allowed: func() error { return late }})
	for _, call := range []fdb.Call{
		fdb.Exclude([]string{"10.0.0.1"}, true), fdb.Include([]string{"10.0.0.1"}), fdb.Kill([]string{"10.0.0.1:4501"}, false), fdb.MaintenanceOff(),
		fdb.Coordinators([]string{"10.0.0.1:4501"}), {Command: fdb.CommandConfigure, Configuration: "double"}, fdb.PauseBackups(), fdb.AbortRestore("again"),
	} {
		if a := s.Run(t.Context(), endpoint(), call); a.Outcome != fdb.Refused || a.Text != late.Error() {
			t.Errorf("%s is %s", call.Command, a.Result)
		}
	}
	var seen []fdb.Values
	read, decide := take(&seen)
	if r := s.Transact(t.Context(), endpoint(), read, decide); r.Outcome != fdb.Refused || r.Text != late.Error() {
		t.Errorf("the transaction is %s", r)
	}
	if n := len(s.records()); n != 0 {
		t.Errorf("%d processes were started", n)
	}
	if _, err := s.Status(t.Context(), endpoint(), port.Short); err != nil {
		t.Error(err)
	}
	s.Run(t.Context(), endpoint(), fdb.ReadConnection())
	if n := len(s.records()); n != 2 {
		t.Errorf("%d processes looked", n)
	}
}

// The lease ends in the middle of a transaction: nothing is committed.
func TestATransactionThatIsNotAllowedAnyMore(t *testing.T) {
	lines := 0
	s := newStage(t, play{Session: &session{}}, Options{Allowed: func() error {
		if lines++; lines > 4 {
			return errors.New("the lease ended 3s ago")
		}
		return nil
	}, Timeout: 10 * time.Second})
	var seen []fdb.Values
	read, decide := take(&seen)
	if r := s.Transact(t.Context(), endpoint(), read, decide); r.Outcome != fdb.Refused {
		t.Errorf("it is %s after %d lines", r, lines)
	}
}
