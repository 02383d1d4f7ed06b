package stores

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/backend"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/files"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/store/sql"
	"github.com/pawl-dev/pawl/store/sql/admin"
	"github.com/pawl-dev/pawl/store/sql/db/sqlite"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow/flowfile/classic"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

func (a verbs) storeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "store", Short: "Look after a store: check, back up, export, restore, rotate its key",
		Example: "  pawl store check\n  pawl store backup pawl-backup.db",
	}
	cmd.AddCommand(
		&cobra.Command{
			Use: "check", Short: "Read everything and report what is damaged; writes nothing",
			Example: "  pawl store check --dsn pawl.db -o json", Args: cobra.NoArgs,
			RunE: a.Verb(func(ctx context.Context, _ *cobra.Command, _ []string) error { return a.checkStore(ctx) }),
		},
		a.backupCommand(),
		&cobra.Command{
			Use: "export [FILE]", Short: "Write all runs with their history as JSON lines, damaged ones left out",
			Example: "  pawl store export runs.jsonl\n  pawl store export | gzip > runs.jsonl.gz", Args: cobra.MaximumNArgs(1),
			RunE: a.Verb(func(ctx context.Context, _ *cobra.Command, args []string) error { return a.exportStore(ctx, args) }),
		},
		a.restoreCommand(),
		a.rotateCommand(),
	)
	return cmd
}

// local refuses a verb that works only on the machine of the store.
func (a verbs) local(verb string) error {
	if a.Flags.Server != "" {
		return cli.LocalOnly.Errorf("pawl %s works on the store itself", verb)
	}
	return nil
}

// withStore opens the store for a maintenance verb.
func (a verbs) withStore(ctx context.Context, how cli.Access, do func(sql.Admin) error) (err error) {
	if err := a.local("store"); err != nil {
		return err
	}
	o := a.StoreOptions()
	o.Sealed = true
	store, err := backend.OpenStore(ctx, o, how == cli.Reads)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	admin, ok := store.Admin()
	if !ok {
		return cli.LocalOnly.Errorf("this is for SQLite stores; PostgreSQL has pg_dump and pg_restore, and memory keeps nothing")
	}
	return do(admin)
}

// inDatabase reports a store that is no file.
func (a verbs) inDatabase() bool {
	return a.Flags.Store == "postgres" || strings.HasPrefix(a.Flags.DSN, "postgres") || strings.Contains(a.Flags.DSN, "host=")
}

// readStore reads the whole store; a damaged file is read without opening it as a store.
func (a verbs) readStore(ctx context.Context) (where string, report admin.Report, err error) {
	if a.inDatabase() {
		err = a.withStore(ctx, cli.Reads, func(k sql.Admin) (err error) {
			report, err = k.Check(ctx)
			return err
		})
		return "the database", report, err
	}
	if where, err = a.sqliteFile(); err == nil {
		report, err = admin.CheckFile(ctx, where)
	}
	return where, report, err
}

// export writes the store as JSON lines.
func (a verbs) export(ctx context.Context, w io.Writer) error {
	if a.inDatabase() {
		return a.withStore(ctx, cli.Reads, func(k sql.Admin) error { return k.Export(ctx, w) })
	}
	path, err := a.sqliteFile()
	if err != nil {
		return err
	}
	return admin.ExportFile(ctx, path, w)
}

// sqliteFile is the file of the store, which must be there.
func (a verbs) sqliteFile() (string, error) {
	path := a.StoreOptions().Path()
	if _, err := os.Stat(path); err != nil {
		return "", cli.FileWrong.Errorf("the store: %w", err)
	}
	return path, nil
}

func (a verbs) checkStore(ctx context.Context) error {
	if err := a.local("store check"); err != nil {
		return err
	}
	path, report, err := a.readStore(ctx)
	if err != nil {
		return err
	}
	seals := a.reportKeys(report.Keys, a.StoreOptions())
	answer := struct {
		admin.Report
		Missing []string `json:"missingKeys,omitempty"` // of encryptedWith: not available
	}{report, seals.Missing}
	if err := a.Emit(answer, nil, func() string {
		var b strings.Builder
		for _, d := range report.Damage {
			where := "the file"
			if d.Run != "" {
				where = "run " + d.Run
			}
			fmt.Fprintf(&b, "%s: %s\n", where, d.What)
		}
		word := "healthy"
		if !report.Healthy {
			word = fmt.Sprintf("damaged in %s", cli.CountText(len(report.Damage), "place"))
		}
		fmt.Fprintf(&b, "%s: %s, %s, %s\n", path, cli.CountText(report.Runs, "run"), cli.CountText(report.Events, "event"), word)
		b.WriteString(seals.text(a.keySource(a.StoreOptions())))
		return b.String()
	}); err != nil {
		return err
	}
	if !report.Healthy {
		a.Hint("  remedy: %s", runstore.StoreCorrupt.Remedy)
		return cli.End(view.ExitFailed)
	}
	return nil
}

