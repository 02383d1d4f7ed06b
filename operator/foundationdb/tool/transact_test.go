package tool

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/fdb/sim"
	"github.com/pawl-dev/pawl/lock"
)

var (
	keys   = fdb.Keys("")
	global = keys.Global()
	ours   = string(fdb.EncodeLock(lock.Record{Owner: "kc1", Start: time.Unix(1700000000, 0), End: time.Unix(1700000600, 0)}))
	theirs = string(fdb.EncodeLock(lock.Record{Owner: "kc2", Start: time.Unix(1700000000, 0), End: time.Unix(1700000600, 0)}))
)

var errHeld = errors.New("kc2 holds the lock")

// take takes the lock as the operator does, if nobody has it.
func take(seen *[]fdb.Values) ([]fdb.Range, func(fdb.Values) ([]fdb.Write, error)) {
	return []fdb.Range{fdb.SingleKey(global), keys.DenyList()}, func(v fdb.Values) ([]fdb.Write, error) {
		*seen = append(*seen, v)
		if value, held := v.Get(global); held && string(value) != ours {
			return nil, errHeld
		}
		return []fdb.Write{fdb.Set(global, []byte(ours)), fdb.Set(keys.Denied("kc3"), []byte("kc3"))}, nil
	}
}

func TestTransactions(t *testing.T) {
	commit := func(s session) *session { s.Before = "commit"; return &s }
	taken := map[string]string{global: ours, keys.Denied("kc3"): "kc3"}
	none := map[string]string{}
	for name, c := range map[string]struct {
		session *session
		options Options
		play    play
		ends    bool // the caller ends it, once it hangs
		result  fdb.Result
		decided int               // how often
		after   map[string]string // nil: not looked at
	}{
		"it is committed":                 {session: &session{}, result: fdb.Result{Outcome: fdb.Ok}, decided: 1, after: taken},
		"nothing changes what is there":   {session: &session{Keys: map[string]string{global: ours}}, result: fdb.Result{Outcome: fdb.Ok}, decided: 1, after: taken},
		"decide refuses":                  {session: &session{Keys: map[string]string{global: theirs}}, result: fdb.Result{Outcome: fdb.Refused, Reason: fdb.DecisionFailed, Text: errHeld.Error()}, decided: 1, after: map[string]string{global: theirs}},
		"a conflict, then not":            {session: commit(session{Put: map[string]string{keys.Denied("kc4"): "kc4"}}), result: fdb.Result{Outcome: fdb.Ok}, decided: 2, after: map[string]string{global: ours, keys.Denied("kc3"): "kc3", keys.Denied("kc4"): "kc4"}},
		"another was faster":              {session: commit(session{Put: map[string]string{global: theirs}}), result: fdb.Result{Outcome: fdb.Refused, Reason: fdb.DecisionFailed, Text: errHeld.Error()}, decided: 2, after: map[string]string{global: theirs}},
		"conflicts without end":           {session: commit(session{Always: true, Put: map[string]string{keys.Denied("kc4"): "kc4"}}), result: fdb.Result{Outcome: fdb.Refused, Reason: fdb.TransactionConflict, Text: "ERROR: Transaction not committed due to conflict with another transaction (1020)"}, decided: 5, after: map[string]string{keys.Denied("kc4"): "kc4"}},
		"unknown, not committed":          {session: commit(session{Unfold: &sim.Fault{Kind: sim.FaultCommitUnknown, Before: true}}), result: fdb.Result{Reason: fdb.CommitUnknown, Text: "ERROR: Transaction may or may not have committed (1021)"}, decided: 1, after: none},
		"unknown, committed":              {session: commit(session{Unfold: &sim.Fault{Kind: sim.FaultCommitUnknown}}), result: fdb.Result{Reason: fdb.CommitUnknown, Text: "ERROR: Transaction may or may not have committed (1021)"}, decided: 1, after: taken},
		"it ends before the commit":       {session: &session{Before: "begin", Ends: true, Warns: "Aborted\n"}, result: fdb.Result{Outcome: fdb.Refused, Reason: fdb.ToolEnded, Text: "Aborted"}, after: none},
		"it ends at the commit":           {session: commit(session{Ends: true}), result: fdb.Result{Reason: fdb.CommitUnknown}, decided: 1, after: none},
		"it hangs before the commit":      {session: &session{Before: "begin", Half: "Transaction sta"}, ends: true, result: fdb.Result{Outcome: fdb.Refused, Reason: fdb.ToolEnded, Text: "nobody waits any more"}, after: none},
		"it hangs at the commit":          {session: commit(session{Half: "Commit"}), ends: true, result: fdb.Result{Reason: fdb.CommitUnknown, Text: "nobody waits any more"}, decided: 1, after: none},
		"it commits and hangs":            {session: commit(session{Drops: true}), ends: true, result: fdb.Result{Reason: fdb.CommitUnknown, Text: "nobody waits any more"}, decided: 1},
		"a prompt that begins no line":    {session: commit(session{Half: "Committed (5)fdb> "}), ends: true, result: fdb.Result{Reason: fdb.CommitUnknown, Text: "nobody waits any more"}, decided: 1, after: none},
		"an unknown answer before":        {session: &session{Before: "begin", Lines: "Transaction begun\n"}, result: fdb.Result{Outcome: fdb.Refused, Reason: fdb.TransactionFailed, Text: "Transaction begun"}, after: none},
		"an unknown answer to the commit": {session: commit(session{Lines: "Done\n"}), result: fdb.Result{Reason: fdb.CommitUnknown, Text: "Done"}, decided: 1, after: none},
		"half a line, then the prompt":    {session: commit(session{Lines: "Comm\n"}), result: fdb.Result{Reason: fdb.CommitUnknown, Text: "Comm"}, decided: 1, after: none},
		"a long delay on stderr":          {session: commit(session{Warns: "\nWARNING: Long delay (Ctrl-C to interrupt)\n"}), result: fdb.Result{Outcome: fdb.Ok}, decided: 1, after: taken},
		"an error on stderr alone":        {session: commit(session{Warns: "ERROR: Broken pipe (1234)\n"}), result: fdb.Result{Reason: fdb.CommitUnknown, Text: "ERROR: Broken pipe (1234)"}, decided: 1},
		"it does not begin":               {play: play{Stderr: "ERROR: Invalid cluster file `fdb.cluster': 2104 Connection string invalid\n", Exit: 1}, result: fdb.Result{Outcome: fdb.Refused, Reason: fdb.ToolEnded, Text: "ERROR: Invalid cluster file `fdb.cluster': 2104 Connection string invalid"}},
		"it asks at once":                 {play: play{Stdout: fdb.Prompt, Hang: true}, result: fdb.Result{Outcome: fdb.Refused, Reason: fdb.TransactionFailed}},
		"it says nothing":                 {play: play{Hang: true, IgnoreSignals: true, Grandchild: true}, options: short, result: fdb.Result{Outcome: fdb.Refused, Reason: fdb.TimedOut, Text: "fdbcli was ended after 100ms: context deadline exceeded"}},
		"it prints without end":           {play: play{Endless: "stdout"}, options: Options{MaxStatus: 1 << 20}, result: fdb.Result{Outcome: fdb.Refused, Reason: fdb.ToolEnded}},
		"it complains without end":        {play: play{Endless: "stderr"}, options: Options{MaxStatus: 1 << 20}, result: fdb.Result{Outcome: fdb.Refused, Reason: fdb.ToolEnded}},
		"a grandchild stays":              {play: play{Grandchild: true, Stdout: "bye\n"}, result: fdb.Result{Outcome: fdb.Refused, Reason: fdb.ToolEnded, Text: "bye"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := c.play
			after := filepath.Join(t.TempDir(), "after")
			if p.Session = c.session; p.Session != nil {
				p.Session.After = after
			}
			s := newStage(t, p, c.options)
			var seen []fdb.Values
			read, decide := take(&seen)
			ctx, cancel := context.WithCancelCause(t.Context())
			var watched sync.WaitGroup
			if c.ends {
				watched.Go(func() {
					eventually(t, "it hangs", func() bool { var keys map[string]string; return load(after, &keys) == nil })
					cancel(errors.New("nobody waits any more"))
				})
			}
			got := s.Transact(ctx, endpoint(), read, decide)
			watched.Wait()
			cancel(nil)
			if c.play.Endless != "" && got.Text != "" {
				got.Text = ""
			}
			if diff := cmp.Diff(c.result, got); diff != "" {
				t.Errorf("the result (- wanted, + got):\n%s", diff)
			}
			if len(seen) != c.decided {
				t.Errorf("decide was called %d times and not %d", len(seen), c.decided)
			}
			if c.after != nil {
				if diff := cmp.Diff(c.after, left(t, after), cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("the keys afterwards (- wanted, + got):\n%s", diff)
				}
			}
			for _, r := range s.records() {
				eventually(t, "the process group is gone", func() bool { return len(group(r.Pid)) == 0 })
			}
		})
	}
}

