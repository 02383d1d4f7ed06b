package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/operator/sharedstorage"
	"github.com/pawl-dev/pawl/operator/sharedstorage/declared"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// The users and databases of a real server follow the spec and the files with passwords, and what is
// not declared stays.
func TestDatabasesOfACluster(t *testing.T) {
	var mu sync.Mutex
	var events []string
	ctx, b, objects := served(t, func(o *sharedstorage.Options, s *Placement) {
		o.Secrets, o.Credentials = Secret, s.Credentials()
		o.Event = func(_ *sharedstorage.Cluster, e sharedstorage.Event) {
			mu.Lock()
			defer mu.Unlock()
			events = append(events, e.Reason+": "+e.Message)
		}
	})
	cluster := port.Ref{Namespace: blue.Namespace, Name: blue.Name}
	apply := func(fields map[string]any) error {
		spec := map[string]any{"readers": 0, "storage": map[string]any{"size": "1Gi"}, "parameters": map[string]string{"log_statement": "all"}}
		for name, value := range fields {
			spec[name] = value
		}
		raw, err := json.Marshal(spec)
		b.must(err)
		_, err = objects.Apply(ctx, control.Object{Ref: blue, Spec: raw})
		return err
	}
	var c *sharedstorage.Cluster
	awaits := func(reason, message string, also func() error) {
		t.Helper()
		eventually(t, time.Minute, reason+" "+message, func() error {
			o, err := objects.Get(ctx, blue)
			if err != nil {
				return err
			}
			if c, err = (ClusterStore{Objects: objects, Placement: b.Placement}).Of(o); err != nil {
				return err
			}
			is := meta.FindStatusCondition(c.Status.Conditions, declared.DatabasesCondition)
			if is == nil || is.Reason != reason || !strings.Contains(is.Message, message) || is.ObservedGeneration != o.Generation {
				return fmt.Errorf("%+v", is)
			}
			return also()
		})
	}
	none := func() error { return nil }
	// as runs a query as a user, over TCP with a password.
	as := func(user, password, database, sql string) (text string, err error) {
		all, err := b.Instances().List(ctx, cluster)
		if err != nil || len(all) == 0 {
			return "", fmt.Errorf("no instance: %w", err)
		}
		cfg, err := pgx.ParseConfig(fmt.Sprintf("host=%s port=%d sslmode=disable connect_timeout=5", all[0].Address, all[0].Port))
		if err != nil {
			return "", err
		}
		cfg.User, cfg.Password, cfg.Database, cfg.DefaultQueryExecMode = user, password, database, pgx.QueryExecModeSimpleProtocol
		conn, err := pgx.ConnectConfig(ctx, cfg)
		if err != nil {
			return "", err
		}
		defer conn.Close(ctx)
		rows, err := conn.Query(ctx, sql)
		if err != nil {
			return "", err
		}
		defer rows.Close()
		for rows.Next() {
			if err := rows.Scan(&text); err != nil {
				return "", err
			}
		}
		return text, rows.Err()
	}
	worked := func(user, password, database, sql, want string) func() error {
		return func() error {
			if got, err := as(user, password, database, sql); err != nil || got != want {
				return fmt.Errorf("%s: %q, not %q (%w)", sql, got, want, err)
			}
			return nil
		}
	}

	b.must(apply(nil))
	eventually(t, 2*time.Minute, "the user app", func() error {
		_, err := os.Stat(Folder(b.folder(cluster)).UserPassword("app"))
		return err
	})
	file := Folder(b.folder(cluster)).UserPassword("app")
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%s: %v %v", file, info.Mode(), err)
	}
	text, err := os.ReadFile(file)
	b.must(err)
	first := strings.TrimSpace(string(text))
	awaits("AsWanted", "", worked("app", first, "app", "SELECT rolsuper::text || rolcreaterole::text || pg_get_userbyid(datdba) FROM pg_roles, pg_database WHERE rolname = current_user AND datname = current_database()", "falsefalseapp"))
	if _, err := as("app", first, "app", "CREATE TABLE orders (id int)"); err != nil {
		t.Error(err)
	}
	if _, err := as("app", first, "app", "COPY orders FROM PROGRAM 'true'"); err == nil {
		t.Error("app runs programs")
	}
	if u := c.Status.Databases.Users; len(u) != 1 || u[0].Name != "app" || u[0].Credentials != file || !u[0].Declared || u[0].Superuser {
		t.Errorf("status: %+v", u)
	}

	b.must(postgresWrite(file, "an other one: \\"))
	awaits("AsWanted", "", worked("app", "an other one: \\", "app", "SELECT current_user::text", "app"))
	if _, err := as("app", first, "app", "SELECT 1::text"); err == nil {
		t.Error("the former password is still taken")
	}

	superuser, err := b.Password(cluster)
	b.must(err)
	_, err = as("postgres", superuser, "postgres", "CREATE ROLE byhand SUPERUSER; CREATE ROLE team; GRANT team TO app")
	b.must(err)
	secret := filepath.Join(b.o.Dir, "shop-password")
	users := []map[string]any{
		{"name": "shop", "inRoles": []string{"pg_monitor"}, "connectionLimit": 3, "validUntil": "2037-01-02T03:04:05Z", "password": map[string]any{"file": secret}},
		{"name": "app", "createdb": true},
	}
	dbs := []map[string]any{
		{"name": "shop", "owner": "shop", "extensions": []map[string]any{{"name": "nothing_like_it"}, {"name": "plpgsql", "ensure": "present"}}},
		{"name": "app", "owner": "app"},
	}
	b.must(apply(map[string]any{"users": users, "databases": dbs}))
	awaits("PasswordMissing", "user shop", none)
	if !strings.Contains(meta.FindStatusCondition(c.Status.Conditions, declared.DatabasesCondition).Message, "shop/nothing_like_it") {
		t.Error("the extension that is missing is not named")
	}
	b.must(postgresWrite(secret, "s3cret"))
	dbs[0]["extensions"] = []map[string]any{}
	b.must(apply(map[string]any{"users": users, "databases": dbs}))
	awaits("AsWanted", "", worked("shop", "s3cret", "shop", `SELECT (SELECT string_agg(r.rolname, ',') FROM pg_auth_members m JOIN pg_roles r ON r.oid = roleid JOIN pg_roles u ON u.oid = member WHERE u.rolname = 'shop')
		|| (SELECT rolconnlimit || to_char(rolvaliduntil AT TIME ZONE 'UTC', ' YYYY-MM-DD HH24:MI:SS') FROM pg_roles WHERE rolname = 'shop')`, "pg_monitor3 2037-01-02 03:04:05"))
	b.must(worked("postgres", superuser, "postgres", "SELECT string_agg(rolname || rolsuper::text || rolcreatedb::text, ' ' ORDER BY rolname) FROM pg_roles WHERE rolname IN ('byhand', 'team', 'app')", "appfalsetrue byhandtruefalse teamfalsefalse")())
	b.must(worked("postgres", superuser, "postgres", "SELECT pg_has_role('app', 'team', 'MEMBER')::text", "true")())

	// app owns a database and a table in it, so it cannot be dropped.
	users[1] = map[string]any{"name": "app", "ensure": "absent"}
	b.must(apply(map[string]any{"users": users, "databases": dbs[:1]}))
	awaits("DatabasesFailed", "drop user app: role \"app\" cannot be dropped because some objects depend on it", none)
	dbs[1] = map[string]any{"name": "app", "ensure": "absent"}
	b.must(apply(map[string]any{"users": users, "databases": dbs}))
	awaits("AsWanted", "", func() error {
		_, err := os.Stat(file)
		if !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("the password of app is still there: %w", err)
		}
		return nil
	})
	b.must(worked("postgres", superuser, "postgres", "SELECT count(*)::text FROM pg_roles, pg_database WHERE rolname = 'app' OR datname = 'app'", "0")())

	for want, fields := range map[string]map[string]any{
		"superuser: no user":     {"users": []map[string]any{{"name": "x", "superuser": true}}},
		"createrole: up to":      {"users": []map[string]any{{"name": "x", "createrole": true}}},
		"x is declared twice":    {"users": []map[string]any{{"name": "x"}, {"name": "x"}}},
		"PostgreSQL's own":       {"users": []map[string]any{{"name": "postgres"}}},
		"good as a superuser":    {"users": []map[string]any{{"name": "x", "inRoles": []string{"pg_execute_server_program"}}}},
		"a letter first":         {"users": []map[string]any{{"name": "X;"}}},
		"the Secrets of":         {"users": []map[string]any{{"name": "x_auth"}}},
		"validUntil":             {"users": []map[string]any{{"name": "x", "validUntil": "soon"}}},
		"name the user that":     {"databases": []map[string]any{{"name": "x"}}},
		"user of an application": {"databases": []map[string]any{{"name": "x", "owner": "postgres"}}},
		"template1":              {"databases": []map[string]any{{"name": "template1", "owner": "x"}}},
	} {
		if err := apply(fields); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, not %q", fields, err, want)
		}
	}

	mu.Lock()
	all := strings.Join(events, "\n")
	mu.Unlock()
	for _, want := range []string{"DatabasesChanged: create user app, create database app", "PasswordMissing: ", "DatabasesFailed: "} {
		if !strings.Contains(all, want) {
			t.Errorf("no Event %q in\n%s", want, all)
		}
	}
	logged := false // that statements are logged at all
	for _, word := range []string{first, "an other one", "s3cret", "SCRAM-SHA-256$"} {
		if strings.Contains(all, word) {
			t.Errorf("an Event has %q", word)
		}
		b.must(filepath.WalkDir(b.folder(cluster), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(path) != ".log" {
				return nil //nolint:nilerr // files come and go
			}
			text, err := os.ReadFile(path)
			if strings.Contains(string(text), word) {
				t.Errorf("%s has %q", path, word)
			}
			logged = logged || strings.Contains(string(text), "CREATE ROLE byhand")
			return err
		}))
	}
	if !logged {
		t.Error("no statement is in a log: the search above proves nothing")
	}
}

func postgresWrite(path, text string) error { return os.WriteFile(path, []byte(text+"\n"), 0o600) }
