package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/fdb"
)

// restores are the restores into a database.
type restores struct {
	c    *Cluster
	tags []*restore
}

// restore is what a tag stands for: its last restore. It locks the database from its beginning to its
// end.
type restore struct {
	tag, uid, url string
	state         fdb.RestoreState
	version       int64
	ranges        []fdb.Range
	keys          []fdb.KeyValue
	written       int
	waits         bool
	serial        int
}

// tagged returns the restore of a tag; nil if there never was one.
func (rs *restores) tagged(tag string) *restore {
	at := slices.IndexFunc(rs.tags, func(r *restore) bool { return r.tag == tag })
	if at < 0 {
		return nil
	}
	return rs.tags[at]
}

// start submits a restore, or returns why it cannot be. Source: foundationdb 7.3.69,
// fdbclient/FileBackupAgent.actor.cpp, submitRestore, in its order.
func (rs *restores) start(r restore, from *container) (refused string) {
	if old := rs.tagged(r.tag); old != nil && old.state.Running() {
		return "Restore duplicate request"
	}
	for _, wanted := range r.ranges {
		for _, key := range rs.c.keys.between(wanted) {
			if _, present := rs.c.keys.at(key, 1<<62); present {
				return "Attempted to restore into a non-empty destination database"
			}
		}
	}
	if rs.c.keys.locked != "" {
		return ErrLocked.Text
	}
	rs.c.judge.effect()
	r.uid, r.state = rs.c.word(hexadecimal, 32), fdb.RestoreQueued
	for _, kv := range from.contents(r.version) {
		if slices.ContainsFunc(r.ranges, func(wanted fdb.Range) bool { return wanted.Contains(kv.Key) }) {
			r.keys = append(r.keys, kv)
		}
	}
	rs.tags = slices.DeleteFunc(rs.tags, func(old *restore) bool { return old.tag == r.tag })
	rs.tags = append(rs.tags, &r)
	slices.SortFunc(rs.tags, func(x, y *restore) int { return strings.Compare(x.tag, y.tag) })
	rs.c.keys.locked = r.uid
	rs.c.say("restore %s to version %d, %d keys", r.tag, r.version, len(r.keys))
	rs.later(&r, agentReaction)
	return ""
}

// later has a restore take its next step, once agents work.
func (rs *restores) later(r *restore, wait time.Duration) {
	r.serial++
	serial := r.serial
	rs.c.clock.after(wait, func() {
		switch {
		case r.serial != serial:
		case !rs.c.backups.work() || !rs.c.Available():
			r.waits = true
			rs.c.clock.after(time.Minute, rs.c.backups.goOn)
		default:
			rs.step(r)
		}
	})
}

func (rs *restores) step(r *restore) {
	switch r.state {
	case fdb.RestoreQueued:
		r.state = fdb.RestoreStarting
		rs.later(r, agentReaction)
	case fdb.RestoreStarting:
		r.state = fdb.RestoreRunning
		rs.write(r, len(r.keys)/2)
		rs.later(r, rs.c.around(rs.c.options.Times.Restore))
	case fdb.RestoreRunning:
		rs.write(r, len(r.keys))
		r.state = fdb.RestoreCompleted
		rs.unlock(r)
		rs.c.say("restore %s is complete", r.tag)
	}
}

// write writes keys up to a number.
func (rs *restores) write(r *restore, count int) {
	version := max(rs.c.version(), rs.c.keys.last+1, rs.c.keys.read+1)
	rs.c.keys.last = version
	for ; r.written < count; r.written++ {
		kv := r.keys[r.written]
		rs.c.keys.put(kv.Key, cell{version, kv.Value, true})
		rs.c.keys.recent = append(rs.c.keys.recent, written{version, fdb.SingleKey(kv.Key)})
	}
}

func (rs *restores) unlock(r *restore) {
	if rs.c.keys.locked == r.uid {
		rs.c.keys.locked = ""
	}
}

// abort ends a restore and unlocks the database; what was written stays.
func (rs *restores) abort(r *restore) {
	rs.c.judge.effect()
	r.state = fdb.RestoreAborted
	r.serial++
	rs.unlock(r)
	rs.c.say("restore %s is aborted", r.tag)
}

// restoreText is the text of a state. Source: foundationdb 7.3.69, fdbclient/FileBackupAgent.actor.cpp,
// restoreStateText, with its spelling.
func restoreText(s fdb.RestoreState) string {
	if s == fdb.RestoreUninitialized || s == "" {
		return "unitialized"
	}
	return string(s)
}

// line is what fdbrestore status prints of a restore. Source: foundationdb 7.3.69,
// fdbclient/FileBackupAgent.actor.cpp, getProgress_impl and getFullStatus_impl.
func (r restore) line() string {
	blocks := len(r.keys) / 10
	done := r.written / 10
	if r.state == fdb.RestoreCompleted {
		done = blocks
	}
	uid := r.uid
	if uid == "" {
		uid = strings.Repeat("0", 32)
	}
	text := fmt.Sprintf("Tag: %s  UID: %s  State: %s  Blocks: %d/%d  BlocksInProgress: 0  Files: %d  BytesWritten: %d  CurrentVersion: %d FirstConsistentVersion: %d  ApplyVersionLag: 0  LastError: None  URL: %s",
		r.tag, uid, restoreText(r.state), done, blocks, min(1, len(r.keys)), r.written*16, r.version, r.version, r.url)
	for _, wanted := range r.ranges {
		text += fmt.Sprintf("  Range: '%s'-'%s'", printable(wanted.Begin), printable(wanted.End))
	}
	return text + "  AddPrefix: ''  RemovePrefix: ''  Version: " + fmt.Sprint(r.version)
}
