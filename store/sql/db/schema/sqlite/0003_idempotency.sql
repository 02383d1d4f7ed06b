-- Answers of requests that may be sent twice, for a day.

CREATE TABLE idempotency (
	account TEXT NOT NULL,
	key     TEXT NOT NULL,
	hash    TEXT NOT NULL,               -- of the request that claimed the key
	at      INTEGER NOT NULL,            -- when, in ns
	answer  BLOB,                        -- NULL: it is being carried out
	PRIMARY KEY (account, key)
) WITHOUT ROWID;
CREATE INDEX idempotency_at ON idempotency (at);
