package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// socket connects to the engine in this folder, through its socket. The path of a socket is
// limited to 107 bytes; the path of an open folder under /proc is short.
func socket(ctx context.Context, folder string, p int32, database string) (*pgx.Conn, error) {
	cfg, err := pgx.ParseConfig("host=/run user=" + superuser + " sslmode=disable application_name=pawl connect_timeout=3")
	if err != nil {
		return nil, err
	}
	cfg.Port, cfg.Database = uint16(p), cmp.Or(database, "postgres")
	cfg.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	cfg.RuntimeParams["synchronous_commit"] = "local" // writes of the agent itself wait for no reader
	name := ".s.PGSQL." + strconv.Itoa(int(p))
	cfg.DialFunc = func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		path := filepath.Join(folder, name)
		if len(path) <= 100 {
			return d.DialContext(ctx, "unix", path)
		}
		open, err := os.Open(folder)
		if err != nil {
			return nil, err
		}
		defer open.Close()
		return d.DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d/%s", open.Fd(), name))
	}
	return pgx.ConnectConfig(ctx, cfg)
}

// reach connects to another engine with a password that it accepts: it may not have the newest one
// yet. The accepted one is used from then on.
func (a *Agent) reach(ctx context.Context, u Upstream) (c *pgx.Conn, err error) {
	for _, password := range a.secret.keys() {
		c, err = reach(ctx, u, password, a.srv.certificate.trust())
		var said *pgconn.PgError
		if errors.As(err, &said) && said.Code == wrongPassword {
			continue
		}
		if err == nil {
			if err := a.srv.usePassword(password); err != nil {
				a.log.Warn("storing the password of the cluster", "err", err)
			}
		}
		break
	}
	return c, err
}

const wrongPassword = "28P01" // the SQLSTATE of PostgreSQL

// reach connects to another engine.
func reach(ctx context.Context, u Upstream, password, trust string) (*pgx.Conn, error) {
	cfg, err := pgx.ParseConfig(fmt.Sprintf("host=%s port=%d user=%s dbname=postgres %s application_name=pawl connect_timeout=3", connQuote(u.Host), u.Port, superuser, sslmode(trust)))
	if err != nil {
		return nil, err
	}
	cfg.Password = password
	cfg.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	cfg.RuntimeParams["synchronous_commit"] = "local"
	return pgx.ConnectConfig(ctx, cfg)
}

// engineState is the state that a running engine reports.
type engineState struct {
	Recovery  bool
	Position  uint64 // flushed (primary) or replayed
	Received  uint64
	Timeline  int64
	Restart   bool
	Started   time.Time
	Receiver  bool   // there is a WAL receiver
	Streaming bool   // and it streams
	Source    string // host:port it streams from
	SourceEnd uint64 // the end of the log there
	Receiving []string
	Replies   []reply // of those that receive
	SyncNames string  // as in effect
	Password  string
}

// reply is the last reply of a follower that receives. Its time is that of the follower's clock, so
// it tells one reply from the next and nothing else.
type reply struct{ name, at string }

const stateQuery = `
SELECT r.recovery::text,
	coalesce((CASE WHEN r.recovery THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_flush_lsn() END)::text, '0/0'),
	coalesce((CASE WHEN r.recovery THEN pg_last_wal_receive_lsn() END)::text, '0/0'),
	(CASE WHEN r.recovery THEN greatest((SELECT timeline_id FROM pg_control_checkpoint()), (SELECT min_recovery_end_timeline FROM pg_control_recovery()), coalesce(w.received_tli, 0))
		ELSE ('x' || lpad(substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8), 16, '0'))::bit(64)::bigint END)::text,
	(SELECT bool_or(pending_restart) FROM pg_settings)::text,
	extract(epoch FROM pg_postmaster_start_time())::text,
	coalesce(w.status, ''), coalesce(w.sender_host || ':' || w.sender_port, ''), coalesce(w.latest_end_lsn::text, '0/0'),
	coalesce((SELECT string_agg(application_name || E'\t' || coalesce(reply_time::text, ''), E'\n') FROM pg_stat_replication WHERE state = 'streaming'), ''),
	current_setting('synchronous_standby_names')
FROM (SELECT pg_is_in_recovery() AS recovery) r LEFT JOIN pg_stat_wal_receiver w ON true`

