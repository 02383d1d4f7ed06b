-- What steps print: chunks of lines, numbered within their run.

CREATE TABLE run_log (
	run      bigint NOT NULL,             -- run.k
	n        bigint NOT NULL,             -- order of writing
	step     text COLLATE "C" NOT NULL,
	round    bigint NOT NULL,
	attempt  bigint NOT NULL,
	undo     bigint NOT NULL,             -- 1: the attempt takes the step back
	left_out bigint NOT NULL,             -- bytes of the attempt before these that are not kept
	bytes    bigint NOT NULL,
	lines    bytea NOT NULL,              -- JSON
	PRIMARY KEY (run, n)
);

-- Its row is locked by whoever changes the logs of a run, so that chunks become visible in the order of n.
CREATE TABLE run_log_size (
	run      bigint PRIMARY KEY,
	last     bigint NOT NULL,             -- newest run_log.n
	bytes    bigint NOT NULL,
	left_out bigint NOT NULL              -- bytes of the oldest chunks, which are not kept
);
