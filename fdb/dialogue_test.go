package fdb

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/fdb/internal/cli"
	"github.com/pawl-dev/pawl/lock"
)

// shell is an fdbcli over keys in memory. It prints what fdbcli prints (fdbcli/fdbcli.actor.cpp at
// 7.3.69), and fails as it is told.
type shell struct {
	keys map[string]string

	fail  func(line string) (code int, applied bool) // of a line within a transaction; 0: it works
	odd   func(line string) (stdout string, ok bool) // another answer
	ends  int                                        // the process ends instead of answering this line; 0: never
	lines int

	writeMode, open bool
	writes          []func(map[string]string)
	log             strings.Builder
}

var errorTexts = map[int]string{
	1020: "Transaction not committed due to conflict with another transaction",
	1021: "Transaction may or may not have committed",
	1007: "Transaction is too old to perform reads or be committed",
	1031: "Operation aborted because the transaction timed out",
	1038: "Database is locked",
	1039: "The protocol version of the cluster has changed",
}

func (s *shell) do(line string) (stdout, stderr string) {
	commands, err := ParseCommands(line)
	if err != nil || len(commands) != 1 {
		return "", "ERROR: malformed escape sequence\n"
	}
	if s.odd != nil {
		if text, ok := s.odd(line); ok {
			return text, ""
		}
	}
	if s.fail != nil && s.open {
		if code, applied := s.fail(line); code != 0 {
			if applied {
				s.commit()
			}
			s.open, s.writes = false, nil
			return "Rolling back current transaction\n", fmt.Sprintf("ERROR: %s (%d)\n", errorTexts[code], code)
		}
	}
	words := commands[0]
	switch words[0] {
	case "writemode":
		s.writeMode = words[1] == "on"
		return "", ""
	case "begin":
		if s.open {
			return "", "ERROR: Already in transaction\n"
		}
		s.open, s.writes = true, nil
		return "Transaction started\n", ""
	case "option":
		return "Option enabled for current transaction\n", ""
	case "get":
		if value, ok := s.keys[words[1]]; ok {
			return fmt.Sprintf("`%s' is `%s'\n", cli.Printable(words[1]), cli.Printable(value)), ""
		}
		return fmt.Sprintf("`%s': not found\n", cli.Printable(words[1])), ""
	case "getrange":
		limit, _ := strconv.Atoi(words[3])
		var text strings.Builder
		fmt.Fprintf(&text, "\nRange limited to %d keys\n", limit)
		for _, key := range slices.Sorted(maps.Keys(s.keys)) {
			if (Range{Begin: words[1], End: words[2]}).Contains(key) && limit > 0 {
				fmt.Fprintf(&text, "`%s' is `%s'\n", cli.Printable(key), cli.Printable(s.keys[key]))
				limit--
			}
		}
		return text.String() + "\n", ""
	case "set", "clear", "clearrange":
		if !s.writeMode {
			return "", "ERROR: writemode must be enabled to set or clear keys in the database.\n"
		}
		s.writes = append(s.writes, func(keys map[string]string) {
			switch words[0] {
			case "set":
				keys[words[1]] = words[2]
			case "clear":
				delete(keys, words[1])
			default:
				maps.DeleteFunc(keys, func(key, _ string) bool { return Range{Begin: words[1], End: words[2]}.Contains(key) })
			}
		})
		if !s.open {
			s.commit()
			return "Committed (1)\n", ""
		}
		return "", ""
	case "commit":
		if !s.open {
			return "", "ERROR: No active transaction\n"
		}
		s.open = false
		s.commit()
		return "Committed (31415926)\n", ""
	default:
		return "", fmt.Sprintf("ERROR: Unknown command `%s'. Try `help'?\n", words[0])
	}
}

func (s *shell) commit() {
	for _, write := range s.writes {
		write(s.keys)
	}
	s.writes = nil
}

