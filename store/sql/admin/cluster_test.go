package admin_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/pawl-dev/pawl/account"
	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow/runtype"

	"github.com/pawl-dev/pawl/store/sql"
	"github.com/pawl-dev/pawl/store/sql/pgtest"
	"github.com/pawl-dev/pawl/store/sql/secrets"
	"github.com/pawl-dev/pawl/store/sql/sqltest"
)

// eachStore runs a test on both databases. open opens a new store.
func eachStore(t *testing.T, test func(t *testing.T, open func(o sql.Options) sql.Store)) {
	t.Run("sqlite", func(t *testing.T) {
		test(t, func(o sql.Options) sql.Store {
			o.Path = filepath.Join(t.TempDir(), "pawl.db")
			return sqltest.OpenSQLite(t, o)
		})
	})
	t.Run("postgres", func(t *testing.T) {
		test(t, func(o sql.Options) sql.Store { return sqltest.OpenPostgres(t, o) })
	})
}

var revealed = cmpopts.AcyclicTransformer("Reveal", func(s cluster.Secret) string { return s.Reveal() })

func commit(t testing.TB, s sql.Store, changes ...*cluster.Change) {
	t.Helper()
	for _, c := range changes {
		if err := s.Clusters().Commit(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
}

// contents returns all that can be read from a cluster store.
func contents(t testing.TB, s sql.Store) []any {
	t.Helper()
	l := s.Clusters()
	var all []any
	add := func(v any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, v)
	}
	everyone := cluster.Scope{All: true}
	list, _, err := l.List(t.Context(), cluster.ClusterQuery{Scope: everyone, WithDestroyed: true})
	add(list, err)
	for _, c := range list {
		b, err := l.Record(t.Context(), c.UUID)
		add(b, err)
		d, err := l.Details(t.Context(), c.UUID)
		add(d, err)
	}
	jobs, _, err := l.Jobs(t.Context(), cluster.JobQuery{Scope: everyone})
	add(jobs, err)
	rows, _, err := l.Rows(t.Context(), cluster.RowQuery{})
	add(rows, err)
	events, err := l.Events(t.Context(), cluster.EventQuery{Scope: everyone})
	add(events, err)
	accounts := s.Accounts()
	domains, err := accounts.Domains(t.Context())
	add(domains, err)
	people, err := accounts.Accounts(t.Context(), account.Query{})
	add(people, err)
	keys, err := accounts.Keys(t.Context(), account.CredentialQuery{})
	add(keys, err)
	for _, k := range keys {
		k, err := accounts.Key(t.Context(), k.ID)
		add([]any{k.ID, k.Secret.Reveal()}, err)
	}
	tokens, err := accounts.Tokens(t.Context(), account.CredentialQuery{})
	add(tokens, err)
	trail, err := accounts.Trail(t.Context(), account.TrailQuery{})
	add(trail, err)
	installation, err := l.Setting(t.Context(), "installation")
	add(installation, err)
	return all
}

// An export holds clusters with all their rows. Restored into either database they are
// the same, and numbers continue after them.
func TestClustersMoveBetweenDatabases(t *testing.T) {
	eachStore(t, func(t *testing.T, open func(sql.Options) sql.Store) {
		options := sql.Options{MasterKey: sqltest.MasterKey}
		from := open(options)
		commit(t, from, sqltest.NewRecord(1), sqltest.NewRecord(2))
		if err := from.Clusters().PutSetting(t.Context(), "installation", "i1"); err != nil {
			t.Fatal(err)
		}
		accounts := &account.Service{Store: from.Accounts()}
		key, err := accounts.CreateKey(t.Context(), account.System(), account.NewCredential{})
		if err != nil {
			t.Fatal(err)
		}
		_, token, err := accounts.CreateToken(t.Context(), account.System(), account.NewCredential{})
		if err != nil {
			t.Fatal(err)
		}
		var lines bytes.Buffer
		if err := from.Export(t.Context(), &lines); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(lines.String(), sqltest.PlantedSecret) || strings.Contains(lines.String(), key.Secret.Reveal()) || strings.Contains(lines.String(), token.Reveal()) {
			t.Error("the export shows a secret")
		}
		want := contents(t, from)
		lite := sqltest.OpenSQLite(t, sql.Options{Path: filepath.Join(t.TempDir(), "other.db"), MasterKey: sqltest.MasterKey})
		for name, to := range map[string]sql.Store{"the same": open(options), "sqlite": lite, "postgres": sqltest.OpenPostgres(t, options)} {
			if err := to.Restore(t.Context(), bytes.NewReader(lines.Bytes())); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if diff := cmp.Diff(want, contents(t, to), revealed); diff != "" {
				t.Errorf("%s (-exported +restored):\n%s", name, diff)
			}
			var again bytes.Buffer
			if err := to.Export(t.Context(), &again); err != nil || again.String() != lines.String() {
				t.Errorf("%s: a second export differs, %v:\n%s\n%s", name, err, lines.String(), again.String())
			}
			next := sqltest.NewRecord(3)
			commit(t, to, next)
			if next.Cluster.ID <= 2 || next.Events[0].Seq != 3 {
				t.Errorf("%s: the next cluster has number %d, its event %d", name, next.Cluster.ID, next.Events[0].Seq)
			}
			if err := to.Restore(t.Context(), bytes.NewReader(lines.Bytes())); fault.Of(err) != runtype.InputInvalid {
				t.Errorf("%s: a restore over clusters: %v", name, err)
			}
			if report, err := to.Check(t.Context()); err != nil || !report.Healthy || report.Clusters != 3 {
				t.Errorf("%s: check %+v, %v", name, report, err)
			}
		}
		unknown := strings.Replace(lines.String(), `"table":"job"`, `"table":"sqlite_schema"`, 1)
		if err := open(options).Restore(t.Context(), strings.NewReader(unknown)); fault.Of(err) != runtype.InputInvalid {
			t.Errorf("a table that is none of ours: %v", err)
		}
		column := strings.Replace(lines.String(), `"account_id":`, `"x) --":`, 1)
		if err := open(options).Restore(t.Context(), strings.NewReader(column)); fault.Of(err) != runtype.InputInvalid {
			t.Errorf("an invalid column name: %v", err)
		}
	})
}

// A backup of the file holds clusters. Without the key, none of its secrets can be read.
func TestSecretsAreEncryptedInTheFile(t *testing.T) {
	dir := t.TempDir()
	s := sqltest.OpenSQLite(t, sql.Options{Path: filepath.Join(dir, "pawl.db"), MasterKey: sqltest.MasterKey})
	commit(t, s, sqltest.NewRecord(1))
	want := contents(t, s)
	if err := s.Backup(t.Context(), filepath.Join(dir, "backup.db")); err != nil {
		t.Fatal(err)
	}
	s.Close()
	for _, name := range []string{"pawl.db", "backup.db"} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !bytes.Contains(data, []byte("cluster c00001")) {
			t.Fatalf("%s does not hold the cluster: %v", name, err)
		}
		for _, secret := range [][]byte{[]byte(sqltest.PlantedSecret), sqltest.MasterKey} {
			if bytes.Contains(data, secret) {
				t.Errorf("%s shows %q", name, secret)
			}
		}
	}
	backup := sqltest.OpenSQLite(t, sql.Options{Path: filepath.Join(dir, "backup.db"), MasterKey: sqltest.MasterKey})
	if diff := cmp.Diff(want, contents(t, backup), revealed); diff != "" {
		t.Errorf("the backup differs:\n%s", diff)
	}
}

func TestKeysAreMissingOrUnknown(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pawl.db")
	s := sqltest.OpenSQLite(t, sql.Options{Path: path, MasterKey: sqltest.MasterKey})
	commit(t, s, sqltest.NewRecord(1))
	s.Close()
	other := bytes.Repeat([]byte{9}, secrets.KeySize)
	for _, test := range []struct {
		name        string
		key         []byte
		open, write *fault.Kind
	}{
		{"no key", nil, secrets.MasterKeyMissing, secrets.MasterKeyMissing},
		{"another key", other, secrets.MasterKeyUnknown, nil},
	} {
		s := sqltest.OpenSQLite(t, sql.Options{Path: path, MasterKey: test.key})
		if _, err := s.Clusters().Details(t.Context(), "c00001"); !errors.Is(err, test.open) {
			t.Errorf("%s: Details returned %v", test.name, err)
		}
		if _, err := s.Clusters().Job(t.Context(), "job-c00001"); !errors.Is(err, test.open) {
			t.Errorf("%s: Job returned %v", test.name, err)
		}
		// Lists and records need no secret.
		if jobs, _, err := s.Clusters().Jobs(t.Context(), cluster.JobQuery{Scope: cluster.Scope{All: true}}); err != nil || jobs[0].Password != "" {
			t.Errorf("%s: Jobs returned %+v, %v", test.name, jobs, err)
		}
		if _, err := s.Clusters().Record(t.Context(), "c00001"); err != nil {
			t.Errorf("%s: Record returned %v", test.name, err)
		}
		err := s.Clusters().Commit(t.Context(), sqltest.NewRecord(len(test.name)))
		if test.write == nil && err != nil || test.write != nil && !errors.Is(err, test.write) {
			t.Errorf("%s: Commit returned %v", test.name, err)
		}
		s.Close()
	}
	if _, err := sql.Open(t.Context(), sql.Options{Path: path, MasterKey: []byte("short")}); !errors.Is(err, secrets.MasterKeyInvalid) {
		t.Errorf("a short key: %v", err)
	}
}

