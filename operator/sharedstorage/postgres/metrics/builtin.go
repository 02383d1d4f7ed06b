package metrics

import "github.com/pawl-dev/pawl/operator/sharedstorage/postgres/pgbackrest"

// builtins are the statements of PostgreSQL 15 that each scrape executes. Columns are the names of the metrics
// without their prefix.
var builtins = []Query{
	{
		Name: "readers", On: OnWriter, Labels: []string{"reader"},
		SQL: `SELECT application_name AS reader,
			pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn) AS reader_lag_bytes,
			coalesce(extract(epoch FROM replay_lag), 0) AS reader_lag_seconds,
			(sync_state IN ('sync', 'quorum'))::int AS reader_confirms
			FROM pg_stat_replication WHERE state = 'streaming'`,
		Metrics: []Metric{
			{Column: "reader_lag_bytes", Help: "Log that a reader has not replayed yet, in bytes."},
			{Column: "reader_lag_seconds", Help: "Time from a commit until a reader has replayed it."},
			{Column: "reader_confirms", Help: "1: commits may wait for this reader."},
		},
	},
	{
		Name: "replay", On: OnReader,
		SQL: `SELECT pg_wal_lsn_diff(greatest(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn()), pg_last_wal_replay_lsn()) AS replay_lag_bytes,
			CASE WHEN pg_last_wal_receive_lsn() <= pg_last_wal_replay_lsn() THEN 0
				ELSE extract(epoch FROM now() - pg_last_xact_replay_timestamp()) END AS replay_lag_seconds,
			(SELECT count(*) FROM pg_stat_wal_receiver WHERE status = 'streaming') AS streams`,
		Metrics: []Metric{
			{Column: "replay_lag_bytes", Help: "Log that was received and is not replayed yet, in bytes."},
			{Column: "replay_lag_seconds", Help: "Age of the last commit that was replayed, while log waits for its replay."},
			{Column: "streams", Help: "1: it receives from a writer."},
		},
	},
	{
		Name: "slots", Labels: []string{"slot"},
		SQL: `SELECT slot_name AS slot, active::int AS slot_active,
			pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END, restart_lsn) AS slot_retained_bytes
			FROM pg_replication_slots`,
		Metrics: []Metric{
			{Column: "slot_active", Help: "1: somebody receives by this replication slot."},
			{Column: "slot_retained_bytes", Help: "Log that a replication slot retains, in bytes."},
		},
	},
	{
		Name: "archiver",
		SQL: `SELECT archived_count AS archived_total, failed_count AS archive_failed_total,
			extract(epoch FROM last_archived_time) AS archive_last_timestamp_seconds,
			extract(epoch FROM last_failed_time) AS archive_last_failed_timestamp_seconds
			FROM pg_stat_archiver WHERE current_setting('archive_command') NOT IN ('', '` + pgbackrest.NoArchive + `')`,
		Metrics: []Metric{
			{Column: "archived_total", Help: "Segments of the log that were archived.", Type: "counter"},
			{Column: "archive_failed_total", Help: "Attempts to archive a segment that failed.", Type: "counter"},
			{Column: "archive_last_timestamp_seconds", Help: "When the last segment was archived."},
			{Column: "archive_last_failed_timestamp_seconds", Help: "When an attempt to archive has failed last."},
		},
	},
	{
		Name: "connections", Labels: []string{"database", "state"},
		SQL: `SELECT coalesce(datname, '') AS database, coalesce(state, '') AS state, count(*) AS connections
			FROM pg_stat_activity WHERE backend_type = 'client backend' GROUP BY 1, 2`,
		Metrics: []Metric{{Column: "connections", Help: "Connections of clients by database and state."}},
	},
	{
		Name: "settings",
		SQL: `SELECT current_setting('max_connections')::int AS connections_max,
			(SELECT count(*) FROM pg_settings WHERE pending_restart) AS parameters_pending_restart,
			extract(epoch FROM pg_postmaster_start_time()) AS start_timestamp_seconds`,
		Metrics: []Metric{
			{Column: "connections_max", Help: "Connections that are allowed."},
			{Column: "parameters_pending_restart", Help: "Parameters that take effect by a restart."},
			{Column: "start_timestamp_seconds", Help: "When the engine was started."},
		},
	},
	{
		Name: "locks", Labels: []string{"mode", "granted"},
		SQL:     `SELECT mode, granted::text AS granted, count(*) AS locks FROM pg_locks GROUP BY 1, 2`,
		Metrics: []Metric{{Column: "locks", Help: "Locks by mode, and whether they are held or waited for."}},
	},
	{
		Name: "waits",
		SQL: `SELECT count(*) FILTER (WHERE wait_event_type = 'Lock') AS lock_waiters,
			count(*) FILTER (WHERE wait_event = 'SyncRep') AS commit_waiters,
			coalesce(max(extract(epoch FROM now() - xact_start)), 0) AS oldest_transaction_seconds,
			coalesce(max(extract(epoch FROM now() - query_start)) FILTER (WHERE state = 'active'), 0) AS oldest_statement_seconds
			FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()`,
		Metrics: []Metric{
			{Column: "lock_waiters", Help: "Sessions that wait for a lock."},
			{Column: "commit_waiters", Help: "Sessions whose commit waits for a reader."},
			{Column: "oldest_transaction_seconds", Help: "Age of the oldest transaction."},
			{Column: "oldest_statement_seconds", Help: "Time that the slowest statement has run for."},
		},
	},
	{
		Name: "statements", Labels: []string{"longer_than_seconds"},
		SQL: `SELECT t.seconds::text AS longer_than_seconds, count(a.pid) AS statements_running
			FROM (VALUES (1), (10), (60), (600)) t(seconds) LEFT JOIN pg_stat_activity a
			ON a.state = 'active' AND a.backend_type = 'client backend' AND a.pid <> pg_backend_pid() AND now() - a.query_start > t.seconds * interval '1 second'
			GROUP BY 1`,
		Metrics: []Metric{{Column: "statements_running", Help: "Statements that have run for longer."}},
	},
	{
		Name: "databases", Labels: []string{"database"},
		SQL: `SELECT d.datname AS database, pg_database_size(d.oid) AS database_bytes, age(d.datfrozenxid) AS database_transaction_age,
			s.xact_commit AS commits_total, s.xact_rollback AS rollbacks_total, s.blks_read AS blocks_read_total, s.blks_hit AS blocks_hit_total,
			s.temp_bytes AS temporary_bytes_total, s.deadlocks AS deadlocks_total, s.conflicts AS recovery_conflicts_total
			FROM pg_database d JOIN pg_stat_database s ON s.datid = d.oid WHERE d.datallowconn`,
		Metrics: []Metric{
			{Column: "database_bytes", Help: "Size of a database in bytes."},
			{Column: "database_transaction_age", Help: "Transactions since the oldest that is not frozen; at 2,000,000,000 the database stops writing."},
			{Column: "commits_total", Help: "Transactions that were committed.", Type: "counter"},
			{Column: "rollbacks_total", Help: "Transactions that were rolled back.", Type: "counter"},
			{Column: "blocks_read_total", Help: "Blocks that were read from the disk or the cache of the system.", Type: "counter"},
			{Column: "blocks_hit_total", Help: "Blocks that were found in the shared buffers.", Type: "counter"},
			{Column: "temporary_bytes_total", Help: "Bytes in temporary files.", Type: "counter"},
			{Column: "deadlocks_total", Help: "Deadlocks.", Type: "counter"},
			{Column: "recovery_conflicts_total", Help: "Statements of a reader that were canceled for the replay.", Type: "counter"},
		},
	},
	{
		Name: "wal",
		SQL: `SELECT w.wal_bytes AS log_bytes_total, w.wal_records AS log_records_total,
			(SELECT coalesce(sum(size), 0) FROM pg_ls_waldir()) AS log_folder_bytes FROM pg_stat_wal w`,
		Metrics: []Metric{
			{Column: "log_bytes_total", Help: "Bytes of log that were written.", Type: "counter"},
			{Column: "log_records_total", Help: "Records of log that were written.", Type: "counter"},
			{Column: "log_folder_bytes", Help: "Size of the folder pg_wal in bytes."},
		},
	},
	{
		Name: "checkpoints",
		SQL: `SELECT checkpoints_timed AS checkpoints_timed_total, checkpoints_req AS checkpoints_requested_total,
			(checkpoint_write_time + checkpoint_sync_time) / 1000 AS checkpoint_seconds_total, maxwritten_clean AS background_writer_halts_total
			FROM pg_stat_bgwriter`,
		Metrics: []Metric{
			{Column: "checkpoints_timed_total", Help: "Checkpoints that were due.", Type: "counter"},
			{Column: "checkpoints_requested_total", Help: "Checkpoints that were requested; many: max_wal_size is small.", Type: "counter"},
			{Column: "checkpoint_seconds_total", Help: "Time that checkpoints have taken.", Type: "counter"},
			{Column: "background_writer_halts_total", Help: "Passes of the background writer that wrote as much as they may.", Type: "counter"},
		},
	},
}
