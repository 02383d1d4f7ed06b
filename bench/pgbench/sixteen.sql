\set first :client_id * 6 + 1
WITH saved AS (UPDATE pgbench_run SET revision = revision + 1, body = repeat('x', 300)::bytea WHERE k BETWEEN :first AND :first + 5 RETURNING k)
INSERT INTO pgbench_step (run, body) SELECT k, repeat('y', 200)::bytea FROM saved;