// Rotation encrypts all secrets again, and only those that need it. Then the old key is
// not needed.
func TestRotate(t *testing.T) {
	eachStore(t, func(t *testing.T, open func(sql.Options) sql.Store) {
		s := open(sql.Options{MasterKey: sqltest.MasterKey})
		const clusters = 210 // more than one write
		for i := range clusters {
			commit(t, s, sqltest.NewRecord(i))
		}
		commit(t, s, &cluster.Change{Cluster: &cluster.Cluster{UUID: "bare"}, Details: &cluster.Details{}}) // nothing to encrypt
		want := contents(t, s)
		var lines bytes.Buffer
		if err := s.Export(t.Context(), &lines); err != nil {
			t.Fatal(err)
		}
		next := bytes.Repeat([]byte{9}, secrets.KeySize)
		rotating := open(sql.Options{MasterKey: next, MasterKeys: [][]byte{sqltest.MasterKey}})
		if err := rotating.Restore(t.Context(), &lines); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, contents(t, rotating), revealed); diff != "" {
			t.Errorf("before the rotation:\n%s", diff)
		}
		if n, err := rotating.Rotate(t.Context()); err != nil || n != 2*clusters {
			t.Errorf("Rotate encrypted %d rows, %v; want %d: details and jobs", n, err, 2*clusters)
		}
		if n, err := rotating.Rotate(t.Context()); err != nil || n != 0 {
			t.Errorf("once more: %d, %v", n, err)
		}
		lines.Reset()
		if err := rotating.Export(t.Context(), &lines); err != nil {
			t.Fatal(err)
		}
		after := open(sql.Options{MasterKey: next})
		if err := after.Restore(t.Context(), &lines); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, contents(t, after), revealed); diff != "" {
			t.Errorf("with the new key alone:\n%s", diff)
		}
		for _, c := range []struct {
			key  []byte
			want error
		}{{next, nil}, {sqltest.MasterKey, secrets.MasterKeyUnknown}, {nil, secrets.MasterKeyMissing}} {
			var encrypted bytes.Buffer
			if err := after.Export(t.Context(), &encrypted); err != nil {
				t.Fatal(err)
			}
			other := open(sql.Options{MasterKey: c.key})
			if err := other.Restore(t.Context(), &encrypted); err != nil {
				t.Fatal(err)
			}
			if err := other.CheckEncryption(t.Context()); !errors.Is(err, c.want) {
				t.Errorf("a store encrypted with another key: %v, want %v", err, c.want)
			}
		}
		if _, err := open(sql.Options{}).Rotate(t.Context()); !errors.Is(err, secrets.MasterKeyMissing) {
			t.Errorf("without a key: %v", err)
		}
	})
}

func TestSettingsAgree(t *testing.T) {
	eachStore(t, func(t *testing.T, open func(sql.Options) sql.Store) {
		l := open(sql.Options{}).Clusters()
		if v, err := l.Setting(t.Context(), "installation"); err != nil || v != "" {
			t.Errorf("none: %q %v", v, err)
		}
		for _, mine := range []string{"first", "second"} {
			if v, err := l.SettingOr(t.Context(), "installation", mine); err != nil || v != "first" {
				t.Errorf("%s: %q %v", mine, v, err)
			}
		}
		if err := l.PutSetting(t.Context(), "installation", "third"); err != nil {
			t.Fatal(err)
		}
		if v, err := l.Setting(t.Context(), "installation"); err != nil || v != "third" {
			t.Errorf("put: %q %v", v, err)
		}
	})
}

// Both databases enforce the maximum sizes of columns. A value that does not fit is
// reported as such.
func TestSizesOfColumns(t *testing.T) {
	eachStore(t, func(t *testing.T, open func(sql.Options) sql.Store) {
		s := open(sql.Options{})
		for column, set := range map[string]func(*cluster.Cluster, string){
			"uuid 40":              func(c *cluster.Cluster, v string) { c.UUID = v },
			"name 255":             func(c *cluster.Cluster, v string) { c.Name = v },
			"description 4096":     func(c *cluster.Cluster, v string) { c.Description = v },
			"state 32":             func(c *cluster.Cluster, v string) { c.State = machine.State(v) },
			"key_pair 40":          func(c *cluster.Cluster, v string) { c.KeyPair = v },
			"endpoint 255":         func(c *cluster.Cluster, v string) { c.Endpoint = v },
			"console_endpoint 255": func(c *cluster.Cluster, v string) { c.ConsoleEndpoint = v },
		} {
			var name string
			var size int
			if _, err := fmt.Sscan(column, &name, &size); err != nil {
				t.Fatal(err)
			}
			c := &cluster.Cluster{UUID: name}
			set(c, strings.Repeat("ä", size))
			if err := s.Clusters().Commit(t.Context(), &cluster.Change{Cluster: c}); err != nil {
				t.Errorf("%s: %v", column, err)
			}
			c = &cluster.Cluster{UUID: name + "+"}
			set(c, strings.Repeat("ä", size+1))
			if err := s.Clusters().Commit(t.Context(), &cluster.Change{Cluster: c}); fault.Of(err) != cluster.ClusterInvalid {
				t.Errorf("one more than %s: %v", column, err)
			}
		}
	})
}

