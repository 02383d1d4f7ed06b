-- Labels of runs, so that lists choose by them without reading every run.

CREATE TABLE run_label (
	key   TEXT NOT NULL,
	value TEXT NOT NULL,
	run   INTEGER NOT NULL,               -- run.row
	PRIMARY KEY (key, value, run)
) WITHOUT ROWID;
CREATE INDEX run_label_run ON run_label (run, key);
