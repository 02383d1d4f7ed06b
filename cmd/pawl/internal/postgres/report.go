package postgres

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow/runstore"
)

// The limits of a report.
const (
	reportRuns    = 20      // the newest
	reportHistory = 1000    // events of each
	reportLog     = 4 << 20 // bytes of each instance's log, the newest
)

// Contents is the list of what is in a report.
type Contents struct {
	Cluster string       `json:"cluster"`
	At      time.Time    `json:"at"`
	Pawl    string       `json:"pawl"`
	Note    string       `json:"note"`
	Files   []ReportFile `json:"files"`
}

// ReportFile is a file of a report.
type ReportFile struct {
	Name  string `json:"name"`
	What  string `json:"what"`
	Bytes int    `json:"bytes"`
	Error string `json:"error,omitempty"` // why it is not there, or not whole

	text []byte
}

const reportNote = "Passwords, tokens, keys, statements and rows are left out: of messages about sessions only time, level, SQLSTATE and whose they are. Names of databases, users, programs, nodes and addresses are in it."

func (a verbs) reportCommand() *cobra.Command {
	var file string
	since := 24 * time.Hour
	cmd := a.verb("report CLUSTER", "Write what somebody needs who is to help: objects, runs, logs, statistics; no secrets, no rows",
		"  pawl pg report orders\n  pawl pg report orders --file orders.tar.gz --since 1h\n  pawl pg report orders --file - | tar tz", cobra.ExactArgs(1),
		func(ctx context.Context, _ *cobra.Command, c *cluster, _ []string) error {
			return a.report(ctx, c, file, since)
		})
	cmd.Long = `Writes a tar.gz with the object, its runs and their history, on Kubernetes pods and Events,
the log of each instance and of the cluster manager, and of each instance the settings that
are no defaults, statistics and metrics. contents.json lists what is in it, and what could
not be read.

` + wrapped(reportNote) + `

Look into it before you pass it on.`
	cmd.Flags().StringVar(&file, "file", "", "`file` to write, - for standard output (default CLUSTER-DATE.tar.gz)")
	cmd.Flags().DurationVar(&since, "since", since, "logs that are not older than this `time`")
	_ = cmd.MarkFlagFilename("file", "gz", "tgz")
	return cmd
}

// wrapped breaks a text for help.
func wrapped(text string) string {
	var b strings.Builder
	width := 0
	for word := range strings.FieldsSeq(text) {
		if width > 0 && width+1+len(word) > 92 {
			b.WriteString("\n")
			width = 0
		}
		if width > 0 {
			b.WriteString(" ")
			width++
		}
		b.WriteString(word)
		width += len(word)
	}
	return b.String()
}

func (a verbs) report(ctx context.Context, c *cluster, file string, since time.Duration) error {
	if file == "" {
		file = c.object.Name + "-" + c.now().UTC().Format("20060102-150405") + ".tar.gz"
	}
	secrets, err := c.host.secrets(ctx)
	if err != nil {
		a.Hint("pawl: the secrets of the cluster cannot be read, and only what looks like one is left out: %s", fault.Message(err))
	}
	contents := c.collect(ctx, newRedactor(secrets), since)
	contents.Pawl = a.VersionText()
	packed, err := contents.pack()
	if err != nil {
		return err
	}
	if file == "-" {
		_, err := a.Out.Write(packed)
		return err
	}
	if err := os.WriteFile(file, packed, 0o600); err != nil {
		return cli.FileWrong.Errorf("%w", err)
	}
	for _, f := range contents.Files {
		if f.Error != "" {
			a.Hint("pawl: %s: %s", f.Name, f.Error)
		}
	}
	return a.Emit(contents, []string{file}, func() string {
		return fmt.Sprintf("%s: %s, %s\n%s\n", file, cli.CountText(len(contents.Files), "file"), bytesText(int64(len(packed))), contents.Note)
	})
}

