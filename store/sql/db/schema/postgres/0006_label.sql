-- Labels of runs, so that lists choose by them without reading every run.

CREATE TABLE run_label (
	key   text COLLATE "C" NOT NULL,
	value text COLLATE "C" NOT NULL,
	run   bigint NOT NULL,                -- run.k
	PRIMARY KEY (key, value, run)
);
CREATE INDEX run_label_run ON run_label (run, key);