func left(t *testing.T, file string) (keys map[string]string) {
	t.Helper()
	if err := load(file, &keys); err != nil {
		t.Fatal(err)
	}
	return keys
}

// All bytes survive: in keys and values, read and written, and in lines as long as fdbcli takes them.
func TestTransactionsCarryAllBytes(t *testing.T) {
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	odd := fdb.LockPrefix + "/`'fdb> \n\x00\x03\x04\x16\xff"
	long := strings.Repeat("v", 4094-len(`set \xff\x02/org.foundationdb.kubernetes-operator/long `))
	after := filepath.Join(t.TempDir(), "after")
	s := newStage(t, play{Session: &session{After: after, Keys: map[string]string{odd: string(every)}}}, Options{})
	write := fdb.LockPrefix + "/copy"
	got := s.Transact(t.Context(), endpoint(), []fdb.Range{fdb.PrefixRange(fdb.LockPrefix)}, func(v fdb.Values) ([]fdb.Write, error) {
		value, found := v.Get(odd)
		if !found {
			return nil, errors.New("the key was not read")
		}
		return []fdb.Write{
			fdb.Set(write, value), fdb.Set(fdb.LockPrefix+"/long", []byte(long)), fdb.Set(fdb.LockPrefix+"/empty", nil),
			fdb.Clear(fdb.SingleKey(odd)),
		}, nil
	})
	if got.Outcome != fdb.Ok {
		t.Fatalf("it is %s", got)
	}
	want := map[string]string{write: string(every), fdb.LockPrefix + "/long": long, fdb.LockPrefix + "/empty": ""}
	if diff := cmp.Diff(want, left(t, after)); diff != "" {
		t.Errorf("the keys afterwards (- wanted, + got):\n%s", diff)
	}
	r := s.last()
	if argv := strings.Join(r.Argv[1:], " "); argv != "--no-status --no-hints -C "+filepath.Join(r.Dir, "fdb.cluster") {
		t.Errorf("the arguments are %s", argv)
	}
	if strings.TrimSpace(r.ClusterFile) != endpoint().Connection.String() {
		t.Errorf("the cluster file is %s", r.ClusterFile)
	}
}

