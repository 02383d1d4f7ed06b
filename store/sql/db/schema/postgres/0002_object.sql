-- Objects, their change feed, and locks.

CREATE TABLE object (
	kind      text COLLATE "C" NOT NULL,
	namespace text COLLATE "C" NOT NULL,
	name      text COLLATE "C" NOT NULL,
	revision  bigint NOT NULL,          -- the number of its newest change
	data      bytea NOT NULL,           -- JSON
	PRIMARY KEY (kind, namespace, name)
);

-- Numbers are given out under the lock of feed's row, held until the commit,
-- so they become visible in order.
CREATE TABLE feed (
	one    boolean PRIMARY KEY CHECK (one),
	newest bigint NOT NULL,
	floor  bigint NOT NULL              -- changes up to here were trimmed
);
INSERT INTO feed VALUES (true, 0, 0);

CREATE TABLE change (
	number bigint PRIMARY KEY,
	kind   text COLLATE "C" NOT NULL,
	type   smallint NOT NULL,           -- 0 put, 1 delete
	data   bytea NOT NULL               -- the object
);

CREATE TABLE lock (
	name  text COLLATE "C" PRIMARY KEY,
	value bytea NOT NULL
);
