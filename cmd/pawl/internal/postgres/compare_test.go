package postgres

import (
	"context"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
)

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
	if text := is.Text(); !strings.Contains(text, "differ") || !strings.Contains(text, "the same") {
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
