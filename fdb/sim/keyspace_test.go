package sim_test

import (
	"errors"
	"fmt"
	"regexp"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/fdb/sim"
	"github.com/pawl-dev/pawl/lock"
)

var committedVersion = regexp.MustCompile(`Committed \([0-9]+\)`)

func get(t testing.TB, tr *sim.Transaction, key string) string {
	t.Helper()
	value, present, err := tr.Get(key)
	if err != nil {
		t.Fatal(err)
	}
	if !present {
		return "-"
	}
	return string(value)
}

func TestTransactions(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(t *testing.T, f *fixture) error
		want error
	}{
		{"what was written is read", func(t *testing.T, f *fixture) error {
			f.write("a", []byte("1"))
			if got := get(t, f.Transaction(), "a"); got != "1" {
				t.Error(got)
			}
			return nil
		}, nil},
		{"own writes are seen", func(t *testing.T, f *fixture) error {
			tr := f.Transaction()
			tr.Write(fdb.Set("a", []byte("1")))
			tr.Write(fdb.Set("b", []byte("2")))
			tr.Write(fdb.Clear(fdb.SingleKey("a")))
			if got := get(t, tr, "a") + get(t, tr, "b"); got != "-2" {
				t.Error(got)
			}
			return tr.Commit()
		}, nil},
		{"a commit at the moment of a read comes after it", func(t *testing.T, f *fixture) error {
			old, tr := f.Transaction(), f.Transaction()
			get(t, old, "b")
			f.Advance(time.Second)
			get(t, tr, "a")
			old.Write(fdb.Set("a", []byte("1")))
			if err := old.Commit(); err != nil {
				t.Error(err)
			}
			tr.Write(fdb.Set("a", []byte("2")))
			return tr.Commit()
		}, sim.ErrNotCommitted},
		{"a snapshot does not change", func(t *testing.T, f *fixture) error {
			f.write("a", []byte("1"))
			tr := f.Transaction()
			get(t, tr, "b")
			f.Advance(time.Millisecond)
			f.write("a", []byte("2"))
			if got := get(t, tr, "a"); got != "1" {
				t.Error(got)
			}
			return nil
		}, nil},
		{"a conflict", func(t *testing.T, f *fixture) error {
			tr := f.Transaction()
			get(t, tr, "a")
			f.write("a", []byte("2"))
			tr.Write(fdb.Set("b", nil))
			return tr.Commit()
		}, sim.ErrNotCommitted},
		{"a conflict in a range", func(t *testing.T, f *fixture) error {
			tr := f.Transaction()
			if _, err := tr.GetRange(fdb.PrefixRange("a"), 0); err != nil {
				t.Fatal(err)
			}
			f.write("ab", []byte("2"))
			tr.Write(fdb.Set("b", nil))
			return tr.Commit()
		}, sim.ErrNotCommitted},
		{"blind writes do not conflict", func(t *testing.T, f *fixture) error {
			tr := f.Transaction()
			get(t, tr, "other")
			f.write("a", []byte("2"))
			tr.Write(fdb.Set("a", nil))
			return tr.Commit()
		}, nil},
		{"5 s", func(t *testing.T, f *fixture) error {
			tr := f.Transaction()
			get(t, tr, "a")
			f.Advance(5 * time.Second)
			tr.Write(fdb.Set("a", nil))
			return tr.Commit()
		}, nil},
		{"more than 5 s", func(t *testing.T, f *fixture) error {
			tr := f.Transaction()
			get(t, tr, "a")
			f.Advance(5*time.Second + time.Millisecond)
			tr.Write(fdb.Set("a", nil))
			return tr.Commit()
		}, sim.ErrTooOld},
		{"a recovery between", func(t *testing.T, f *fixture) error {
			tr := f.Transaction()
			get(t, tr, "a")
			f.Crash("log-1")
			f.Advance(4900 * time.Millisecond)
			if !f.Available() {
				t.Fatal("the recovery takes as long as a transaction may last")
			}
			tr.Write(fdb.Set("a", nil))
			return tr.Commit()
		}, sim.ErrTooOld},
		{"unavailable", func(t *testing.T, f *fixture) error {
			f.Crash("log-1")
			f.Advance(2 * time.Second)
			_, _, err := f.Transaction().Get("a")
			return err
		}, sim.ErrBlocked},
		{"unknown, and not done", func(t *testing.T, f *fixture) error {
			f.Inject(sim.Fault{Kind: sim.FaultCommitUnknown, Before: true})
			tr := f.Transaction()
			tr.Write(fdb.Set("a", []byte("1")))
			err := tr.Commit()
			if got := get(t, f.Transaction(), "a"); got != "-" {
				t.Error(got)
			}
			return err
		}, sim.ErrUnknown},
		{"unknown, and done", func(t *testing.T, f *fixture) error {
			f.Inject(sim.Fault{Kind: sim.FaultCommitUnknown})
			tr := f.Transaction()
			tr.Write(fdb.Set("a", []byte("1")))
			err := tr.Commit()
			if got := get(t, f.Transaction(), "a"); got != "1" {
				t.Error(got)
			}
			return err
		}, sim.ErrUnknown},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := sample(t, sim.Options{Seed: 1})
			if err := tt.do(t, f); !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
		})
	}
}

// TestSerializable: transactions that interleave end as if one had come after the other.
func TestSerializable(t *testing.T) {
	f := sample(t, sim.Options{Seed: 1})
	round := 0
	rapid.Check(t, func(rt *rapid.T) {
		round++
		f.Advance(10 * time.Second)
		key := func(n int) string { return fmt.Sprintf("%d/%d", round, n) }
		want := map[string]string{}
		open := map[int]*sim.Transaction{}
		seen := map[int]map[string]string{}
		for i, n := range rapid.SliceOfN(rapid.IntRange(0, 2), 1, 30).Draw(rt, "turns") {
			k := key(rapid.IntRange(0, 3).Draw(rt, "key"))
			tr := open[n]
			if tr == nil {
				tr = f.Transaction()
				open[n], seen[n] = tr, map[string]string{}
			}
			switch rapid.IntRange(0, 2).Draw(rt, "act") {
			case 0:
				seen[n][k] = get(t, tr, k)
			case 1:
				value := fmt.Sprint(i)
				tr.Write(fdb.Set(k, []byte(value)))
				seen[n][k+"="] = value
			default:
				if err := tr.Commit(); err == nil {
					for name, value := range seen[n] {
						if name[len(name)-1] == '=' {
							want[name[:len(name)-1]] = value
						}
					}
				}
				delete(open, n)
			}
			f.Advance(time.Millisecond)
		}
		for n := range 4 {
			got, expected := get(t, f.Transaction(), key(n)), want[key(n)]
			if expected == "" {
				expected = "-"
			}
			if got != expected {
				rt.Fatalf("%s is %s, want %s", key(n), got, expected)
			}
		}
	})
}

