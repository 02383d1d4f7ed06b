package sim

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/fdb"
)

// fdbrestore runs fdbrestore. Source of its texts: foundationdb 7.1.67, 7.3.69 and 7.4.6,
// fdbbackup/backup.actor.cpp, and fdbclient/BackupContainer.actor.cpp.
func (r *Running) fdbrestore() {
	value := func(names ...string) string {
		text, _ := option(r.run.Argv, names...)
		return text
	}
	tag := value("-t", "--tagname")
	for _, word := range r.run.Argv {
		if !r.knows(word) {
			fmt.Fprintf(&r.err, "ERROR: unknown option `%s'\nTry `fdbrestore --help' for more information.\n", word)
			r.end(1)
			return
		}
	}
	if value("--dest_cluster_file", "--dest-cluster-file") == "" && len(r.run.Argv) > 0 {
		r.err.WriteString("Restore destination cluster file must be specified explicitly.\n")
		r.end(1)
		return
	}
	r.backupCommand(map[string]func() int{
		"start": func() int {
			return r.startRestore(restore{tag: tag, url: value("-r"), ranges: keyRanges(value("-k", "--keys"))}, value("-v", "--version"))
		},
		"status": func() int {
			if tag == "" {
				for _, one := range r.c.restores.tags {
					r.out.WriteString(one.line() + "\n\n")
				}
			} else if one := r.c.restores.tagged(tag); one != nil {
				r.out.WriteString(one.line() + "\n\n")
			} else {
				r.out.WriteString(restore{}.line() + "\n\n")
			}
			r.out.WriteString("\n")
			return 0
		},
		"abort": func() int {
			one := r.c.restores.tagged(tag)
			state := fdb.RestoreUninitialized
			if one != nil {
				if one.state.Running() {
					r.c.restores.abort(one)
				}
				state = one.state
			}
			fmt.Fprintf(&r.out, "RESTORE_ABORT Tag: %s  State: %s\n", tag, restoreText(state))
			return 0
		},
	})
}

func (r *Running) startRestore(want restore, version string) int {
	from, problem := r.store(want.url, false)
	if problem != "" {
		return r.fatal("ERROR: "+problem+"\n", problem)
	}
	first, last, ok := r.c.backups.restorableTo(from)
	if version == "" {
		r.out.WriteString("No restore target version given, will use maximum restorable version from backup description.\n")
		if !ok {
			return r.fatal("The specified backup is not restorable to any version.\nERROR: Restore error\n", "Restore error")
		}
		want.version = last
		word := "Ussing"
		if r.run.Version.Short() == "7.4" {
			word = "Using"
		}
		fmt.Fprintf(&r.out, "%s target restore version %d\n", word, last)
	} else {
		n, err := strconv.ParseInt(version, 10, 64)
		if err != nil {
			return r.fatal("", "Restore error")
		}
		want.version = n
	}
	fmt.Fprintf(&r.out, "Backup Description\nURL: %s\nRestorable: %t\nPartitioned logs: false\n", fdb.WithoutSecret(want.url), ok)
	if r.run.Version.Short() == "7.4" {
		r.out.WriteString("File-level encryption: false\n")
	}
	r.out.WriteString("SnapshotBytes: 8192\n")
	if ok {
		fmt.Fprintf(&r.out, "MinRestorableVersion:    %d (maxLogEnd -0.00 days)\nMaxRestorableVersion:    %d (maxLogEnd -0.00 days)\n", first, last)
	}
	r.out.WriteString("\n")
	if !ok || want.version < first || want.version > last {
		return r.fatal(fmt.Sprintf("ERROR: Restore version %d is not possible from %s\nERROR: Invalid restore version\n", want.version, fdb.WithoutSecret(want.url)), "Invalid restore version")
	}
	if refused := r.c.restores.start(want, from); refused != "" {
		return r.fatal("ERROR: "+refused+"\n", refused)
	}
	fmt.Fprintf(&r.out, "Restoring backup to version: %d\n", want.version)
	return 0
}

// keyRanges reads "a b;c d"; empty means everything.
func keyRanges(text string) []fdb.Range {
	if text == "" {
		return []fdb.Range{{End: "\xff"}}
	}
	var ranges []fdb.Range
	for part := range strings.SplitSeq(text, ";") {
		begin, end, _ := strings.Cut(strings.TrimSpace(part), " ")
		ranges = append(ranges, fdb.Range{Begin: unprintable(begin), End: unprintable(strings.TrimSpace(end))})
	}
	return ranges
}

// unprintable reads a key in which \xNN stands for a byte.
func unprintable(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' {
			if decoded, size := unescape(text[i:]); size > 0 {
				b.WriteByte(decoded)
				i += size - 1
				continue
			}
		}
		b.WriteByte(text[i])
	}
	return b.String()
}
