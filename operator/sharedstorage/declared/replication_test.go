package declared

import (
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

var blue = source{Host: "blue-rw.shop", Port: 5432, Database: "shop", User: "reader", Password: `it's \ "secret"`, SSLMode: "disable"}

// A driver reads the parts of a connection string as they were given.
func TestConnection(t *testing.T) {
	c, err := pgconn.ParseConfig(blue.Connection())
	if err != nil {
		t.Fatal(err)
	}
	if got := (source{Host: c.Host, Port: int32(c.Port), Database: c.Database, User: c.User, Password: c.Password, SSLMode: "disable"}); got != blue {
		t.Errorf("%+v, not %+v", got, blue)
	}
	open := blue
	if open.Password = ""; strings.Contains(open.Connection(), "password") {
		t.Error(open.Connection())
	}
}

func TestPlanReplication(t *testing.T) {
	all := operations
	found := port.Replication{
		Publications: []port.Publication{
			{Name: "orders", Database: "shop", Tables: []string{"public.orders", "sales.items"}, Operations: all},
			{Name: "all", Database: "shop", AllTables: true, Operations: all},
			{Name: "orders", Database: "other", Schemas: []string{"public"}, Operations: []string{"insert"}},
		},
		Subscriptions: []port.Subscription{{Name: "in", Database: "shop", Connection: sha(blue.Connection()), Publications: []string{"a", "b"}, Enabled: true, Confirms: true, Running: true, Publisher: &port.Publisher{Slot: true}}},
		Missing:       []string{"nowhere"},
	}
	pub := func(p wantedPublication) wantedReplication {
		return wantedReplication{Publications: []wantedPublication{p}}
	}
	sub := func(change func(*wantedSubscription)) wantedReplication {
		s := wantedSubscription{Name: "in", Database: "shop", Publications: []string{"b", "a"}, From: blue, CopyData: true, Enabled: true}
		change(&s)
		return wantedReplication{Subscriptions: []wantedSubscription{s}}
	}
	is := func(change func(*port.Subscription)) port.Replication {
		f := port.Replication{Subscriptions: slices.Clone(found.Subscriptions)}
		s := &f.Subscriptions[0]
		at := *s.Publisher
		s.Publisher = &at
		change(s)
		return f
	}
	none := func(*wantedSubscription) {}
	for _, c := range []struct {
		name  string
		want  wantedReplication
		found *port.Replication
		sql   []string
	}{
		{name: "nothing is declared: all is left alone"},
		{name: "as wanted", want: pub(wantedPublication{Name: "orders", Database: "shop", Tables: []string{"sales.items", "orders"}})},
		{name: "a table twice", want: pub(wantedPublication{Name: "orders", Database: "shop", Tables: []string{"sales.items", "orders", "public.orders"}})},
		{name: "tables", want: pub(wantedPublication{Name: "new", Database: "shop", Tables: []string{"Orders", `sales.a"b`}}),
			sql: []string{`shop: CREATE PUBLICATION "new" FOR TABLE ONLY "public"."Orders", ONLY "sales"."a""b" WITH (publish = 'insert, update, delete, truncate')`}},
		{name: "schemas", want: pub(wantedPublication{Name: "new", Database: "shop", Schemas: []string{"a.b", "c"}, Operations: []string{"update", "insert"}}),
			sql: []string{`shop: CREATE PUBLICATION "new" FOR TABLES IN SCHEMA "a.b", "c" WITH (publish = 'insert, update')`}},
		{name: "all tables", want: pub(wantedPublication{Name: "all", Database: "other", AllTables: true}),
			sql: []string{`other: CREATE PUBLICATION "all" FOR ALL TABLES WITH (publish = 'insert, update, delete, truncate')`}},
		{name: "other tables and operations", want: pub(wantedPublication{Name: "orders", Database: "shop", Tables: []string{"orders"}, Operations: []string{"delete"}}),
			sql: []string{`shop: ALTER PUBLICATION "orders" SET TABLE ONLY "public"."orders"`, `shop: ALTER PUBLICATION "orders" SET (publish = 'delete')`}},
		{name: "a schema in place of tables", want: pub(wantedPublication{Name: "orders", Database: "shop", Schemas: []string{"public"}}),
			sql: []string{`shop: ALTER PUBLICATION "orders" SET TABLES IN SCHEMA "public"`}},
		{name: "all tables in place of some", want: pub(wantedPublication{Name: "orders", Database: "shop", AllTables: true}),
			sql: []string{`shop: DROP PUBLICATION "orders"; CREATE PUBLICATION "orders" FOR ALL TABLES WITH (publish = 'insert, update, delete, truncate')`}},
		{name: "absent", want: wantedReplication{Publications: []wantedPublication{{Name: "all", Database: "shop", Absent: true}, {Name: "all", Database: "other", Absent: true}}},
			sql: []string{`shop: DROP PUBLICATION "all"`}},
		{name: "a database that is missing", want: wantedReplication{Publications: []wantedPublication{{Name: "x", Database: "nowhere", AllTables: true}}, Subscriptions: []wantedSubscription{{Name: "x", Database: "nowhere"}}}},

		{name: "a subscription as wanted", want: sub(none)},
		{name: "a subscription", want: sub(func(s *wantedSubscription) { s.Database, s.CopyData, s.Enabled = "other", false, false }),
			sql: []string{`other: CREATE SUBSCRIPTION "in" CONNECTION … PUBLICATION "b", "a" WITH (copy_data = false, enabled = false, synchronous_commit = on)`}},
		{name: "another password", want: sub(func(s *wantedSubscription) { s.From.Password = "other" }), sql: []string{`shop: ALTER SUBSCRIPTION "in" CONNECTION …`}},
		{name: "other publications", want: sub(func(s *wantedSubscription) { s.Publications = []string{"c"} }), sql: []string{`shop: ALTER SUBSCRIPTION "in" SET PUBLICATION "c" WITH (copy_data = true)`}},
		{name: "disabled, with other publications", want: sub(func(s *wantedSubscription) { s.Enabled, s.Publications = false, []string{"c"} }),
			sql: []string{`shop: ALTER SUBSCRIPTION "in" DISABLE`, `shop: ALTER SUBSCRIPTION "in" SET PUBLICATION "c" WITH (refresh = false)`}},
		{name: "made by hand", want: sub(none), found: new(is(func(s *port.Subscription) { s.Confirms, s.Enabled = false, false })),
			sql: []string{`shop: ALTER SUBSCRIPTION "in" SET (synchronous_commit = on)`, `shop: ALTER SUBSCRIPTION "in" ENABLE`}},
		{name: "new tables", want: sub(func(s *wantedSubscription) { s.CopyData = false }), found: new(is(func(s *port.Subscription) { s.Publisher.New = 2 })),
			sql: []string{`shop: ALTER SUBSCRIPTION "in" REFRESH PUBLICATION WITH (copy_data = false)`}},
		{name: "new tables, while a publication is gone", want: sub(none), found: new(is(func(s *port.Subscription) { s.Publisher.New, s.Publisher.Missing = 2, []string{"a"} }))},
		{name: "the slot is gone: no other is made", want: sub(none), found: new(is(func(s *port.Subscription) { s.Publisher.New, s.Publisher.Slot = 2, false }))},
		{name: "an absent subscription", want: sub(func(s *wantedSubscription) { s.Absent = true }), sql: []string{`shop: DROP SUBSCRIPTION "in"`}},
		{name: "an absent one, whose server says nothing", want: sub(func(s *wantedSubscription) { s.Absent = true }), found: new(is(func(s *port.Subscription) { s.Publisher = &port.Publisher{Unreachable: "why"} })),
			sql: []string{`shop: DROP SUBSCRIPTION "in"`}},
		{name: "an absent one without a slot", want: sub(func(s *wantedSubscription) { s.Absent = true }), found: new(is(func(s *port.Subscription) { s.Publisher.Slot = false })),
			sql: []string{`shop: ALTER SUBSCRIPTION "in" DISABLE; ALTER SUBSCRIPTION "in" SET (slot_name = NONE); DROP SUBSCRIPTION "in"`}},
	} {
		if c.found == nil {
			c.found = &found
		}
		var got []string
		for _, s := range planReplication(c.want, *c.found) {
			got = append(got, s.Database+": "+connectionForm.ReplaceAllString(s.SQL, "CONNECTION …"))
			if s.What == "" || strings.Contains(s.What, "secret") || strings.Contains(s.What, "host=") {
				t.Errorf("%s: it says %q", c.name, s.What)
			}
		}
		if !slices.Equal(got, c.sql) {
			t.Errorf("%s:\n%q, not\n%q", c.name, got, c.sql)
		}
	}
}