// talk runs a dialogue to its end and returns its transcript.
func (s *shell) talk(t interface{ Fatalf(string, ...any) }, d *Dialogue) string {
	stdout, stderr := "Using cluster file `/tmp/fdb.cluster'.\n\nWelcome to the fdbcli. For help, type `help'.\n", ""
	for {
		s.note("> ", stdout)
		s.note("! ", stderr)
		line, last := d.Next(stdout, stderr)
		s.note("< ", line)
		if last {
			d.Ended()
			s.note(": ", d.Result().String())
			return s.log.String()
		}
		if strings.ContainsAny(line, "\n\r\x00") || len(line) > maxDialogueLine {
			t.Fatalf("%q is no line", line)
		}
		if s.lines++; s.lines > 1000 {
			t.Fatalf("it does not end:\n%s", s.log.String())
		}
		if s.lines == s.ends {
			d.Ended()
			s.note(": ", d.Result().String())
			return s.log.String()
		}
		stdout, stderr = s.do(line)
	}
}

func (s *shell) note(mark, text string) {
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) != "" {
			s.log.WriteString(mark + strings.TrimRight(line, "\n") + "\n")
		}
	}
}

// takeLock is the transaction that takes the lock, as the operator uses it.
func takeLock(k LockKeys, owner string, now int64) ([]Range, func(Values) ([]Write, error)) {
	return []Range{SingleKey(k.Global()), k.DenyList()}, func(v Values) ([]Write, error) {
		value, _ := v.Get(k.Global())
		denied := func(owner string) bool {
			_, ok := v.Get(k.Denied(owner))
			return ok
		}
		decision := lock.Decide(unix(now), DecodeLock(value), owner, denied, 0)
		switch {
		case decision.Write && decision.Record != nil:
			return []Write{Set(k.Global(), EncodeLock(*decision.Record))}, nil
		case decision.Write:
			return []Write{Clear(SingleKey(k.Global()))}, nil
		default:
			return nil, decision.Err
		}
	}
}

func TestDialogues(t *testing.T) {
	k := Keys("")
	held := string(EncodeLock(lock.Record{Owner: "kc2", Start: unix(1700000000), End: unix(1700000600)}))
	var text strings.Builder
	for _, c := range []struct {
		name  string
		shell shell
		read  []Range
		then  func(Values) ([]Write, error)
	}{
		{name: "the lock is free"},
		{name: "another holds the lock", shell: shell{keys: map[string]string{k.Global(): held}}},
		{name: "its holder is denied", shell: shell{keys: map[string]string{k.Global(): held, k.Denied("kc2"): "kc2"}}},
		{name: "the lock cannot be read", shell: shell{keys: map[string]string{k.Global(): "?"}}},
		{name: "a conflict, then not", shell: shell{fail: failOnce("commit", 1020, false)}},
		{name: "a read that is too old, then not", shell: shell{fail: failOnce("getrange", 1007, false)}},
		{name: "conflicts without end", shell: shell{fail: failAlways("commit", 1020)}},
		{name: "a commit that may have happened", shell: shell{fail: failAlways("commit", 1021)}},
		{name: "the protocol changes at the commit", shell: shell{fail: failAlways("commit", 1039)}},
		{name: "the protocol changes before", shell: shell{fail: failOnce("get", 1039, false)}},
		{name: "a read fails", shell: shell{fail: failAlways("get", 1031)}},
		{name: "the process ends before the commit", shell: shell{ends: 6}},
		{name: "the process ends at the commit", shell: shell{ends: 8}},
		{name: "an answer that nobody has read before", shell: shell{odd: func(line string) (string, bool) { return "Transaction begun\n", line == "begin" }}},
		{name: "a write that commits by itself", shell: shell{odd: func(line string) (string, bool) { return "Committed (5)\n", strings.HasPrefix(line, "set ") }}},
		{name: "nothing to commit", shell: shell{odd: func(line string) (string, bool) { return "Nothing to commit\n", line == "commit" }}},
		{
			name:  "ranges, bytes and clears",
			shell: shell{keys: map[string]string{"a b": "1 2", "a\x00\xff": "'x`", "c": "\n\\"}},
			read:  []Range{{Begin: "a", End: "b"}, SingleKey("c"), SingleKey("missing"), {Begin: "z", End: "z"}},
			then: func(v Values) ([]Write, error) {
				return []Write{Set("empty", nil), Set("bytes", v[1].Value), Clear(PrefixRange("a")), Clear(SingleKey("c")), Clear(Range{})}, nil
			},
		},
	} {
		if c.read == nil {
			c.read, c.then = takeLock(k, "kc1", 1700000000)
		}
		if c.shell.keys == nil {
			c.shell.keys = map[string]string{}
		}
		fmt.Fprintf(&text, "# %s\n%s\n", c.name, c.shell.talk(t, NewDialogue(c.read, c.then)))
	}
	golden(t, "testdata/dialogues.txt", text.String())
}

