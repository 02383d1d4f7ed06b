-- Who holds limits of steps, and who waits for them: a document for each key, which a change replaces if it has the
-- revision that was read.

CREATE TABLE step_limit (
	key      text COLLATE "C" PRIMARY KEY,
	revision bigint NOT NULL,
	document bytea NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
