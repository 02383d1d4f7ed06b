package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

var _ port.ReplicationAdmin = Engine{}

type replicationCall struct {
	Databases     []string `json:"databases"`
	Subscriptions []string `json:"subscriptions,omitempty"`
}

// Replication implements port.ReplicationAdmin.
func (e Engine) Replication(ctx context.Context, id port.Ref, databases, subscriptions []string) (port.Replication, error) {
	return call[port.Replication](ctx, e, id, http.MethodPost, "logical", replicationCall{databases, subscriptions})
}

// subscriptionsQuery reads all subscriptions of a server as JSON, but for their tables.
const subscriptionsQuery = `SELECT coalesce(json_agg(json_build_object('name', subname, 'database', datname, 'connection', encode(sha256(convert_to(subconninfo, 'UTF8')), 'hex'),
	'conninfo', subconninfo, 'slot', coalesce(subslotname, ''), 'publications', to_json(subpublications), 'enabled', subenabled, 'confirms', subsynccommit = 'on',
	'running', EXISTS (SELECT FROM pg_stat_subscription r WHERE r.subid = s.oid AND r.relid IS NULL AND r.pid IS NOT NULL),
	'errors', coalesce((SELECT apply_error_count + sync_error_count FROM pg_stat_subscription_stats e WHERE e.subid = s.oid), 0)) ORDER BY subname, datname), '[]')::text
FROM pg_subscription s JOIN pg_database d ON d.oid = subdbid`

// replicationQuery reads the publications of a database, and the tables of its subscriptions.
const replicationQuery = `SELECT json_build_object(
	'publications', (SELECT coalesce(json_agg(json_build_object('name', pubname, 'database', current_database(), 'allTables', puballtables,
			'tables', (SELECT json_agg(nspname || '.' || relname ORDER BY nspname, relname) FROM pg_publication_rel JOIN pg_class c ON c.oid = prrelid JOIN pg_namespace n ON n.oid = relnamespace WHERE prpubid = p.oid),
			'schemas', (SELECT json_agg(nspname ORDER BY nspname) FROM pg_publication_namespace JOIN pg_namespace n ON n.oid = pnnspid WHERE pnpubid = p.oid),
			'operations', array_remove(ARRAY[CASE WHEN pubinsert THEN 'insert' END, CASE WHEN pubupdate THEN 'update' END, CASE WHEN pubdelete THEN 'delete' END, CASE WHEN pubtruncate THEN 'truncate' END], NULL)) ORDER BY pubname), '[]')
		FROM pg_publication p),
	'tables', (SELECT coalesce(json_agg(json_build_object('subscription', subname, 'table', nspname || '.' || relname, 'copied', srsubstate IN ('r', 's'))), '[]')
		FROM pg_subscription_rel JOIN pg_subscription s ON s.oid = srsubid JOIN pg_class c ON c.oid = srrelid JOIN pg_namespace n ON n.oid = relnamespace))::text`

// publisherQuery asks a server that publishes: $1 is a slot, $2 are publications.
const publisherQuery = `SELECT json_build_object(
	'slot', EXISTS (SELECT FROM pg_replication_slots WHERE slot_name = $1 AND slot_type = 'logical' AND database = current_database() AND coalesce(wal_status, '') <> 'lost'),
	'lag', coalesce((SELECT pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END, confirmed_flush_lsn)::bigint FROM pg_replication_slots WHERE slot_name = $1 AND slot_type = 'logical'), 0),
	'missing', (SELECT json_agg(name) FROM unnest($2::text[]) name WHERE NOT EXISTS (SELECT FROM pg_publication WHERE pubname = name)),
	'tables', (SELECT json_agg(DISTINCT schemaname || '.' || tablename) FROM pg_publication_tables WHERE pubname = ANY ($2::text[])))::text`

// subscription is a subscription with what stays in the agent.
type subscription struct {
	port.Subscription
	Conninfo string `json:"conninfo"` // with the password
	Slot     string `json:"slot"`
	tables   []string
}