// Texts of providers may contain any bytes: both databases store the valid part.
func TestTextsOfProviders(t *testing.T) {
	eachStore(t, func(t *testing.T, open func(sql.Options) sql.Store) {
		s := open(sql.Options{})
		commit(t, s, &cluster.Change{Cluster: &cluster.Cluster{UUID: "u", Reason: cluster.Reason{Text: "a\x00b\xffc"}, Findings: []cluster.Finding{{Evidence: "a\x00b\xff"}}},
			Journal: []*cluster.JournalRow{{Key: "k", LastError: "x\x00y\xfe"}}})
		b, err := s.Clusters().Record(t.Context(), "u")
		if err != nil {
			t.Fatal(err)
		}
		if b.Cluster.Reason.Text != "ab\uFFFDc" || b.Journal[0].LastError != "xy\uFFFD" || b.Cluster.Findings[0].Evidence != "a\x00b\uFFFD" {
			t.Errorf("%q %q %q", b.Cluster.Reason.Text, b.Journal[0].LastError, b.Cluster.Findings[0].Evidence)
		}
	})
}

// Two servers share a PostgreSQL database: if both have read a revision, only one may
// write it; each reads what the other has written.
func TestTwoServersShareTheRecords(t *testing.T) {
	dsn := pgtest.Start(t, pgtest.Options{NoSync: true}).Database(t)
	var servers []sql.Store
	for range 2 {
		s, err := sql.Open(t.Context(), sql.Options{DSN: dsn, MasterKey: sqltest.MasterKey})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		servers = append(servers, s)
	}
	commit(t, servers[0], sqltest.NewRecord(1))
	const rounds = 20
	for round := range rounds {
		var all sync.WaitGroup
		errs, read := make([]error, len(servers)), make([]*cluster.Record, len(servers))
		for i, s := range servers {
			b, err := s.Clusters().Record(t.Context(), "c00001")
			if err != nil {
				t.Fatal(err)
			}
			b.Cluster.Description, read[i] = fmt.Sprint(round, i), b
		}
		for i, s := range servers {
			b := read[i]
			all.Go(func() {
				errs[i] = s.Clusters().Commit(t.Context(), &cluster.Change{Cluster: &b.Cluster, Journal: []*cluster.JournalRow{&b.Journal[0]}, Events: []*cluster.Event{{At: sqltest.When}}})
			})
		}
		all.Wait()
		if (errs[0] == nil) == (errs[1] == nil) || !errors.Is(errors.Join(errs...), fault.WriteConflict) {
			t.Fatalf("round %d: %v", round, errs)
		}
	}
	b, err := servers[1].Clusters().Record(t.Context(), "c00001")
	if err != nil || b.Cluster.Revision != rounds+1 || b.Journal[0].Revision != rounds+1 {
		t.Errorf("after %d rounds the cluster is at %d, its row at %d, %v", rounds, b.Cluster.Revision, b.Journal[0].Revision, err)
	}
}

// Committed rows survive a crash, also for a client, and a second server is refused.
func TestRecordsOutliveTheirServer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pawl.db")
	s := sqltest.OpenSQLite(t, sql.Options{Path: path, MasterKey: sqltest.MasterKey})
	commit(t, s, sqltest.NewRecord(1))
	client := sqltest.OpenSQLite(t, sql.Options{Path: path, MasterKey: sqltest.MasterKey})
	if client.IsOwner() {
		t.Error("a second server owns the file")
	}
	if diff := cmp.Diff(contents(t, s), contents(t, client), revealed); diff != "" {
		t.Errorf("a client reads different rows:\n%s", diff)
	}
	commit(t, client, sqltest.NewRecord(2))
	commit(t, s, sqltest.NewRecord(3))
	client.Close()
	want := contents(t, s)
	sqltest.Crash(s)
	again := sqltest.OpenSQLite(t, sql.Options{Path: path, MasterKey: sqltest.MasterKey})
	if diff := cmp.Diff(want, contents(t, again), revealed); diff != "" {
		t.Errorf("after the crash:\n%s", diff)
	}
}
