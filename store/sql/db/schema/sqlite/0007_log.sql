-- What steps print: chunks of lines, numbered within their run.

CREATE TABLE run_log (
	run      INTEGER NOT NULL,            -- run.row
	n        INTEGER NOT NULL,            -- order of writing
	step     TEXT NOT NULL,
	round    INTEGER NOT NULL,
	attempt  INTEGER NOT NULL,
	undo     INTEGER NOT NULL,            -- 1: the attempt takes the step back
	left_out INTEGER NOT NULL,            -- bytes of the attempt before these that are not kept
	bytes    INTEGER NOT NULL,
	lines    BLOB NOT NULL,               -- JSON
	PRIMARY KEY (run, n)
);

CREATE TABLE run_log_size (
	run      INTEGER PRIMARY KEY,
	last     INTEGER NOT NULL,            -- newest run_log.n
	bytes    INTEGER NOT NULL,
	left_out INTEGER NOT NULL             -- bytes of the oldest chunks, which are not kept
);
