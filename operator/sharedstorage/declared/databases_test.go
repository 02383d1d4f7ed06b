package declared

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

func TestVerifier(t *testing.T) {
	v := verifier("pencil", []byte("0123456789abcdef"), iterations)
	for password, want := range map[string]bool{"pencil": true, "pencil ": false, "": false} {
		if got := verifies(v, password); got != want {
			t.Errorf("%q verifies %s: %t", password, v, got)
		}
	}
	for _, stored := range []string{"", "md5" + strings.Repeat("0", 32), "SCRAM-SHA-256$", "SCRAM-SHA-256$0:YQ==$a:b", "SCRAM-SHA-256$x:YQ==$a:b", "SCRAM-SHA-256$4096:?$a:b", "SCRAM-SHA-256$9999999:YQ==$a:b"} {
		if verifies(stored, "pencil") {
			t.Errorf("%q verifies", stored)
		}
	}
	for password, want := range map[string]string{"": "empty", "a\n": "ASCII", "häuser": "ASCII", "a b~!'\"\\": ""} {
		err := checkPassword(password)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, not %q", password, err, want)
		}
	}
}

func TestPlanDatabases(t *testing.T) {
	told := func(missing []problem) (texts []string) {
		for _, p := range missing {
			if fault.Of(p.err) != port.ExtensionMissing || p.condition != DatabasesCondition {
				t.Errorf("%+v", p)
			}
			name, _, _ := strings.Cut(fault.Message(p.err), ": ")
			texts = append(texts, name)
		}
		return texts
	}
	until := time.Date(2027, 1, 2, 3, 4, 5, 0, time.UTC)
	app := wantedUser{Name: "app", Login: true, ConnectionLimit: -1}
	found := func(change func(*port.Databases)) port.Databases {
		f := port.Databases{Users: []port.User{{Name: "app", Login: true, ConnectionLimit: -1}, {Name: "dba", Superuser: true, ConnectionLimit: -1}},
			Databases: []port.Database{{Name: "app", Owner: "app", Extensions: []string{"plpgsql"}}, {Name: "old", Owner: "dba"}}, Available: []string{"pg_trgm", "plpgsql", "uuid-ossp"}}
		if change != nil {
			change(&f)
		}
		return f
	}
	user := func(change func(*wantedUser)) wantedDatabases {
		u := app
		change(&u)
		return wantedDatabases{Users: []wantedUser{u}}
	}
	db := func(d wantedDatabase) wantedDatabases {
		return wantedDatabases{Databases: []wantedDatabase{d}}
	}
	for _, c := range []struct {
		name    string
		want    wantedDatabases
		found   port.Databases
		sql     []string
		missing []string
	}{
		{name: "nothing is declared: all is left alone", found: found(nil)},
		{name: "as wanted", want: wantedDatabases{Users: []wantedUser{app}, Databases: []wantedDatabase{{Name: "app", Owner: "app"}}}, found: found(nil)},
		{name: "a new server", want: wantedDatabases{Users: []wantedUser{app}, Databases: []wantedDatabase{{Name: "app", Owner: "app", Extensions: []wantedExtension{{Name: "uuid-ossp"}}}}},
			found: port.Databases{Available: []string{"uuid-ossp"}},
			sql:   []string{`CREATE ROLE "app" LOGIN`, `CREATE DATABASE "app" OWNER "app"`, `app: CREATE EXTENSION IF NOT EXISTS "uuid-ossp" CASCADE`}},
		{name: "each option", want: user(func(u *wantedUser) {
			u.Login, u.CreateDB, u.Replication, u.ConnectionLimit, u.ValidUntil = false, true, true, 5, until
		}), found: found(nil), sql: []string{`ALTER ROLE "app" NOLOGIN CREATEDB REPLICATION CONNECTION LIMIT 5 VALID UNTIL '2027-01-02 03:04:05+00'`}},
		{name: "options that somebody gave", want: user(func(*wantedUser) {}), found: found(func(f *port.Databases) {
			f.Users[0].Superuser, f.Users[0].CreateRole, f.Users[0].ValidUntil = true, true, until
		}), sql: []string{`ALTER ROLE "app" NOSUPERUSER NOCREATEROLE VALID UNTIL 'infinity'`}},
		{name: "a password", want: user(func(u *wantedUser) { u.Password = "it's" }), found: found(nil), sql: []string{`ALTER ROLE "app" PASSWORD 'SCRAM-SHA-256$4096:…'`}},
		{name: "the password that it has", want: user(func(u *wantedUser) { u.Password = "it's" }), found: found(func(f *port.Databases) { f.Users[0].Verifier = verifier("it's", []byte("salt"), iterations) })},
		{name: "another password", want: user(func(u *wantedUser) { u.Password = "new" }), found: found(func(f *port.Databases) { f.Users[0].Verifier = verifier("old", []byte("salt"), iterations) }),
			sql: []string{`ALTER ROLE "app" PASSWORD 'SCRAM-SHA-256$4096:…'`}},
		{name: "memberships as a whole", want: user(func(u *wantedUser) { u.InRoles = []string{"pg_monitor", "dba"} }), found: found(func(f *port.Databases) { f.Users[0].InRoles = []string{"dba", "other"} }),
			sql: []string{`GRANT "pg_monitor" TO "app"`, `REVOKE "other" FROM "app"`}},
		{name: "memberships that are not declared", want: user(func(*wantedUser) {}), found: found(func(f *port.Databases) { f.Users[0].InRoles = []string{"other"} })},
		{name: "no memberships", want: user(func(u *wantedUser) { u.InRoles = []string{} }), found: found(func(f *port.Databases) { f.Users[0].InRoles = []string{"other"} }), sql: []string{`REVOKE "other" FROM "app"`}},
		{name: "another owner", want: db(wantedDatabase{Name: "old", Owner: "app"}), found: found(nil), sql: []string{`ALTER DATABASE "old" OWNER TO "app"`}},
		{name: "extensions", want: db(wantedDatabase{Name: "app", Owner: "app", Extensions: []wantedExtension{{Name: "pg_trgm"}, {Name: "plpgsql", Absent: true}, {Name: "postgis"}, {Name: "uuid-ossp", Absent: true}}}),
			found: found(nil), sql: []string{`app: CREATE EXTENSION IF NOT EXISTS "pg_trgm" CASCADE`, `app: DROP EXTENSION IF EXISTS "plpgsql"`}, missing: []string{"app/postgis"}},
		{name: "what is absent, databases first", want: wantedDatabases{Users: []wantedUser{{Name: "dba", Absent: true}, {Name: "nobody", Absent: true}}, Databases: []wantedDatabase{{Name: "old", Absent: true}, {Name: "none", Absent: true}}},
			found: found(nil), sql: []string{`DROP DATABASE "old"`, `DROP ROLE "dba"`}},
	} {
		statements, missing := planDatabases(c.want, c.found)
		var got []string
		for _, s := range statements {
			text := regexp.MustCompile(`SCRAM-SHA-256\$4096:[^']*`).ReplaceAllString(s.SQL, "SCRAM-SHA-256$$4096:…")
			if s.Database != "" {
				text = s.Database + ": " + text
			}
			got = append(got, text)
			if s.What == "" || strings.Contains(s.What, "SCRAM") {
				t.Errorf("%s: %q says %q", c.name, s.SQL, s.What)
			}
		}
		if !slices.Equal(got, c.sql) || !slices.Equal(told(missing), c.missing) {
			t.Errorf("%s:\n%q, not\n%q; missing %q, not %q", c.name, got, c.sql, told(missing), c.missing)
		}
	}
}