// TestDialogue: the lock of the operator is taken through an interactive fdbcli, also when others take it
// at the same time, and when the commit is unknown.
func TestDialogue(t *testing.T) {
	keys := fdb.Keys("")
	take := func(f *fixture, owner string) *fdb.Dialogue {
		return fdb.NewDialogue([]fdb.Range{fdb.SingleKey(keys.Global()), keys.DenyList()}, func(v fdb.Values) ([]fdb.Write, error) {
			value, _ := v.Get(keys.Global())
			if stored := fdb.DecodeLock(value); stored.Record != nil && stored.Record.End.After(f.Now()) && stored.Record.Owner != owner {
				return nil, errors.New("taken by " + stored.Record.Owner)
			}
			return []fdb.Write{fdb.Set(keys.Global(), fdb.EncodeLock(lock.Record{Owner: owner, Start: f.Now(), End: f.Now().Add(time.Minute)}))}, nil
		})
	}
	for _, v := range []string{"7.1.67", "7.3.69", "7.4.6"} {
		t.Run(v, func(t *testing.T) {
			f := newFixture(t, shape{options: sim.Options{Seed: 1}, version: v, storage: 3, log: 3, stateless: 3})
			f.do("configure new single ssd")
			f.settle()
			holder := func() string {
				value, _, err := f.Transaction().Get(keys.Global())
				if stored := fdb.DecodeLock(value); err == nil && stored.Record != nil {
					return stored.Record.Owner
				}
				return "-"
			}
			if r := f.Transact(take(f, "a"), f.version, f.first, time.Minute); r.Outcome != fdb.Ok || holder() != "a" {
				t.Fatal(r, holder())
			}
			if r := f.Transact(take(f, "b"), f.version, f.first, time.Minute); r.Outcome != fdb.Refused || r.Reason != fdb.DecisionFailed || holder() != "a" {
				t.Error(r, holder())
			}
			f.Advance(2 * time.Minute)
			f.Inject(sim.Fault{Kind: sim.FaultCommitUnknown})
			if r := f.Transact(take(f, "b"), f.version, f.first, time.Minute); r.Outcome != fdb.Unknown || holder() != "b" {
				t.Error(r, holder())
			}
			f.Advance(2 * time.Minute)
			conflicts := 0
			d := fdb.NewDialogue([]fdb.Range{fdb.SingleKey(keys.Global())}, func(fdb.Values) ([]fdb.Write, error) {
				if conflicts++; conflicts == 1 {
					f.write(keys.Global(), fdb.EncodeLock(lock.Record{Owner: "c", Start: f.Now(), End: f.Now()}))
				}
				return []fdb.Write{fdb.Set(keys.Global(), fdb.EncodeLock(lock.Record{Owner: "d", Start: f.Now(), End: f.Now()}))}, nil
			})
			if r := f.Transact(d, f.version, f.first, time.Minute); r.Outcome != fdb.Ok || conflicts != 2 || holder() != "d" {
				t.Error(r, conflicts, holder())
			}
			for _, name := range []string{"log-1", "log-2", "log-3"} {
				f.Cut(name, true)
			}
			f.Advance(5 * time.Second)
			if r := f.Transact(take(f, "e"), f.version, f.first, time.Minute); r.Outcome == fdb.Ok {
				t.Error(r)
			}
		})
	}
}

// TestSession: what an interactive fdbcli prints.
func TestSession(t *testing.T) {
	f := sample(t, sim.Options{Seed: 1})
	s := f.Session(f.version, f.first)
	if out, _, prompt := s.Read(); !prompt || out != "Using cluster file `/var/fdb/data/fdb.cluster'.\n\nWelcome to the fdbcli. For help, type `help'.\n" {
		t.Error(out, prompt)
	}
	for _, tt := range []struct{ line, out, err string }{
		{"get a", "`a': not found\n", ""},
		{"set a 1", "", "ERROR: writemode must be enabled to set or clear keys in the database.\n"},
		{"writemode on", "", ""},
		{"set a \\x00\\xff\"b c\"", "Committed (*)\n", ""},
		{"get a", "`a' is `\\x00\\xffb c'\n", ""},
		{"begin", "Transaction started\n", ""},
		{"set \\xff\\x02/x 1", "Rolling back current transaction\n", "ERROR: Key outside legal range (2004)\n"},
		{"begin", "Transaction started\n", ""},
		{"begin", "", "ERROR: Already in transaction\n"},
		{"option on ACCESS_SYSTEM_KEYS", "Option enabled for current transaction\n", ""},
		{"set \\xff\\x02/x 1", "", ""},
		{"commit", "Committed (*)\n", ""},
		{"commit", "", "ERROR: No active transaction\n"},
		{"begin", "Transaction started\n", ""},
		{"commit", "Nothing to commit\n", ""},
		{"getrange a b", "\nRange limited to 25 keys\n`a' is `\\x00\\xffb c'\n\n", ""},
		{"getrangekeys a b 1", "\nRange limited to 1 keys\n`a'\n\n", ""},
		{"get \\u0061", "`a' is `\\x00\\xffb c'\n", ""},
		{"get \\u01ff", "", "ERROR: Command failed to completely parse.\n"},
		{"clear a; get a", ">>> clear a\nCommitted (*)\n>>> get a\n`a': not found\n", ""},
		{"set \"a", "", "ERROR: Command failed to completely parse.\n"},
		{"frobnicate", "", "ERROR: Unknown command `frobnicate'. Try `help'?\n"},
	} {
		s.Send(tt.line)
		f.Advance(time.Second)
		out, errText, prompt := s.Read()
		if !prompt || committedVersion.ReplaceAllString(out, "Committed (*)") != tt.out || errText != tt.err {
			t.Errorf("%s: %q and %q, want %q and %q", tt.line, out, errText, tt.out, tt.err)
		}
	}
	s.Send("exit")
	if !s.Ended() {
		t.Error("not ended")
	}
}
