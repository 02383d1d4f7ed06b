package metrics

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"go.yaml.in/yaml/v3"
)

// The roles of Query.On.
const (
	OnWriter = "writer"
	OnReader = "reader"
)

// Query is a statement of which each row gives a sample to each of its metrics.
//
//	queries:
//	  - name: orders
//	    database: shop
//	    on: writer
//	    sql: SELECT state, count(*) AS total FROM orders GROUP BY state
//	    labels: [state]
//	    metrics:
//	      - {column: total, help: Orders by state.}
//
// is pawl_custom_orders_total{state}. The statement is executed as the role pg_monitor, in a transaction that only
// reads: GRANT SELECT ON orders TO pg_monitor lets it.
type Query struct {
	Name     string   `yaml:"name"`
	Database string   `yaml:"database"` // default postgres
	On       string   `yaml:"on"`       // writer, reader; default both
	SQL      string   `yaml:"sql"`
	Labels   []string `yaml:"labels"` // columns
	Metrics  []Metric `yaml:"metrics"`
}

// Metric is a column with numbers. NULL gives no sample.
type Metric struct {
	Column string `yaml:"column"`
	Help   string `yaml:"help"`
	Type   string `yaml:"type"` // gauge or counter; default gauge
}

// queriesFile is the file of the user's queries.
type queriesFile struct {
	Queries []Query `yaml:"queries"`
}

const mostQueries = 100

var word = regexp.MustCompile(`^[a-z][a-z0-9_]{0,62}$`)

// ReadQueries reads the queries of a user. No file: none.
func ReadQueries(path string) ([]Query, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return ParseQueries(data)
}

// ParseQueries parses queries of a user as YAML.
func ParseQueries(data []byte) ([]Query, error) {
	var f queriesFile
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	if err := d.Decode(&f); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if len(f.Queries) > mostQueries {
		return nil, fmt.Errorf("%d queries, at most %d may be", len(f.Queries), mostQueries)
	}
	names := map[string]bool{}
	for i, q := range f.Queries {
		if err := q.check(); err != nil {
			return nil, fmt.Errorf("queries[%d]: %w", i, err)
		}
		if names[q.Name] {
			return nil, fmt.Errorf("queries[%d]: the name %s is there twice", i, q.Name)
		}
		names[q.Name] = true
	}
	return f.Queries, nil
}

func (q Query) check() error {
	switch {
	case !word.MatchString(q.Name):
		return fmt.Errorf("name %q: write small letters, digits and _", q.Name)
	case q.SQL == "":
		return fmt.Errorf("%s has no sql", q.Name)
	case q.On != "" && q.On != OnWriter && q.On != OnReader:
		return fmt.Errorf("%s: on is %q: write %s or %s", q.Name, q.On, OnWriter, OnReader)
	case len(q.Metrics) == 0:
		return fmt.Errorf("%s has no metrics", q.Name)
	}
	columns := slices.Clone(q.Labels)
	for _, m := range q.Metrics {
		if m.Type != "" && m.Type != "gauge" && m.Type != "counter" {
			return fmt.Errorf("%s.%s: type is %q: write gauge or counter", q.Name, m.Column, m.Type)
		}
		columns = append(columns, m.Column)
	}
	for i, c := range columns {
		if !word.MatchString(c) {
			return fmt.Errorf("%s: column %q: write small letters, digits and _", q.Name, c)
		}
		if slices.Contains(columns[:i], c) {
			return fmt.Errorf("%s: the column %s is there twice", q.Name, c)
		}
	}
	return nil
}

// runsOn reports whether an instance of a role executes the query.
func (q Query) runsOn(writer bool) bool {
	return q.On == "" || (q.On == OnWriter) == writer
}

func (m Metric) valueType() prometheus.ValueType {
	if m.Type == "counter" {
		return prometheus.CounterValue
	}
	return prometheus.GaugeValue
}

// described are the descriptions of a query's metrics, in their order.
func (q Query) described(prefix string) []*prometheus.Desc {
	descs := make([]*prometheus.Desc, len(q.Metrics))
	for i, m := range q.Metrics {
		name := prefix + m.Column
		if prefix == customPrefix {
			name = prefix + q.Name + "_" + m.Column
		}
		descs[i] = prometheus.NewDesc(name, m.Help, q.Labels, nil)
	}
	return descs
}