// collect reads everything. What cannot be read is told in its place.
func (c *cluster) collect(ctx context.Context, r redactor, since time.Duration) Contents {
	at := c.now().UTC().Truncate(time.Second)
	all := Contents{Cluster: c.text(), At: at, Note: reportNote}
	add := func(name, what string, text []byte, err error) {
		f := ReportFile{Name: name, What: what, text: r.text(text)}
		if f.Bytes = len(f.text); err != nil {
			f.Error = string(r.text([]byte(strings.Join(strings.Fields(fault.Message(err)), " "))))
		}
		all.Files = append(all.Files, f)
	}
	addJSON := func(name, what string, v any, err error) {
		text, encodeErr := json.MarshalIndent(v, "", "  ")
		if err == nil {
			err = encodeErr
		}
		add(name, what, append(text, '\n'), err)
	}
	object := c.object.Copy()
	delete(object.Annotations, "kubectl.kubernetes.io/last-applied-configuration") // the spec once more
	addJSON("object.json", "the object: spec and status", object, nil)
	s := c.look(ctx)
	add("status.txt", "pawl pg status", []byte(s.Text(at, view.Style{})), nil)
	runs, err := c.runs(ctx)
	addJSON("runs.json", "the newest runs with their steps", runs, err)
	for _, run := range runs {
		events, err := c.backend.History(ctx, run.ID, max(0, run.Seq-reportHistory), reportHistory)
		addJSON("history/"+view.Short(run.ID)+".json", "what happened in run "+run.ID+", "+run.Flow, events, err)
	}
	more, err := c.host.more(ctx)
	for _, name := range slices.Sorted(maps.Keys(more)) {
		addJSON(name, strings.TrimSuffix(name, ".json")+" of the cluster", more[name], err)
	}
	options := logOptions{since: since}
	for _, i := range c.instances() {
		text, err := logText(ctx, c.host.sources(i), options, at)
		add(path.Join("logs", i.Name+".jsonl"), "the log of instance "+i.id+", engine and agent", text, err)
	}
	sources, err := c.host.manager(ctx)
	var text []byte
	if err == nil {
		text, err = logText(ctx, sources, options, at)
	}
	add("logs/manager.jsonl", "the log of the cluster manager", text, err)
	for _, i := range c.instances() {
		for _, q := range reportQueries {
			var answer json.RawMessage
			err := c.query(ctx, i, q.sql, &answer)
			addJSON(path.Join(q.folder, i.Name+".json"), q.what+" of instance "+i.id, answer, err)
		}
		text, err := c.host.metrics(ctx, i)
		add(path.Join("metrics", i.Name+".txt"), "what instance "+i.id+" tells Prometheus, without queries of users", withoutCustom(text), err)
	}
	return all
}

func (c *cluster) runs(ctx context.Context) ([]view.Run, error) {
	subject := c.object.Kind + "/" + c.text()
	if kind, _, found := strings.Cut(c.object.Kind, "."); found {
		subject = kind + "/" + c.text()
	}
	runs := []view.Run{}
	for _, s := range []string{subject + "/" + c.object.UID, subject} {
		page, err := c.backend.List(ctx, runstore.Query{Subject: s, Limit: reportRuns})
		if err != nil {
			return runs, err
		}
		runs = append(runs, page.Items...)
	}
	runs = runs[:min(reportRuns, len(runs))]
	for i := range runs {
		if whole, err := c.backend.Run(ctx, runs[i].ID); err == nil { // with its steps; it may have been removed by now
			runs[i] = whole
		}
	}
	return runs, nil
}

// logText returns the newest part of a log, without rows.
func logText(ctx context.Context, sources []source, o logOptions, now time.Time) ([]byte, error) {
	var text []byte
	var failed error
	err := readLogs(ctx, sources, o, func(e entry) error {
		if o.since > 0 && e.at.Before(now.Add(-o.since)) {
			return nil
		}
		text = append(append(text, withoutRows(e.line)...), '\n')
		if len(text) > 2*reportLog {
			text = newest(text)
		}
		return nil
	}, func(_ source, err error) { failed = err })
	if err == nil {
		err = failed
	}
	return newest(text), err
}

// newest returns the last whole lines.
func newest(text []byte) []byte {
	if len(text) <= reportLog {
		return text
	}
	text = text[len(text)-reportLog:]
	return bytes.Clone(text[bytes.IndexByte(text, '\n')+1:])
}

// pack writes the archive, in one folder, with the list of its files first.
func (c Contents) pack() ([]byte, error) {
	list, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return nil, err
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	t := tar.NewWriter(z)
	folder := strings.ReplaceAll(c.Cluster, "/", "-")
	for _, f := range append([]ReportFile{{Name: "contents.json", text: append(list, '\n')}}, c.Files...) {
		if err := t.WriteHeader(&tar.Header{Name: path.Join(folder, f.Name), Mode: 0o600, Size: int64(len(f.text)), ModTime: c.At}); err != nil {
			return nil, err
		}
		if _, err := t.Write(f.text); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(t.Close(), z.Close()); err != nil {
		return nil, err
	}
	return packed.Bytes(), nil
}
