package admin_test

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/store/sql"
	"github.com/pawl-dev/pawl/store/sql/db/postgres"
	"github.com/pawl-dev/pawl/store/sql/pgtest"
	"github.com/pawl-dev/pawl/store/sql/sqltest"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// fillStore puts a definition, an ended run, a run with signals under way, an owned run
// and a queued run into a store.
func fillStore(t *testing.T, s sql.Store) {
	t.Helper()
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(s.PutDefinition(ctx, runstore.Definition{Hash: "hash", Flow: "Flow", Version: 1, Data: []byte(`{"name":"Flow"}`)}))
	must(sqltest.Walk(ctx, s, sqltest.NewRun(1), 5))

	r := sqltest.NewRun(2)
	r.Input, r.Labels = []byte(`{"readers":2}`), map[string]string{"team": "db"}
	r, err := s.Create(ctx, r, []runtype.Event{{Seq: 1, At: time.Now(), Kind: runtype.RunCreated}})
	must(err)
	for _, id := range []string{"first", "second", "third"} {
		must(s.Send(ctx, r.ID, runtype.Signal{ID: id, Name: "go", Payload: []byte(`{"lag":0}`), At: time.Now()}))
	}
	r, _, err = s.Load(ctx, r.ID)
	must(err)
	save := sqltest.Advance(r, 0, 3)
	save.Consumed = []string{"first"}
	must(s.Save(ctx, save))
	must(s.Save(ctx, sqltest.Advance(r, 1, 3)))

	queued := sqltest.NewRun(3)
	queued.Subject = r.Subject
	_, err = s.Create(ctx, queued, nil)
	must(err)

	owned := sqltest.NewRun(4)
	owned.Owner, owned.Epoch = "w", 1
	_, err = s.Create(ctx, owned, nil)
	must(err)
	log := &runstore.LogChunk{Step: "Build", Attempt: 2, Undo: true, LeftOut: 7, Bytes: 4, Lines: []runstore.LogLine{{At: owned.CreatedAt, Stream: runstore.LogErr, Text: "a<b"}}}
	must(s.WriteLogs(ctx, []*runstore.LogWrite{{Run: owned.ID, Chunks: []*runstore.LogChunk{log}}}))
}