func (a verbs) exportStore(ctx context.Context, args []string) error {
	if err := a.local("store export"); err != nil {
		return err
	}
	if len(args) == 0 || args[0] == "-" {
		return a.export(ctx, a.Out)
	}
	// Never overwrite a file; a broken copy must not look complete.
	file, err := os.OpenFile(args[0], os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return cli.FileWrong.Errorf("%w", err)
	}
	w := bufio.NewWriter(file)
	err = errors.Join(a.export(ctx, w), w.Flush(), file.Sync(), file.Close())
	if err != nil {
		return errors.Join(err, os.Remove(args[0]))
	}
	return a.Emit(map[string]string{"file": args[0]}, args, func() string { return "exported to " + args[0] + "\n" })
}

const sqliteMagic = "SQLite format 3\x00"

func (a verbs) restoreStore(ctx context.Context, from string, o backend.StoreOptions) error {
	if err := a.local("store restore"); err != nil {
		return err
	}
	in := io.NopCloser(a.In)
	if from != "-" {
		file, err := os.Open(from)
		if err != nil {
			return cli.FileWrong.Errorf("%w", err)
		}
		in = file
	}
	defer in.Close()
	r := bufio.NewReader(in)
	to := o.Path()
	if head, err := r.Peek(len(sqliteMagic)); err == nil && bytes.Equal(head, []byte(sqliteMagic)) {
		if err := restoreFile(ctx, r, from, to); err != nil {
			return err
		}
		if err := a.withStore(ctx, cli.Sends, func(sql.Admin) error { return nil }); err != nil { // its schema is brought up to date
			return err
		}
	} else if err := a.restoreLines(ctx, r, to); err != nil {
		return err
	}
	if a.inDatabase() {
		return a.Emit(map[string]string{"store": to}, []string{to}, func() string { return "restored " + to + "\n" })
	}
	seals, err := a.keysOf(ctx, to, o)
	if err != nil {
		return err
	}
	return a.Emit(restoredView{to, seals.Keys, seals.Missing}, []string{to}, func() string {
		return "restored " + to + "\n" + seals.text(a.keySource(o))
	})
}

// restoreLines fills a store from an export. A new file that could not be
// filled is removed.
func (a verbs) restoreLines(ctx context.Context, r io.Reader, to string) error {
	_, err := os.Stat(to)
	created := errors.Is(err, os.ErrNotExist) && !a.inDatabase()
	err = a.withStore(ctx, cli.Sends, func(k sql.Admin) error {
		if !k.IsOwner() {
			return cli.StoreBusy.Errorf("%s is owned by another process", to)
		}
		return k.Restore(ctx, r)
	})
	if err != nil && created {
		sqlite.RemoveFile(to)
	}
	return err
}

// restoreFile copies a backup, and gives the copy its name once it has been read
// and found complete.
func restoreFile(ctx context.Context, r io.Reader, from, to string) error {
	if _, err := os.Stat(to); err == nil {
		return cli.FileWrong.Errorf("%s exists: restore a backup into a new store, with --dsn", to)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return cli.FileWrong.Errorf("%w", err)
	}
	file, err := os.CreateTemp(filepath.Dir(to), filepath.Base(to)+".restoring-*") // for its owner alone
	if err != nil {
		return cli.FileWrong.Errorf("%w", err)
	}
	defer sqlite.RemoveFile(file.Name())
	_, err = io.Copy(file, r)
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return cli.FileWrong.Errorf("%w", err)
	}
	report, err := admin.CheckFile(ctx, file.Name())
	if err != nil {
		return err
	}
	for _, d := range report.Damage {
		if d.Run == "" { // a single damaged run is set aside when the store is opened
			return cli.FileWrong.Errorf("%s is no whole backup: %s", from, d.What)
		}
	}
	err = os.Link(file.Name(), to) // fails if another process created the store meanwhile
	if errors.Is(err, os.ErrExist) {
		return cli.FileWrong.Errorf("%s exists: restore a backup into a new store, with --dsn", to)
	}
	if err != nil { // not all file systems have links
		err = os.Rename(file.Name(), to)
	}
	if err != nil {
		return cli.FileWrong.Errorf("%w", err)
	}
	return nil
}

