package sqlite_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/store/sql/admin"
	sqlitedb "github.com/pawl-dev/pawl/store/sql/db/sqlite"
	"github.com/pawl-dev/pawl/store/sql/sqltest"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"

	"github.com/pawl-dev/pawl/store/sql"
	"github.com/pawl-dev/pawl/store/sql/db"
)

const childEnv = "PAWL_TEST_SQLITE"

// TestChild is the body of another process: it works on a file until it is killed.
func TestChild(t *testing.T) {
	path, ok := os.LookupEnv(childEnv)
	if !ok {
		t.Skip("runs in a process of its own")
	}
	s := sqltest.OpenSQLite(t, sql.Options{Path: path})
	if !s.IsOwner() {
		t.Fatal("the file is owned")
	}
	for i := range 1000 {
		go func() {
			r := sqltest.Start(t, s, i, "child")
			for n := 0; ; n++ {
				if sqltest.Step(t, s, r, n) != nil {
					return
				}
				fmt.Printf("saved %d %d %d\n", i, r.Revision, n)
			}
		}()
	}
	select {}
}

// child starts another process on the file and reads its output.
func child(t *testing.T, path string) (*exec.Cmd, *bufio.Scanner) {
	cmd := exec.Command(os.Args[0], "-test.run=^TestChild$")
	cmd.Env = append(os.Environ(), childEnv+"="+path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd, bufio.NewScanner(out)
}

func TestKilledOwnerLosesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pawl.db")
	cmd, out := child(t, path)
	saved := map[int]int64{}
	for lines := 0; out.Scan(); lines++ {
		var run, n int
		var revision int64
		if _, err := fmt.Sscanf(out.Text(), "saved %d %d %d", &run, &revision, &n); err == nil {
			saved[run] = revision
		}
		if lines == 4000 {
			_ = cmd.Process.Kill()
		}
	}
	if len(saved) < 900 {
		t.Fatalf("only %d runs were under way", len(saved))
	}
	started := time.Now()
	s := sqltest.OpenSQLite(t, sql.Options{Path: path})
	claimed, err := s.Claim(t.Context(), runstore.Claim{Worker: "next", Limit: 64, Lease: time.Minute})
	if err != nil || len(claimed.Runs) != 64 {
		t.Fatalf("claimed %d, %v", len(claimed.Runs), err)
	}
	if err := sqltest.Step(t, s, claimed.Runs[0].Run, 100000); err != nil {
		t.Fatal(err)
	}
	t.Logf("first resumed step after %s", time.Since(started))
	for run, revision := range saved {
		r, _, err := s.Load(t.Context(), fmt.Sprintf("r%025d", run))
		if err != nil {
			t.Fatal(err)
		}
		if r.Revision < revision {
			t.Fatalf("run %d: revision %d, but %d was answered", run, r.Revision, revision)
		}
		if int64(r.Len())+1 < r.Revision {
			t.Fatalf("run %d: %d records at revision %d", run, r.Len(), r.Revision)
		}
	}
	total := 64
	for {
		claimed, err := s.Claim(t.Context(), runstore.Claim{Worker: "next", Limit: 500, Lease: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		if total += len(claimed.Runs); len(claimed.Runs) == 0 {
			break
		}
	}
	runs, _, err := s.List(t.Context(), runstore.Query{Limit: 1000, Active: true})
	if err != nil || total != len(runs) {
		t.Fatalf("claimed %d of %d runs, %v", total, len(runs), err)
	}
	if report, err := s.Check(t.Context()); err != nil || !report.Healthy || report.Runs != len(runs) {
		t.Fatalf("check: %+v, %v", report, err)
	}
}

func TestASecondProcessIsAClient(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pawl.db")
	_, out := child(t, path)
	for out.Scan() && !strings.HasPrefix(out.Text(), "saved") {
	}
	go func() {
		for out.Scan() {
		}
	}()
	s := sqltest.OpenSQLite(t, sql.Options{Path: path})
	if s.IsOwner() {
		t.Fatal("two processes own the file")
	}
	_, err := s.Claim(t.Context(), runstore.Claim{Worker: "w", Limit: 1})
	if fault.Of(err) != sqlitedb.NotOwner {
		t.Fatalf("claim: %v", err)
	}
	r := sqltest.Start(t, s, 5000, "w")
	if r.Owner != "" || r.NextAt.IsZero() {
		t.Fatalf("a client created a run that is owned by %q and due at %s", r.Owner, r.NextAt)
	}
	if err := s.Save(t.Context(), &runstore.Save{Run: r}); fault.Of(err) != sqlitedb.NotOwner {
		t.Fatalf("save: %v", err)
	}
	if err := s.Send(t.Context(), r.ID, runtype.Signal{ID: "a", Name: "go"}); err != nil {
		t.Fatal(err)
	}
	_, signals, err := s.Load(t.Context(), r.ID)
	if err != nil || len(signals) != 1 {
		t.Fatalf("%d signals, %v", len(signals), err)
	}
}

func TestAClientWakesTheOwner(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pawl.db")
	owner := sqltest.OpenSQLite(t, sql.Options{Path: path})
	client := sqltest.OpenSQLite(t, sql.Options{Path: path, Client: true})
	waiting := sqltest.Start(t, owner, 1, "w")
	waiting.Phase, waiting.Owner, waiting.NextAt = runtype.Waiting, "", time.Time{}
	if err := owner.Save(t.Context(), &runstore.Save{Run: waiting}); err != nil {
		t.Fatal(err)
	}
	expectWake := func(want string) {
		t.Helper()
		select {
		case got := <-owner.Wake():
			if got != want {
				t.Fatalf("wake-up for %s, want %s", got, want)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("the owner was not woken")
		}
	}
	fresh := sqltest.Start(t, client, 2, "")
	expectWake(fresh.ID)
	if err := client.Send(t.Context(), waiting.ID, runtype.Signal{ID: "a", Name: "go"}); err != nil {
		t.Fatal(err)
	}
	expectWake(waiting.ID)
	claimed, err := owner.Claim(t.Context(), runstore.Claim{Worker: "w", Limit: 10, Lease: time.Minute})
	if err != nil || len(claimed.Runs) != 2 {
		t.Fatalf("claimed %d, %v", len(claimed.Runs), err)
	}
	for _, l := range claimed.Runs { // the writes of the client have changed the row numbers
		if err := sqltest.Step(t, owner, l.Run, 0); err != nil {
			t.Fatal(err)
		}
	}
	sqltest.Start(t, client, 3, "")
	if err := sqltest.Step(t, owner, claimed.Runs[0].Run, 1); err != nil {
		t.Fatal(err)
	}
	if report, err := owner.Check(t.Context()); err != nil || !report.Healthy || report.Runs != 3 {
		t.Fatalf("check: %+v, %v", report, err)
	}
}

// damage runs SQL on a file without the store.
func damage(t *testing.T, path, sql string) {
	t.Helper()
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := sqlitex.ExecuteScript(conn, sql, nil); err != nil {
		t.Fatal(err)
	}
}

func TestOneUnreadableRunIsSetAside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pawl.db")
	s := sqltest.OpenSQLite(t, sql.Options{Path: path})
	bad, good := sqltest.Start(t, s, 1, ""), sqltest.Start(t, s, 2, "")
	damage(t, path, "UPDATE run SET body = x'0000ff' WHERE id = '"+bad.ID+"'")

	claimed, err := s.Claim(t.Context(), runstore.Claim{Worker: "w", Limit: 10, Lease: time.Minute})
	if err != nil || len(claimed.Runs) != 1 || claimed.Runs[0].Run.ID != good.ID {
		t.Fatalf("claimed %d, %v", len(claimed.Runs), err)
	}
	if err := sqltest.Step(t, s, claimed.Runs[0].Run, 0); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Load(t.Context(), bad.ID); fault.Of(err) != runstore.StoreCorrupt {
		t.Fatalf("load: %v", err)
	}
	runs, _, err := s.List(t.Context(), runstore.Query{Prefix: bad.ID})
	if err != nil || len(runs) != 1 || runs[0].Phase != runtype.Paused || runs[0].Fault == nil || runs[0].Fault.Code != runstore.StoreCorrupt.Code {
		t.Fatalf("list: %v, %v", runs, err)
	}
	report, err := s.Check(t.Context())
	if err != nil || report.Healthy || len(report.Damage) != 1 || report.Damage[0].Run != bad.ID {
		t.Fatalf("check: %+v, %v", report, err)
	}
	var out bytes.Buffer
	if err := s.Export(t.Context(), &out); err != nil || !strings.Contains(out.String(), good.ID) || !strings.Contains(out.String(), `"damaged":{"run":"`+bad.ID) {
		t.Fatalf("export: %v\n%s", err, out.String())
	}
}

func TestADamagedFileIsNotWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pawl.db")
	s, err := sql.OpenSQLite(t.Context(), sql.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 300 {
		sqltest.Start(t, s, i, "")
	}
	s.Close()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for page := 2; page < len(data)/4096; page += 3 {
		copy(data[page*4096:], bytes.Repeat([]byte{0xff}, 512))
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = sql.OpenSQLite(t.Context(), sql.Options{Path: path})
	if fault.Of(err) != runstore.StoreCorrupt {
		t.Fatalf("open: %v", err)
	}
	after, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(data, after) {
		t.Fatal("a damaged file was written")
	}
	report, err := admin.CheckFile(t.Context(), path)
	if err != nil || report.Healthy {
		t.Fatalf("check: %+v, %v", report, err)
	}
	other := filepath.Join(t.TempDir(), "text.db")
	if err := os.WriteFile(other, []byte(strings.Repeat("this is no database\n", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := sql.OpenSQLite(t.Context(), sql.Options{Path: other}); fault.Of(err) != runstore.StoreCorrupt {
		t.Fatalf("open of a text: %v", err)
	}
}

func TestANewerSchemaIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pawl.db")
	s, err := sql.OpenSQLite(t.Context(), sql.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	damage(t, path, "INSERT INTO migration SELECT max(number) + 1, 'x', 'x', 0 FROM migration")
	if _, err = sql.OpenSQLite(t.Context(), sql.Options{Path: path}); fault.Of(err) != db.SchemaNewer {
		t.Fatalf("open: %v", err)
	}
	damage(t, path, "DELETE FROM migration WHERE name = 'x'; UPDATE migration SET checksum = 'x' WHERE number = 1")
	if _, err = sql.OpenSQLite(t.Context(), sql.Options{Path: path}); fault.Of(err) != db.SchemaChanged {
		t.Fatalf("open: %v", err)
	}
}

func TestBackupExportRestore(t *testing.T) {
	dir := t.TempDir()
	s := sqltest.OpenSQLite(t, sql.Options{Path: filepath.Join(dir, "pawl.db")})
	var want []*runtype.Run
	for i := range 5 {
		r := sqltest.Start(t, s, i, "w")
		for n := range 4 {
			if err := sqltest.Step(t, s, r, n); err != nil {
				t.Fatal(err)
			}
		}
		for _, id := range []string{"a", "b"} {
			if err := s.Send(t.Context(), r.ID, runtype.Signal{ID: id, Name: "go", Payload: []byte(`1`)}); err != nil {
				t.Fatal(err)
			}
		}
		r.Phase, r.Owner, r.NextAt = runtype.Waiting, "", time.Now().Add(time.Hour).UTC()
		r.Mail = 2
		if i == 4 {
			r.Phase, r.EndedAt, r.NextAt = runtype.Succeeded, time.Now().UTC(), time.Time{}
		}
		if err := s.Save(t.Context(), &runstore.Save{Run: r, Consumed: []string{"a"}}); err != nil {
			t.Fatal(err)
		}
		want = append(want, r)
	}
	if err := s.PutDefinition(t.Context(), runstore.Definition{Hash: "h", Flow: "Flow", Data: []byte(`{}`), Source: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	backup := filepath.Join(dir, "backup.db")
	if err := s.Backup(t.Context(), backup); err != nil {
		t.Fatal(err)
	}
	if err := s.Backup(t.Context(), backup); err == nil {
		t.Fatal("a backup was overwritten")
	}
	var lines bytes.Buffer
	if err := s.Export(t.Context(), &lines); err != nil {
		t.Fatal(err)
	}
	restored := sqltest.OpenSQLite(t, sql.Options{Path: filepath.Join(dir, "restored.db")})
	if err := restored.Restore(t.Context(), bytes.NewReader(lines.Bytes())); err != nil {
		t.Fatal(err)
	}
	if err := restored.Restore(t.Context(), bytes.NewReader(lines.Bytes())); fault.Of(err) != runtype.InputInvalid {
		t.Fatalf("restore into a store with runs: %v", err)
	}
	alike := cmp.Options{cmpopts.IgnoreUnexported(runtype.Run{}, runtype.StepRecord{}), cmpopts.IgnoreFields(runtype.Run{}, "Handle"), cmpopts.EquateEmpty()}
	for name, copied := range map[string]*sql.SQLite{"backup": sqltest.OpenSQLite(t, sql.Options{Path: backup}), "restored": restored} {
		for _, r := range want {
			got, signals, err := copied.Load(t.Context(), r.ID)
			if err != nil {
				t.Fatal(name, err)
			}
			if diff := cmp.Diff(r, got, alike); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
			if got.Len() != 4 || len(signals) != 1 {
				t.Errorf("%s: %d records, %d signals", name, got.Len(), len(signals))
			}
			one, _ := s.History(t.Context(), r.ID, 0, 0)
			two, err := copied.History(t.Context(), r.ID, 0, 0)
			if diff := cmp.Diff(one, two); err != nil || diff != "" {
				t.Errorf("%s: %v %s", name, err, diff)
			}
			if !r.Phase.Final() {
				if err := copied.Send(t.Context(), r.ID, runtype.Signal{ID: "a", Name: "go"}); err != nil {
					t.Fatal(err)
				}
				if _, signals, _ := copied.Load(t.Context(), r.ID); len(signals) != 1 {
					t.Errorf("%s: a consumed signal was accepted again", name)
				}
			}
		}
		if _, err := copied.Definition(t.Context(), "h"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAReadOnlyFileIsFull(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pawl.db")
	s, err := sql.OpenSQLite(t.Context(), sql.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	if os.Geteuid() == 0 {
		t.Skip("the superuser may write everything")
	}
	if err := os.Chmod(path, 0o400); err != nil {
		t.Fatal(err)
	}
	if _, err := sql.OpenSQLite(t.Context(), sql.Options{Path: path}); fault.Of(err) != runstore.StoreFull {
		t.Fatalf("open: %v", err)
	}
}

func TestOneRunIsNPlusTwoWrites(t *testing.T) {
	s := sqltest.OpenSQLite(t, sql.Options{Path: filepath.Join(t.TempDir(), "pawl.db")})
	before := s.Stats()
	r := sqltest.Start(t, s, 1, "w")
	for n := range 10 {
		if err := sqltest.Step(t, s, r, n); err != nil {
			t.Fatal(err)
		}
	}
	r.Phase, r.EndedAt, r.Owner = runtype.Succeeded, time.Now(), ""
	if err := s.Save(t.Context(), &runstore.Save{Run: r}); err != nil {
		t.Fatal(err)
	}
	if got := s.Stats().Writes - before.Writes; got != 12 {
		t.Errorf("%d writes for 10 steps", got)
	}
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A write that fails half-way leaves nothing behind: no run without its birth, and no
// end without its event. Later writes work.
func TestAHalfWrittenRun(t *testing.T) {
	s := sqltest.OpenSQLite(t, sql.Options{Path: filepath.Join(t.TempDir(), "pawl.db")})
	allow := sqltest.Refuse(t, s, "birth")
	if _, err := s.Create(t.Context(), sqltest.DueRun(1), nil); err == nil {
		t.Error("a run was created without its birth")
	}
	if _, _, err := s.Load(t.Context(), sqltest.DueRun(1).ID); !errors.Is(err, runstore.ErrNotFound) {
		t.Errorf("a refused run exists: %v", err)
	}
	allow()
	r := sqltest.DueRun(1)
	r.Owner, r.Epoch = "w", 1
	r, err := s.Create(t.Context(), r, nil)
	if err != nil {
		t.Fatal(err)
	}
	allow = sqltest.Refuse(t, s, "event")
	if err := sqltest.Step(t, s, r, 1); err == nil {
		t.Error("a step was saved without its event")
	}
	allow()
	if err := sqltest.Step(t, s, r, 1); err != nil {
		t.Error("the same step again:", err)
	}
	r.Phase, r.Owner = runtype.Succeeded, ""
	end := &runstore.Save{Run: r, Events: []runtype.Event{{Seq: 2, At: time.Now(), Kind: runtype.RunSucceeded}}}
	allow = sqltest.Refuse(t, s, "event")
	if err := s.Save(t.Context(), end); err == nil {
		t.Error("an end was saved without its event")
	}
	if stored, _, err := s.Load(t.Context(), r.ID); err != nil || stored.Phase != runtype.Running {
		t.Errorf("after the refused end: %+v, %v", stored, err)
	}
	allow()
	if err := s.Save(t.Context(), end); err != nil {
		t.Error(err)
	}
	if stored, _, err := s.Load(t.Context(), r.ID); err != nil || stored.Phase != runtype.Succeeded {
		t.Errorf("after the end: %+v, %v", stored, err)
	}
}
