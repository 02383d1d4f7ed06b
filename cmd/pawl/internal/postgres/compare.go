package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/view"
)

// Comparison is what compare prints.
type Comparison struct {
	Subscription string          `json:"subscription"`
	Publisher    string          `json:"publisher"`
	Subscriber   string          `json:"subscriber"`
	Tables       []ComparedTable `json:"tables"`
}

// ComparedTable is a published table on both sides.
type ComparedTable struct {
	Table      string `json:"table"`
	Published  int64  `json:"published"` // rows
	Subscribed int64  `json:"subscribed"`
	Same       bool   `json:"same"` // the rows, not their number only
}

// differ reports whether some table differs.
func (c Comparison) differ() bool {
	return slices.ContainsFunc(c.Tables, func(t ComparedTable) bool { return !t.Same })
}

// Text is the comparison for people.
func (c Comparison) Text(style view.Style) string {
	return view.TableOf(c.Tables, []view.Column[ComparedTable]{
		{Head: "TABLE", Cell: func(t ComparedTable) string { return t.Table }},
		{Head: "PUBLISHED", Cell: func(t ComparedTable) string { return strconv.FormatInt(t.Published, 10) }},
		{Head: "SUBSCRIBED", Cell: func(t ComparedTable) string { return strconv.FormatInt(t.Subscribed, 10) }},
		{Head: "ROWS", Cell: ComparedTable.rows, Health: func(t ComparedTable) view.Health { return view.HealthOf(t.rows()) }},
	}).Text(style)
}

func (t ComparedTable) rows() string {
	return map[bool]string{true: "the same", false: "differ"}[t.Same]
}

func (a verbs) compareCommand() *cobra.Command {
	cmd := a.verb("compare CLUSTER SUBSCRIPTION PUBLISHER", "Compare the rows of a subscription with those of the cluster that publishes them",
		"  pawl pg compare reports orders orders\n  pawl pg compare reports orders shop/orders -o json", cobra.ExactArgs(3),
		func(ctx context.Context, cmd *cobra.Command, c *cluster, args []string) error {
			namespace, _ := cmd.Flags().GetString("namespace")
			from, err := a.open(ctx, where{namespace}, args[1])
			if err != nil {
				return err
			}
			defer from.Close()
			is, err := c.compare(ctx, args[0], from)
			if err != nil {
				return err
			}
			if err := a.Emit(is, []string{is.Subscription}, func() string { return is.Text(a.Style(a.Out)) }); err != nil {
				return err
			}
			if is.differ() {
				return cli.End(view.ExitRemedy)
			}
			return nil
		})
	cmd.Long = `Counts the rows of each published table on both writers, and adds up a hash of each row. Each
side is read in one snapshot, so nothing may be written meanwhile: stop the writers of these
tables, and wait until pawl pg status says that the subscription has no lag. It reads the
tables whole.

Exit code 0: the rows are the same. 4: those of some table differ.`
	return cmd
}

// compare compares the tables of a declared subscription.
func (c *cluster) compare(ctx context.Context, name string, from *cluster) (Comparison, error) {
	is := Comparison{Subscription: name, Publisher: from.text(), Subscriber: c.text(), Tables: []ComparedTable{}}
	n := slices.IndexFunc(c.spec.Subscriptions, func(s v1alpha1.SubscriptionSpec) bool { return s.Name == name && s.From != nil })
	if n < 0 {
		return is, cli.Usage.Errorf("spec.subscriptions of %s has no %s", c.text(), name)
	}
	s := c.spec.Subscriptions[n]
	there, err := from.choose("", false)
	if err != nil {
		return is, err
	}
	here, err := c.choose("", false)
	if err != nil {
		return is, err
	}
	published := cmp.Or(s.From.Database, s.Database)
	var tables []publishedTable
	if err := from.ask(ctx, there, published, sumOptions, publishedQuery(s.Publications), &tables); err != nil {
		return is, err
	}
	if len(tables) == 0 {
		return is, cli.Usage.Errorf("%s publishes no table in database %s by %s: nothing could be compared", from.text(), published, strings.Join(s.Publications, ", "))
	}
	var sums [2][]tableSum
	if err := from.ask(ctx, there, published, sumOptions, sumQuery(tables, true), &sums[0]); err != nil {
		return is, err
	}
	if err := c.ask(ctx, here, s.Database, sumOptions, sumQuery(tables, false), &sums[1]); err != nil {
		return is, err
	}
	if len(sums[0]) != len(tables) || len(sums[1]) != len(tables) {
		return is, fmt.Errorf("%d tables are published, and the answers have %d and %d", len(tables), len(sums[0]), len(sums[1]))
	}
	for n, t := range tables {
		a, b := sums[0][n], sums[1][n]
		is.Tables = append(is.Tables, ComparedTable{Table: t.Schema + "." + t.Table, Published: a.Rows, Subscribed: b.Rows, Same: a == b})
	}
	return is, nil
}

// publishedTable is a table with the columns that are published, and the filter of its rows.
type publishedTable struct {
	Schema  string   `json:"schema"`
	Table   string   `json:"table"`
	Columns []string `json:"columns"`
	Filter  string   `json:"filter"`
}

type tableSum struct {
	Rows int64  `json:"rows"`
	Sum  string `json:"sum"`
}

// sumOptions are settings by which a value has the same text on both sides, and by which no function of a
// user is found in place of PostgreSQL's.
const sumOptions = "-c search_path=pg_catalog -c TimeZone=UTC -c DateStyle=ISO -c IntervalStyle=postgres -c bytea_output=hex -c extra_float_digits=1"

// publishedQuery asks for the tables of publications. A row of a table in two of them is sent if one of its filters lets
// it through, and PostgreSQL subscribes to no table whose columns differ between them.
func publishedQuery(publications []string) string {
	names := make([]string, len(publications))
	for n, name := range publications {
		names[n] = literal(name)
	}
	return `SELECT coalesce(json_agg(json_build_object('schema', schemaname, 'table', tablename, 'columns', columns, 'filter', filter) ORDER BY schemaname, tablename), '[]')
FROM (SELECT schemaname, tablename, (array_agg(to_json(attnames)))[1] AS columns,
	CASE WHEN bool_or(rowfilter IS NULL) THEN '' ELSE string_agg(DISTINCT '(' || rowfilter || ')', ' OR ') END AS filter
	FROM pg_publication_tables WHERE pubname IN (` + strings.Join(names, ", ") + `) GROUP BY schemaname, tablename) t`
}

// sumQuery asks for number and sum of the rows of all tables, in one snapshot. The sum does not depend on
// the order of rows.
func sumQuery(tables []publishedTable, filtered bool) string {
	parts := make([]string, len(tables))
	for n, t := range tables {
		columns := make([]string, len(t.Columns))
		for n, column := range t.Columns {
			columns[n] = "t." + identifier(column)
		}
		parts[n] = fmt.Sprintf("SELECT %d AS n, count(*) AS rows, coalesce(sum(hashtextextended(ROW(%s)::text, 0)::numeric), 0)::text AS sum FROM %s.%s t", n, strings.Join(columns, ", "), identifier(t.Schema), identifier(t.Table))
		if filtered && t.Filter != "" {
			parts[n] += " WHERE " + t.Filter
		}
	}
	return "SELECT json_agg(json_build_object('rows', rows, 'sum', sum) ORDER BY n) FROM (" + strings.Join(parts, "\nUNION ALL ") + ") s"
}

func identifier(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

func literal(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }
