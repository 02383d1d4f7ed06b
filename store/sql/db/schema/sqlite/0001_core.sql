-- The tables of the core on SQLite. Times are nanoseconds since 1970 UTC.

-- A step changes revision and body only: no index holds them.
CREATE TABLE run (
	row       INTEGER PRIMARY KEY,        -- order of creation
	id        TEXT NOT NULL UNIQUE,
	flow      TEXT NOT NULL,
	version   INTEGER NOT NULL,
	hash      TEXT NOT NULL,
	subject   TEXT NOT NULL,
	parent    TEXT,
	inline    INTEGER NOT NULL,
	phase     INTEGER NOT NULL,           -- 1 Queued, 2 Running, 3 Waiting, 4 Paused, 5 Cancelling, 6 Cancelled, 7 Succeeded
	slot      INTEGER,                    -- 1 while it holds its subject's slot
	queue_no  INTEGER NOT NULL,
	revision  INTEGER NOT NULL,
	epoch     INTEGER NOT NULL,
	owner     TEXT,
	mail      INTEGER NOT NULL,           -- signals accepted
	due       INTEGER,                    -- 0 while a worker owns it; NULL while it waits without a time, or has ended
	created   INTEGER NOT NULL,
	ended     INTEGER,                    -- NULL while it goes on
	body      BLOB NOT NULL,              -- places in event, state, fault, times and the records of open steps
	fault     TEXT                        -- code, in phase 4; NULL: none
);
CREATE UNIQUE INDEX run_slot ON run (subject) WHERE slot = 1; -- one active run of a subject
CREATE INDEX run_queue ON run (subject, queue_no) WHERE queue_no > 0;
CREATE INDEX run_due ON run (flow, due) WHERE due > 0;
CREATE INDEX run_owned ON run (row) WHERE due = 0;
CREATE INDEX run_active ON run (row) WHERE ended IS NULL;
CREATE INDEX run_subject ON run (subject, ended, flow);
CREATE INDEX run_parent ON run (parent) WHERE parent IS NOT NULL;
CREATE INDEX run_fault ON run (fault) WHERE fault IS NOT NULL;

-- What is written once.
CREATE TABLE birth (
	run   INTEGER PRIMARY KEY,
	data  BLOB NOT NULL,                  -- labels, request, actor, reason
	input BLOB
);

-- One row a save, in order of writing: its events, and the records it settled.
-- Both name the row before of the same run.
CREATE TABLE event (
	row   INTEGER PRIMARY KEY,
	run   INTEGER NOT NULL,
	data  BLOB,
	steps BLOB
);

-- data is NULL once the signal was consumed; its id is remembered.
CREATE TABLE signal (
	row  INTEGER PRIMARY KEY,
	run  INTEGER NOT NULL,
	id   TEXT NOT NULL,
	data BLOB,
	UNIQUE (run, id)
);
CREATE INDEX signal_unread ON signal (run) WHERE data IS NOT NULL;

CREATE TABLE definition (
	hash    TEXT PRIMARY KEY,
	flow    TEXT NOT NULL,
	version INTEGER NOT NULL,
	data    BLOB NOT NULL,
	source  BLOB NOT NULL
);

-- Numbers that never go back, though the newest rows were removed.
CREATE TABLE counter (
	name  TEXT PRIMARY KEY,
	value INTEGER NOT NULL
);
