package sim

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/fdb"
)

// readWindow is how old a read version may be, in versions: 5 s. Source: foundationdb 7.3.69,
// fdbclient/ServerKnobs.cpp, MAX_READ_TRANSACTION_LIFE_VERSIONS.
const readWindow = 5_000_000

// Error is an error of a transaction, with the number and the text of flow/error_definitions.h at
// 7.1.67, 7.3.69 and 7.4.6.
type Error struct {
	Code int
	Text string
}

// Error returns the text with the code, as fdbcli prints it.
func (e *Error) Error() string { return fmt.Sprintf("%s (%d)", e.Text, e.Code) }

// The errors of transactions. ErrBlocked is none of FoundationDB's: it says that the call goes on
// waiting, because the database is not available.
var (
	ErrTooOld       = &Error{1007, "Transaction is too old to perform reads or be committed"}
	ErrNotCommitted = &Error{1020, "Transaction not committed due to conflict with another transaction"}
	ErrUnknown      = &Error{1021, "Transaction may or may not have committed"}
	ErrLocked       = &Error{1038, "Database is locked"}
	ErrOutOfRange   = &Error{2004, "Key outside legal range"}
	ErrBlocked      = &Error{0, "the database is not available"}
)

// cell is a value of a key since a version.
type cell struct {
	version int64
	value   []byte
	present bool
}

// written is a range that a transaction has written.
type written struct {
	version int64
	keys    fdb.Range
}

// keySpace holds keys with their versions of the last seconds.
type keySpace struct {
	c      *Cluster
	cells  map[string][]cell
	sorted []string  // keys that are or were there
	recent []written // for conflicts
	floor  int64     // older read versions are too old: the last recovery
	locked string    // the id of the lock; empty: not locked
	last   int64     // version of the last commit
	read   int64     // the newest read version; commits are newer, also at the same time
	lost   []string  // keys that were in lost shards
}

// shardOf returns the shard of a key; the system's own are in the first one.
func shardOf(key string, shards int) int {
	if strings.HasPrefix(key, "\xff") || shards == 0 {
		return 0
	}
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(key))
	return int(hash.Sum32()) % shards
}

// at returns the value of a key at a version.
func (k *keySpace) at(key string, version int64) ([]byte, bool) {
	cells := k.cells[key]
	for i := len(cells) - 1; i >= 0; i-- {
		if cells[i].version <= version {
			return cells[i].value, cells[i].present
		}
	}
	return nil, false
}

// put writes a cell and forgets those that nobody can read any more.
func (k *keySpace) put(key string, next cell) {
	cells := k.cells[key]
	if cells == nil {
		at, _ := slices.BinarySearch(k.sorted, key)
		k.sorted = slices.Insert(k.sorted, at, key)
	}
	for len(cells) > 1 && cells[1].version < next.version-readWindow {
		cells = cells[1:]
	}
	k.cells[key] = append(cells, next)
}

// between returns the keys of a range that are or were there.
func (k *keySpace) between(r fdb.Range) []string {
	begin, _ := slices.BinarySearch(k.sorted, r.Begin)
	end, _ := slices.BinarySearch(k.sorted, r.End)
	return k.sorted[begin:max(begin, end)]
}

// touch records a write of the management interface, for conflicts.
func (k *keySpace) touch(prefix string) {
	k.last = max(k.c.version(), k.last+1, k.read+1)
	k.recent = append(k.recent, written{k.last, fdb.PrefixRange(prefix)})
}

// recovered makes older read versions invalid.
func (k *keySpace) recovered(version int64) {
	k.floor, k.recent = max(version, k.last+1, k.read+1), nil
}

// loseShard forgets the keys of a shard.
func (k *keySpace) loseShard(number, shards int) {
	for _, key := range k.sorted {
		if shardOf(key, shards) == number {
			if _, present := k.at(key, 1<<62); present {
				k.lost = append(k.lost, key)
			}
			delete(k.cells, key)
		}
	}
	k.sorted = slices.DeleteFunc(k.sorted, func(key string) bool { return k.cells[key] == nil })
}

// Transaction reads at one version and writes everything at once.
type Transaction struct {
	LockAware bool // it goes on while the database is locked

	c      *Cluster
	begun  bool
	read   int64
	reads  []fdb.Range
	writes []fdb.Write
}