func (a verbs) importCommand() *cobra.Command {
	var subject string
	cmd := &cobra.Command{
		Use: "import FILE", Short: "Take over run records of the PolarDB Stack engine",
		Long: `Reads a ConfigMap (YAML or JSON, - for standard input) with run records and
writes them as runs, which then go on with the flows of --flows. Importing twice
changes nothing. Records that are damaged are listed and become paused runs.`,
		Example: "  kubectl get configmap c1-workflow -o yaml | pawl import - --subject demo/default/c1 --flows flows/",
		Args:    cobra.ExactArgs(1),
		RunE: a.Verb(func(ctx context.Context, _ *cobra.Command, args []string) error {
			return a.importRuns(ctx, args[0], subject)
		}),
	}
	cmd.Flags().StringVar(&subject, "subject", "", "`kind/namespace/name` that the runs work on (required)")
	_ = cmd.MarkFlagRequired("subject")
	return cmd
}

func (a verbs) importRuns(ctx context.Context, from, subject string) (err error) {
	if err := a.local("import"); err != nil {
		return err
	}
	data, err := cli.ReadInput(from, a.In)
	if err != nil {
		return err
	}
	lib, err := files.LoadFiles(a.Flags.Flows)
	if err != nil {
		return err
	}
	imported, err := classic.Import(data, classic.ImportOptions{Subject: subject, Flows: lib.Flows, Actor: a.Actor()})
	if err != nil {
		if fault.Of(err) == fault.Unknown {
			err = cli.FileWrong.Errorf("%s: %w", from, err)
		}
		return err
	}
	store, err := backend.OpenStore(ctx, a.StoreOptions(), false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	if !store.IsOwner() {
		return cli.StoreBusy.Errorf("%s is owned by another process: import before a worker serves the store", a.StoreOptions().Path())
	}
	written, err := imported.Write(ctx, store)
	if err != nil {
		return err
	}
	damaged := imported.Damaged()
	if err := a.Emit(importReport(imported, written), nil, func() string { return importText(imported, written, a.Style(a.Out)) }); err != nil {
		return err
	}
	if len(damaged) > 0 {
		return cli.End(view.ExitRemedy)
	}
	return nil
}

type importedView struct {
	Key    string        `json:"key"`
	Run    string        `json:"run"`
	Flow   string        `json:"flow"`
	Phase  runtype.Phase `json:"phase"`
	Damage string        `json:"damage,omitempty"`
	Notes  []string      `json:"notes,omitempty"`
}

// restoredView is a store that was restored.
type restoredView struct {
	Store         string   `json:"store"`
	EncryptedWith []string `json:"encryptedWith"` // names of master keys
	MissingKeys   []string `json:"missingKeys"`
}

// importView is the result of an import.
type importView struct {
	Runs    []importedView `json:"runs"`
	New     int            `json:"new"`
	Known   int            `json:"known"`
	Ignored []string       `json:"ignored"`
}

func importReport(i classic.Imported, w classic.Written) importView {
	runs := []importedView{}
	for _, r := range i.Runs {
		runs = append(runs, importedView{Key: r.Key, Run: r.Run.ID, Flow: r.Run.Flow, Phase: r.Run.Phase, Damage: r.Damage, Notes: r.Notes})
	}
	return importView{runs, w.New, w.Known, i.Ignored}
}

func importText(i classic.Imported, w classic.Written, style view.Style) string {
	type imported = classic.ImportedRun
	text := view.TableOf(i.Runs, []view.Column[imported]{
		{Head: "KEY", Cell: func(r imported) string { return r.Key }},
		{Head: "ID", Cell: func(r imported) string { return view.Short(r.Run.ID) }},
		{Head: "FLOW", Cell: func(r imported) string { return r.Run.Flow }},
		{Head: "PHASE", Cell: func(r imported) string { return string(r.Run.Phase) }},
		{Head: "NOTE", Cell: func(r imported) string {
			if r.Damage != "" {
				return "damaged: " + r.Damage
			}
			return strings.Join(r.Notes, "; ")
		}},
	}).Text(style)
	for _, key := range i.Ignored {
		text += "ignored " + key + ": it is no run record\n"
	}
	return text + fmt.Sprintf("%s imported, %d known already, %d damaged\n", cli.CountText(w.New, "run"), w.Known, len(i.Damaged()))
}
