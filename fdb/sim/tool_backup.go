package sim

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/fdb"
)

// backupCommand runs one command of fdbbackup or fdbrestore: it waits for the database, unless the
// command needs none, and does something.
func (r *Running) backupCommand(commands map[string]func() int, alone ...string) {
	word := ""
	if len(r.run.Argv) > 0 {
		word = r.run.Argv[0]
	}
	do := commands[word]
	if do == nil {
		fmt.Fprintf(&r.err, "ERROR: Unsupported backup action %s\nTry `fdbbackup --help' for more information.\n", word)
		r.end(1)
		return
	}
	m := r.misbehave(word)
	if r.ended || m == hangs {
		return
	}
	needs := len(alone) == 0 || alone[0] != word
	reached := func() (time.Duration, bool) {
		return time.Second, !needs || r.c.clientView(r.run.Connection, r.run.Version).cluster && r.c.Available()
	}
	r.until(r.c.options.Times.Command, reached, func() { r.finish(m, do()) })
}

// fatal ends a command with an error, as stopAfter of flow/include/flow/genericactors.actor.h prints it.
func (r *Running) fatal(lines string, what string) int {
	r.err.WriteString(lines + "Fatal Error: " + what + "\n")
	return 1
}

// store returns what is at a URL, or ends the command. make: it is created.
func (r *Running) store(url string, create bool) (found *container, problem string) {
	switch {
	case !strings.HasPrefix(url, "blobstore://") && !strings.HasPrefix(url, "file:///"):
		return nil, "Backup Container URL invalid"
	case r.c.faults.active(FaultWrongCredentials) != nil:
		return nil, "HTTP request failed due to bad credentials"
	case r.c.faults.active(FaultStoreRefuses) != nil:
		return nil, "HTTP response code not received or indicated failure"
	}
	found = r.c.backups.container(url, create)
	if found == nil {
		return nil, "Backup does not exist"
	}
	return found, ""
}

// fdbbackup runs fdbbackup. Source of its texts: foundationdb 7.1.67, 7.3.69 and 7.4.6,
// fdbbackup/backup.actor.cpp.
func (r *Running) fdbbackup() {
	value := func(names ...string) string {
		text, _ := option(r.run.Argv, names...)
		return text
	}
	tag := cmp.Or(value("-t", "--tagname"), fdb.DefaultBackupTag)
	url := value("-d", "--destcontainer")
	has := func(word string) bool {
		for _, own := range r.run.Argv {
			if own == word {
				return true
			}
		}
		return false
	}
	for _, word := range r.run.Argv {
		if !r.knows(word) {
			fmt.Fprintf(&r.err, "ERROR: unknown option `%s'\nTry `fdbbackup --help' for more information.\n", word)
			r.end(1)
			return
		}
	}
	r.backupCommand(map[string]func() int{
		"start": func() int {
			period, err := strconv.Atoi(cmp.Or(value("-s", "--snapshot_interval", "--snapshot-interval"), "864000"))
			if err != nil {
				return r.fatal("", "Backup error")
			}
			return r.startBackup(backup{
				tag: tag, url: url, period: period, stopWhenDone: !has("-z") && !has("--no-stop-when-done"),
				partitioned: has("--partitioned-log-experimental") || value("--mutation-log-type") != "",
			})
		},
		"status": func() int {
			r.out.WriteString(r.c.backups.status(tag) + "\n")
			return 0
		},
		"discontinue": func() int { return r.discontinue(tag) },
		"abort": func() int {
			b := r.c.backups.tagged(tag)
			if b == nil || !b.state.Running() {
				return r.fatal(fmt.Sprintf("ERROR: A backup was not running on tag `%s'\n", tag), "Backup unneeded request")
			}
			r.c.backups.abort(b)
			fmt.Fprintf(&r.out, "The backup on tag `%s' was successfully aborted.\n", tag)
			return 0
		},
		"pause":  func() int { return r.pause(true) },
		"resume": func() int { return r.pause(false) },
		"modify": func() int { return r.modify(tag, url, value("-s", "--snapshot_interval", "--snapshot-interval")) },
		"delete": func() int { return r.deleteBackup(url) },
	}, "delete")
}

// knows tells whether the tool knows an option. modify knows the encryption key from 7.3.72 and 7.4.6 on, the others
// always; --mutation-log-type is of none of these lines up to 7.4.6.
func (r *Running) knows(word string) bool {
	switch name, _, _ := strings.Cut(word, "="); name {
	case "--encryption-key-file", "--encryption_key_file":
		return r.run.Argv[0] != "modify" || r.run.Version.Has(fdb.FeatureBackupEncryption)
	case "--mutation-log-type", "--mutation_log_type":
		return r.run.Version.Has(fdb.FeatureMutationLogType)
	case "--timeout":
		return false
	}
	return true
}

