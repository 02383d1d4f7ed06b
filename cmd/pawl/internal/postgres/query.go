package postgres

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/pgbackrest"
)

// streams are those of a program.
type streams struct {
	in       io.Reader // nil: none
	out, err io.Writer
}

// queryWithin limits a query of a verb.
const queryWithin = 10 * time.Second

// query asks an instance, whose answer is one JSON value.
func (c *cluster) query(ctx context.Context, i instance, sql string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, queryWithin)
	defer cancel()
	return c.ask(ctx, i, "postgres", "-c statement_timeout=8s", sql, into)
}

// ask is query without its limit, in a database and with settings.
func (c *cluster) ask(ctx context.Context, i instance, database, options, sql string, into any) error {
	var out, said bytes.Buffer
	database = strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(database)
	code, err := c.host.run(ctx, i, "psql", []string{"-XAtq", "-v", "ON_ERROR_STOP=1", "-d", "application_name=pawl connect_timeout=5 dbname='" + database + "' options='" + options + " -c default_transaction_read_only=on'"}, streams{in: strings.NewReader(sql), out: &out, err: &said})
	if err != nil {
		return err
	}
	if code != 0 {
		return Unreachable.Errorf("instance %s: %.256s", i.id, strings.Join(strings.Fields(said.String()), " "))
	}
	return json.Unmarshal(out.Bytes(), into)
}

// replication is what the writer says of itself and of those that stream from it.
type replication struct {
	Streams []stream `json:"streams"`
	Slots   []Slot   `json:"slots"`
	Archive Archive  `json:"archive"`

	Connections    int64 `json:"connections"`
	MaxConnections int64 `json:"maxConnections"`
}

type stream struct {
	Instance   string   `json:"instance"`
	State      string   `json:"state"`
	Sync       string   `json:"sync"`
	LagBytes   *int64   `json:"lagBytes"`
	LagSeconds *float64 `json:"lagSeconds"`
}

const replicationQuery = `SELECT json_build_object(
'streams', (SELECT coalesce(json_agg(json_build_object('instance', application_name, 'state', state, 'sync', sync_state,
	'lagBytes', greatest(pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn), 0)::bigint, 'lagSeconds', extract(epoch FROM replay_lag))), '[]') FROM pg_stat_replication WHERE application_name !~ '^pg_'),
'slots', (SELECT coalesce(json_agg(json_build_object('name', s.slot_name, 'instance', coalesce(r.application_name, ''), 'type', s.slot_type, 'active', s.active,
	'wal', s.wal_status, 'retainedBytes', greatest(pg_wal_lsn_diff(pg_current_wal_lsn(), s.restart_lsn), 0)::bigint) ORDER BY s.slot_name), '[]')
	FROM pg_replication_slots s LEFT JOIN pg_stat_replication r ON r.pid = s.active_pid),
'archive', (SELECT json_build_object('mode', CASE WHEN current_setting('archive_command') IN ('', '` + pgbackrest.NoArchive + `') THEN 'off' ELSE current_setting('archive_mode') END, 'archived', archived_count, 'last', coalesce(last_archived_wal, ''), 'lastAt', last_archived_time,
	'failed', failed_count, 'lastFailed', coalesce(last_failed_wal, ''), 'lastFailedAt', last_failed_time) FROM pg_stat_archiver),
'connections', (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'),
'maxConnections', current_setting('max_connections')::bigint)`