// Flaws 1 and 14: a denied instance does not take a free lock, and whoever takes over an expired one
// begins anew.
func TestTheLockIsTakenByItsTable(t *testing.T) {
	const now = 1700000000
	k := Keys("")
	record := func(owner string, start, end int64) string {
		return string(EncodeLock(lock.Record{Owner: owner, Start: unix(start), End: unix(end)}))
	}
	for _, c := range []struct {
		name, held, want string
		denied           string
	}{
		{"free", "", record("kc1", now, now+600), ""},
		{"free, and kc1 is denied", "", "", "kc1"},
		{"own", record("kc1", now-60, now+60), record("kc1", now-60, now+600), ""},
		{"own, and kc1 is denied", record("kc1", now-60, now+60), "", "kc1"},
		{"own, expired", record("kc1", now-900, now), record("kc1", now, now+600), ""},
		{"another's", record("kc2", now-60, now+60), record("kc2", now-60, now+60), ""},
		{"another's, expired", record("kc2", now-900, now), record("kc1", now, now+600), ""},
		{"another's, who is denied", record("kc2", now-60, now+60), record("kc1", now, now+600), "kc2"},
		{"unreadable", "held", "held", ""},
	} {
		s := &shell{keys: map[string]string{}}
		if c.held != "" {
			s.keys[k.Global()] = c.held
		}
		if c.denied != "" {
			s.keys[k.Denied(c.denied)] = c.denied
		}
		s.talk(t, NewDialogue(takeLock(k, "kc1", now)))
		if got := s.keys[k.Global()]; got != c.want {
			t.Errorf("%s: %q instead of %q", c.name, got, c.want)
		}
	}
}

func failOnce(command string, code int, applied bool) func(string) (int, bool) {
	failed := false
	return func(line string) (int, bool) {
		if failed || strings.Fields(line)[0] != command {
			return 0, false
		}
		failed = true
		return code, applied
	}
}

func failAlways(command string, code int) func(string) (int, bool) {
	return func(line string) (int, bool) {
		if strings.Fields(line)[0] != command {
			return 0, false
		}
		return code, false
	}
}

