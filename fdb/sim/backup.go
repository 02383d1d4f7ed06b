package sim

import (
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/fdb"
)

// How long the parts of a backup take while agents work.
const (
	agentReaction = 2 * time.Second // until an agent takes a task
	logLag        = 5_000_000       // versions by which the backed-up log is behind
)

// backups are the backups of a database, its agents, and what the blob store holds.
type backups struct {
	c          *Cluster
	agents     int
	paused     bool
	tags       []*backup
	containers map[string]*container // by URL without parameters
}

// backup is what a tag stands for: its last backup.
type backup struct {
	tag, uid, url string
	state         fdb.BackupState
	period        int
	stopWhenDone  bool
	partitioned   bool
	begun         int64 // version
	logEnd        int64 // as far as agents had written when they stopped
	restorable    bool
	waits         bool // for agents
	serial        int
}

// container is what was written to one URL.
type container struct {
	url       string
	snapshots []snapshot
	log       []logged
	logEnd    int64
}

// snapshot is all keys at a version; it can be restored from its end on.
type snapshot struct {
	version, end int64 // end 0: not complete
	keys         []fdb.KeyValue
}

// logged are the writes of one commit.
type logged struct {
	version int64
	writes  []fdb.Write
}

// SetAgents says how many backup agents run.
func (bs *backups) SetAgents(count int) {
	bs.freezeLogs()
	bs.agents = count
	bs.c.say("%d backup agents", count)
	bs.goOn()
}

// Stores tells whether there is a backup at a URL.
func (bs *backups) Stores(url string) bool { return bs.container(url, false) != nil }

// work tells whether agents do something.
func (bs *backups) work() bool {
	return bs.agents > 0 && !bs.paused && bs.c.faults.active(FaultNoAgents) == nil
}

// pause pauses all agents, for all tags, or has them go on.
func (bs *backups) pause(paused bool) {
	bs.freezeLogs()
	bs.paused = paused
	bs.c.judge.effect()
	bs.c.say("backup agents are %s", map[bool]string{true: "paused", false: "resumed"}[paused])
	bs.goOn()
}

// freezeLogs remembers how far agents have come, before they stop.
func (bs *backups) freezeLogs() {
	for _, b := range bs.tags {
		b.logEnd = bs.logEndOf(b)
	}
}

// goOn has everything that waits for agents go on.
func (bs *backups) goOn() {
	if !bs.work() {
		return
	}
	for _, b := range bs.tags {
		if b.waits {
			b.waits = false
			bs.later(b, agentReaction)
		}
	}
	for _, r := range bs.c.restores.tags {
		if r.waits {
			r.waits = false
			bs.c.restores.later(r, agentReaction)
		}
	}
}

// logEndOf returns up to which version the log of a backup is written.
func (bs *backups) logEndOf(b *backup) int64 {
	if !b.state.Running() || b.state == fdb.BackupSubmitted || !bs.work() {
		return b.logEnd
	}
	return max(b.logEnd, b.begun, bs.c.version()-logLag)
}

// tagged returns the backup of a tag; nil if there never was one.
func (bs *backups) tagged(tag string) *backup {
	at := slices.IndexFunc(bs.tags, func(b *backup) bool { return b.tag == tag })
	if at < 0 {
		return nil
	}
	return bs.tags[at]
}

// container returns what was written to a URL, a new one if there is none and it may be made.
func (bs *backups) container(url string, create bool) *container {
	key := containerKey(url)
	found := bs.containers[key]
	if found == nil && create {
		found = &container{url: fdb.WithoutSecret(url)}
		bs.containers[key] = found
	}
	return found
}

// containerKey names what a URL leads to: its parameters but the bucket say only how.
func containerKey(url string) string {
	plain, query, _ := strings.Cut(fdb.WithoutSecret(url), "?")
	for parameter := range strings.SplitSeq(query, "&") {
		if strings.HasPrefix(parameter, "bucket=") {
			plain += "?" + parameter
		}
	}
	return plain
}

// start submits a backup; its tag is free.
func (bs *backups) start(b backup) {
	bs.c.judge.effect()
	b.uid, b.state = bs.c.word(hexadecimal, 32), fdb.BackupSubmitted
	b.begun = bs.c.version()
	bs.tags = slices.DeleteFunc(bs.tags, func(old *backup) bool { return old.tag == b.tag })
	bs.tags = append(bs.tags, &b)
	slices.SortFunc(bs.tags, func(x, y *backup) int { return strings.Compare(x.tag, y.tag) })
	bs.container(b.url, true)
	bs.c.say("backup %s to %s", b.tag, fdb.WithoutSecret(b.url))
	bs.later(&b, agentReaction)
}

// later has a backup take its next step, once agents work.
func (bs *backups) later(b *backup, wait time.Duration) {
	b.serial++
	serial := b.serial
	bs.c.clock.after(wait, func() {
		switch {
		case b.serial != serial:
		case !bs.work() || !bs.c.Available():
			b.waits = true
			bs.c.clock.after(time.Minute, bs.goOn)
		default:
			bs.step(b)
		}
	})
}