// A server that has executed what was decided needs nothing more, and has all else as before.
func TestPlanDatabasesOnce(t *testing.T) {
	names := []string{"app", "shop", "old", "dba", "x_1"}
	extensions := []string{"pg_trgm", "uuid-ossp", "hstore"}
	rapid.Check(t, func(t *rapid.T) {
		some := func(of []string, what string) []string {
			var found []string
			for _, name := range of {
				if rapid.Bool().Draw(t, what+" "+name) {
					found = append(found, name)
				}
			}
			return found
		}
		found, want := port.Databases{Available: extensions}, wantedDatabases{}
		limit := rapid.SampledFrom([]int{-1, 0, 7})
		until := rapid.SampledFrom([]time.Time{{}, time.Unix(1800000000, 0).UTC()})
		flag := rapid.Bool()
		password := rapid.SampledFrom([]string{"one", "two"})
		for _, name := range some(names, "has user") {
			found.Users = append(found.Users, port.User{Name: name, Login: flag.Draw(t, "login"), Superuser: flag.Draw(t, "superuser"), CreateDB: flag.Draw(t, "createdb"), CreateRole: flag.Draw(t, "createrole"),
				Replication: flag.Draw(t, "replication"), ConnectionLimit: limit.Draw(t, "limit"), ValidUntil: until.Draw(t, "until"), InRoles: some([]string{"pg_monitor", "pg_read_all_data"}, "is in"),
				Verifier: verifier(password.Draw(t, "has password"), []byte("salt"), iterations)})
		}
		for _, name := range some(names, "has database") {
			found.Databases = append(found.Databases, port.Database{Name: name, Owner: rapid.SampledFrom(names).Draw(t, "owner"), Extensions: some(extensions, "has extension")})
		}
		for _, name := range some(names, "wants user") {
			u := wantedUser{Name: name, Absent: flag.Draw(t, "absent"), Login: flag.Draw(t, "login"), CreateDB: flag.Draw(t, "createdb"), Replication: flag.Draw(t, "replication"),
				ConnectionLimit: limit.Draw(t, "limit"), ValidUntil: until.Draw(t, "until"), Password: password.Draw(t, "password")}
			if flag.Draw(t, "declares roles") {
				u.InRoles = append([]string{}, some([]string{"pg_monitor", "pg_read_all_data"}, "in role")...)
			}
			want.Users = append(want.Users, u)
		}
		for _, name := range some(names, "wants database") {
			d := wantedDatabase{Name: name, Absent: flag.Draw(t, "absent"), Owner: rapid.SampledFrom(names).Draw(t, "owner")}
			for _, x := range some(extensions, "extension") {
				d.Extensions = append(d.Extensions, wantedExtension{Name: x, Absent: flag.Draw(t, "absent")})
			}
			want.Databases = append(want.Databases, d)
		}
		before := model(found)
		statements, missing := planDatabases(want, found)
		if len(missing) > 0 {
			t.Fatalf("missing: %v", missing)
		}
		after := before
		for _, s := range statements {
			after = after.execute(t, s.Statement)
		}
		if again, _ := planDatabases(want, after.databases()); len(again) > 0 {
			t.Fatalf("after %v it needs %v", statements, again)
		}
		after.untouched(t, found, want)
	})
}