// Transaction returns a new transaction; its first read takes its version.
func (c *Cluster) Transaction() *Transaction { return &Transaction{c: c} }

// start takes the read version.
func (t *Transaction) start() error {
	k := &t.c.keys
	switch {
	case t.begun:
		if t.read < k.floor || t.c.version()-t.read > readWindow {
			return ErrTooOld
		}
		return nil
	case !t.c.Available():
		return ErrBlocked
	case k.locked != "" && !t.LockAware:
		return ErrLocked
	}
	t.begun, t.read = true, max(t.c.version(), k.last, k.floor)
	k.read = max(k.read, t.read)
	return nil
}

// Get returns the value of a key. What the transaction has written itself counts.
func (t *Transaction) Get(key string) (value []byte, present bool, err error) {
	found, err := t.GetRange(fdb.SingleKey(key), 1)
	if err != nil || len(found) == 0 {
		return nil, false, err
	}
	return found[0].Value, true, nil
}

// GetRange returns up to limit keys of a range; 0 means all.
func (t *Transaction) GetRange(r fdb.Range, limit int) (fdb.Values, error) {
	if err := t.start(); err != nil {
		return nil, err
	}
	t.reads = append(t.reads, r)
	var found fdb.Values
	for _, key := range t.c.keys.between(r) {
		if t.c.data.unreadable(shardOf(key, len(t.c.data.shards))) {
			return nil, ErrBlocked
		}
		if value, present := t.c.keys.at(key, t.read); present {
			found = append(found, fdb.KeyValue{Key: key, Value: value})
		}
	}
	for _, w := range t.writes {
		switch {
		case w.Clear != nil:
			found = slices.DeleteFunc(found, func(kv fdb.KeyValue) bool { return w.Clear.Contains(kv.Key) })
		case r.Contains(w.Set.Key):
			found = slices.DeleteFunc(found, func(kv fdb.KeyValue) bool { return kv.Key == w.Set.Key })
			found = append(found, *w.Set)
		}
	}
	slices.SortFunc(found, func(a, b fdb.KeyValue) int { return cmp.Compare(a.Key, b.Key) })
	if limit > 0 && len(found) > limit {
		found = found[:limit]
	}
	return found, nil
}

// Write adds a write, which is done at the commit.
func (t *Transaction) Write(w fdb.Write) { t.writes = append(t.writes, w) }

// Commit does all writes, or none. It fails with ErrNotCommitted if another transaction has written what
// this one has read, and with ErrUnknown if it may have been done.
func (t *Transaction) Commit() error {
	if err := t.start(); err != nil {
		return err
	}
	if len(t.writes) == 0 {
		return nil
	}
	c, k := t.c, &t.c.keys
	if k.locked != "" && !t.LockAware {
		return ErrLocked
	}
	for _, w := range k.recent {
		if w.version > t.read && slices.ContainsFunc(t.reads, func(r fdb.Range) bool { return overlap(r, w.keys) }) {
			return ErrNotCommitted
		}
	}
	unknown := c.faults.take(FaultCommitUnknown)
	if unknown != nil && unknown.Before {
		return ErrUnknown
	}
	version := max(c.version(), k.last+1, k.read+1)
	k.last = version
	k.recent = slices.DeleteFunc(k.recent, func(w written) bool { return w.version < version-2*readWindow })
	for _, w := range t.writes {
		if w.Set != nil {
			k.put(w.Set.Key, cell{version, w.Set.Value, true})
			k.recent = append(k.recent, written{version, fdb.SingleKey(w.Set.Key)})
			continue
		}
		for _, key := range slices.Clone(k.between(*w.Clear)) {
			if _, present := k.at(key, version); present {
				k.put(key, cell{version, nil, false})
			}
		}
		k.recent = append(k.recent, written{version, *w.Clear})
	}
	c.backups.record(version, t.writes)
	if unknown != nil {
		return ErrUnknown
	}
	return nil
}

func overlap(a, b fdb.Range) bool { return a.Begin < b.End && b.Begin < a.End }

// unreadable tells whether no copy of a shard can be read.
func (d *data) unreadable(number int) bool {
	return number < len(d.shards) && !d.shards[number].lost && d.shards[number].liveCopies("", false) == 0
}
