package databases

import (
	"crypto/rand"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// Wanted is what the server shall have, and shall not have.
type Wanted struct {
	Users     []User
	Databases []Database
}

// User is a user that is wanted, or with Absent is not.
type User struct {
	Name            string
	Absent          bool
	Login           bool
	CreateDB        bool
	Replication     bool
	ConnectionLimit int       // -1: none
	ValidUntil      time.Time // of the password, in whole seconds; zero: no end
	InRoles         []string  // all roles that it is a member of; nil: left alone
	Password        string    // empty: left alone
}

// Database is a database that is wanted, or with Absent is not.
type Database struct {
	Name       string
	Absent     bool
	Owner      string
	Extensions []Extension
}

// Extension is an extension of a database.
type Extension struct {
	Name   string
	Absent bool
}

// Names returns the databases whose extensions Plan has to know.
func (w Wanted) Names() (names []string) {
	for _, d := range w.Databases {
		if !d.Absent && len(d.Extensions) > 0 {
			names = append(names, d.Name)
		}
	}
	return names
}

// Plan returns the statements that make what was found as it is wanted, in their order, and the
// extensions that the server does not have, as database/extension. After all of them have
// succeeded, there are none.
func Plan(want Wanted, found port.Databases) (statements []port.Statement, missing []string) {
	p := &plan{found: found}
	for _, u := range want.Users {
		if !u.Absent {
			p.user(u)
		}
	}
	for _, u := range want.Users {
		if !u.Absent {
			p.memberships(u)
		}
	}
	for _, d := range want.Databases {
		if !d.Absent {
			p.database(d)
		}
	}
	for _, d := range want.Databases {
		if d.Absent && p.databaseOf(d.Name) != nil {
			p.add("", "drop database "+d.Name, "DROP DATABASE %s", quote(d.Name))
		}
	}
	for _, u := range want.Users {
		if u.Absent && p.userOf(u.Name) != nil {
			p.add("", "drop user "+u.Name, "DROP ROLE %s", quote(u.Name))
		}
	}
	return p.statements, p.missing
}

type plan struct {
	found      port.Databases
	statements []port.Statement
	missing    []string
}

func (p *plan) add(database, what, sql string, args ...any) {
	p.statements = append(p.statements, port.Statement{Database: database, What: what, SQL: fmt.Sprintf(sql, args...)})
}

func (p *plan) userOf(name string) *port.User {
	if n := slices.IndexFunc(p.found.Users, func(u port.User) bool { return u.Name == name }); n >= 0 {
		return &p.found.Users[n]
	}
	return nil
}

func (p *plan) databaseOf(name string) *port.Database {
	if n := slices.IndexFunc(p.found.Databases, func(d port.Database) bool { return d.Name == name }); n >= 0 {
		return &p.found.Databases[n]
	}
	return nil
}

// fresh is what CREATE ROLE makes without options.
var fresh = port.User{ConnectionLimit: -1}

func (p *plan) user(u User) {
	is := p.userOf(u.Name)
	verb := "ALTER"
	if is == nil {
		is, verb = &fresh, "CREATE"
	}
	var options []string
	flag := func(want, is bool, option string) {
		if want && !is {
			options = append(options, option)
		} else if !want && is {
			options = append(options, "NO"+option)
		}
	}
	flag(false, is.Superuser, "SUPERUSER")
	flag(false, is.CreateRole, "CREATEROLE")
	flag(u.Login, is.Login, "LOGIN")
	flag(u.CreateDB, is.CreateDB, "CREATEDB")
	flag(u.Replication, is.Replication, "REPLICATION")
	if u.ConnectionLimit != is.ConnectionLimit {
		options = append(options, "CONNECTION LIMIT "+strconv.Itoa(u.ConnectionLimit))
	}
	if !u.ValidUntil.Equal(is.ValidUntil) {
		until := "infinity"
		if !u.ValidUntil.IsZero() {
			until = u.ValidUntil.UTC().Format("2006-01-02 15:04:05+00")
		}
		options = append(options, "VALID UNTIL "+literal(until))
	}
	if u.Password != "" && !Verifies(is.Verifier, u.Password) {
		salt := make([]byte, 16)
		_, _ = rand.Read(salt) // it never fails
		options = append(options, "PASSWORD "+literal(Verifier(u.Password, salt)))
	}
	if verb == "ALTER" && len(options) == 0 {
		return
	}
	p.add("", strings.ToLower(verb)+" user "+u.Name, "%s", strings.Join(append([]string{verb, "ROLE", quote(u.Name)}, options...), " "))
}

func (p *plan) memberships(u User) {
	if u.InRoles == nil {
		return
	}
	var in []string
	if is := p.userOf(u.Name); is != nil {
		in = is.InRoles
	}
	for _, role := range u.InRoles {
		if !slices.Contains(in, role) {
			p.add("", "grant "+role+" to "+u.Name, "GRANT %s TO %s", quote(role), quote(u.Name))
		}
	}
	for _, role := range in {
		if !slices.Contains(u.InRoles, role) {
			p.add("", "revoke "+role+" from "+u.Name, "REVOKE %s FROM %s", quote(role), quote(u.Name))
		}
	}
}

func (p *plan) database(d Database) {
	is := p.databaseOf(d.Name)
	switch {
	case is == nil:
		p.add("", "create database "+d.Name, "CREATE DATABASE %s OWNER %s", quote(d.Name), quote(d.Owner))
		is = &port.Database{Extensions: []string{"plpgsql"}} // as template1 has it
	case is.Owner != d.Owner:
		p.add("", "give database "+d.Name+" to "+d.Owner, "ALTER DATABASE %s OWNER TO %s", quote(d.Name), quote(d.Owner))
	}
	for _, x := range d.Extensions {
		there := slices.Contains(is.Extensions, x.Name)
		switch {
		case x.Absent && there:
			p.add(d.Name, "drop extension "+x.Name+" of "+d.Name, "DROP EXTENSION IF EXISTS %s", quote(x.Name))
		case x.Absent || there:
		case !slices.Contains(p.found.Available, x.Name):
			p.missing = append(p.missing, d.Name+"/"+x.Name)
		default:
			p.add(d.Name, "create extension "+x.Name+" in "+d.Name, "CREATE EXTENSION IF NOT EXISTS %s CASCADE", quote(x.Name))
		}
	}
}

// quote quotes an identifier of SQL.
func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

func literal(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }
