package metrics

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"
)

const (
	prefix       = "pawl_postgres_"
	customPrefix = "pawl_custom_"

	scrapeLimit    = 20 * time.Second // of one scrape
	statementLimit = 5 * time.Second
)

// Facts are what an agent knows of its instance without asking the engine.
type Facts struct {
	Running bool // there is an engine
	Writer  bool // it writes, or is about to
	Ready   bool // it answers clients in its role
	Version string
	// Epoch grows by one with each writer of the cluster; the last one that this instance knows of.
	Epoch int64
	// Lease is how long a writer may still write without renewing its lease.
	Lease time.Duration
	// Alone: it goes on without a renewal because all other members confirm that they do not take its place.
	Alone bool
}

// Collector collects the metrics of one instance when it is asked. It implements prometheus.Collector.
type Collector struct {
	Folder  string // of the data, whose disk is measured
	Queries string // file of the user's queries; empty or missing: none
	Log     *slog.Logger
	Facts   func(context.Context) Facts
	// Connect opens a connection to a database of the engine.
	Connect func(ctx context.Context, database string) (*pgx.Conn, error)
}

var (
	upDesc       = desc("up", "1: the engine answers.")
	infoDesc     = desc("info", "1, with the version of the engine.", "version")
	writerDesc   = desc("writer", "1: the instance writes; 0: it reads.")
	readyDesc    = desc("ready", "1: the instance serves clients in its role.")
	epochDesc    = desc("epoch", "Number of the writer that the instance knows of: each change of the writer counts one.")
	leaseDesc    = desc("lease_seconds", "How long the writer may still write without renewing its lease.")
	aloneDesc    = desc("lease_confirmed_by_members", "1: the writer cannot renew its lease and goes on because all other members confirm it.")
	diskDesc     = desc("disk_bytes", "Size of the file system with the data, in bytes.")
	diskFreeDesc = desc("disk_free_bytes", "Free space of the file system with the data, in bytes.")
	failedDesc   = desc("scrape_failed", "1: the statements of this name gave no samples.", "query")
	durationDesc = desc("scrape_duration_seconds", "How long the engine was asked.")
	queriesDesc  = desc("custom_queries", "Number of queries of the user's file.")
	unreadDesc   = desc("custom_queries_invalid", "1: the file of the user's queries is not valid.")
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prefix+name, help, labels, nil)
}

// Describe implements prometheus.Collector. The user's queries make the collector an unchecked one.
func (c *Collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeLimit)
	defer cancel()
	facts := c.Facts(ctx)
	c.collectFacts(out, facts)
	var custom []Query
	if c.Queries != "" {
		var err error
		custom, err = ReadQueries(c.Queries)
		if err != nil {
			c.Log.Warn("the file of queries is not valid", "file", c.Queries, "err", err)
		}
		gauge(out, queriesDesc, float64(len(custom)))
		gauge(out, unreadDesc, number(err != nil))
	}
	began := time.Now()
	s := &scrape{Collector: c, out: out, writer: facts.Writer, connections: map[string]*pgx.Conn{}, seen: map[string]bool{}}
	defer s.close()
	up := false
	if facts.Running {
		_, err := s.connection(ctx, "")
		up = err == nil
	}
	gauge(out, upDesc, number(up))
	if !up {
		return
	}
	for _, q := range builtins {
		s.collect(ctx, q, prefix)
	}
	for _, q := range custom {
		s.collect(ctx, q, customPrefix)
	}
	gauge(out, durationDesc, time.Since(began).Seconds())
}

func (c *Collector) collectFacts(out chan<- prometheus.Metric, f Facts) {
	gauge(out, infoDesc, 1, f.Version)
	gauge(out, writerDesc, number(f.Writer))
	gauge(out, readyDesc, number(f.Ready))
	out <- prometheus.MustNewConstMetric(epochDesc, prometheus.CounterValue, float64(f.Epoch))
	if f.Writer {
		gauge(out, leaseDesc, f.Lease.Seconds())
		gauge(out, aloneDesc, number(f.Alone))
	}
	var disk unix.Statfs_t
	if err := unix.Statfs(c.Folder, &disk); err == nil {
		block := float64(disk.Bsize)
		gauge(out, diskDesc, float64(disk.Blocks)*block)
		gauge(out, diskFreeDesc, float64(disk.Bavail)*block)
	}
}

