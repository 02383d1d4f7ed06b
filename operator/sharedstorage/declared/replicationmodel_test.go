package declared

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

var (
	connectionForm = regexp.MustCompile(`CONNECTION +E?'(?:[^']|'')*'`)
	statementForm  = regexp.MustCompile(`^(CREATE|ALTER|DROP) (PUBLICATION|SUBSCRIPTION) "(\w+)" ?(.*)$`)
	createForm     = regexp.MustCompile(`^CONNECTION (.*) PUBLICATION (.*) WITH \(copy_data = \w+, enabled = (\w+), synchronous_commit = on\)$`)
	operationsForm = regexp.MustCompile(`\(publish = '(.*)'\)$`)
)

// replicationModel is a server that carries out the statements of Plan, with PostgreSQL's rules about slots and
// disabled subscriptions. slots are those of the servers that publish.
type replicationModel struct {
	port.Replication
	slots map[string]bool
}

func names(text string) (all []string) {
	for name := range strings.SplitSeq(text, ", ") {
		all = append(all, strings.ReplaceAll(name, `"`, ""))
	}
	return all
}

// unquoted reads a literal of SQL.
func unquoted(text string) string {
	text, escaped := strings.CutPrefix(strings.TrimSpace(text), "E")
	text = strings.ReplaceAll(text[1:len(text)-1], "''", "'")
	if escaped {
		text = strings.ReplaceAll(text, `\\`, `\`)
	}
	return text
}

func (s *replicationModel) execute(t *rapid.T, st port.Statement) {
	for sql := range strings.SplitSeq(st.SQL, "; ") {
		m := statementForm.FindStringSubmatch(sql)
		if m == nil {
			t.Fatalf("%q is no statement of this server", sql)
		}
		if m[2] == "PUBLICATION" {
			s.publication(t, m[1], port.Publication{Name: m[3], Database: st.Database}, m[4])
		} else {
			s.subscription(t, m[1], port.Subscription{Name: m[3], Database: st.Database}, m[4])
		}
	}
}

func (s *replicationModel) publication(t *rapid.T, verb string, of port.Publication, rest string) {
	n := slices.IndexFunc(s.Publications, func(is port.Publication) bool { return is.Name == of.Name && is.Database == of.Database })
	switch {
	case (verb == "CREATE") == (n >= 0):
		t.Fatalf("%s of %s", verb, of.Name)
	case verb == "DROP":
		s.Publications = slices.Delete(s.Publications, n, n+1)
		return
	case verb == "CREATE":
		s.Publications, n = append(s.Publications, of), len(s.Publications)
	}
	is := &s.Publications[n]
	if m := operationsForm.FindStringSubmatch(rest); m != nil {
		is.Operations = strings.Split(m[1], ", ")
	}
	objects, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(rest, "FOR "), "SET "), " WITH ")
	if all, ok := strings.CutPrefix(objects, "TABLES IN SCHEMA "); ok {
		is.Schemas, is.Tables = names(all), nil
	} else if some, ok := strings.CutPrefix(strings.ReplaceAll(objects, "ONLY ", ""), "TABLE "); ok {
		is.Schemas, is.Tables = nil, names(some)
	} else if objects == "ALL TABLES" {
		is.AllTables = true
	}
	if verb == "ALTER" && is.AllTables && !strings.HasPrefix(objects, "(") {
		t.Fatalf("%s has all tables", is.Name)
	}
}

func (s *replicationModel) subscription(t *rapid.T, verb string, of port.Subscription, rest string) {
	n := slices.IndexFunc(s.Subscriptions, func(is port.Subscription) bool { return is.Name == of.Name && is.Database == of.Database })
	switch {
	case (verb == "CREATE") == (n >= 0):
		t.Fatalf("%s of %s", verb, of.Name)
	case verb == "DROP":
		if is := s.Subscriptions[n]; is.Publisher != nil && !s.slots[of.Database+"/"+of.Name] {
			t.Fatalf("there is no slot %s to drop", of.Name)
		}
		delete(s.slots, of.Database+"/"+of.Name)
		s.Subscriptions = slices.Delete(s.Subscriptions, n, n+1)
		return
	case verb == "CREATE":
		m := createForm.FindStringSubmatch(rest)
		if m == nil {
			t.Fatalf("%q creates nothing", rest)
		}
		of.Connection, of.Publications, of.Enabled, of.Confirms = sha(unquoted(m[1])), names(m[2]), m[3] == "true", true
		of.Publisher = &port.Publisher{Slot: true}
		s.slots[of.Database+"/"+of.Name] = true
		s.Subscriptions = append(s.Subscriptions, of)
		return
	}
	is := &s.Subscriptions[n]
	refreshes := func() {
		if !is.Enabled {
			t.Fatalf("%s is disabled", is.Name)
		}
		is.Publisher.New = 0
	}
	if text, ok := strings.CutPrefix(rest, "CONNECTION "); ok {
		is.Connection = sha(unquoted(text))
	} else if text, ok := strings.CutPrefix(rest, "SET PUBLICATION "); ok {
		all, options, _ := strings.Cut(text, " WITH ")
		if is.Publications = names(all); options != "(refresh = false)" {
			refreshes()
		}
	} else if strings.HasPrefix(rest, "REFRESH PUBLICATION WITH ") {
		refreshes()
	} else if rest == "ENABLE" || rest == "DISABLE" {
		is.Enabled = rest == "ENABLE"
	} else if rest == "SET (synchronous_commit = on)" {
		is.Confirms = true
	} else if rest == "SET (slot_name = NONE)" && !is.Enabled {
		is.Publisher = nil
	} else {
		t.Fatalf("%q alters nothing", rest)
	}
}

// A server that has executed what was decided needs nothing more, has all else as before, and no slot was
// made for a subscription that had lost its own.
func TestPlanReplicationOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		some := func(of []string, least int, what string) []string {
			return rapid.SliceOfNDistinct(rapid.SampledFrom(of), least, len(of), rapid.ID).Draw(t, what)
		}
		flag := rapid.Bool()
		tables, schemas, publications := []string{"public.orders", "public.items", "sales.items"}, []string{"public", "sales"}, []string{"a", "b", "c"}
		sources := []source{blue, {Host: "red", Port: 5433, Database: "x", User: "u"}, {Host: "red", Port: 5433, Database: "x", User: "u", Password: `a\'b`}}
		source := func() source { return rapid.SampledFrom(sources).Draw(t, "source") }
		s := &replicationModel{slots: map[string]bool{}}
		var want wantedReplication
		for _, database := range []string{"shop", "other"} {
			for _, name := range some([]string{"one", "two"}, 0, "has publications") {
				p := port.Publication{Name: name, Database: database, AllTables: flag.Draw(t, "all"), Operations: some(operations, 0, "operations")}
				if !p.AllTables {
					p.Tables, p.Schemas = some(tables, 0, "tables"), some(schemas, 0, "schemas")
				}
				s.Publications = append(s.Publications, p)
			}
			for _, name := range some([]string{"one", "two"}, 0, "wants publications") {
				p := wantedPublication{Name: name, Database: database, Absent: flag.Draw(t, "absent")}
				switch rapid.IntRange(0, 2).Draw(t, "of") {
				case 0:
					p.Tables = some([]string{"orders", "public.items", "sales.items"}, 1, "tables")
				case 1:
					p.Schemas = some(schemas, 1, "schemas")
				default:
					p.AllTables = true
				}
				if flag.Draw(t, "says operations") {
					p.Operations = some(operations, 1, "operations")
				}
				want.Publications = append(want.Publications, p)
			}
			for _, name := range some([]string{"in", "out"}, 0, "has subscriptions") {
				is := port.Subscription{Name: name, Database: database, Connection: sha(source().Connection()), Publications: some(publications, 1, "publications"), Enabled: flag.Draw(t, "enabled"), Confirms: flag.Draw(t, "confirms")}
				is.Publisher = &port.Publisher{Slot: flag.Draw(t, "slot"), New: rapid.IntRange(0, 1).Draw(t, "new")}
				s.slots[database+"/"+name] = is.Publisher.Slot
				s.Subscriptions = append(s.Subscriptions, is)
			}
			for _, name := range some([]string{"in", "out"}, 0, "wants subscriptions") {
				want.Subscriptions = append(want.Subscriptions, wantedSubscription{Name: name, Database: database, Absent: flag.Draw(t, "absent"), Publications: some(publications, 1, "publications"),
					From: source(), CopyData: flag.Draw(t, "copies"), Enabled: flag.Draw(t, "enabled")})
			}
		}
		before := port.Replication{Publications: slices.Clone(s.Publications), Subscriptions: slices.Clone(s.Subscriptions)}
		for n, is := range before.Subscriptions {
			at := *is.Publisher
			before.Subscriptions[n].Publisher = &at
		}
		statements := planReplication(want, s.Replication)
		for _, one := range statements {
			s.execute(t, one.Statement)
		}
		if again := planReplication(want, s.Replication); len(again) > 0 {
			t.Fatalf("after %v it needs %v", statements, again)
		}
		for _, was := range before.Publications {
			declared := slices.ContainsFunc(want.Publications, func(w wantedPublication) bool { return w.Name == was.Name && w.Database == was.Database })
			if !declared && !slices.ContainsFunc(s.Publications, func(is port.Publication) bool { return reflect.DeepEqual(is, was) }) {
				t.Fatalf("publication %+v was changed", was)
			}
		}
		for _, was := range before.Subscriptions {
			declared := slices.ContainsFunc(want.Subscriptions, func(w wantedSubscription) bool { return w.Name == was.Name && w.Database == was.Database })
			if !declared && !slices.ContainsFunc(s.Subscriptions, func(is port.Subscription) bool { return reflect.DeepEqual(is, was) }) {
				t.Fatalf("subscription %+v was changed", was)
			}
			if key := was.Database + "/" + was.Name; was.SlotLost() && s.slots[key] {
				t.Fatalf("a slot was made for %s", key)
			}
		}
	})
}