// What a result says is true of the keys, whatever fails: Ok has written all, Refused nothing, and Unknown
// all or nothing.
func TestDialogueTellsTheTruth(t *testing.T) {
	outcomes := map[ResultOutcome]int{}
	key := rapid.SampledFrom([]string{"a", "a\x00", "a b", "aa", "b", "b' is `", "\xff\x02/x", "\xff\x02/y", "z\n", "\\x00", "c' is `c"})
	value := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "1", "2", "is", "'", "`", "' is `", "\x00;\"\\"}))
	rapid.Check(t, func(t *rapid.T) {
		before := rapid.MapOf(key, value).Draw(t, "keys")
		read := []Range{{Begin: "a", End: "c"}, SingleKey(key.Draw(t, "read")), PrefixRange("\xff\x02")}
		writes := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Write {
			k := key.Draw(t, "key")
			switch rapid.IntRange(0, 2).Draw(t, "kind") {
			case 0:
				return Set(k, []byte(value.Draw(t, "value")))
			case 1:
				return Clear(SingleKey(k))
			default:
				return Clear(Range{Begin: k, End: key.Draw(t, "end")})
			}
		}), 0, 4).Draw(t, "writes")
		after := maps.Clone(before)
		for _, w := range writes {
			if w.Set != nil {
				after[w.Set.Key] = string(w.Set.Value)
			} else {
				maps.DeleteFunc(after, func(key, _ string) bool { return w.Clear.Contains(key) })
			}
		}
		refuses := rapid.IntRange(0, 9).Draw(t, "refuses") == 0
		s := &shell{keys: maps.Clone(before), ends: rapid.SampledFrom([]int{0, 0, 0, rapid.IntRange(1, 20).Draw(t, "at")}).Draw(t, "ends")}
		commits := rapid.SliceOfN(rapid.SampledFrom([]int{0, 1020, 1021, 1007, 1031, 1038, 1039}), 0, 6).Draw(t, "commits")
		others := rapid.SliceOfN(rapid.SampledFrom(slices.Concat(make([]int, 30), []int{1007, 1020, 1031, 1039})), 0, 12).Draw(t, "others")
		next := func(codes *[]int) (code int) {
			if len(*codes) > 0 {
				code, *codes = (*codes)[0], (*codes)[1:]
			}
			return code
		}
		s.fail = func(line string) (int, bool) {
			if line != "commit" {
				return next(&others), false
			}
			code := next(&commits)
			return code, (code == 1021 || code == 1039) && rapid.Bool().Draw(t, "applied")
		}
		d := NewDialogue(read, func(v Values) ([]Write, error) {
			for _, kv := range v {
				if want, ok := before[kv.Key]; !ok || want != string(kv.Value) {
					t.Fatalf("%q is read as %q", kv.Key, kv.Value)
				}
			}
			for k := range before {
				if _, ok := v.Get(k); !ok && slices.ContainsFunc(read, func(r Range) bool { return r.Contains(k) }) {
					t.Fatalf("%q is not read", k)
				}
			}
			if refuses {
				return nil, errors.New("no")
			}
			return writes, nil
		})
		transcript := s.talk(t, d)
		outcomes[d.Result().Outcome]++
		switch got := d.Result(); {
		case got.Outcome == Ok && maps.Equal(s.keys, after) && !refuses:
		case got.Outcome == Refused && maps.Equal(s.keys, before):
		case got.Outcome == Unknown && (maps.Equal(s.keys, before) || maps.Equal(s.keys, after)) && strings.Contains(transcript, "< commit"):
		default:
			t.Fatalf("%s\nbefore %q\nafter  %q\nis     %q", transcript, before, after, s.keys)
		}
	})
	if outcomes[Ok] == 0 || outcomes[Refused] == 0 || outcomes[Unknown] == 0 {
		t.Errorf("not every outcome was tried: %v", outcomes)
	}
}

func TestDialogueLimits(t *testing.T) {
	long := strings.Repeat("x", maxDialogueLine)
	for name, c := range map[string]struct {
		read  []Range
		write Write
		want  Reason
	}{
		"a key that fits":          {[]Range{SingleKey(long[:maxDialogueLine-4])}, Set("a", nil), ""},
		"a key that does not":      {[]Range{SingleKey(long[:maxDialogueLine-3])}, Set("a", nil), TransactionTooLarge},
		"a value that fits":        {nil, Set("a", []byte(long[:maxDialogueLine-6])), ""},
		"a value that does not":    {nil, Set("a", []byte(long[:maxDialogueLine-5])), TransactionTooLarge},
		"bytes that take too much": {nil, Set("a", []byte(strings.Repeat("\x00", 1022))), ""},
		"one byte more":            {nil, Set("a", []byte(strings.Repeat("\x00", 1023))), TransactionTooLarge},
	} {
		s := &shell{keys: map[string]string{}}
		d := NewDialogue(c.read, func(Values) ([]Write, error) { return []Write{Set("first", nil), c.write}, nil })
		s.talk(t, d)
		if got := d.Result(); got.Reason != c.want || (got.Outcome == Ok) != (c.want == "") {
			t.Errorf("%s: %s", name, got)
		}
		if c.want != "" && len(s.keys) > 0 {
			t.Errorf("%s: %q is written", name, s.keys)
		}
	}
	rows := map[string]string{}
	for i := range maxRows {
		rows[fmt.Sprintf("a%06d", i)] = ""
	}
	for want, keys := range map[Outcome]map[string]string{{Refused, TransactionTooLarge}: maps.Clone(rows), {Ok, NoChange}: rows} {
		if want.ResultOutcome == Ok {
			delete(keys, "a000000")
		}
		d := NewDialogue([]Range{PrefixRange("a")}, func(v Values) ([]Write, error) { return nil, nil })
		(&shell{keys: keys}).talk(t, d)
		if got := d.Result(); got.Outcome != want.ResultOutcome || got.Reason != want.Reason {
			t.Errorf("%d rows: %s", len(keys), got)
		}
	}
}

