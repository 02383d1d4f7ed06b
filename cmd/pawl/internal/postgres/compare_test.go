package postgres

import (
	"context"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/store/sql/pgtest"
	"github.com/pawl-dev/pawl/view"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(pgtest.Main(m)) }

// answers is a host whose psql has these answers, and remembers what it was asked.
type answers struct {
	host
	give, asked []string
}

func (h *answers) run(_ context.Context, i instance, program string, args []string, s streams) (int, error) {
	sql, err := io.ReadAll(s.in)
	if err != nil {
		return 0, err
	}
	h.asked = append(h.asked, program+" "+i.id+" "+args[len(args)-1]+"\n"+string(sql))
	_, err = io.WriteString(s.out, h.give[0])
	h.give = h.give[1:]
	return 0, err
}

// Rows are compared, not their number only; the side that publishes has the filter.
func TestCompare(t *testing.T) {
	c, _ := read(t, "healthy")
	from, _ := read(t, "healthy")
	c.spec.Subscriptions = []v1alpha1.SubscriptionSpec{{Name: "in", Database: "reports", Publications: []string{"o'rders", "items"}, From: &v1alpha1.PublisherSpec{Database: "it's"}}}
	here, there := &answers{give: []string{`[{"rows": 2, "sum": "7"}, {"rows": 3, "sum": "9"}]`}}, &answers{give: []string{
		`[{"schema": "public", "table": "items", "columns": ["id"], "filter": "(id > 3)"}, {"schema": "sales", "table": "Or\"ders", "columns": ["id", "sum"], "filter": ""}]`,
		`[{"rows": 2, "sum": "7"}, {"rows": 3, "sum": "8"}]`,
	}}
	c.host, from.host = here, there
	is, err := c.compare(t.Context(), "in", from)
	want := []ComparedTable{{"public.items", 2, 2, true}, {`sales.Or"ders`, 3, 3, false}}
	if err != nil || !slices.Equal(is.Tables, want) || !is.differ() {
		t.Errorf("%+v, not %+v: %v", is, want, err)
	}
	if text := is.Text(view.Style{}); !strings.Contains(text, "differ") || !strings.Contains(text, "the same") {
		t.Error(text)
	}
	if len(there.asked) != 2 || !strings.Contains(there.asked[0], `dbname='it\'s'`) || !strings.Contains(there.asked[0], `IN ('o''rders', 'items')`) || !strings.Contains(there.asked[1], "WHERE (id > 3)") {
		t.Errorf("%q", there.asked)
	}
	if len(here.asked) != 1 || !strings.Contains(here.asked[0], "dbname='reports'") || strings.Contains(here.asked[0], "WHERE") || !strings.Contains(here.asked[0], `ROW(t."id", t."sum")::text`) || !strings.Contains(here.asked[0], `"sales"."Or""ders"`) || !strings.Contains(here.asked[0], "search_path=pg_catalog") {
		t.Errorf("%q", here.asked)
	}
	there.give = []string{"[]"}
	if _, err := c.compare(t.Context(), "in", from); err == nil || !strings.Contains(err.Error(), "publishes no table in database it's by o'rders, items") {
		t.Errorf("nothing was compared: %v", err)
	}
	if _, err := c.compare(t.Context(), "out", from); err == nil || !strings.Contains(err.Error(), "has no out") {
		t.Error(err)
	}
}

// A row of a table in two publications is published when one of their filters lets it through.
func TestCompareATableOfTwoPublications(t *testing.T) {
	c, err := pgx.Connect(t.Context(), pgtest.Start(t, pgtest.Options{NoSync: true}).Database(t))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	if _, err := c.Exec(t.Context(), `CREATE TABLE orders (id int PRIMARY KEY, item text); INSERT INTO orders SELECT n, 'item ' || n FROM generate_series(1, 10) n;
		CREATE TABLE plain (id int); INSERT INTO plain VALUES (1);
		CREATE PUBLICATION low FOR TABLE orders WHERE (id < 3), TABLE plain; CREATE PUBLICATION high FOR TABLE orders WHERE (id > 8); CREATE PUBLICATION every FOR TABLE orders;
		CREATE TABLE copied AS SELECT * FROM orders WHERE id < 3 OR id > 8`); err != nil {
		t.Fatal(err)
	}
	ask := func(query string, into any) {
		t.Helper()
		var text string
		if err := c.QueryRow(t.Context(), query).Scan(&text); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		if err := json.Unmarshal([]byte(text), into); err != nil {
			t.Fatal(err)
		}
	}
	sums := func(tables []publishedTable, filtered bool) (sums []tableSum) {
		ask(sumQuery(tables, filtered), &sums)
		return sums
	}
	for _, of := range []struct {
		publications []string
		rows         int64
	}{{[]string{"low", "high"}, 4}, {[]string{"high", "low"}, 4}, {[]string{"high"}, 2}, {[]string{"low", "every", "high"}, 10}} {
		var tables []publishedTable
		ask(publishedQuery(of.publications), &tables)
		if n := slices.IndexFunc(tables, func(t publishedTable) bool { return t.Table == "plain" }); (n >= 0) != slices.Contains(of.publications, "low") || n >= 0 && (n != len(tables)-1 || tables[n].Filter != "") {
			t.Errorf("%v: %+v", of.publications, tables)
		}
		if got := sums(tables, true); tables[0].Table != "orders" || !slices.Equal(tables[0].Columns, []string{"id", "item"}) || got[0].Rows != of.rows {
			t.Errorf("%v: %+v has %+v, not %d rows", of.publications, tables, got, of.rows)
		} else if of.rows == 4 {
			if there := sums([]publishedTable{{Schema: "public", Table: "copied", Columns: tables[0].Columns}}, false); there[0] != got[0] {
				t.Errorf("%v: %+v, and the copy has %+v", of.publications, got, there)
			}
		}
	}
}