func (bs *backups) step(b *backup) {
	to := bs.container(b.url, true)
	switch b.state {
	case fdb.BackupSubmitted:
		b.state = fdb.BackupRunning
		b.begun = bs.c.version()
		bs.snapshot(b, to)
	case fdb.BackupRunning:
		if len(to.snapshots) == 0 { // the container was deleted meanwhile
			bs.snapshot(b, to)
			return
		}
		to.snapshots[len(to.snapshots)-1].end = bs.c.version()
		b.restorable = true
		b.state = fdb.BackupDifferential
		bs.c.say("backup %s can be restored", b.tag)
		if b.stopWhenDone {
			bs.later(b, agentReaction)
		}
	case fdb.BackupDifferential:
		if b.stopWhenDone {
			b.logEnd = bs.c.version()
			to.logEnd = max(to.logEnd, b.logEnd)
			b.state = fdb.BackupCompleted
			bs.c.say("backup %s is complete", b.tag)
		}
	}
}

// snapshot begins to write all keys.
func (bs *backups) snapshot(b *backup, to *container) {
	to.snapshots = append(to.snapshots, snapshot{version: bs.c.keys.last, keys: bs.c.keys.all()})
	bs.later(b, bs.c.around(bs.c.options.Times.Snapshot))
}

// discontinue lets a backup end at its next restorable version.
func (bs *backups) discontinue(b *backup) {
	bs.c.judge.effect()
	b.stopWhenDone = true
	bs.c.say("backup %s is discontinued", b.tag)
	if b.state == fdb.BackupDifferential {
		bs.later(b, agentReaction)
	}
}

// abort ends a backup at once.
func (bs *backups) abort(b *backup) {
	bs.c.judge.effect()
	b.logEnd = bs.logEndOf(b)
	to := bs.container(b.url, true)
	to.logEnd = max(to.logEnd, b.logEnd)
	b.state = fdb.BackupAborted
	b.serial++
	bs.c.say("backup %s is aborted", b.tag)
}

// record adds the writes of a commit to the logs of backups that run.
func (bs *backups) record(version int64, writes []fdb.Write) {
	for i, b := range bs.tags {
		if b.state != fdb.BackupRunning && b.state != fdb.BackupDifferential ||
			slices.ContainsFunc(bs.tags[:i], func(other *backup) bool { return other.url == b.url && other.state.Running() }) {
			continue
		}
		to := bs.container(b.url, true)
		to.log = append(to.log, logged{version, slices.Clone(writes)})
	}
}

// restorableTo returns the first and the last version that can be restored.
func (bs *backups) restorableTo(from *container) (first, last int64, ok bool) {
	for _, s := range from.snapshots {
		if s.end > 0 && (!ok || s.end < first) {
			first, ok = s.end, true
		}
	}
	last = from.logEnd
	for _, b := range bs.tags {
		if containerKey(b.url) == containerKey(from.url) {
			last = max(last, bs.logEndOf(b))
		}
	}
	return first, last, ok && last >= first
}

// contents returns the keys at a version.
func (from *container) contents(version int64) []fdb.KeyValue {
	keys := map[string][]byte{}
	var base int64
	for _, s := range from.snapshots {
		if s.end > 0 && s.end <= version {
			base = s.version
			keys = map[string][]byte{}
			for _, kv := range s.keys {
				keys[kv.Key] = kv.Value
			}
		}
	}
	for _, entry := range from.log {
		if entry.version <= base || entry.version > version {
			continue
		}
		for _, w := range entry.writes {
			if w.Set != nil {
				keys[w.Set.Key] = w.Set.Value
				continue
			}
			for key := range keys {
				if w.Clear.Contains(key) {
					delete(keys, key)
				}
			}
		}
	}
	var list []fdb.KeyValue
	for key, value := range keys {
		list = append(list, fdb.KeyValue{Key: key, Value: value})
	}
	slices.SortFunc(list, func(a, b fdb.KeyValue) int { return strings.Compare(a.Key, b.Key) })
	return list
}

// all returns all keys of users as they are now.
func (k *keySpace) all() []fdb.KeyValue {
	var list []fdb.KeyValue
	for _, key := range k.between(fdb.Range{End: "\xff"}) {
		if value, present := k.at(key, 1<<62); present {
			list = append(list, fdb.KeyValue{Key: key, Value: value})
		}
	}
	return list
}

// writeLayer writes the part of the status that backup agents write.
func (bs *backups) writeLayer(s *statusWriter) {
	if bs.agents == 0 {
		return
	}
	s.object("backup", func() {
		s.whole("instances_running", int64(bs.agents))
		s.truth("paused", bs.paused)
		s.object("tags", func() {
			for _, one := range bs.tags {
				s.object(one.tag, func() {
					s.text("current_container", fdb.WithoutSecret(one.url))
					s.text("current_status", stateText(one.state))
					s.truth("running_backup", one.state.Running())
					s.truth("running_backup_is_restorable", one.restorable)
				})
			}
		})
	})
}

// stateText describes the state of a backup. Source: foundationdb 7.3.69,
// fdbclient/BackupAgentBase.actor.cpp, getStateText.
func stateText(s fdb.BackupState) string {
	switch s {
	case fdb.BackupSubmitted:
		return "has been submitted"
	case fdb.BackupRunning:
		return "has been started"
	case fdb.BackupDifferential:
		return "is differential"
	case fdb.BackupCompleted:
		return "has been completed"
	case fdb.BackupAborted:
		return "has been aborted"
	default:
		return "<undefined>"
	}
}
