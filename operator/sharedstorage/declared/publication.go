package declared

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// operations are all that a publication can have, in PostgreSQL's order.
var operations = []string{"insert", "update", "delete", "truncate"}

// wantedPublication is a publication that is wanted, or with Absent is not. It has one of Tables, Schemas and
// AllTables.
type wantedPublication struct {
	Name, Database string
	Absent         bool
	Tables         []string // as schema.table, or table of public
	Schemas        []string
	AllTables      bool
	Operations     []string // nil: all
}

func publicationSubject(database, name string) string {
	return "publication " + name + " of " + database
}

// Publishes reports whether a spec wants a publication.
func Publishes(s *v1alpha1.SharedStorageClusterSpec) bool {
	return slices.ContainsFunc(s.Publications, func(p v1alpha1.PublicationSpec) bool { return p.Ensure != absent })
}

// publicationOf returns what a spec wants.
func publicationOf(s *v1alpha1.PublicationSpec) wantedPublication {
	return wantedPublication{Name: s.Name, Database: s.Database, Absent: s.Ensure == absent, Tables: s.Tables, Schemas: s.Schemas, AllTables: s.AllTables, Operations: s.Operations}
}

func (p *replicationPlan) publication(w wantedPublication) {
	n := slices.IndexFunc(p.found.Publications, func(is port.Publication) bool { return is.Name == w.Name && is.Database == w.Database })
	name := quote(w.Name)
	add := func(what, sql string, args ...any) {
		p.add(port.PublicationFailed, PublicationsCondition, publicationSubject(w.Database, w.Name), w.Database, what, sql, args...)
	}
	var tables, quoted []string
	for _, table := range w.Tables {
		schema, table, both := strings.Cut(table, ".")
		if !both {
			schema, table = "public", schema
		}
		if name := schema + "." + table; !slices.Contains(tables, name) {
			tables, quoted = append(tables, name), append(quoted, quote(schema)+"."+quote(table))
		}
	}
	wanted := slices.DeleteFunc(slices.Clone(operations), func(o string) bool { return w.Operations != nil && !slices.Contains(w.Operations, o) })
	options := "(publish = " + literal(strings.Join(wanted, ", ")) + ")"
	objects := "ALL TABLES"
	switch {
	case len(w.Schemas) > 0:
		objects = "TABLES IN SCHEMA " + list(w.Schemas)
	case !w.AllTables:
		objects = "TABLE ONLY " + strings.Join(quoted, ", ONLY ") // with its children, the list would never be the declared one
	}
	create := "CREATE PUBLICATION " + name + " FOR " + objects + " WITH " + options
	if n < 0 {
		if !w.Absent {
			add("create publication "+w.Name, "%s", create)
		}
		return
	}
	is := p.found.Publications[n]
	switch {
	case w.Absent:
		add("drop publication "+w.Name, "DROP PUBLICATION %s", name)
		return
	case w.AllTables != is.AllTables: // in one transaction: a change between them would stop its subscribers for ever
		add("make publication "+w.Name+" anew", "DROP PUBLICATION %s; %s", name, create)
		return
	case !w.AllTables && (!same(tables, is.Tables) || !same(w.Schemas, is.Schemas)):
		add("tables of publication "+w.Name, "ALTER PUBLICATION %s SET %s", name, objects)
	}
	if !same(wanted, is.Operations) {
		add("operations of publication "+w.Name, "ALTER PUBLICATION %s SET %s", name, options)
	}
}

var tableName = regexp.MustCompile(`^[^."]+(\.[^."]+)?$`)

func wrongPublication(p *v1alpha1.PublicationSpec) error {
	objects := 0
	for _, named := range []bool{len(p.Tables) > 0, len(p.Schemas) > 0, p.AllTables} {
		if named {
			objects++
		}
	}
	switch {
	case !objectName.MatchString(p.Name):
		return errors.New("name: a name has up to 63 lower case letters, digits and _, a letter first and no _ last")
	case p.Database == "":
		return errors.New("database: name one")
	case !ensures(p.Ensure):
		return fmt.Errorf("ensure: %q is none of present, absent", p.Ensure)
	case objects != 1 && p.Ensure != absent:
		return errors.New("name one of tables, schemas and allTables")
	}
	for _, table := range p.Tables {
		if !tableName.MatchString(table) {
			return fmt.Errorf("tables: %q is no table, such as orders or public.orders", table)
		}
	}
	for _, operation := range p.Operations {
		if !slices.Contains(operations, operation) {
			return fmt.Errorf("operations: %q is none of %s", operation, strings.Join(operations, ", "))
		}
	}
	return nil
}
