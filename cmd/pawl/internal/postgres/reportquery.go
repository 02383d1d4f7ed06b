package postgres

import "strings"

// rows makes a list of JSON objects of a query.
func rows(query string) string {
	return "(SELECT coalesce(json_agg(to_json(x)), '[]') FROM (" + query + ") x)"
}

// reportQueries are what a report asks each instance: counters and names, no statements and no rows of users.
var reportQueries = []struct{ folder, what, sql string }{
	{"settings", "the settings that are no defaults", "SELECT " + rows(`SELECT name, unit, source, pending_restart,
		CASE WHEN name ~ '(password|secret|token|key|passphrase|credential|conninfo|command)' AND setting NOT IN ('', 'on', 'off') AND name <> 'password_encryption' THEN '`+leftOut+`' ELSE setting END AS setting
		FROM pg_settings WHERE source NOT IN ('default', 'override') OR pending_restart ORDER BY name`)},
	{"stats", "the statistics", "SELECT json_build_object(" + strings.Join([]string{
		"'recovery', pg_is_in_recovery()", "'started', pg_postmaster_start_time()", "'version', version()",
		"'databases', " + rows("SELECT s.*, pg_database_size(s.datid) AS bytes FROM pg_stat_database s WHERE datname IS NOT NULL"),
		"'background', " + rows("SELECT * FROM pg_stat_bgwriter"),
		"'wal', " + rows("SELECT * FROM pg_stat_wal"),
		"'archiver', " + rows("SELECT * FROM pg_stat_archiver"),
		"'replication', " + rows("SELECT * FROM pg_stat_replication"),
		"'slots', " + rows("SELECT * FROM pg_replication_slots"),
		"'receiver', " + rows("SELECT pid, status, receive_start_lsn, written_lsn, flushed_lsn, received_tli, last_msg_send_time, last_msg_receipt_time, latest_end_lsn, latest_end_time, slot_name, sender_host, sender_port FROM pg_stat_wal_receiver"),
		"'sessions', " + rows("SELECT pid, datname, usename, application_name, client_addr, backend_type, backend_start, xact_start, query_start, state_change, wait_event_type, wait_event, state FROM pg_stat_activity ORDER BY pid"),
		"'locks', " + rows("SELECT locktype, mode, granted, count(*) FROM pg_locks GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"),
		"'extensions', " + rows("SELECT extname, extversion FROM pg_extension ORDER BY 1"),
	}, ",\n") + ")"},
}
