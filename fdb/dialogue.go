package fdb

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/fdb/internal/cli"
	"github.com/pawl-dev/pawl/fdb/internal/texts"
)

// Prompt is what an interactive fdbcli prints when it waits for a line. With TERM=dumb and a terminal on
// its standard input alone it prints nothing else for the terminal's sake, and flushes its output before
// (linenoise in fdbcli/linenoise/linenoise.c at 7.1.67, contrib/linenoise/linenoise.c at 7.3.69 and 7.4.6).
// It needs a HOME of its own, since it keeps the lines in $HOME/.fdbcli_history.
const Prompt = "fdb> "

const (
	maxAttempts = 5     // of a transaction that conflicts
	maxRows     = 10000 // of a range
)

// Dialogue is one transaction through an interactive fdbcli (the process of Transaction):
//
//	d := fdb.NewDialogue(read, decide)
//	for {
//		stdout, stderr := … // what was printed up to the next Prompt, without it
//		line, last := d.Next(stdout, stderr)
//		…                   // line is written to the process, which ends after the last one
//	}
//	d.Ended() // whenever the process has ended
//	return d.Result()
//
// It begins a transaction with access to system keys that also a locked database accepts, as
// FoundationDB's own commands do; reads; lets decide judge; writes and commits. A conflict begins it
// anew. decide is pure and may be called again; without writes nothing is committed. Every answer must
// be one that was foreseen: before the commit anything else is Refused, since nothing was written;
// from then on it is Unknown, and the world must be read again.
type Dialogue struct {
	read   []Range
	decide func(Values) ([]Write, error)

	state    dialogueState
	attempts int
	sent     string // the last line
	reads    int    // ranges read in this attempt
	values   Values
	writes   []string // lines still to be sent
	over     bool
	result   Result
}

type dialogueState int

const (
	dialogueStart dialogueState = iota
	dialogueWriteMode
	dialogueBegin
	dialogueAccess
	dialogueLockAware
	dialogueRead
	dialogueWrite
	dialogueCommit
)

// NewDialogue makes a Dialogue that reads ranges and writes what decide returns.
func NewDialogue(read []Range, decide func(Values) ([]Write, error)) *Dialogue {
	d := &Dialogue{decide: decide}
	for _, r := range read {
		if r.Begin < r.End {
			d.read = append(d.read, r)
		}
	}
	return d
}

// Next takes what the process has printed since the last line, and returns the next one. last: the
// process ends after it.
func (d *Dialogue) Next(stdout, stderr string) (line string, last bool) {
	if !d.over {
		d.sent = d.next(lines(stdout, d.sent), stderr)
	}
	if d.over {
		return "exit", true
	}
	return d.sent, false
}

// Ended tells that the process has ended, whether it was asked to or not.
func (d *Dialogue) Ended() {
	if !d.over {
		d.fail(ToolEnded, "")
	}
}

// Result is what came of it. It is Unknown until the dialogue is over.
func (d *Dialogue) Result() Result { return d.result }

// next reads the answer to the line of this state and returns the line of the next one.
func (d *Dialogue) next(stdout []string, stderr string) string {
	if code, failed := d.failure(stderr); failed {
		return d.retry(code, stderr)
	}
	switch d.state {
	case dialogueStart:
		if !welcome(stdout) {
			return d.unforeseen(stdout)
		}
		return d.send(dialogueWriteMode, "writemode on")
	case dialogueWriteMode:
		if len(stdout) > 0 {
			return d.unforeseen(stdout)
		}
		return d.begin()
	case dialogueBegin:
		if !slices.Equal(stdout, []string{"Transaction started"}) {
			return d.unforeseen(stdout)
		}
		return d.send(dialogueAccess, "option on ACCESS_SYSTEM_KEYS")
	case dialogueAccess, dialogueLockAware:
		if !slices.Equal(stdout, []string{"Option enabled for current transaction"}) {
			return d.unforeseen(stdout)
		}
		if d.state == dialogueAccess {
			return d.send(dialogueLockAware, "option on LOCK_AWARE")
		}
		return d.readNext()
	case dialogueRead:
		if reason := d.take(stdout); reason != "" {
			return d.fail(reason, strings.Join(stdout, " "))
		}
		d.reads++
		return d.readNext()
	case dialogueWrite:
		if len(stdout) > 0 {
			d.state = dialogueCommit // whatever it was, it may have been written
			return d.unforeseen(stdout)
		}
		return d.writeNext()
	default:
		if len(stdout) != 1 || !committed.MatchString(stdout[0]) {
			return d.unforeseen(stdout)
		}
		return d.end(Result{Outcome: Ok})
	}
}

func (d *Dialogue) send(state dialogueState, line string) string {
	d.state = state
	return line
}

func (d *Dialogue) begin() string {
	d.attempts++
	d.reads, d.values, d.writes = 0, nil, nil
	return d.send(dialogueBegin, "begin")
}

