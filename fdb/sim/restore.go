package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/fdb"
)

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

// restoring returns the restore of a tag; nil if there never was one.
func (c *Cluster) restoring(tag string) *restore {
	at := slices.IndexFunc(c.backups.restores, func(r *restore) bool { return r.tag == tag })
	if at < 0 {
		return nil
	}
	return c.backups.restores[at]
}

// startRestore submits a restore, or returns why it cannot be. Source: foundationdb 7.3.69,
// fdbclient/FileBackupAgent.actor.cpp, submitRestore, in its order.
func (c *Cluster) startRestore(r restore, from *container) (refused string) {
	if old := c.restoring(r.tag); old != nil && old.state.Running() {
		return "Restore duplicate request"
	}
	for _, wanted := range r.ranges {
		for _, key := range c.keys.between(wanted) {
			if _, present := c.keys.at(key, 1<<62); present {
				return "Attempted to restore into a non-empty destination database"
			}
		}
	}
	if c.keys.locked != "" {
		return ErrLocked.Text
	}
	c.judgeEffect()
	r.uid, r.state = c.word(hexadecimal, 32), fdb.RestoreQueued
	for _, kv := range from.contents(r.version) {
		if slices.ContainsFunc(r.ranges, func(wanted fdb.Range) bool { return wanted.Contains(kv.Key) }) {
			r.keys = append(r.keys, kv)
		}
	}
	c.backups.restores = slices.DeleteFunc(c.backups.restores, func(old *restore) bool { return old.tag == r.tag })
	c.backups.restores = append(c.backups.restores, &r)
	slices.SortFunc(c.backups.restores, func(x, y *restore) int { return strings.Compare(x.tag, y.tag) })
	c.keys.locked = r.uid
	c.say("restore %s to version %d, %d keys", r.tag, r.version, len(r.keys))
	c.restoreLater(&r, agentReaction)
	return ""
}

// restoreLater has a restore take its next step, once agents work.
func (c *Cluster) restoreLater(r *restore, wait time.Duration) {
	r.serial++
	serial := r.serial
	c.clock.after(wait, func() {
		switch {
		case r.serial != serial:
		case !c.agentsWork() || !c.Available():
			r.waits = true
			c.clock.after(time.Minute, c.goOn)
		default:
			c.stepRestore(r)
		}
	})
}

func (c *Cluster) stepRestore(r *restore) {
	switch r.state {
	case fdb.RestoreQueued:
		r.state = fdb.RestoreStarting
		c.restoreLater(r, agentReaction)
	case fdb.RestoreStarting:
		r.state = fdb.RestoreRunning
		c.writeRestored(r, len(r.keys)/2)
		c.restoreLater(r, c.around(c.options.Times.Restore))
	case fdb.RestoreRunning:
		c.writeRestored(r, len(r.keys))
		r.state = fdb.RestoreCompleted
		c.unlock(r)
		c.say("restore %s is complete", r.tag)
	}
}

// writeRestored writes keys up to a number.
func (c *Cluster) writeRestored(r *restore, count int) {
	version := max(c.version(), c.keys.last+1, c.keys.read+1)
	c.keys.last = version
	for ; r.written < count; r.written++ {
		kv := r.keys[r.written]
		c.keys.put(kv.Key, cell{version, kv.Value, true})
		c.keys.recent = append(c.keys.recent, written{version, fdb.SingleKey(kv.Key)})
	}
}

func (c *Cluster) unlock(r *restore) {
	if c.keys.locked == r.uid {
		c.keys.locked = ""
	}
}

// abortRestore ends a restore and unlocks the database; what was written stays.
func (c *Cluster) abortRestore(r *restore) {
	c.judgeEffect()
	r.state = fdb.RestoreAborted
	r.serial++
	c.unlock(r)
	c.say("restore %s is aborted", r.tag)
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