func gauge(out chan<- prometheus.Metric, d *prometheus.Desc, value float64, labels ...string) {
	out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
}

func number(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// scrape is one scrape, with its connections by database.
type scrape struct {
	*Collector
	out         chan<- prometheus.Metric
	writer      bool
	connections map[string]*pgx.Conn
	seen        map[string]bool // samples by name and labels: Prometheus refuses a scrape that has one twice
}

func (s *scrape) connection(ctx context.Context, database string) (*pgx.Conn, error) {
	if c := s.connections[database]; c != nil {
		return c, nil
	}
	c, err := s.Connect(ctx, database)
	if err != nil {
		return nil, err
	}
	s.connections[database] = c
	_, err = c.Exec(ctx, fmt.Sprintf("SET default_transaction_read_only = on; SET statement_timeout = %d; SET lock_timeout = 1000", statementLimit.Milliseconds()))
	return c, err
}

func (s *scrape) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for _, c := range s.connections {
		_ = c.Close(ctx) // it was read from only
	}
}

// collect gives the samples of one query.
func (s *scrape) collect(ctx context.Context, q Query, prefix string) {
	if !q.runsOn(s.writer) {
		return
	}
	samples, err := s.samples(ctx, q, prefix)
	gauge(s.out, failedDesc, number(err != nil), q.Name)
	if err != nil {
		s.Log.Warn("a query for metrics has failed", "query", q.Name, "err", err)
		return
	}
	for _, sample := range samples {
		s.out <- sample
	}
}

func (s *scrape) samples(ctx context.Context, q Query, prefix string) ([]prometheus.Metric, error) {
	c, err := s.connection(ctx, q.Database)
	if err != nil {
		return nil, err
	}
	as := "RESET ROLE"
	if prefix == customPrefix {
		as = "SET ROLE pg_monitor"
	}
	if _, err := c.Exec(ctx, as); err != nil {
		return nil, err
	}
	// One statement, as text: a query of a user cannot end with a second one that takes the role back.
	rows, err := c.Query(ctx, q.SQL, pgx.QueryExecModeExec, pgx.QueryResultFormats{pgx.TextFormatCode})
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	at := map[string]int{}
	for i, f := range rows.FieldDescriptions() {
		at[f.Name] = i
	}
	for _, column := range q.columns() {
		if _, ok := at[column]; !ok {
			return nil, fmt.Errorf("the statement gives no column %s", column)
		}
	}
	descs := q.described(prefix)
	var samples []prometheus.Metric
	for rows.Next() {
		values := rows.RawValues()
		labels := make([]string, len(q.Labels))
		for i, l := range q.Labels {
			labels[i] = string(values[at[l]])
		}
		for i, m := range q.Metrics {
			text := values[at[m.Column]]
			if text == nil {
				continue
			}
			value, err := strconv.ParseFloat(string(text), 64)
			if err != nil {
				return nil, fmt.Errorf("the column %s is no number: %q", m.Column, text)
			}
			key := fmt.Sprintf("%s %q", descs[i], labels)
			if s.seen[key] {
				return nil, fmt.Errorf("two rows have the labels %q", labels)
			}
			s.seen[key] = true
			sample, err := prometheus.NewConstMetric(descs[i], m.valueType(), value, labels...)
			if err != nil {
				return nil, err
			}
			samples = append(samples, sample)
		}
	}
	return samples, rows.Err()
}

// columns are those that the statement must give.
func (q Query) columns() []string {
	columns := append([]string(nil), q.Labels...)
	for _, m := range q.Metrics {
		columns = append(columns, m.Column)
	}
	return columns
}
