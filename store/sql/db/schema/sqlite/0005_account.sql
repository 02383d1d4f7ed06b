-- Domains, accounts, their credentials and the audit trail. Times are
-- nanoseconds since 1970 UTC, 0 for none. No row refers to another one that
-- must exist.

CREATE TABLE domain (
	id        TEXT PRIMARY KEY,
	name      TEXT NOT NULL,
	path      TEXT NOT NULL,
	parent_id TEXT NOT NULL,
	disabled  INTEGER NOT NULL DEFAULT 0,
	created   INTEGER NOT NULL
) WITHOUT ROWID;
CREATE UNIQUE INDEX domain_path ON domain (lower(path));
INSERT INTO domain VALUES ('00000000-0000-4000-8000-000000000001', 'ROOT', 'ROOT', '', 0, 0);

CREATE TABLE account (
	id        TEXT PRIMARY KEY,
	name      TEXT NOT NULL,
	domain_id TEXT NOT NULL,
	role      TEXT NOT NULL,
	disabled  INTEGER NOT NULL DEFAULT 0,
	limits    TEXT NOT NULL,             -- JSON
	created   INTEGER NOT NULL,
	revision  INTEGER NOT NULL
) WITHOUT ROWID;
CREATE UNIQUE INDEX account_name ON account (domain_id, lower(name));
INSERT INTO account VALUES ('00000000-0000-4000-8000-000000000002', 'operator', '00000000-0000-4000-8000-000000000001', 'operator', 0, '{}', 0, 1);

CREATE TABLE token (
	id         TEXT PRIMARY KEY,
	account_id TEXT NOT NULL,
	name       TEXT NOT NULL,
	hash       BLOB NOT NULL UNIQUE,     -- SHA-256 of the token, which is kept nowhere
	created    INTEGER NOT NULL,
	expires    INTEGER NOT NULL,
	last_use   INTEGER NOT NULL DEFAULT 0,
	revoked    INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE INDEX token_account ON token (account_id);

CREATE TABLE api_key (
	id         TEXT PRIMARY KEY,
	account_id TEXT NOT NULL,
	name       TEXT NOT NULL,
	secret     BLOB NOT NULL,            -- sealed
	created    INTEGER NOT NULL,
	expires    INTEGER NOT NULL,
	last_use   INTEGER NOT NULL DEFAULT 0,
	revoked    INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE INDEX api_key_account ON api_key (account_id);

CREATE TABLE audit (
	seq        INTEGER PRIMARY KEY AUTOINCREMENT,
	at         INTEGER NOT NULL,
	who        TEXT NOT NULL,
	account_id TEXT NOT NULL,
	domain_id  TEXT NOT NULL,
	face       TEXT NOT NULL,
	call       TEXT NOT NULL,
	target     TEXT NOT NULL,
	outcome    TEXT NOT NULL
);
CREATE INDEX audit_account ON audit (account_id, seq);
CREATE INDEX audit_domain ON audit (domain_id, seq);
CREATE INDEX audit_target ON audit (target, seq);
