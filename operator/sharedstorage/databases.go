package sharedstorage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/kube/condition"
	"github.com/pawl-dev/pawl/operator/sharedstorage/databases"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// DatabasesCondition says whether users, databases and extensions are as spec.users and
// spec.databases want them.
const DatabasesCondition = "DatabasesReady"

// DefaultUser owns the database of the same name in a cluster that declares neither users nor databases.
const DefaultUser = "app"

// Credentials keeps the passwords that the operator makes: Secrets, or files.
type Credentials interface {
	// Ensure returns the password of a user, and makes one if there is none. What is kept beside it is
	// kept as Login says. Whoever changes the password where it is kept changes it for the user.
	Ensure(ctx context.Context, c port.Ref, l Login) (Credential, error)
	// Revision changes when somebody changes a password where it is kept: in from, or where Ensure keeps
	// it. Each pass asks it, so it makes no call over the network. Empty: there is none, or nothing
	// tells of its changes.
	Revision(ctx context.Context, c port.Ref, user string, from *v1alpha1.SecretSource) string
	// Remove removes the password of a dropped user. A missing one is not an error.
	Remove(ctx context.Context, c port.Ref, user string) error
}

// Login is how a user logs in.
type Login struct {
	User, Database string
	CA             []byte // the authorities of the instances' certificates; nil: they have none
}

// Credential is a password, and the Secret or file where it is kept.
type Credential struct{ Password, Where string }

// databasesFact is what one pass did about users and databases.
type databasesFact struct {
	found    port.Databases
	kept     map[string]string // where the password of a user is kept
	problems []error
}

const absent = "absent"

// withDefaultUser returns the users and databases that a spec declares.
func withDefaultUser(s *v1alpha1.SharedStorageClusterSpec) ([]v1alpha1.UserSpec, []v1alpha1.DatabaseSpec) {
	if len(s.Users) == 0 && len(s.Databases) == 0 {
		return []v1alpha1.UserSpec{{Name: DefaultUser}}, []v1alpha1.DatabaseSpec{{Name: DefaultUser, Owner: DefaultUser}}
	}
	return s.Users, s.Databases
}

// databases makes the users and databases of the writer as the spec wants them: when the spec, a
// password or the writer has changed, and once each IdleInterval against what people do by hand. What
// cannot be done is a condition, holds up nothing else, and is tried again by the next pass.
func (t *repairer) databases() {
	admin, ok := t.o.options.Ports.Engine.(port.DatabaseAdmin)
	writer := t.f.writer()
	if !ok || t.c.Kind != Kind || writer == nil {
		return
	}
	key, cluster := t.databasesKey(writer.Name), t.c.Ref.Namespace+"/"+t.c.Ref.Name
	if _, ready := t.o.databasesFound.get(cluster, key, t.f.At); ready {
		return
	}
	ctx, cancel := context.WithTimeout(t.ctx, t.o.options.CallTimeout)
	defer cancel()
	d := &databasesFact{kept: map[string]string{}}
	if err := guarded(func() error { return d.apply(ctx, t, admin, t.c.Ref.Of(writer.Name)) }); err != nil {
		if t.ctx.Err() == nil {
			t.o.options.Logger.Warn("the users and databases of a cluster could not be seen to", "cluster", t.c.Ref.String(), "error", err)
		}
		return // the writer did not answer: what was known of it stays
	}
	t.f.databases = d
	if len(d.problems) == 0 {
		t.o.databasesFound.put(cluster, key, t.f.At.Add(t.o.options.IdleInterval), struct{}{})
	}
}

// databasesKey changes with all that makes a look due.
func (t *repairer) databasesKey(writer string) string {
	key := strings.Join([]string{t.c.Ref.UID, strconv.FormatInt(t.c.Generation, 10), writer}, "/")
	if d := t.c.Facts.certificate; d != nil {
		key += "/" + hash(string(d.authority)) // users' Secrets have it
	}
	users, _ := withDefaultUser(&t.c.Spec)
	for _, u := range users {
		if kept := u.Password != nil || u.Login == nil || *u.Login; kept && u.Ensure != absent && t.o.options.Credentials != nil {
			key += "/" + t.o.options.Credentials.Revision(t.ctx, t.c.Ref, u.Name, u.Password)
		}
	}
	return key
}

func (d *databasesFact) apply(ctx context.Context, t *repairer, admin port.DatabaseAdmin, id port.Ref) (err error) {
	want := d.wanted(ctx, t.o, t.c)
	if d.found, err = admin.Databases(ctx, id, want.Names()); err != nil {
		return err
	}
	statements, missing := databases.Plan(want, d.found)
	for _, name := range missing {
		d.problems = append(d.problems, port.ExtensionMissing.Errorf("%s: it is not in pg_available_extensions", name))
	}
	if len(statements) == 0 {
		return nil
	}
	results, err := admin.Execute(ctx, id, statements)
	if err != nil {
		return err
	}
	var done []string
	for n, r := range results {
		if r.State != "" {
			d.problems = append(d.problems, port.DatabasesFailed.Errorf("%s: %s", statements[n].What, r.Message))
			continue
		}
		done = append(done, statements[n].What)
	}
	if len(done) > 0 {
		t.o.emit(t.c, Event{Reason: "DatabasesChanged", Message: strings.Join(done, ", ")})
	}
	if d.found, err = admin.Databases(ctx, id, want.Names()); err != nil {
		return err
	}
	return d.forget(ctx, t, want)
}

// forget removes the passwords of users that were dropped.
func (d *databasesFact) forget(ctx context.Context, t *repairer, want databases.Wanted) error {
	var all []error
	for _, u := range want.Users {
		there := slices.ContainsFunc(d.found.Users, func(is port.User) bool { return is.Name == u.Name })
		if u.Absent && !there && t.o.options.Credentials != nil {
			all = append(all, t.o.options.Credentials.Remove(ctx, t.c.Ref, u.Name))
		}
	}
	return errors.Join(all...)
}

// wanted reads the spec and the passwords. A user whose password cannot be read keeps the one it has.
func (d *databasesFact) wanted(ctx context.Context, o *Operator, c *Cluster) (want databases.Wanted) {
	users, declared := withDefaultUser(&c.Spec)
	owned := map[string]string{}
	for _, s := range declared {
		one := databases.Database{Name: s.Name, Absent: s.Ensure == absent, Owner: s.Owner}
		for _, x := range s.Extensions {
			one.Extensions = append(one.Extensions, databases.Extension{Name: x.Name, Absent: x.Ensure == absent})
		}
		if want.Databases = append(want.Databases, one); !one.Absent && owned[s.Owner] == "" {
			owned[s.Owner] = s.Name
		}
	}
	for _, s := range users {
		until, _ := time.Parse(time.RFC3339, s.ValidUntil) // empty, or checked with the spec
		u := databases.User{Name: s.Name, Absent: s.Ensure == absent, Login: s.Login == nil || *s.Login, CreateDB: s.CreateDB, Replication: s.Replication,
			ConnectionLimit: -1, ValidUntil: until.UTC().Truncate(time.Second), InRoles: s.InRoles}
		if s.ConnectionLimit != nil {
			u.ConnectionLimit = int(*s.ConnectionLimit)
		}
		if !u.Absent {
			var err error
			if u.Password, err = d.password(ctx, o, c, &s, u.Login, cmp.Or(owned[s.Name], "postgres")); err != nil {
				d.problems = append(d.problems, port.PasswordMissing.Errorf("user %s: %w", s.Name, err))
			}
		}
		want.Users = append(want.Users, u)
	}
	return want
}

func (d *databasesFact) password(ctx context.Context, o *Operator, c *Cluster, s *v1alpha1.UserSpec, login bool, database string) (text string, err error) {
	switch {
	case s.Password != nil && o.options.Secrets != nil:
		text, err = o.options.Secrets(ctx, c.Ref.Namespace, *s.Password)
		text = strings.TrimRight(text, "\r\n")
	case s.Password != nil:
		return "", errors.New("this operator reads no secrets")
	case login && o.options.Credentials != nil:
		var kept Credential
		kept, err = o.options.Credentials.Ensure(ctx, c.Ref, Login{User: s.Name, Database: database, CA: c.Facts.authority()})
		text, d.kept[s.Name] = kept.Password, kept.Where
	default:
		return "", nil
	}
	if err == nil {
		err = databases.CheckPassword(text)
	}
	if err != nil {
		return "", err
	}
	return text, nil
}

// listed is how many users and databases a status lists.
const listed = 100

func (c *Cluster) computeDatabases() {
	d := c.Facts.databases
	if d == nil {
		return
	}
	users, declared := withDefaultUser(&c.Spec)
	var s v1alpha1.DatabasesStatus
	for _, is := range d.found.Users {
		s.Users = append(s.Users, v1alpha1.UserStatus{Name: is.Name, Login: is.Login, Superuser: is.Superuser, Credentials: d.kept[is.Name],
			Declared: slices.ContainsFunc(users, func(u v1alpha1.UserSpec) bool { return u.Name == is.Name })})
	}
	for _, is := range d.found.Databases {
		s.Databases = append(s.Databases, v1alpha1.DatabaseStatus{Name: is.Name, Owner: is.Owner, Extensions: is.Extensions,
			Declared: slices.ContainsFunc(declared, func(d v1alpha1.DatabaseSpec) bool { return d.Name == is.Name })})
	}
	s.Users, s.Databases = s.Users[:min(listed, len(s.Users))], s.Databases[:min(listed, len(s.Databases))]
	c.Status.Databases = s
}

// databasesReady says whether users and databases are as wanted; nil: there is nothing new about it.
func (o *Operator) databasesReady(c *Cluster) *metav1.Condition {
	d := c.Facts.databases
	if d == nil {
		return o.followed(c, DatabasesCondition, false, nil, "")
	}
	return o.followed(c, DatabasesCondition, true, d.problems, "users and databases are as the spec wants them")
}

// followed returns the condition of what a pass makes as the spec wants it; nil: this pass did nothing
// about it. Problems that are new are an Event.
func (o *Operator) followed(c *Cluster, kind string, looked bool, problems []error, fine string) *metav1.Condition {
	was := meta.FindStatusCondition(c.Status.Conditions, kind)
	switch {
	case !looked && was != nil && c.Facts.known(factInstances) && c.Facts.writer() == nil:
		return new(condition.New(kind, metav1.ConditionUnknown, "NoWriter", "there is no writer that could be asked"))
	case !looked:
		return nil
	case len(problems) == 0:
		return new(condition.New(kind, metav1.ConditionTrue, "AsWanted", "%s", fine))
	}
	var texts []string
	for _, err := range problems {
		texts = append(texts, fault.Message(err))
	}
	text := strings.Join(texts, "; ")
	now := condition.FromFault(kind, fault.Of(problems[0]), "%s", text[:min(len(text), 2000)])
	if was == nil || was.Status != now.Status || was.Reason != now.Reason || was.Message != now.Message {
		o.emit(c, Event{Warning: true, Reason: now.Reason, Message: now.Message})
	}
	return &now
}

var (
	roleName      = regexp.MustCompile(`^[a-z]([a-z0-9_]{0,61}[a-z0-9])?$`)
	extensionName = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,62}$`)
)

// asSuperuser are the roles whose members can become superuser.
var asSuperuser = []string{"postgres", "pg_execute_server_program", "pg_read_server_files", "pg_write_server_files"}

// CheckDatabases repeats the rules of the CRD for users and databases: SPEC_INVALID.
func CheckDatabases(s *v1alpha1.SharedStorageClusterSpec) error {
	seen := map[string]bool{}
	for _, u := range s.Users {
		if err := wrongUser(&u); err != nil {
			return SpecInvalid.Errorf("users: %s: %w", u.Name, err)
		}
		if seen[u.Name] {
			return SpecInvalid.Errorf("users: %s is declared twice", u.Name)
		}
		seen[u.Name] = true
	}
	clear(seen)
	for _, d := range s.Databases {
		if err := wrongDatabase(&d); err != nil {
			return SpecInvalid.Errorf("databases: %s: %w", d.Name, err)
		}
		if seen[d.Name] {
			return SpecInvalid.Errorf("databases: %s is declared twice", d.Name)
		}
		seen[d.Name] = true
	}
	return nil
}

func wrongUser(u *v1alpha1.UserSpec) error {
	if u.ValidUntil != "" {
		if _, err := time.Parse(time.RFC3339, u.ValidUntil); err != nil {
			return fmt.Errorf("validUntil: %w", err)
		}
	}
	switch {
	case !roleName.MatchString(u.Name):
		return errors.New("name: a name has up to 63 lower case letters, digits and _, a letter first and no _ last")
	case reserved(u.Name):
		return errors.New("name: postgres, public and names that begin with pg_ are PostgreSQL's own")
	case u.Name == "auth" || strings.HasSuffix(u.Name, "_auth"):
		return errors.New("name: auth and names that end with _auth would have the Secrets of clusters")
	case u.Ensure != "" && u.Ensure != "present" && u.Ensure != absent:
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

func wrongDatabase(d *v1alpha1.DatabaseSpec) error {
	switch {
	case !roleName.MatchString(d.Name):
		return errors.New("name: a name has up to 63 lower case letters, digits and _, a letter first and no _ last")
	case reserved(d.Name), d.Name == "template0", d.Name == "template1":
		return errors.New("name: postgres, template0, template1 and names that begin with pg_ are PostgreSQL's own")
	case d.Ensure != "" && d.Ensure != "present" && d.Ensure != absent:
		return fmt.Errorf("ensure: %q is none of present, absent", d.Ensure)
	case d.Owner == "" && d.Ensure != absent:
		return errors.New("owner: name the user that owns the database")
	case reserved(d.Owner):
		return errors.New("owner: name a user of an application")
	}
	for n, x := range d.Extensions {
		if !extensionName.MatchString(x.Name) || x.Ensure != "" && x.Ensure != "present" && x.Ensure != absent {
			return fmt.Errorf("extensions: %q (ensure %q) cannot be", x.Name, x.Ensure)
		}
		if slices.ContainsFunc(d.Extensions[:n], func(y v1alpha1.ExtensionSpec) bool { return y.Name == x.Name }) {
			return fmt.Errorf("extensions: %s is declared twice", x.Name)
		}
	}
	return nil
}

func reserved(name string) bool {
	return name == "postgres" || name == "public" || strings.HasPrefix(name, "pg_")
}
