-- Answers of requests that may be sent twice, for a day.

CREATE TABLE idempotency (
	account text COLLATE "C" NOT NULL,
	key     text COLLATE "C" NOT NULL,
	hash    text NOT NULL,              -- of the request that claimed the key
	at      bigint NOT NULL,            -- when, in ns
	answer  bytea,                      -- NULL: it is being carried out
	PRIMARY KEY (account, key)
);
CREATE INDEX idempotency_at ON idempotency (at);