// 2,000 keys take several fills of a pipe.
func TestTransactionsReadMuch(t *testing.T) {
	many := map[string]string{}
	for n := range 2000 {
		many[keys.Denied(fmt.Sprintf("%064d", n))] = strings.Repeat("fdb> ", 20)
	}
	s := newStage(t, play{Session: &session{Keys: many}}, Options{})
	got := s.Transact(t.Context(), endpoint(), []fdb.Range{keys.DenyList()}, func(v fdb.Values) ([]fdb.Write, error) {
		if len(v) != len(many) {
			return nil, errors.New("not all was read")
		}
		return nil, nil
	})
	if want := (fdb.Result{Outcome: fdb.Ok, Reason: fdb.NoChange}); got != want {
		t.Errorf("it is %s", got)
	}
}

func TestACallerEndsATransaction(t *testing.T) {
	s := newStage(t, play{Session: &session{}}, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	got := s.Transact(ctx, endpoint(), []fdb.Range{keys.DenyList()}, func(fdb.Values) ([]fdb.Write, error) {
		cancel() // the process is not told to write
		return []fdb.Write{fdb.Set(global, []byte(ours))}, nil
	})
	if want := (fdb.Result{Outcome: fdb.Refused, Reason: fdb.ToolEnded, Text: context.Canceled.Error()}); got != want {
		t.Errorf("it is %s", got)
	}
	noneLeft(t, s)
}

// A decide that panics leaves no process.
func TestADecideThatPanicsLeavesNoProcess(t *testing.T) {
	s := newStage(t, play{Session: &session{}}, Options{})
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		s.Transact(t.Context(), endpoint(), []fdb.Range{keys.DenyList()}, func(fdb.Values) ([]fdb.Write, error) { panic("no") })
	}()
	noneLeft(t, s)
}
