-- Limits by key of how many runs run at once.

CREATE TABLE run_limit (
	run     INTEGER NOT NULL,             -- run.row, of a run that goes on
	key     TEXT NOT NULL,
	at_once INTEGER NOT NULL,
	rank    INTEGER NOT NULL,             -- the lowest of a key starts first
	state   INTEGER NOT NULL,             -- 0 behind another run of its subject, 1 waits, 2 holds a limit
	PRIMARY KEY (run, key)
) WITHOUT ROWID;
CREATE INDEX run_limit_waiting ON run_limit (key, rank, run) WHERE state = 1;
CREATE INDEX run_limit_running ON run_limit (key, run) WHERE state = 2;

-- Numbers that count in place of those of the runs.
CREATE TABLE run_limit_value (
	key     TEXT PRIMARY KEY,
	at_once INTEGER NOT NULL
) WITHOUT ROWID;
