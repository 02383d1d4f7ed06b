-- Limits by key of how many runs run at once.

CREATE TABLE run_limit (
	run     bigint NOT NULL,             -- run.k, of a run that goes on
	key     text COLLATE "C" NOT NULL,
	at_once bigint NOT NULL,
	rank    bigint NOT NULL,             -- the lowest of a key starts first
	state   smallint NOT NULL,           -- 0 behind another run of its subject, 1 waits, 2 holds a limit
	PRIMARY KEY (run, key)
);
CREATE INDEX run_limit_waiting ON run_limit (key, rank, run) WHERE state = 1;
CREATE INDEX run_limit_running ON run_limit (key, run) WHERE state = 2;

-- Numbers that count in place of those of the runs.
CREATE TABLE run_limit_value (
	key     text COLLATE "C" PRIMARY KEY,
	at_once bigint NOT NULL
);

-- Keys for which a run may start now. Writers of runs append and lock nothing; a claim looks at them and removes them.
CREATE TABLE run_limit_changed (
	n    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	key  text COLLATE "C" NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

-- pawl_start_limited starts the runs that may start for the changed keys. One transaction at a time does it, so that no
-- limit is exceeded. It waits for no row of run: if somebody writes the run that is first, the key stays changed.
CREATE FUNCTION pawl_start_limited() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	keys text[];
	first bigint;
	at bigint;
BEGIN
	IF NOT EXISTS (SELECT FROM run_limit_changed) THEN RETURN; END IF;
	PERFORM pg_advisory_xact_lock(hashtextextended('limits', 7295));
	WITH gone AS (DELETE FROM run_limit_changed RETURNING key)
	SELECT array_agg(DISTINCT key) INTO keys FROM gone;
	WHILE cardinality(keys) > 0 LOOP
		SELECT l.run INTO first FROM run_limit l WHERE l.key = keys[1] AND l.state = 1 ORDER BY l.rank, l.run LIMIT 1;
		IF NOT FOUND OR EXISTS (
			SELECT FROM run_limit l WHERE l.run = first AND (
				(SELECT count(*) FROM run_limit h WHERE h.key = l.key AND h.state = 2)
					>= coalesce((SELECT v.at_once FROM run_limit_value v WHERE v.key = l.key), l.at_once)
				OR EXISTS (SELECT FROM run_limit o WHERE o.key = l.key AND o.state = 1 AND (o.rank, o.run) < (l.rank, l.run)))
		) THEN
			keys := keys[2:];
			CONTINUE;
		END IF;
		SELECT k INTO at FROM run WHERE k = first AND phase = 1 AND queue_no = 0 FOR NO KEY UPDATE SKIP LOCKED;
		IF NOT FOUND THEN
			INSERT INTO run_limit_changed (key) VALUES (keys[1]);
			keys := keys[2:];
			CONTINUE;
		END IF;
		UPDATE run SET phase = 2, revision = revision + 1, next_at = pawl_now(), due_at = CASE WHEN owner IS NULL THEN pawl_now() END WHERE k = at;
		UPDATE run_limit SET state = 2 WHERE run = at;
		keys := keys || ARRAY(SELECT l.key FROM run_limit l WHERE l.run = at AND l.key <> keys[1]);
	END LOOP;
END $$;

-- pawl_queue stores a run behind the active one of its subject: 0 queued, 1
-- there is none, 2 too many wait, 3 known, 4 started. The active run is locked, so that it
-- cannot end between the look and the queueing. A child run without limits starts before an active run that only waits
-- for its limits, which is the first of the queue then.
CREATE FUNCTION pawl_queue(_id text, _flow text, _version bigint, _hash text, _subject text, _parent text, _inline boolean, _birth bytea, _created bigint,
	_body bytea, _most bigint, _seq bigint, _events bytea, _steps bytea, _input bytea, _keys text[], _values text[],
	_limits text[], _at_once bigint[], _rank bigint) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	n bigint;
	last bigint;
	active bigint;
	waits boolean;
	passes boolean;
BEGIN
	SELECT k, phase = 1 INTO active, waits FROM run WHERE subject = _subject AND phase < 6 AND queue_no = 0 AND NOT inline FOR NO KEY UPDATE;
	IF NOT FOUND THEN RETURN 1; END IF;
	passes := waits AND _parent <> '' AND cardinality(_limits) = 0;
	IF passes THEN
		IF EXISTS (SELECT FROM run WHERE id = _id) THEN RETURN 3; END IF;
		UPDATE run SET revision = revision + 1,
			queue_no = coalesce((SELECT min(q.queue_no) FROM run q WHERE q.subject = _subject AND q.phase = 1 AND q.queue_no > 0), 1) WHERE k = active;
		UPDATE run_limit SET state = 0 WHERE run = active;
		INSERT INTO run_limit_changed (key) SELECT key FROM run_limit WHERE run = active;
	ELSE
		SELECT count(*), coalesce(max(queue_no), 0) INTO n, last FROM run WHERE subject = _subject AND phase = 1 AND queue_no > 0;
		IF n >= _most THEN RETURN 2; END IF;
	END IF;
	INSERT INTO run (id, flow, version, hash, subject, parent, inline, birth, created, phase, queue_no, revision, epoch, mail, next_at, due_at, ended, body, limited)
		VALUES (_id, _flow, _version, _hash, _subject, nullif(_parent, ''), _inline, _birth, _created,
			CASE WHEN passes THEN 2 ELSE 1 END, CASE WHEN passes THEN 0 ELSE last + 1 END, 1, 0, 0,
			CASE WHEN passes THEN pawl_now() ELSE 0 END, CASE WHEN passes THEN pawl_now() END, 0, _body, cardinality(_limits) > 0)
		ON CONFLICT (id) DO NOTHING RETURNING k INTO n;
	IF NOT FOUND THEN
		IF passes THEN RAISE unique_violation USING MESSAGE = 'the run was created at the same time'; END IF;
		RETURN 3;
	END IF;
	IF _events IS NOT NULL OR _steps IS NOT NULL THEN
		INSERT INTO event (run, seq, data, steps) VALUES (n, _seq, _events, _steps);
	END IF;
	INSERT INTO run_label (key, value, run) SELECT l.key, l.value, n FROM unnest(_keys, _values) AS l(key, value);
	INSERT INTO run_limit (run, key, at_once, rank, state) SELECT n, l.key, l.at_once, _rank, 0 FROM unnest(_limits, _at_once) AS l(key, at_once);
	IF _input IS NOT NULL THEN
		INSERT INTO input (run, data) VALUES (n, _input);
	END IF;
	IF passes THEN
		PERFORM pg_notify('pawl', _id);
		RETURN 4;
	END IF;
	RETURN 0;
END $$;
