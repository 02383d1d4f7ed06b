package declared

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

const (
	absent         = "absent" // a value of ensure
	databasesName  = "users and databases"
	listedInStatus = 100 // users, and databases
)

func ensures(text string) bool { return text == "" || text == "present" || text == absent }

// wantedDatabases is what the server shall have of users and databases, and shall not have.
type wantedDatabases struct {
	Users     []wantedUser
	Databases []wantedDatabase
}

// databases are the users and databases of a cluster.
type databases struct {
	admin  port.DatabaseAdmin
	wanted wantedDatabases
	found  port.Databases
	kept   map[string]string // where the password of a user is kept
}

// withDefaultUser returns the users and databases that a spec declares.
func withDefaultUser(s *v1alpha1.SharedStorageClusterSpec) ([]v1alpha1.UserSpec, []v1alpha1.DatabaseSpec) {
	if len(s.Users) == 0 && len(s.Databases) == 0 {
		return []v1alpha1.UserSpec{{Name: DefaultUser}}, []v1alpha1.DatabaseSpec{{Name: DefaultUser, Owner: DefaultUser}}
	}
	return s.Users, s.Databases
}

func (d *databases) declaration(s *v1alpha1.SharedStorageClusterSpec) declaration {
	all := declaration{name: databasesName, changed: "DatabasesChanged", conditions: []told{{DatabasesCondition, "users and databases are as the spec wants them"}}}
	users, declared := withDefaultUser(s)
	for _, u := range users {
		all.subjects = append(all.subjects, userSubject(u.Name))
		if hasPassword(&u) {
			all.passwords = append(all.passwords, password{u.Name, u.Password})
		}
	}
	for _, one := range declared {
		all.subjects = append(all.subjects, databaseSubject(one.Name))
	}
	return all
}

// want implements section. A user whose password cannot be read keeps the one it has.
func (d *databases) want(ctx context.Context, l *look) {
	users, declared := withDefaultUser(l.c.Spec)
	owned := map[string]string{}
	for _, s := range declared {
		one := databaseOf(&s)
		if !one.Absent && owned[s.Owner] == "" {
			owned[s.Owner] = s.Name
		}
		if !l.held(databaseSubject(s.Name)) {
			d.wanted.Databases = append(d.wanted.Databases, one)
		}
	}
	for _, s := range users {
		if l.held(userSubject(s.Name)) {
			continue
		}
		u := userOf(&s)
		if !u.Absent {
			var err error
			if u.Password, err = d.password(ctx, l, &s, cmp.Or(owned[s.Name], "postgres")); err != nil {
				l.problem(port.PasswordMissing, DatabasesCondition, userSubject(s.Name), "%w", err)
			}
		}
		d.wanted.Users = append(d.wanted.Users, u)
	}
}

func (d *databases) find(ctx context.Context, l *look) (err error) {
	var names []string // the extensions of all declared databases are in the status
	_, declared := withDefaultUser(l.c.Spec)
	for _, s := range declared {
		if s.Ensure != absent && len(s.Extensions) > 0 {
			names = append(names, s.Name)
		}
	}
	d.found, err = d.admin.Databases(ctx, l.id, names)
	return err
}

func (d *databases) plan() ([]statement, []problem) { return planDatabases(d.wanted, d.found) }

func (d *databases) check(ctx context.Context, l *look) error {
	users, declared := withDefaultUser(l.c.Spec)
	var s v1alpha1.DatabasesStatus
	for _, is := range d.found.Users {
		s.Users = append(s.Users, v1alpha1.UserStatus{Name: is.Name, Login: is.Login, Superuser: is.Superuser, Credentials: d.whereKept(l, is.Name),
			Declared: slices.ContainsFunc(users, func(u v1alpha1.UserSpec) bool { return u.Name == is.Name })})
	}
	for _, is := range d.found.Databases {
		s.Databases = append(s.Databases, v1alpha1.DatabaseStatus{Name: is.Name, Owner: is.Owner, Extensions: is.Extensions,
			Declared: slices.ContainsFunc(declared, func(d v1alpha1.DatabaseSpec) bool { return d.Name == is.Name })})
	}
	s.Users, s.Databases = s.Users[:min(listedInStatus, len(s.Users))], s.Databases[:min(listedInStatus, len(s.Databases))]
	l.found.databases = &s
	return d.forget(ctx, l)
}

// whereKept returns where the password of a user is kept; of one that is held, where it was.
func (d *databases) whereKept(l *look, user string) string {
	if before := l.c.Status.Databases.Users; l.held(userSubject(user)) {
		if n := slices.IndexFunc(before, func(u v1alpha1.UserStatus) bool { return u.Name == user }); n >= 0 {
			return before[n].Credentials
		}
	}
	return d.kept[user]
}

// forget removes the passwords of users that were dropped, after a look that dropped some or is the first one.
func (d *databases) forget(ctx context.Context, l *look) error {
	if l.r.options.Credentials == nil || len(l.events) == 0 && l.former.conditions != nil {
		return nil
	}
	var all []error
	for _, u := range d.wanted.Users {
		if u.Absent && !slices.ContainsFunc(d.found.Users, func(is port.User) bool { return is.Name == u.Name }) {
			all = append(all, l.r.options.Credentials.Remove(ctx, l.c.Ref, u.Name))
		}
	}
	return errors.Join(all...)
}

// planDatabases returns the statements that make what was found as it is wanted, in their order, and the extensions
// that the server does not have. After all of them have succeeded, there are none.
func planDatabases(want wantedDatabases, found port.Databases) ([]statement, []problem) {
	p := &databasePlan{found: found}
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
			p.add(databaseSubject(d.Name), "", "drop database "+d.Name, "DROP DATABASE %s", quote(d.Name))
		}
	}
	for _, u := range want.Users {
		if u.Absent && p.userOf(u.Name) != nil {
			p.add(userSubject(u.Name), "", "drop user "+u.Name, "DROP ROLE %s", quote(u.Name))
		}
	}
	return p.statements, p.missing
}

type databasePlan struct {
	found      port.Databases
	statements []statement
	missing    []problem
}

func (p *databasePlan) add(subject, database, what, sql string, args ...any) {
	p.statements = append(p.statements, statement{port.Statement{Database: database, What: what, SQL: fmt.Sprintf(sql, args...)}, subject, DatabasesCondition, port.DatabasesFailed})
}

func (p *databasePlan) userOf(name string) *port.User {
	if n := slices.IndexFunc(p.found.Users, func(u port.User) bool { return u.Name == name }); n >= 0 {
		return &p.found.Users[n]
	}
	return nil
}

func (p *databasePlan) databaseOf(name string) *port.Database {
	if n := slices.IndexFunc(p.found.Databases, func(d port.Database) bool { return d.Name == name }); n >= 0 {
		return &p.found.Databases[n]
	}
	return nil
}

// CheckDatabases repeats the rules of the CRD for users and databases.
func CheckDatabases(s *v1alpha1.SharedStorageClusterSpec) error {
	seen := map[string]bool{}
	for _, u := range s.Users {
		if err := wrongUser(&u); err != nil {
			return fmt.Errorf("users: %s: %w", u.Name, err)
		}
		if seen[u.Name] {
			return fmt.Errorf("users: %s is declared twice", u.Name)
		}
		seen[u.Name] = true
	}
	clear(seen)
	for _, d := range s.Databases {
		if err := wrongDatabase(&d); err != nil {
			return fmt.Errorf("databases: %s: %w", d.Name, err)
		}
		if seen[d.Name] {
			return fmt.Errorf("databases: %s is declared twice", d.Name)
		}
		seen[d.Name] = true
	}
	return nil
}
