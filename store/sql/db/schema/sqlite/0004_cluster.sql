-- Container clusters, their journal, jobs and events. Times are nanoseconds
-- since 1970 UTC, 0 for none. No row refers to another one that must exist;
-- provider's ids are text, and names are copies. Numbers are never used again.

CREATE TABLE container_cluster (
	id                  INTEGER PRIMARY KEY AUTOINCREMENT,
	uuid                TEXT NOT NULL UNIQUE CHECK (length(uuid) <= 40),
	name                TEXT NOT NULL CHECK (length(name) <= 255),
	description         TEXT CHECK (length(description) <= 4096),
	zone_id             TEXT NOT NULL,
	zone_name           TEXT,
	service_offering_id TEXT,
	offering_name       TEXT,
	template_id         TEXT,
	template_name       TEXT,
	network_id          TEXT,
	network_name        TEXT,
	node_count          INTEGER NOT NULL DEFAULT 0, -- desired workers
	control_count       INTEGER NOT NULL,
	account_id          TEXT NOT NULL,
	domain_id           TEXT NOT NULL,
	provider            TEXT NOT NULL,
	state               TEXT NOT NULL CHECK (length(state) <= 32),
	state_since         INTEGER NOT NULL,
	desired             TEXT NOT NULL,
	key_pair            TEXT CHECK (length(key_pair) <= 40),
	cores               INTEGER NOT NULL,           -- of all nodes
	memory              INTEGER NOT NULL,           -- of all nodes, MB
	version             TEXT,
	endpoint            TEXT CHECK (length(endpoint) <= 255),
	console_endpoint    TEXT CHECK (length(console_endpoint) <= 255),
	created             INTEGER NOT NULL,
	removed             INTEGER,                    -- NULL while it lives
	gc                  INTEGER NOT NULL DEFAULT 1, -- 0: the collector leaves it alone
	gc_attempts         INTEGER NOT NULL,
	gc_next             INTEGER NOT NULL,
	revision            INTEGER NOT NULL,
	run_id              TEXT,
	reason_code         TEXT,
	reason_text         TEXT,
	reason_step         TEXT,
	reason_resource     TEXT,
	on_failure          TEXT,
	recovery            TEXT,                       -- NULL: the default; else none, or a list with commas
	recover_tries       INTEGER NOT NULL,
	recover_next        INTEGER NOT NULL,
	cidr_list           TEXT,                       -- with commas
	alarm               INTEGER NOT NULL,
	suspect_since       INTEGER NOT NULL,
	observed_at         INTEGER NOT NULL,
	started             INTEGER NOT NULL,
	forget              INTEGER NOT NULL,
	autoscale           TEXT,                       -- JSON, NULL: off; so are those below
	position            TEXT,
	ask                 TEXT,
	findings            TEXT,
	folded_name         TEXT NOT NULL,              -- in lower case, for searches
	folded_description  TEXT NOT NULL,
	look_at             INTEGER,                    -- when the walker must look: 1 at once, NULL never
	disk_gb             INTEGER NOT NULL DEFAULT 0  -- root disk of a node, 0 where the template decides
);
CREATE INDEX container_cluster_created ON container_cluster (created, id);
CREATE INDEX container_cluster_living ON container_cluster (created, id) WHERE state <> 'Destroyed';
CREATE INDEX container_cluster_account ON container_cluster (account_id, created, id) WHERE state <> 'Destroyed';
CREATE INDEX container_cluster_domain ON container_cluster (domain_id, created, id) WHERE state <> 'Destroyed';
CREATE INDEX container_cluster_state ON container_cluster (state, created, id);
CREATE UNIQUE INDEX container_cluster_name ON container_cluster (account_id, name) WHERE state <> 'Destroyed' AND name <> ''; -- unique among the living clusters of an account
CREATE INDEX container_cluster_look ON container_cluster (look_at) WHERE look_at IS NOT NULL;

CREATE TABLE container_cluster_vm_map (
	id            INTEGER PRIMARY KEY AUTOINCREMENT,
	cluster_id    INTEGER NOT NULL,
	vm_id         TEXT NOT NULL,                    -- empty until the provider names it
	resource_id   INTEGER,                          -- of its row in the journal
	resource_key  TEXT NOT NULL,
	name          TEXT NOT NULL,
	role          TEXT NOT NULL,
	ordinal       INTEGER NOT NULL,
	version       TEXT NOT NULL,
	template_id   TEXT NOT NULL,
	template_name TEXT NOT NULL,
	address       TEXT NOT NULL,
	ready_at      INTEGER NOT NULL,
	hello_at      INTEGER NOT NULL,
	not_ready     TEXT NOT NULL,
	removed       INTEGER                           -- NULL while it belongs to the cluster
);
-- Lists count workers and name VMs without reading nodes.
CREATE INDEX container_cluster_vm_map_roster ON container_cluster_vm_map (cluster_id, removed, role, ordinal, vm_id);