func (d *Dialogue) readNext() string {
	if d.reads == len(d.read) {
		return d.judge()
	}
	r := d.read[d.reads]
	words := []string{"getrange", r.Begin, r.End, strconv.Itoa(maxRows)}
	if key, single := r.key(); single {
		words = []string{"get", key}
	}
	line := cli.Join(words)
	if len(line) > maxDialogueLine {
		return d.fail(TransactionTooLarge, "a key is too long to be read")
	}
	return d.send(dialogueRead, line)
}

// judge calls decide and prepares all lines before the first is sent.
func (d *Dialogue) judge() string {
	slices.SortFunc(d.values, func(a, b KeyValue) int { return cmp.Compare(a.Key, b.Key) })
	d.values = slices.CompactFunc(d.values, func(a, b KeyValue) bool { return a.Key == b.Key })
	writes, err := d.decide(slices.Clone(d.values))
	if err != nil {
		return d.fail(DecisionFailed, err.Error())
	}
	for _, w := range writes {
		line := w.line()
		if len(line) > maxDialogueLine {
			return d.fail(TransactionTooLarge, "a value is too long to be written")
		}
		if line != "" {
			d.writes = append(d.writes, line)
		}
	}
	if len(d.writes) == 0 {
		return d.end(Result{Outcome: Ok, Reason: NoChange})
	}
	return d.writeNext()
}

func (d *Dialogue) writeNext() string {
	if len(d.writes) == 0 {
		return d.send(dialogueCommit, "commit")
	}
	line := d.writes[0]
	d.writes = d.writes[1:]
	return d.send(dialogueWrite, line)
}

// line is the command that does the write; empty for a range without keys.
func (w Write) line() string {
	switch {
	case w.Set != nil:
		return cli.Join([]string{"set", w.Set.Key, string(w.Set.Value)})
	case w.Clear == nil || w.Clear.Begin >= w.Clear.End:
		return ""
	}
	if key, single := w.Clear.key(); single {
		return cli.Join([]string{"clear", key})
	}
	return cli.Join([]string{"clearrange", w.Clear.Begin, w.Clear.End})
}

// Error codes of FoundationDB (fdb_error_predicate in bindings/c/fdb_c.cpp at 7.3.69): what a whole
// retry may mend, since nothing was committed. 1039, that the protocol of the cluster has changed, may
// have committed; before the commit it is like the others.
var retriedCodes = []int{
	1020, // not_committed: a conflict
	1007, // transaction_too_old
	1009, // future_version
	1037, // process_behind
	1042, // commit_proxy_memory_limit_exceeded
	1078, // grv_proxy_memory_limit_exceeded
	1051, // batch_transaction_throttled
	1213, // tag_throttled
	1223, // proxy_tag_throttled
}

const clusterVersionChanged = 1039

// retry begins anew if that can help.
func (d *Dialogue) retry(code int, stderr string) string {
	again := slices.Contains(retriedCodes, code)
	switch {
	case !again && (code != clusterVersionChanged || d.state == dialogueCommit):
		return d.fail(TransactionFailed, stderr)
	case d.attempts >= maxAttempts:
		return d.end(Result{Outcome: Refused, Reason: TransactionConflict, Text: clipped(stderr)})
	default:
		return d.begin()
	}
}

// toolError is how fdbcli prints an error of FoundationDB; within a transaction it rolls back then
// (the end of cli in fdbcli/fdbcli.actor.cpp at 7.1.67, 7.3.69 and 7.4.6).
var toolError = regexp.MustCompile(`^ERROR: .* \(([0-9]+)\)$`)

// failure finds an error in what was printed on stderr. code is 0 where it has none.
func (d *Dialogue) failure(stderr string) (code int, failed bool) {
	for _, line := range lines(stderr, "") {
		match := toolError.FindStringSubmatch(line)
		if failed || match == nil || d.state < dialogueAccess {
			return 0, true
		}
		code, _ = strconv.Atoi(match[1])
		failed = true
	}
	return code, failed
}

func (d *Dialogue) unforeseen(stdout []string) string {
	return d.fail(TransactionFailed, strings.Join(stdout, " "))
}

// fail ends the dialogue: nothing was written unless the commit was sent.
func (d *Dialogue) fail(reason Reason, printed string) string {
	if d.state == dialogueCommit {
		return d.end(Result{Reason: CommitUnknown, Text: clipped(printed)})
	}
	return d.end(Result{Outcome: Refused, Reason: reason, Text: clipped(printed)})
}

func (d *Dialogue) end(r Result) string {
	d.over, d.result = true, r
	return ""
}

// The answers of fdbcli to get, getrange and commit (fdbcli/fdbcli.actor.cpp at 7.1.67, 7.3.69 and
// 7.4.6).
var (
	committed = regexp.MustCompile(`^Committed \([0-9]+\)$`)
	limited   = fmt.Sprintf("Range limited to %d keys", maxRows)
)

