package declared

import (
	"errors"
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// wantedDatabase is a database that is wanted, or with Absent is not.
type wantedDatabase struct {
	Name       string
	Absent     bool
	Owner      string
	Extensions []wantedExtension
}

// wantedExtension is an extension of a database.
type wantedExtension struct {
	Name   string
	Absent bool
}

func databaseSubject(name string) string { return "database " + name }

// databaseOf returns what a spec wants.
func databaseOf(s *v1alpha1.DatabaseSpec) wantedDatabase {
	d := wantedDatabase{Name: s.Name, Absent: s.Ensure == absent, Owner: s.Owner}
	for _, x := range s.Extensions {
		d.Extensions = append(d.Extensions, wantedExtension{Name: x.Name, Absent: x.Ensure == absent})
	}
	return d
}

func (p *databasePlan) database(d wantedDatabase) {
	is := p.databaseOf(d.Name)
	switch {
	case is == nil:
		p.add(databaseSubject(d.Name), "", "create database "+d.Name, "CREATE DATABASE %s OWNER %s", quote(d.Name), quote(d.Owner))
		is = &port.Database{Extensions: []string{"plpgsql"}} // as template1 has it
	case is.Owner != d.Owner:
		p.add(databaseSubject(d.Name), "", "give database "+d.Name+" to "+d.Owner, "ALTER DATABASE %s OWNER TO %s", quote(d.Name), quote(d.Owner))
	}
	for _, x := range d.Extensions {
		there := slices.Contains(is.Extensions, x.Name)
		switch {
		case x.Absent && there:
			p.add(databaseSubject(d.Name), d.Name, "drop extension "+x.Name+" of "+d.Name, "DROP EXTENSION IF EXISTS %s", quote(x.Name))
		case x.Absent || there:
		case !slices.Contains(p.found.Available, x.Name):
			err := port.ExtensionMissing.Errorf("%s/%s: it is not in pg_available_extensions", d.Name, x.Name)
			p.missing = append(p.missing, problem{DatabasesCondition, databaseSubject(d.Name), err})
		default:
			p.add(databaseSubject(d.Name), d.Name, "create extension "+x.Name+" in "+d.Name, "CREATE EXTENSION IF NOT EXISTS %s CASCADE", quote(x.Name))
		}
	}
}

func wrongDatabase(d *v1alpha1.DatabaseSpec) error {
	switch {
	case !objectName.MatchString(d.Name):
		return errors.New("name: a name has up to 63 lower case letters, digits and _, a letter first and no _ last")
	case reserved(d.Name), d.Name == "template0", d.Name == "template1":
		return errors.New("name: postgres, template0, template1 and names that begin with pg_ are PostgreSQL's own")
	case !ensures(d.Ensure):
		return fmt.Errorf("ensure: %q is none of present, absent", d.Ensure)
	case d.Owner == "" && d.Ensure != absent:
		return errors.New("owner: name the user that owns the database")
	case reserved(d.Owner):
		return errors.New("owner: name a user of an application")
	}
	for n, x := range d.Extensions {
		if !extensionName.MatchString(x.Name) || !ensures(x.Ensure) {
			return fmt.Errorf("extensions: %q (ensure %q) cannot be", x.Name, x.Ensure)
		}
		if slices.ContainsFunc(d.Extensions[:n], func(y v1alpha1.ExtensionSpec) bool { return y.Name == x.Name }) {
			return fmt.Errorf("extensions: %s is declared twice", x.Name)
		}
	}
	return nil
}