func (a *Agent) callReplication(ctx context.Context, in replicationCall) (port.Replication, error) {
	found := port.Replication{Publications: []port.Publication{}, Subscriptions: []port.Subscription{}}
	if !a.engine().Running() {
		return found, port.WriterUnhealthy.Errorf("the engine of instance %s does not run", a.name)
	}
	var all []*subscription
	if err := a.readJSON(ctx, "", subscriptionsQuery, &all); err != nil {
		return found, err
	}
	for _, database := range in.Databases {
		var one struct {
			Publications []port.Publication `json:"publications"`
			Tables       []struct {
				Subscription, Table string
				Copied              bool
			} `json:"tables"`
		}
		err := a.readJSON(ctx, database, replicationQuery, &one)
		var said *pgconn.PgError
		if errors.As(err, &said) && said.Code == "3D000" { // there is no such database
			found.Missing = append(found.Missing, database)
			continue
		}
		if err != nil {
			return found, fmt.Errorf("the publications of database %s: %w", database, err)
		}
		found.Publications = append(found.Publications, one.Publications...)
		for _, t := range one.Tables {
			for _, s := range all {
				if s.Name == t.Subscription && s.Database == database {
					s.tables = append(s.tables, t.Table)
					if !t.Copied {
						s.Copying++
					}
				}
			}
		}
	}
	a.askPublishers(ctx, all, in.Subscriptions)
	for _, s := range all {
		found.Subscriptions = append(found.Subscriptions, s.Subscription)
	}
	return found, nil
}

func (a *Agent) readJSON(ctx context.Context, database, query string, into any) error {
	var text string
	if err := a.inDatabase(ctx, database, func(c *pgx.Conn) error { return c.QueryRow(ctx, query).Scan(&text) }); err != nil {
		return err
	}
	return json.Unmarshal([]byte(text), into)
}

// publisherLimit is the time in which the servers that publish must answer, all at once.
const publisherLimit = 2 * time.Second

// askPublishers asks the servers of the named subscriptions as their processes would. PostgreSQL has
// nothing else that says why a process does not receive but its log.
func (a *Agent) askPublishers(ctx context.Context, all []*subscription, names []string) {
	ctx, cancel := context.WithTimeout(ctx, publisherLimit)
	defer cancel()
	var asked sync.WaitGroup
	for _, s := range all {
		if slices.Contains(names, s.Name) {
			asked.Go(func() {
				s.Publisher = &port.Publisher{}
				if err := s.ask(ctx); err != nil {
					s.Publisher = &port.Publisher{Unreachable: steady(err)}
				}
			})
		}
	}
	asked.Wait()
}

var ownPort = regexp.MustCompile(`\S+:\d+->`)

// steady returns an error of pgx, which leaves the password out, on one line and without what is new each
// time.
func steady(err error) string {
	return strings.Join(strings.Fields(ownPort.ReplaceAllString(err.Error(), "")), " ")
}

func (s *subscription) ask(ctx context.Context) error {
	cfg, err := pgx.ParseConfig(s.Conninfo)
	if err != nil {
		return errors.New("its connection string cannot be read")
	}
	cfg.DefaultQueryExecMode = pgx.QueryExecModeExec
	cfg.RuntimeParams["application_name"] = "pawl"
	c, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = c.Close(closing) // the server ends it otherwise
	}()
	var text string
	if err := c.QueryRow(ctx, publisherQuery, s.Slot, s.Publications).Scan(&text); err != nil {
		return err
	}
	var said struct {
		port.Publisher
		Tables []string `json:"tables"`
	}
	if err := json.Unmarshal([]byte(text), &said); err != nil {
		return err
	}
	for _, table := range said.Tables {
		if !slices.Contains(s.tables, table) {
			said.New++
		}
	}
	*s.Publisher = said.Publisher
	return nil
}
