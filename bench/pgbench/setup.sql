DROP TABLE IF EXISTS pgbench_run, pgbench_step;
CREATE TABLE pgbench_run (k bigint PRIMARY KEY, revision bigint NOT NULL, body bytea NOT NULL);
CREATE TABLE pgbench_step (k bigserial PRIMARY KEY, run bigint NOT NULL, body bytea NOT NULL);
INSERT INTO pgbench_run SELECT k, 0, repeat('x', 300)::bytea FROM generate_series(1, 100) k;
