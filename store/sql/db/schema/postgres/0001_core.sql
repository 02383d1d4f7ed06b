-- The tables of the core on PostgreSQL. Times are nanoseconds since 1970 UTC, 0 or NULL for none.

CREATE TABLE worker (
	k       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, -- one lease; a worker that was given up gets another
	name    text COLLATE "C" NOT NULL,
	start   bigint NOT NULL,
	until   bigint NOT NULL,
	lease   bigint NOT NULL,
	lost    boolean NOT NULL DEFAULT false
);
CREATE UNIQUE INDEX worker_alive ON worker (name) WHERE NOT lost;

-- A step costs one update of run, in place: no index holds what a step changes.
CREATE TABLE run (
	k         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	id        text COLLATE "C" NOT NULL UNIQUE,
	flow      text COLLATE "C" NOT NULL,
	version   bigint NOT NULL,
	hash      text COLLATE "C" NOT NULL,
	subject   text COLLATE "C" NOT NULL,
	parent    text COLLATE "C",
	inline    boolean NOT NULL,
	birth     bytea NOT NULL,            -- what never changes: labels, request, actor, …
	created   bigint NOT NULL,
	phase     smallint NOT NULL,         -- 1 Queued, 2 Running, 3 Waiting, 4 Paused, 5 Cancelling, 6 Cancelled, 7 Succeeded
	queue_no  bigint NOT NULL,
	revision  bigint NOT NULL,
	epoch     bigint NOT NULL,
	owner     bigint,                    -- worker.k
	mail      bigint NOT NULL,           -- signals accepted
	next_at   bigint NOT NULL,
	due_at    bigint,                    -- NULL while owned, final or without a time
	ended     bigint NOT NULL,
	body      bytea NOT NULL,            -- state, fault and the open steps
	limited   boolean NOT NULL DEFAULT false, -- it has rows in run_limit until it ends
	fault     text COLLATE "C"           -- code, in phase 4; NULL: none
) WITH (fillfactor = 50);
CREATE UNIQUE INDEX run_slot ON run (subject) WHERE phase < 6 AND queue_no = 0 AND NOT inline; -- one active run of a subject; in phase 1 it waits for its limits
CREATE INDEX run_subject ON run (subject, k);
CREATE INDEX run_queue ON run (subject, queue_no) WHERE phase = 1;
CREATE INDEX run_parent ON run (parent) WHERE parent IS NOT NULL;
CREATE INDEX run_due ON run (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX run_owner ON run (owner) WHERE owner IS NOT NULL;
CREATE INDEX run_fault ON run (fault, k) WHERE fault IS NOT NULL;
ALTER TABLE run SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

CREATE TABLE input (
	run   bigint PRIMARY KEY,
	data  bytea NOT NULL
);

-- One row a save: its events, and the step records it settled. Append only.
-- x orders what several writers commit: rows of transactions older than every
-- open one are complete.
CREATE TABLE event (
	x      xid8 NOT NULL DEFAULT pg_current_xact_id(),
	n      bigint GENERATED ALWAYS AS IDENTITY,
	run    bigint NOT NULL,
	seq    bigint NOT NULL,             -- of the newest event of the run
	data   bytea,
	steps  bytea
);
CREATE INDEX event_order ON event (x, n);
CREATE INDEX event_run ON event (run, seq);

CREATE TABLE signal (
	run    bigint NOT NULL,
	n      bigint NOT NULL,             -- order of arrival
	id     text COLLATE "C" NOT NULL,
	taken  boolean NOT NULL DEFAULT false,
	data   bytea,                       -- NULL once it was taken
	PRIMARY KEY (run, n),
	UNIQUE (run, id)
);
CREATE INDEX signal_unread ON signal (run, n) WHERE NOT taken;

CREATE TABLE definition (
	hash     text COLLATE "C" PRIMARY KEY,
	flow     text COLLATE "C" NOT NULL,
	version  bigint NOT NULL,
	data     bytea NOT NULL,
	source   bytea NOT NULL
);

CREATE FUNCTION pawl_now() RETURNS bigint LANGUAGE sql STABLE AS
$$ SELECT (extract(epoch FROM now()) * 1000000000)::bigint $$;

-- pawl_send keeps a signal: 0 kept, 1 known, 2 the run has ended, 3 too many unread, 4 no such run.
CREATE FUNCTION pawl_send(_run text, _id text, _data bytea, _unread bigint, _ids bigint) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	r run%ROWTYPE;
BEGIN
	SELECT * INTO r FROM run WHERE id = _run FOR NO KEY UPDATE;
	IF NOT FOUND THEN RETURN 4; END IF;
	IF EXISTS (SELECT FROM signal WHERE run = r.k AND id = _id) THEN RETURN 1; END IF;
	IF r.phase > 5 THEN RETURN 2; END IF;
	IF _unread > 0 AND (SELECT count(*) FROM signal WHERE run = r.k AND NOT taken) >= _unread THEN RETURN 3; END IF;
	INSERT INTO signal (run, n, id, data) VALUES (r.k, r.mail + 1, _id, _data);
	DELETE FROM signal WHERE run = r.k AND taken AND n <= r.mail + 1 - _ids;
	IF r.owner IS NULL THEN
		UPDATE run SET mail = mail + 1, next_at = pawl_now(), due_at = pawl_now() WHERE k = r.k;
	ELSE
		UPDATE run SET mail = mail + 1 WHERE k = r.k;
	END IF;
	PERFORM pg_notify('pawl', _run);
	RETURN 0;
END $$;

-- pawl_worker gives the lease of a living worker, extended if less than half of it is left.
CREATE FUNCTION pawl_worker(_name text, _lease bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	w worker%ROWTYPE;
BEGIN
	LOOP
		SELECT * INTO w FROM worker WHERE name = _name AND NOT lost;
		IF FOUND THEN
			IF w.until > pawl_now() + _lease / 2 THEN RETURN w.k; END IF;
			UPDATE worker SET until = greatest(until, pawl_now() + _lease), lease = _lease WHERE k = w.k AND NOT lost;
			IF FOUND THEN RETURN w.k; END IF;
		ELSE
			INSERT INTO worker (name, start, until, lease) VALUES (_name, pawl_now(), pawl_now() + _lease, _lease)
				ON CONFLICT DO NOTHING RETURNING k INTO w.k;
			IF FOUND THEN RETURN w.k; END IF;
		END IF;
	END LOOP;
END $$;

-- pawl_bury gives up workers whose lease has ended: their runs are due before all others and fenced against them.
CREATE FUNCTION pawl_bury(_alive text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	n bigint;
BEGIN
	IF NOT EXISTS (SELECT FROM worker WHERE until <= pawl_now() AND name <> _alive) THEN RETURN 0; END IF;
	UPDATE worker SET lost = true WHERE NOT lost AND until <= pawl_now() AND name <> _alive
		AND EXISTS (SELECT FROM run WHERE owner = worker.k);
	UPDATE run SET owner = NULL, epoch = epoch + 1, due_at = 1 WHERE owner IN (SELECT k FROM worker WHERE lost);
	GET DIAGNOSTICS n = ROW_COUNT;
	DELETE FROM worker WHERE until <= pawl_now() - 86400000000000 AND NOT EXISTS (SELECT FROM run WHERE owner = worker.k);
	RETURN n;
END $$;

-- pawl_must gives a number, and ends the transaction if there is none: a guard was not met.
CREATE FUNCTION pawl_must(_n bigint) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
	IF _n IS NULL THEN RAISE EXCEPTION 'a row that the change needs is not there' USING ERRCODE = 'PW001'; END IF;
	RETURN _n;
END $$;