// queryState reads the whole state of an engine in one query.
func queryState(ctx context.Context, c *pgx.Conn) (engineState, error) {
	var s engineState
	var recovery, position, received, timeline, restart, started, status, end, receiving string
	if err := c.QueryRow(ctx, stateQuery).Scan(&recovery, &position, &received, &timeline, &restart, &started, &status, &s.Source, &end, &receiving, &s.SyncNames); err != nil {
		return s, err
	}
	var errs [5]error
	s.Recovery, s.Restart = recovery == "true", restart == "true"
	s.Position, errs[0] = parseLSN(position)
	s.Received, errs[1] = parseLSN(received)
	s.SourceEnd, errs[2] = parseLSN(end)
	s.Timeline, errs[3] = strconv.ParseInt(timeline, 10, 64)
	seconds, err := strconv.ParseFloat(started, 64)
	errs[4] = err
	s.Started = time.UnixMilli(int64(seconds * 1000)).UTC()
	s.Receiver, s.Streaming = status != "", status == "streaming"
	for line := range strings.SplitSeq(receiving, "\n") {
		if name, at, ok := strings.Cut(line, "\t"); ok {
			s.Receiving, s.Replies = append(s.Receiving, name), append(s.Replies, reply{name, at})
		}
	}
	if !s.Recovery {
		s.Received = 0
	}
	return s, errors.Join(errs[:]...)
}

// lineage is the timeline of an engine and the points at which it left earlier ones.
type lineage struct {
	Recovery bool
	Timeline int64
	Forks    []fork
}

// queryLineage reads the timelines of an engine that writes.
func queryLineage(ctx context.Context, c *pgx.Conn) (lineage, error) {
	var l lineage
	var recovery string
	if err := c.QueryRow(ctx, "SELECT pg_is_in_recovery()::text").Scan(&recovery); err != nil {
		return l, err
	}
	if l.Recovery = recovery == "true"; l.Recovery {
		return l, nil
	}
	var timeline, history string
	if err := c.QueryRow(ctx, `SELECT t, CASE WHEN t = '00000001' THEN '' ELSE pg_read_file('pg_wal/' || t || '.history') END
		FROM substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) t`).Scan(&timeline, &history); err != nil {
		return l, err
	}
	var err error
	l.Timeline, err = strconv.ParseInt(timeline, 16, 64)
	l.Forks = parseHistory(history)
	return l, err
}

// reserve creates the slot of a follower, so that the log it needs is kept. It replaces a slot
// that has lost its log.
func reserve(ctx context.Context, c *pgx.Conn, slot string) error {
	_, err := c.Exec(ctx, "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = "+literal(slot)+" AND NOT active AND wal_status = 'lost'")
	if err != nil {
		return err
	}
	_, err = c.Exec(ctx, "SELECT pg_create_physical_replication_slot("+literal(slot)+", true) WHERE NOT EXISTS (SELECT FROM pg_replication_slots WHERE slot_name = "+literal(slot)+")")
	return err
}

// forget drops inactive slots: those named, or all of ours.
func forget(ctx context.Context, c *pgx.Conn, slots ...string) error {
	which := "slot_name LIKE 'pawl\\_%'"
	if len(slots) > 0 {
		quoted := make([]string, len(slots))
		for i, slot := range slots {
			quoted[i] = literal(slot)
		}
		which = "slot_name IN (" + strings.Join(quoted, ",") + ")"
	}
	_, err := c.Exec(ctx, "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE NOT active AND slot_type = 'physical' AND "+which)
	return err
}

func literal(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }
