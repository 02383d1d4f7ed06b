package metrics

import (
	"strings"
	"testing"
)

func TestParseQueries(t *testing.T) {
	const good = `
queries:
  - name: orders
    database: shop
    on: writer
    sql: SELECT state, count(*) AS total FROM orders GROUP BY state
    labels: [state]
    metrics: [{column: total, help: Orders by state., type: counter}]
`
	queries, err := ParseQueries([]byte(good))
	if err != nil || len(queries) != 1 || queries[0].Database != "shop" || queries[0].Metrics[0].Column != "total" {
		t.Fatalf("%+v %v", queries, err)
	}
	for _, c := range []struct{ from, to, want string }{
		{"name: orders", "name: Orders", `name "Orders"`},
		{"name: orders", "nome: orders", "line 3: field nome not found"},
		{"on: writer", "on: rw", `on is "rw": write writer or reader`},
		{"type: counter", "type: summary", `type is "summary"`},
		{"labels: [state]", "labels: [total]", "the column total is there twice"},
		{"sql: SELECT", "database: SELECT", "line 6"},
		{"{column: total, help: Orders by state., type: counter}", "", "orders has no metrics"},
		{"    sql: SELECT state, count(*) AS total FROM orders GROUP BY state\n", "", "orders has no sql"},
	} {
		text := strings.Replace(good, c.from, c.to, 1)
		if _, err := ParseQueries([]byte(text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.to, err)
		}
	}
	if got, err := ParseQueries(nil); len(got) != 0 || err != nil {
		t.Errorf("an empty file: %v %v", got, err)
	}
	if _, err := ParseQueries([]byte(good + strings.TrimPrefix(good, "\nqueries:\n"))); err == nil || !strings.Contains(err.Error(), "the name orders is there twice") {
		t.Error(err)
	}
}

// Our own statements obey the rules of those of users.
func TestBuiltins(t *testing.T) {
	seen := map[string]bool{}
	for _, q := range builtins {
		if err := q.check(); err != nil {
			t.Error(err)
		}
		for _, m := range q.Metrics {
			if seen[m.Column] {
				t.Errorf("%s is there twice", m.Column)
			}
			seen[m.Column] = true
		}
	}
}