func (r *Running) startBackup(b backup) int {
	if old := r.c.backups.tagged(b.tag); old != nil && old.state.Running() {
		return r.fatal(fmt.Sprintf("ERROR: A backup is already running on tag `%s'\n", b.tag), "Backup error")
	}
	if _, problem := r.store(b.url, true); problem != "" {
		return r.fatal(fmt.Sprintf("ERROR: Could not create backup container: %s\nERROR: An error was encountered during submission\n", problem), "Backup error")
	}
	r.c.backups.start(b)
	if r.c.backups.work() {
		fmt.Fprintf(&r.out, "The backup on tag `%s' was successfully submitted.\n", b.tag)
	} else {
		fmt.Fprintf(&r.out, "The backup on tag `%s' was successfully submitted but no backup agents are responding.\n", b.tag)
	}
	return 0
}

func (r *Running) discontinue(tag string) int {
	b := r.c.backups.tagged(tag)
	switch {
	case b == nil || !b.state.Running():
		return r.fatal(fmt.Sprintf("ERROR: A backup in not running on tag `%s'\n", tag), "Backup unneeded request")
	case b.stopWhenDone:
		return r.fatal(fmt.Sprintf("ERROR: The backup on tag `%s' is already discontinued\n", tag), "Backup duplicate request")
	}
	r.c.backups.discontinue(b)
	fmt.Fprintf(&r.out, "The backup on tag `%s' was successfully discontinued.\n", tag)
	return 0
}

func (r *Running) pause(paused bool) int {
	r.c.backups.pause(paused)
	fmt.Fprintf(&r.out, "All backup agents have been %s.\n", map[bool]string{true: "paused", false: "resumed"}[paused])
	return 0
}

func (r *Running) modify(tag, url, period string) int {
	if url != "" {
		if _, problem := r.store(url, true); problem != "" {
			return r.fatal(fmt.Sprintf("ERROR: Could not create backup container at '%s': %s\n", url, problem), "Backup error")
		}
	}
	b := r.c.backups.tagged(tag)
	switch {
	case b == nil:
		return r.fatal(fmt.Sprintf("No backup exists on tag '%s'\n", tag), "Backup error")
	case b.state == fdb.BackupAborted:
		return r.fatal(fmt.Sprintf("Cannot modify aborted backup on tag '%s'\n", tag), "Backup error")
	case !b.state.Running():
		return r.fatal(fmt.Sprintf("Backup on tag '%s' is not runnable.\n", tag), "Backup error")
	}
	r.c.judge.effect()
	if seconds, err := strconv.Atoi(period); err == nil {
		b.period = seconds
	}
	b.url = cmp.Or(url, b.url)
	r.c.say("backup %s: every %d s to %s", tag, b.period, fdb.WithoutSecret(b.url))
	return 0
}

func (r *Running) deleteBackup(url string) int {
	found, problem := r.store(url, false)
	if problem != "" {
		return r.fatal("ERROR: "+problem+"\n", problem)
	}
	objects := len(found.snapshots) + len(found.log)
	delete(r.c.backups.containers, containerKey(url))
	r.c.judge.effect()
	fmt.Fprintf(&r.out, "Deleting %s...\n\r%d objects deleted\nThe entire container has been deleted.\n", url, objects)
	return 0
}

// status is what fdbbackup status --json prints. Source: foundationdb 7.3.69,
// fdbclient/FileBackupAgent.actor.cpp, getStatusJSON.
func (bs *backups) status(tag string) string {
	d := &document{}
	b := bs.tagged(tag)
	d.object("", func() {
		d.text("SchemaVersion", "1.0.0")
		d.truth("BackupAgentsPaused", bs.paused)
		d.text("Tag", tag)
		if b == nil {
			return
		}
		d.text("UID", b.uid)
		d.object("Status", func() {
			d.text("Name", string(b.state))
			d.text("Description", stateText(b.state))
			d.truth("Completed", b.state == fdb.BackupCompleted)
			d.truth("Running", b.state.Running())
		})
		first, last, ok := bs.restorableTo(bs.container(b.url, true))
		d.truth("Restorable", ok && b.restorable)
		if ok && b.restorable {
			d.object("LatestRestorablePoint", func() {
				d.whole("Version", max(first, last))
				d.number("EpochSeconds", float64(bs.c.Now().Unix()))
				d.text("Timestamp", bs.c.Now().Format("2006/01/02.15:04:05+0000"))
				if b.state != fdb.BackupCompleted {
					d.number("LagSeconds", float64(bs.c.version()-last)/1e6)
				}
			})
		}
		d.text("DestinationURL", fdb.WithoutSecret(b.url))
		if b.state == fdb.BackupRunning || b.state == fdb.BackupDifferential {
			d.truth("StopAfterSnapshot", b.stopWhenDone)
			d.whole("SnapshotIntervalSeconds", int64(b.period))
			d.whole("LogBytesWritten", 4096)
			d.whole("RangeBytesWritten", 8192)
			d.object("CurrentSnapshot", func() {
				d.object("Begin", func() { d.whole("Version", b.begun) })
			})
		}
		d.list("Errors", func() {})
	})
	return string(d.bytes)
}