// take reads the answer to a get or a getrange.
func (d *Dialogue) take(stdout []string) Reason {
	r := d.read[d.reads]
	if key, single := r.key(); single {
		if len(stdout) != 1 {
			return TransactionFailed
		}
		if stdout[0] == "`"+cli.Printable(key)+"': not found" {
			return ""
		}
		kv, ok := keyValue(stdout[0], r)
		if !ok {
			return TransactionFailed
		}
		d.values = append(d.values, kv)
		return ""
	}
	if len(stdout) == 0 || stdout[0] != limited {
		return TransactionFailed
	}
	if len(stdout) > maxRows {
		return TransactionTooLarge
	}
	last := ""
	for i, line := range stdout[1:] {
		kv, ok := keyValue(line, r)
		if !ok || i > 0 && kv.Key <= last {
			return TransactionFailed
		}
		last = kv.Key
		d.values = append(d.values, kv)
	}
	return ""
}

// keyValue reads `KEY' is `VALUE'. What stands between the quotes may hold the same text, so the key
// must lie in the range, and there must be one way only to read the line.
func keyValue(line string, r Range) (kv KeyValue, ok bool) {
	const between = "' is `"
	inner, isLine := strings.CutPrefix(line, "`")
	inner, isWhole := strings.CutSuffix(inner, "'")
	if !isLine || !isWhole {
		return kv, false
	}
	for at := 0; ; at++ {
		next := strings.Index(inner[at:], between)
		if next < 0 {
			return kv, ok
		}
		at += next
		key, keyOK := cli.Unprintable(inner[:at])
		value, valueOK := cli.Unprintable(inner[at+len(between):])
		if keyOK && valueOK && r.Contains(string(key)) {
			if ok {
				return kv, false
			}
			kv, ok = KeyValue{Key: string(key), Value: value}, true
		}
	}
}

// lines are the lines of an answer, without the line that a terminal repeats, without empty ones, and
// without what fdbcli says besides when it takes long.
func lines(output, sent string) (list []string) {
	for line := range strings.FieldsFuncSeq(output, func(c rune) bool { return c == '\n' || c == '\r' }) {
		if line == sent && len(list) == 0 || strings.TrimSpace(line) == "" || texts.IsBeside(line) {
			continue
		}
		list = append(list, line)
	}
	return list
}

// welcome reports whether these lines are what fdbcli prints before its first prompt.
func welcome(stdout []string) bool {
	return len(stdout) > 0 && stdout[len(stdout)-1] == "Welcome to the fdbcli. For help, type `help'." &&
		!slices.ContainsFunc(stdout[:len(stdout)-1], func(line string) bool { return !strings.HasPrefix(line, "Using cluster file `") })
}

// Range is a range of keys: from Begin up to End, without End.
type Range struct {
	Begin string `json:"begin"`
	End   string `json:"end"`
}

// SingleKey is the range of one key.
func SingleKey(key string) Range { return Range{Begin: key, End: key + "\x00"} }

// PrefixRange is the range of all keys with a prefix. A prefix of nothing but 0xff bytes has no end: its
// range is empty.
func PrefixRange(prefix string) Range {
	end := []byte(prefix)
	for len(end) > 0 && end[len(end)-1] == 0xff {
		end = end[:len(end)-1]
	}
	if len(end) == 0 {
		return Range{Begin: prefix, End: prefix}
	}
	end[len(end)-1]++
	return Range{Begin: prefix, End: string(end)}
}

// Contains reports whether a key lies in the range.
func (r Range) Contains(key string) bool { return key >= r.Begin && key < r.End }

// key is the key of a range of one key.
func (r Range) key() (string, bool) { return r.Begin, r.End == r.Begin+"\x00" }

// KeyValue is a key and its value.
type KeyValue struct {
	Key   string
	Value []byte
}

// Values are what a transaction has read, in the order of keys.
type Values []KeyValue

// Get returns the value of a key that was read.
func (v Values) Get(key string) ([]byte, bool) {
	i, ok := slices.BinarySearchFunc(v, key, func(kv KeyValue, key string) int { return cmp.Compare(kv.Key, key) })
	if !ok {
		return nil, false
	}
	return v[i].Value, true
}

// In returns what was read of a range.
func (v Values) In(r Range) Values {
	begin, _ := slices.BinarySearchFunc(v, r.Begin, func(kv KeyValue, key string) int { return cmp.Compare(kv.Key, key) })
	end, _ := slices.BinarySearchFunc(v, r.End, func(kv KeyValue, key string) int { return cmp.Compare(kv.Key, key) })
	return v[begin:max(begin, end)]
}

// Write changes keys at the end of a transaction.
type Write struct {
	Set   *KeyValue // sets a key
	Clear *Range    // clears a range; SingleKey for one key
}

// Set writes a key.
func Set(key string, value []byte) Write { return Write{Set: &KeyValue{Key: key, Value: value}} }

// Clear removes the keys of a range.
func Clear(r Range) Write { return Write{Clear: &r} }