// A store moves from one database to the other and back without any change.
func TestPostgresStoresMoveBetweenDatabases(t *testing.T) {
	p, _ := sqltest.Postgres(t, pgtest.Options{NoSync: true})
	fillStore(t, p)
	site := control.Object{Ref: control.Ref{Kind: "Site", Namespace: "default", Name: "a"}, Spec: json.RawMessage(`{"text":"a<b"}`)}
	if _, err := p.Objects().Apply(t.Context(), site); err != nil {
		t.Fatal(err)
	}
	if err := p.Locks().Transact(t.Context(), "a", func(time.Time, []byte) ([]byte, bool) { return []byte(`{}`), true }); err != nil {
		t.Fatal(err)
	}
	export := func(k sql.Admin) string {
		t.Helper()
		var b bytes.Buffer
		if err := k.Export(t.Context(), &b); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	first := export(p)
	if !strings.Contains(first, `"x":"a<b"`) {
		t.Error("the export holds no logs")
	}

	lite, err := sql.OpenSQLite(t.Context(), sql.Options{Path: filepath.Join(t.TempDir(), "pawl.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer lite.Close()
	if err := lite.Restore(t.Context(), strings.NewReader(first)); err != nil {
		t.Fatal(err)
	}
	q, _ := sqltest.Postgres(t, pgtest.Options{NoSync: true})
	if err := q.Restore(t.Context(), strings.NewReader(export(lite))); err != nil {
		t.Fatal(err)
	}
	// The owned run is due at once; all others are unchanged.
	want := strings.Replace(first, `"Owner":"w","Queue":0,"NextAt":"0001-01-01T00:00:00Z"`, `"Owner":"","Queue":0,"NextAt":"1970-01-01T00:00:00.000000001Z"`, 1)
	if second := export(q); second != want || want == first {
		t.Errorf("exported first:\n%s\nafter the way through SQLite:\n%s", want, second)
	}
	again, _ := sqltest.Postgres(t, pgtest.Options{NoSync: true})
	if err := again.Restore(t.Context(), strings.NewReader(first)); err != nil {
		t.Fatal(err)
	}
	report, err := again.Check(t.Context())
	if err != nil || !report.Healthy || report.Runs != 4 || report.Events == 0 {
		t.Errorf("check: %+v, %v", report, err)
	}

	if o, err := again.Objects().Get(t.Context(), site.Ref); err != nil || string(o.Spec) != string(site.Spec) {
		t.Errorf("the object: %+v, %v", o, err)
	}

	// The restored store works: the owned run is claimed, an old signal counts once, the end of a run
	// promotes the queued one.
	c, err := q.Claim(t.Context(), runstore.Claim{Worker: "new", Limit: 10, Lease: time.Minute})
	if err != nil || len(c.Runs) == 0 || c.Runs[0].Run.ID != "run00004" && c.Runs[len(c.Runs)-1].Run.ID != "run00004" {
		t.Errorf("claim after a restore: %+v, %v; want run00004 among them", c.Runs, err)
	}
	r, unread, err := q.Load(t.Context(), "run00002")
	if err != nil || len(unread) != 2 || unread[0].ID != "second" {
		t.Fatalf("unread signals: %+v, %v", unread, err)
	}
	for _, id := range []string{"first", "second"} {
		if err := q.Send(t.Context(), r.ID, runtype.Signal{ID: id, Name: "go"}); err != nil {
			t.Fatal(err)
		}
	}
	if _, unread, _ = q.Load(t.Context(), r.ID); len(unread) != 2 {
		t.Errorf("%d unread signals after two known ones were sent again", len(unread))
	}
	if err := q.Send(t.Context(), r.ID, runtype.Signal{ID: "fourth", Name: "go"}); err != nil {
		t.Errorf("a new signal: %v", err)
	}
	r, _, err = q.Load(t.Context(), r.ID)
	if err != nil {
		t.Fatal(err)
	}
	r.Phase, r.EndedAt, r.Owner = runtype.Cancelled, time.Now(), ""
	if err := q.Save(t.Context(), &runstore.Save{Run: r}); err != nil {
		t.Fatal(err)
	}
	if next, _, err := q.Load(t.Context(), "run00003"); err != nil || next.Phase != runtype.Running {
		t.Errorf("the queued run: %+v, %v", next, err)
	}
}

func TestPostgresRestoresOnlyWhatFits(t *testing.T) {
	p, _ := sqltest.Postgres(t, pgtest.Options{NoSync: true})
	for name, text := range map[string]string{
		"another format": `{"pawl":2}`,
		"no export":      `hello`,
		"empty":          "",
		"cut off":        "{\"pawl\":1}\n{\"definition\":{\"hash\":\"h\"}}\n{\"run\":",
		"cut at a line":  "{\"pawl\":1}\n{\"definition\":{\"hash\":\"h\"}}\n",
	} {
		if err := p.Restore(t.Context(), strings.NewReader(text)); fault.Of(err) != runtype.InputInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := sqltest.Count(t, p, `SELECT count(*) FROM definition`); n != 0 {
		t.Errorf("%d definitions stay after a restore that failed", n)
	}
	sqltest.MustCreate(t, p, sqltest.NewRun(1))
	if err := p.Restore(t.Context(), strings.NewReader(`{"pawl":1}`)); fault.Of(err) != runtype.InputInvalid {
		t.Errorf("into a store that is not empty: %v", err)
	}
}

func TestPostgresReportsDamage(t *testing.T) {
	p, _ := sqltest.Postgres(t, pgtest.Options{NoSync: true})
	for i := range 4 {
		if err := sqltest.Walk(t.Context(), p, sqltest.NewRun(i), 2); err != nil {
			t.Fatal(err)
		}
	}
	for _, sql := range []string{
		`UPDATE run SET body = '\xffff' WHERE id = 'run00001'`,
		`UPDATE event SET data = '\x01ff' WHERE run = (SELECT k FROM run WHERE id = 'run00002')`,
	} {
		if _, err := p.DB.Pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	report, err := p.Check(t.Context())
	if err != nil || report.Healthy || report.Runs != 4 || len(report.Damage) != 2 || report.Damage[0].Run != "run00001" || report.Damage[1].Run != "run00002" {
		t.Errorf("check: %+v, %v; want the damage of two runs", report, err)
	}
	var b bytes.Buffer
	if err := p.Export(t.Context(), &b); err != nil || strings.Count(b.String(), `"damaged"`) != 2 {
		t.Errorf("export beside damage: %v\n%s", err, b.String())
	}
}

func TestPostgresSendsBackupsToItsTools(t *testing.T) {
	err := (&postgres.DB{}).Backup(t.Context(), "pawl.db")
	if fault.Of(err) != postgres.BackupElsewhere || !strings.Contains(postgres.BackupElsewhere.Remedy, "pg_dump") {
		t.Fatalf("backup: %v", err)
	}
}