-- Sealed columns are unreadable without the master key, which is not in the database.
CREATE TABLE container_cluster_details (
	id                 INTEGER PRIMARY KEY AUTOINCREMENT,
	cluster_id         INTEGER NOT NULL UNIQUE,
	cluster            TEXT NOT NULL,               -- uuid: what is sealed belongs to it
	username           TEXT NOT NULL,
	password           BLOB NOT NULL,               -- sealed
	registry_username  TEXT,
	registry_password  BLOB,                        -- sealed
	registry_url       TEXT,
	registry_email     TEXT,
	network_cleanup    INTEGER NOT NULL DEFAULT 1,  -- 0: the user gave the network
	config_data        BLOB,                        -- sealed
	ca_cert            TEXT,
	ca_key             BLOB,                        -- sealed
	join_token_hash    TEXT,
	join_token_expires INTEGER NOT NULL,
	join_token_run     TEXT,
	credentials        TEXT                         -- JSON: node, hash
);

-- The journal: a row a resource, written before the call that makes it.
CREATE TABLE container_cluster_resource (
	id          INTEGER PRIMARY KEY AUTOINCREMENT,
	cluster_id  INTEGER NOT NULL,
	key         TEXT NOT NULL,
	revision    INTEGER NOT NULL,
	kind        TEXT NOT NULL,
	name        TEXT NOT NULL,
	run_id      TEXT,
	step        TEXT,
	attempt     INTEGER NOT NULL,
	call_id     TEXT,
	job_id      TEXT,
	provider_id TEXT,
	identity    TEXT,
	phase       TEXT NOT NULL,
	origin      TEXT NOT NULL,
	spec        TEXT NOT NULL,                      -- JSON
	attempts    INTEGER NOT NULL,
	last_code   TEXT,
	last_error  TEXT,
	intent_at   INTEGER NOT NULL,
	present_at  INTEGER NOT NULL,
	closing_at  INTEGER NOT NULL,
	gone_at     INTEGER NOT NULL,
	next_at     INTEGER NOT NULL,
	UNIQUE (cluster_id, key)
);
CREATE INDEX container_cluster_resource_phase ON container_cluster_resource (phase, intent_at, id);
CREATE INDEX container_cluster_resource_address ON container_cluster_resource (cluster_id) WHERE kind = 'address'; -- lists find addresses without reading journals

CREATE TABLE job (
	number     INTEGER PRIMARY KEY AUTOINCREMENT,
	id         TEXT NOT NULL UNIQUE,
	cluster_id INTEGER NOT NULL,
	cluster    TEXT NOT NULL,                       -- uuid
	command    TEXT NOT NULL,
	kind       TEXT NOT NULL,
	digest     TEXT NOT NULL,
	account_id TEXT NOT NULL,
	domain_id  TEXT NOT NULL,
	actor      TEXT NOT NULL,
	status     INTEGER NOT NULL,                    -- 0 open, 1 done, 2 failed
	code       TEXT NOT NULL,
	text       TEXT NOT NULL,
	step       TEXT NOT NULL,
	password   BLOB,                                -- sealed
	run_id     TEXT NOT NULL,
	created    INTEGER NOT NULL,
	completed  INTEGER NOT NULL
);
CREATE INDEX job_created ON job (created, number);
CREATE INDEX job_account ON job (account_id, created, number);
CREATE INDEX job_domain ON job (domain_id, created, number);
CREATE INDEX job_cluster ON job (cluster, created, number);
CREATE INDEX job_open ON job (created, number) WHERE status = 0;
CREATE INDEX job_completed ON job (completed) WHERE status <> 0;

CREATE TABLE cluster_event (
	seq        INTEGER PRIMARY KEY,
	at         INTEGER NOT NULL,
	cluster    TEXT NOT NULL,                       -- uuid
	account_id TEXT NOT NULL,
	domain_id  TEXT NOT NULL,
	type       TEXT NOT NULL,
	body       TEXT NOT NULL,                       -- JSON, without data
	data       TEXT                                 -- JSON
);
CREATE INDEX cluster_event_cluster ON cluster_event (cluster, seq);
CREATE INDEX cluster_event_account ON cluster_event (account_id, seq);
CREATE INDEX cluster_event_at ON cluster_event (at);

-- The number of the newest event, and of the newest one that was removed.
CREATE TABLE cluster_feed (
	one    INTEGER PRIMARY KEY CHECK (one = 1),
	newest INTEGER NOT NULL,
	floor  INTEGER NOT NULL
);
INSERT INTO cluster_feed VALUES (1, 0, 0);

CREATE TABLE setting (
	name  TEXT PRIMARY KEY,
	value TEXT NOT NULL,
	at    INTEGER NOT NULL
) WITHOUT ROWID;
