-- Objects, their change feed, and locks.

CREATE TABLE object (
	kind      TEXT NOT NULL,
	namespace TEXT NOT NULL,
	name      TEXT NOT NULL,
	revision  INTEGER NOT NULL,          -- the number of its newest change
	data      BLOB NOT NULL,             -- JSON
	PRIMARY KEY (kind, namespace, name)
) WITHOUT ROWID;

-- One writer gives out the numbers, so they become visible in order.
CREATE TABLE feed (
	one    INTEGER PRIMARY KEY CHECK (one = 1),
	newest INTEGER NOT NULL,
	floor  INTEGER NOT NULL              -- changes up to here were trimmed
);
INSERT INTO feed VALUES (1, 0, 0);

CREATE TABLE change (
	number INTEGER PRIMARY KEY,
	kind   TEXT NOT NULL,
	type   INTEGER NOT NULL,             -- 0 put, 1 delete
	data   BLOB NOT NULL                 -- the object
);

CREATE TABLE lock (
	name  TEXT PRIMARY KEY,
	value BLOB NOT NULL
) WITHOUT ROWID;
