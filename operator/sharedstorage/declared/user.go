package declared

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// DefaultUser owns the database of the same name in a cluster that declares neither users nor databases.
const DefaultUser = "app"

// wantedUser is a user that is wanted, or with Absent is not.
type wantedUser struct {
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

func userSubject(name string) string { return "user " + name }

// hasPassword reports whether the operator sees to the password of a declared user.
func hasPassword(s *v1alpha1.UserSpec) bool {
	return s.Ensure != absent && (s.Password != nil || s.Login == nil || *s.Login)
}

// userOf returns what a spec wants, without the password.
func userOf(s *v1alpha1.UserSpec) wantedUser {
	until, _ := time.Parse(time.RFC3339, s.ValidUntil) // empty, or checked with the spec
	u := wantedUser{Name: s.Name, Absent: s.Ensure == absent, Login: s.Login == nil || *s.Login, CreateDB: s.CreateDB, Replication: s.Replication,
		ConnectionLimit: -1, ValidUntil: until.UTC().Truncate(time.Second), InRoles: s.InRoles}
	if s.ConnectionLimit != nil {
		u.ConnectionLimit = int(*s.ConnectionLimit)
	}
	return u
}

// password returns the password of a declared user; empty: it is left alone. database is the one for the login that is
// kept.
func (d *databases) password(ctx context.Context, l *look, s *v1alpha1.UserSpec, database string) (text string, err error) {
	switch {
	case s.Password != nil:
		text, err = l.secret(ctx, *s.Password)
	case (s.Login == nil || *s.Login) && l.r.options.Credentials != nil:
		var kept Credential
		kept, err = l.r.options.Credentials.Ensure(ctx, l.c.Ref, Login{User: s.Name, Database: database, CA: l.c.CA})
		text, d.kept[s.Name] = kept.Password, kept.Where
	default:
		return "", nil
	}
	if err == nil {
		err = checkPassword(text)
	}
	if err != nil {
		return "", err
	}
	return text, nil
}

// fresh is what CREATE ROLE makes without options.
var fresh = port.User{ConnectionLimit: -1}

func (p *databasePlan) user(u wantedUser) {
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
	if u.Password != "" && !verifies(is.Verifier, u.Password) {
		salt := make([]byte, 16)
		_, _ = rand.Read(salt) // it never fails
		options = append(options, "PASSWORD "+literal(verifier(u.Password, salt, iterations)))
	}
	if verb == "ALTER" && len(options) == 0 {
		return
	}
	p.add(userSubject(u.Name), "", strings.ToLower(verb)+" user "+u.Name, "%s", strings.Join(append([]string{verb, "ROLE", quote(u.Name)}, options...), " "))
}

func (p *databasePlan) memberships(u wantedUser) {
	if u.InRoles == nil {
		return
	}
	var in []string
	if is := p.userOf(u.Name); is != nil {
		in = is.InRoles
	}
	for _, role := range u.InRoles {
		if !slices.Contains(in, role) {
			p.add(userSubject(u.Name), "", "grant "+role+" to "+u.Name, "GRANT %s TO %s", quote(role), quote(u.Name))
		}
	}
	for _, role := range in {
		if !slices.Contains(u.InRoles, role) {
			p.add(userSubject(u.Name), "", "revoke "+role+" from "+u.Name, "REVOKE %s FROM %s", quote(role), quote(u.Name))
		}
	}
}

var (
	objectName    = regexp.MustCompile(`^[a-z]([a-z0-9_]{0,61}[a-z0-9])?$`)
	extensionName = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,62}$`)
)

// asSuperuser are the roles whose members can become superuser.
var asSuperuser = []string{"postgres", "pg_execute_server_program", "pg_read_server_files", "pg_write_server_files"}

func wrongUser(u *v1alpha1.UserSpec) error {
	if u.ValidUntil != "" {
		if _, err := time.Parse(time.RFC3339, u.ValidUntil); err != nil {
			return fmt.Errorf("validUntil: %w", err)
		}
	}
	switch {
	case !objectName.MatchString(u.Name):
		return errors.New("name: a name has up to 63 lower case letters, digits and _, a letter first and no _ last")
	case reserved(u.Name):
		return errors.New("name: postgres, public and names that begin with pg_ are PostgreSQL's own")
	case u.Name == "auth" || strings.HasSuffix(u.Name, "_auth"):
		return errors.New("name: auth and names that end with _auth would have the Secrets of clusters")
	case !ensures(u.Ensure):
		return fmt.Errorf("ensure: %q is none of present, absent", u.Ensure)
	case u.Superuser:
		return errors.New("superuser: no user of an application is a superuser; grant what it needs with inRoles, such as pg_monitor")
	case u.CreateRole:
		return errors.New("createrole: up to PostgreSQL 15 such a user can make itself as good as a superuser; declare the users here")
	case u.ConnectionLimit != nil && (*u.ConnectionLimit < -1 || *u.ConnectionLimit > 100000):
		return fmt.Errorf("connectionLimit: %d is not within -1 and 100000", *u.ConnectionLimit)
	}
	for _, role := range u.InRoles {
		if role == "" || slices.Contains(asSuperuser, role) {
			return fmt.Errorf("inRoles: %q makes a user as good as a superuser", role)
		}
	}
	return nil
}

func reserved(name string) bool {
	return name == "postgres" || name == "public" || strings.HasPrefix(name, "pg_")
}
