package logical

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// Operations are all that a publication can have, in PostgreSQL's order.
var Operations = []string{"insert", "update", "delete", "truncate"}

// Wanted is what the server shall have, and shall not have.
type Wanted struct {
	Publications  []Publication
	Subscriptions []Subscription
}

// Publication is a publication that is wanted, or with Absent is not. It has one of Tables, Schemas and
// AllTables.
type Publication struct {
	Name, Database string
	Absent         bool
	Tables         []string // as schema.table, or table of public
	Schemas        []string
	AllTables      bool
	Operations     []string // nil: all
}

// Subscription is a subscription that is wanted, or with Absent is not.
type Subscription struct {
	Name, Database string
	Absent         bool
	Publications   []string
	From           Source
	CopyData       bool
	Enabled        bool
}

// Source is the server that publishes.
type Source struct {
	Host           string
	Port           int32
	Database, User string
	Password       string // empty: left out
	SSLMode        string
}

// Connection returns the connection string of libpq, with the password. The time to connect is short,
// because a statement waits for it.
func (s Source) Connection() string {
	text := ""
	for _, part := range [][2]string{{"host", s.Host}, {"port", strconv.Itoa(int(s.Port))}, {"dbname", s.Database}, {"user", s.User}, {"password", s.Password}, {"sslmode", s.SSLMode}, {"connect_timeout", "4"}} {
		if part[1] != "" {
			text += " " + part[0] + "='" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(part[1]) + "'"
		}
	}
	return strings.TrimSpace(text)
}

// Hash returns what port.Subscription has of a connection string.
func Hash(connection string) string {
	sum := sha256.Sum256([]byte(connection))
	return hex.EncodeToString(sum[:])
}

// Plan returns the statements that make what was found as it is wanted, in their order: publications
// first. After all of them have succeeded, there are none. Nothing is planned in a database that is not
// there.
func Plan(want Wanted, found port.Logical) []port.Statement {
	p := &plan{found: found}
	for _, pub := range want.Publications {
		if !slices.Contains(found.Missing, pub.Database) {
			p.publication(pub)
		}
	}
	for _, sub := range want.Subscriptions {
		if !slices.Contains(found.Missing, sub.Database) {
			p.subscription(sub)
		}
	}
	return p.statements
}

type plan struct {
	found      port.Logical
	statements []port.Statement
}

func (p *plan) add(database, what, sql string, args ...any) {
	p.statements = append(p.statements, port.Statement{Database: database, What: what + " of " + database, SQL: fmt.Sprintf(sql, args...)})
}

func (p *plan) publication(w Publication) {
	n := slices.IndexFunc(p.found.Publications, func(is port.Publication) bool { return is.Name == w.Name && is.Database == w.Database })
	name := quote(w.Name)
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
	operations := slices.DeleteFunc(slices.Clone(Operations), func(o string) bool { return w.Operations != nil && !slices.Contains(w.Operations, o) })
	options := "(publish = " + literal(strings.Join(operations, ", ")) + ")"
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
			p.add(w.Database, "create publication "+w.Name, "%s", create)
		}
		return
	}
	is := p.found.Publications[n]
	switch {
	case w.Absent:
		p.add(w.Database, "drop publication "+w.Name, "DROP PUBLICATION %s", name)
		return
	case w.AllTables != is.AllTables: // in one transaction: a change between them would stop its subscribers for ever
		p.add(w.Database, "make publication "+w.Name+" anew", "DROP PUBLICATION %s; %s", name, create)
		return
	case !w.AllTables && (!same(tables, is.Tables) || !same(w.Schemas, is.Schemas)):
		p.add(w.Database, "tables of publication "+w.Name, "ALTER PUBLICATION %s SET %s", name, objects)
	}
	if !same(operations, is.Operations) {
		p.add(w.Database, "operations of publication "+w.Name, "ALTER PUBLICATION %s SET %s", name, options)
	}
}

func (p *plan) subscription(w Subscription) {
	n := slices.IndexFunc(p.found.Subscriptions, func(is port.Subscription) bool { return is.Name == w.Name && is.Database == w.Database })
	name, connection := quote(w.Name), w.From.Connection()
	copies := "copy_data = " + strconv.FormatBool(w.CopyData)
	if n < 0 {
		if !w.Absent {
			p.add(w.Database, "create subscription "+w.Name, "CREATE SUBSCRIPTION %s CONNECTION %s PUBLICATION %s WITH (%s, enabled = %t, synchronous_commit = on)",
				name, literal(connection), list(w.Publications), copies, w.Enabled)
		}
		return
	}
	is := p.found.Subscriptions[n]
	alter := func(what, sql string, args ...any) {
		p.add(w.Database, what+" subscription "+w.Name, "ALTER SUBSCRIPTION "+name+" "+sql, args...)
	}
	switch {
	case w.Absent && is.SlotLost(): // the slot could not be dropped with it
		p.add(w.Database, "drop subscription "+w.Name, "ALTER SUBSCRIPTION %s DISABLE; ALTER SUBSCRIPTION %s SET (slot_name = NONE); DROP SUBSCRIPTION %s", name, name, name)
		return
	case w.Absent:
		p.add(w.Database, "drop subscription "+w.Name, "DROP SUBSCRIPTION %s", name)
		return
	}
	if is.Connection != Hash(connection) {
		alter("connection of", "CONNECTION %s", literal(connection))
	}
	if !is.Confirms { // otherwise the slot moves on before a reader has the rows, and a failover loses them
		alter("commits of", "SET (synchronous_commit = on)")
	}
	if w.Enabled && !is.Enabled {
		alter("enable", "ENABLE")
	} else if !w.Enabled && is.Enabled {
		alter("disable", "DISABLE")
	}
	at := is.Publisher
	switch {
	case !same(w.Publications, is.Publications) && w.Enabled:
		alter("publications of", "SET PUBLICATION %s WITH (%s)", list(w.Publications), copies)
	case !same(w.Publications, is.Publications): // PostgreSQL looks at no tables of a disabled one
		alter("publications of", "SET PUBLICATION %s WITH (refresh = false)", list(w.Publications))
	case w.Enabled && at != nil && at.New > 0 && len(at.Missing) == 0 && !is.SlotLost():
		alter("new tables of", "REFRESH PUBLICATION WITH (%s)", copies)
	}
}

// same reports whether both have the same names, in any order.
func same(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

func list(names []string) string {
	quoted := make([]string, len(names))
	for n, name := range names {
		quoted[n] = quote(name)
	}
	return strings.Join(quoted, ", ")
}

// quote quotes an identifier of SQL.
func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// literal quotes a text whatever standard_conforming_strings is in its database.
func literal(text string) string {
	text = strings.ReplaceAll(text, "'", "''")
	if strings.Contains(text, `\`) {
		return " E'" + strings.ReplaceAll(text, `\`, `\\`) + "'"
	}
	return "'" + text + "'"
}
