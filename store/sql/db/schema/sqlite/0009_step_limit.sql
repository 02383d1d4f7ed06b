-- Who holds limits of steps, and who waits for them: a document for each key, which a change replaces if it has the
-- revision that was read.

CREATE TABLE step_limit (
	key      TEXT PRIMARY KEY,
	revision INTEGER NOT NULL,
	document BLOB NOT NULL
) WITHOUT ROWID;
