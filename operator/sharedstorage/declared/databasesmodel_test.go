package declared

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// databasesModel is a server that carries out the statements of Plan, without rules about what depends on what.
type databasesModel struct {
	users     []port.User
	dbs       []port.Database
	available []string
}

func model(d port.Databases) databasesModel {
	s := databasesModel{available: d.Available}
	for _, u := range d.Users {
		u.InRoles = slices.Clone(u.InRoles)
		s.users = append(s.users, u)
	}
	for _, one := range d.Databases {
		one.Extensions = slices.Clone(one.Extensions)
		s.dbs = append(s.dbs, one)
	}
	return s
}

func (s databasesModel) databases() port.Databases {
	return port.Databases{Users: s.users, Databases: s.dbs, Available: s.available}
}

var (
	roleForm    = regexp.MustCompile(`^(CREATE|ALTER) ROLE "(\w+)"(.*)$`)
	grantForm   = regexp.MustCompile(`^(GRANT|REVOKE) "(\w+)" (?:TO|FROM) "(\w+)"$`)
	ownerForm   = regexp.MustCompile(`^(CREATE|ALTER) DATABASE "(\w+)" OWNER (?:TO )?"(\w+)"$`)
	dropForm    = regexp.MustCompile(`^DROP (ROLE|DATABASE) "(\w+)"$`)
	pluginForm  = regexp.MustCompile(`^(CREATE|DROP) EXTENSION IF (?:NOT )?EXISTS "([\w-]+)"( CASCADE)?$`)
	optionsForm = regexp.MustCompile(`CONNECTION LIMIT (-?\d+)|VALID UNTIL '([^']*)'|PASSWORD '([^']*)'|(NO)?(SUPERUSER|CREATEROLE|LOGIN|CREATEDB|REPLICATION)`)
)

func (s databasesModel) execute(t *rapid.T, st port.Statement) databasesModel {
	user := func(name string) *port.User {
		n := slices.IndexFunc(s.users, func(u port.User) bool { return u.Name == name })
		if n < 0 {
			t.Fatalf("%s: there is no user %s", st.SQL, name)
		}
		return &s.users[n]
	}
	db := func(name string) *port.Database {
		n := slices.IndexFunc(s.dbs, func(d port.Database) bool { return d.Name == name })
		if n < 0 {
			t.Fatalf("%s: there is no database %s", st.SQL, name)
		}
		return &s.dbs[n]
	}
	if m := roleForm.FindStringSubmatch(st.SQL); m != nil {
		if m[1] == "CREATE" {
			s.users = append(s.users, port.User{Name: m[2], ConnectionLimit: -1})
		}
		setOptions(user(m[2]), m[3])
	} else if m := grantForm.FindStringSubmatch(st.SQL); m != nil {
		u := user(m[3])
		u.InRoles = slices.DeleteFunc(u.InRoles, func(r string) bool { return r == m[2] })
		if m[1] == "GRANT" {
			u.InRoles = append(u.InRoles, m[2])
		}
	} else if m := ownerForm.FindStringSubmatch(st.SQL); m != nil {
		if m[1] == "CREATE" {
			s.dbs = append(s.dbs, port.Database{Name: m[2], Extensions: []string{"plpgsql"}})
		}
		db(m[2]).Owner = m[3]
	} else if m := pluginForm.FindStringSubmatch(st.SQL); m != nil {
		d := db(st.Database)
		d.Extensions = slices.DeleteFunc(d.Extensions, func(x string) bool { return x == m[2] })
		if m[1] == "CREATE" {
			d.Extensions = append(d.Extensions, m[2])
		}
	} else if m := dropForm.FindStringSubmatch(st.SQL); m != nil && m[1] == "ROLE" {
		user(m[2])
		s.users = slices.DeleteFunc(s.users, func(u port.User) bool { return u.Name == m[2] })
	} else if m != nil {
		db(m[2])
		s.dbs = slices.DeleteFunc(s.dbs, func(d port.Database) bool { return d.Name == m[2] })
	} else {
		t.Fatalf("%q is no statement of this server", st.SQL)
	}
	return s
}

func setOptions(u *port.User, text string) {
	flags := map[string]*bool{"SUPERUSER": &u.Superuser, "CREATEROLE": &u.CreateRole, "LOGIN": &u.Login, "CREATEDB": &u.CreateDB, "REPLICATION": &u.Replication}
	for _, m := range optionsForm.FindAllStringSubmatch(text, -1) {
		switch {
		case strings.HasPrefix(m[0], "CONNECTION"):
			_, _ = fmt.Sscan(m[1], &u.ConnectionLimit) // the form has a number
		case strings.HasPrefix(m[0], "VALID"):
			u.ValidUntil, _ = time.Parse("2006-01-02 15:04:05-07", m[2]) // infinity is no time
			u.ValidUntil = u.ValidUntil.UTC()
		case strings.HasPrefix(m[0], "PASSWORD"):
			u.Verifier = m[3]
		default:
			*flags[m[5]] = m[4] == ""
		}
	}
}

// untouched compares what is not declared with what was there.
func (s databasesModel) untouched(t *rapid.T, was port.Databases, want wantedDatabases) {
	for _, u := range was.Users {
		if !slices.ContainsFunc(want.Users, func(w wantedUser) bool { return w.Name == u.Name }) && !slices.ContainsFunc(s.users, func(is port.User) bool { return reflect.DeepEqual(is, u) }) {
			t.Fatalf("user %+v was changed", u)
		}
	}
	for _, d := range was.Databases {
		if !slices.ContainsFunc(want.Databases, func(w wantedDatabase) bool { return w.Name == d.Name }) && !slices.ContainsFunc(s.dbs, func(is port.Database) bool { return reflect.DeepEqual(is, d) }) {
			t.Fatalf("database %+v was changed", d)
		}
	}
}