// Outcome is what a test expects of a result.
type Outcome struct {
	ResultOutcome
	Reason
}

// A terminal that repeats lines, other line ends, and what fdbcli says when it takes long change nothing.
func TestDialogueReadsAroundTheAnswer(t *testing.T) {
	s := &shell{keys: map[string]string{"a": "1"}}
	d := NewDialogue([]Range{SingleKey("a")}, func(Values) ([]Write, error) { return []Write{Set("a", []byte("2"))}, nil })
	line, last := d.Next("Welcome to the fdbcli. For help, type `help'.\r\n", "")
	for !last {
		stdout, stderr := s.do(line)
		stdout = line + "\r\n" + strings.ReplaceAll(stdout, "\n", "\r\n") + "\r\nThe database is available.\r\n"
		line, last = d.Next(stdout, stderr+"\nWARNING: Long delay (Ctrl-C to interrupt)\n")
	}
	if got := d.Result(); got.Outcome != Ok || s.keys["a"] != "2" {
		t.Errorf("%s, %q", got, s.keys)
	}
	if line, last := d.Next("", ""); line != "exit" || !last {
		t.Errorf("after the end: %q, %t", line, last)
	}
}

func TestKeyValueLines(t *testing.T) {
	r := Range{Begin: "a", End: "b"}
	for line, want := range map[string]KeyValue{
		"`a' is `1'":                {"a", []byte("1")},
		"`a\\x00' is `\\xff\\\\'":   {"a\x00", []byte("\xff\\")},
		"`a' is `'":                 {"a", []byte{}},
		"`a''' is `'`'":             {"a''", []byte("'`")},
		"`' is `":                   {},
		"`b' is `1'":                {},
		"`a is `1'":                 {},
		"a' is `1'":                 {},
		"`a' is `1":                 {},
		"`a\\x0' is `1'":            {},
		"`a' is `x' is `y'":         {}, // the key is a, or a' is `x
		"`c' is `a' is `1'":         {}, // neither c nor c' is `a lies in the range
		"Range limited to 25 keys":  {},
		"`a': not found":            {},
		"`a' is `\x1b[0m'":          {},
		"`" + "a" + "' is `" + "é'": {},
	} {
		got, ok := keyValue(line, r)
		if ok != (want.Key != "") || ok && !cmp.Equal(got, want) {
			t.Errorf("%q: %q, %t", line, got, ok)
		}
	}
}

func FuzzDialogue(f *testing.F) {
	f.Add("Welcome to the fdbcli. For help, type `help'.\n", "", "Transaction started\n", "ERROR: x (1020)\n")
	f.Add("`a' is `1'\n", "ERROR: x (1021)\n", "Committed (1)\n", "")
	f.Fuzz(func(t *testing.T, out1, err1, out2, err2 string) {
		for skip := range 9 { // so many foreseen answers before
			s := &shell{keys: map[string]string{"a": "1"}}
			d := NewDialogue([]Range{{Begin: "a", End: "b"}}, func(Values) ([]Write, error) { return []Write{Set("a", []byte("2"))}, nil })
			stdout, stderr := "Welcome to the fdbcli. For help, type `help'.\n", ""
			committing := false
			for i := range 40 {
				switch {
				case i >= skip && i%2 == 0:
					stdout, stderr = out1, err1
				case i >= skip:
					stdout, stderr = out2, err2
				}
				line, last := d.Next(stdout, stderr)
				committing = committing || line == "commit"
				if last {
					break
				}
				stdout, stderr = s.do(line)
			}
			d.Ended()
			if got := d.Result(); got.Outcome == Ok && !committing {
				t.Fatalf("%s without a commit", got)
			}
		}
	})
}
