package local

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// scrape reads the metrics of an instance as Prometheus does, without a token.
func (b *fixture) scrape(name string) (map[string]*dto.MetricFamily, error) {
	p, err := b.Instances().Locate(b.t.Context(), c1.Of(name))
	if err != nil {
		return nil, err
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	defer client.CloseIdleConnections()
	request, err := http.NewRequestWithContext(b.t.Context(), http.MethodGet, p.Agent+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, errors.New(response.Status)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(response.Body)
}

// samples are the values of a metric by a label.
func samples(family *dto.MetricFamily, label string) map[string]float64 {
	found := map[string]float64{}
	for _, m := range family.GetMetric() {
		key := ""
		for _, l := range m.GetLabel() {
			if l.GetName() == label {
				key = l.GetValue()
			}
		}
		found[key] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
	}
	return found
}

// The metrics of a writer and of a reader, with a statement that waits for a lock, and queries of the user.
func TestMetricsOfInstances(t *testing.T) {
	b := newFixture(t, Options{})
	b.create("w", "r1")
	b.exec("w", "CREATE TABLE orders (state text); INSERT INTO orders VALUES ('open'), ('open'), ('done'); GRANT SELECT ON orders TO pg_monitor; CREATE TABLE secrets (word text)")
	queries := b.folder(c1, queriesName)
	b.must(os.WriteFile(queries, []byte(`
queries:
  - name: orders
    sql: SELECT state, count(*) AS total FROM orders GROUP BY state
    labels: [state]
    metrics: [{column: total, help: Orders by state.}]
  - name: secrets
    sql: SELECT count(*) AS total FROM secrets
    metrics: [{column: total, help: What the role pg_monitor may not read.}]
  - name: escape
    sql: "RESET ROLE; SELECT count(*) AS total FROM secrets"
    metrics: [{column: total, help: Two statements.}]
  - name: on_writers
    on: writer
    sql: SELECT 1 AS total
    metrics: [{column: total, help: One.}]
`), 0o600))

	holder, err := b.connect("w")
	b.must(err)
	defer holder.Close(t.Context())
	_, err = holder.Exec(t.Context(), "BEGIN; LOCK TABLE orders IN ACCESS EXCLUSIVE MODE")
	b.must(err)
	waiter, err := b.connect("w")
	b.must(err)
	defer waiter.Close(t.Context())
	waiting := make(chan error, 1)
	go func() { _, err := waiter.Exec(t.Context(), "INSERT INTO orders VALUES ('late')"); waiting <- err }()
	eventually(t, 30*time.Second, "a session that waits", func() error {
		all, err := b.scrape("w")
		if err != nil {
			return err
		}
		if got := samples(all["pawl_postgres_lock_waiters"], ""); got[""] != 1 {
			return fmt.Errorf("lock_waiters: %v", got)
		}
		return nil
	})
	_, err = holder.Exec(t.Context(), "COMMIT")
	b.must(err)
	b.must(<-waiting)

	writer, err := b.scrape("w")
	b.must(err)
	for name, want := range map[string]float64{"up": 1, "writer": 1, "ready": 1, "lease_confirmed_by_members": 0, "connections_max": 1, "start_timestamp_seconds": 1, "disk_free_bytes": 1, "log_folder_bytes": 1, "epoch": 1} {
		if got := samples(writer["pawl_postgres_"+name], "")[""]; (want == 0) != (got == 0) {
			t.Errorf("%s of the writer: %v", name, got)
		}
	}
	if got := samples(writer["pawl_postgres_reader_lag_bytes"], "reader"); len(got) != 1 {
		t.Errorf("lags by reader: %v", got)
	}
	if got := samples(writer["pawl_postgres_database_bytes"], "database"); got["postgres"] < 1<<20 {
		t.Errorf("sizes by database: %v", got)
	}
	if got, want := samples(writer["pawl_custom_orders_total"], "state"), map[string]float64{"open": 2, "done": 1, "late": 1}; !maps.Equal(got, want) {
		t.Errorf("the query of the user: %v", got)
	}
	if writer["pawl_postgres_archived_total"] != nil {
		t.Error("it archives without a repository")
	}
	failed := samples(writer["pawl_postgres_scrape_failed"], "query")
	for _, query := range slices.Sorted(maps.Keys(failed)) {
		if want := query == "secrets" || query == "escape"; (failed[query] == 1) != want {
			t.Errorf("query %s failed: %v", query, failed[query])
		}
	}

	reader, err := b.scrape("r1")
	b.must(err)
	if got := samples(reader["pawl_postgres_streams"], "")[""]; got != 1 {
		t.Errorf("streams of the reader: %v", got)
	}
	if reader["pawl_custom_on_writers_total"] != nil || writer["pawl_custom_on_writers_total"] == nil || samples(reader["pawl_postgres_writer"], "")[""] != 0 {
		t.Error("a query on writers ran on a reader")
	}
	for query, n := range samples(reader["pawl_postgres_scrape_failed"], "query") {
		if want := query == "secrets" || query == "escape"; (n == 1) != want {
			t.Errorf("query %s failed on the reader: %v", query, n)
		}
	}

	b.must(os.WriteFile(queries, []byte("queries: [{name: BAD}]"), 0o600))
	if all, err := b.scrape("w"); err != nil || samples(all["pawl_postgres_custom_queries_invalid"], "")[""] != 1 || samples(all["pawl_postgres_up"], "")[""] != 1 {
		t.Errorf("a file that is not valid: %v", err)
	}
}
