package postgres

import (
	"github.com/pawl-dev/pawl/store/sql/db/postgres"
)

// The statements of the writer. Each takes arrays, one element per save. All statements
// of a batch go to the server in one pipeline, which is one transaction. Later
// statements recognize the saves that were applied by the row version: this transaction
// wrote it.

// saveSQL replaces exactly the given revisions, in place, and appends their history.
const saveSQL = `
WITH s AS (
	SELECT * FROM unnest($1::int8[], $2::int8[], $3::int8[], $4::int8[], $5::int8[], $6::int8[], $7::int8[], $8::int8[], $9::int8[],
		$10::bytea[], $11::bytea[], $12::bytea[]) AS s(k, rev, epoch, phase, owner, next, ended, mail, seq, body, ev, st)
), won AS (
	UPDATE run r SET
		revision = s.rev + 1, epoch = s.epoch, phase = s.phase, ended = s.ended, body = s.body,
		queue_no = CASE WHEN s.phase = 1 THEN r.queue_no ELSE 0 END,
		owner = CASE WHEN s.owner = 0 THEN NULL WHEN s.owner = r.owner THEN r.owner
			ELSE (SELECT w.k FROM worker w WHERE w.k = s.owner AND NOT w.lost) END,
		next_at = CASE WHEN s.owner = 0 AND s.phase < 6 AND r.mail > s.mail THEN pawl_now() ELSE s.next END,
		due_at = CASE WHEN s.phase > 5 OR s.owner <> 0 AND s.owner = r.owner THEN NULL
			WHEN s.owner <> 0 THEN (SELECT CASE WHEN count(*) = 0 THEN pawl_now() END FROM worker w WHERE w.k = s.owner AND NOT w.lost)
			WHEN r.mail > s.mail THEN pawl_now()
			WHEN s.next <> 0 THEN s.next END
	FROM s
	WHERE r.k = s.k AND r.revision = s.rev AND r.epoch <= s.epoch AND (r.phase <> 1 OR s.phase NOT BETWEEN 2 AND 5)
	RETURNING r.k, r.mail, s.seq, s.ev, s.st
), kept AS (
	INSERT INTO event (run, seq, data, steps) SELECT k, seq, ev, st FROM won WHERE ev IS NOT NULL OR st IS NOT NULL
)
SELECT k, mail FROM won`

// oneSQL is saveSQL for a single save. Without arrays it costs the server a fifth less.
const oneSQL = `
WITH won AS (
	UPDATE run r SET
		revision = $2::int8 + 1, epoch = $3::int8, phase = $4::int8, ended = $7::int8, body = $10::bytea,
		queue_no = CASE WHEN $4::int8 = 1 THEN r.queue_no ELSE 0 END,
		owner = CASE WHEN $5::int8 = 0 THEN NULL WHEN $5::int8 = r.owner THEN r.owner
			ELSE (SELECT w.k FROM worker w WHERE w.k = $5::int8 AND NOT w.lost) END,
		next_at = CASE WHEN $5::int8 = 0 AND $4::int8 < 6 AND r.mail > $8::int8 THEN pawl_now() ELSE $6::int8 END,
		due_at = CASE WHEN $4::int8 > 5 OR $5::int8 <> 0 AND $5::int8 = r.owner THEN NULL
			WHEN $5::int8 <> 0 THEN (SELECT CASE WHEN count(*) = 0 THEN pawl_now() END FROM worker w WHERE w.k = $5::int8 AND NOT w.lost)
			WHEN r.mail > $8::int8 THEN pawl_now()
			WHEN $6::int8 <> 0 THEN $6::int8 END
	WHERE r.k = $1::int8 AND r.revision = $2::int8 AND r.epoch <= $3::int8 AND (r.phase <> 1 OR $4::int8 NOT BETWEEN 2 AND 5)
	RETURNING r.k, r.mail
), kept AS (
	INSERT INTO event (run, seq, data, steps) SELECT k, $9::int8, $11::bytea, $12::bytea FROM won WHERE $11::bytea IS NOT NULL OR $12::bytea IS NOT NULL
)
SELECT k, mail FROM won`

// pinSQL moves runs to another definition.
const pinSQL = `
UPDATE run r SET version = p.version, hash = p.hash
FROM unnest($1::int8[], $2::int8[], $3::int8[], $4::text[]) AS p(k, rev, version, hash)
WHERE r.k = p.k AND r.revision = p.rev + 1 AND r.xmin = pg_current_xact_id()::xid`

// faultSQL notes the faults by which runs are paused now, or that they are not any more.
const faultSQL = `
UPDATE run r SET fault = nullif(f.fault, '')
FROM unnest($1::int8[], $2::int8[], $3::text[]) AS f(k, rev, fault)
WHERE r.k = f.k AND r.revision = f.rev + 1 AND r.xmin = pg_current_xact_id()::xid`

// takeSQL marks signals as consumed.
const takeSQL = `
UPDATE signal g SET taken = true, data = NULL
FROM unnest($1::int8[], $2::int8[], $3::text[]) AS c(k, rev, id)
WHERE g.run = c.k AND g.id = c.id AND NOT g.taken
	AND EXISTS (SELECT FROM run r WHERE r.k = c.k AND r.revision = c.rev + 1 AND r.xmin = pg_current_xact_id()::xid)`

// mailSQL delivers mail to other runs. A receiver that has ended or is unknown is not an
// error.
const mailSQL = `
SELECT pawl_send(m.receiver, m.id, m.data, 0, $6)
FROM unnest($1::int8[], $2::int8[], $3::text[], $4::text[], $5::bytea[]) AS m(k, rev, receiver, id, data)
WHERE EXISTS (SELECT FROM run r WHERE r.k = m.k AND r.revision = m.rev + 1 AND r.xmin = pg_current_xact_id()::xid)
ORDER BY m.receiver`

// promoteSQL gives the free slot of each subject to the run that has waited longest. If that one is limited, a child run
// without limits passes it; if there is none, it waits for its limits then. It
// depends only on stored rows, so it may be executed at any time. The writer executes it
// twice, because a concurrent cancel may take the first candidate.
const promoteSQL = `
WITH won AS (
	UPDATE run q SET phase = CASE WHEN q.limited THEN 1 ELSE 2 END, queue_no = 0, revision = revision + 1,
		next_at = CASE WHEN q.limited THEN q.next_at ELSE pawl_now() END,
		due_at = CASE WHEN q.limited THEN q.due_at WHEN owner IS NULL THEN pawl_now() END
	FROM (SELECT DISTINCT ON (w.subject) w.k FROM (
			SELECT k, subject, queue_no, parent IS NOT NULL AND NOT limited AND first_value(limited) OVER (PARTITION BY subject ORDER BY queue_no, k) AS passes
			FROM run WHERE subject = ANY($1::text[]) AND phase = 1 AND queue_no > 0) w
		ORDER BY w.subject, NOT w.passes, w.queue_no, w.k) n
	WHERE q.k = n.k AND q.phase = 1 AND q.queue_no > 0
		AND NOT EXISTS (SELECT FROM run a WHERE a.subject = q.subject AND a.phase < 6 AND a.queue_no = 0 AND NOT a.inline)
	RETURNING q.id, q.k, q.limited
), line AS (
	UPDATE run_limit l SET state = 1 FROM won WHERE won.limited AND l.run = won.k RETURNING l.key
), changed AS (
	INSERT INTO run_limit_changed (key) SELECT DISTINCT key FROM line
)
SELECT id FROM won`

// createSQL stores new runs as Running, or Queued if they are limited, with their input and their first events and
// records. A run that it does not return exists already, or its subject is busy. It
// works in a fixed order, so that two writers never deadlock.
const createSQL = `
WITH s AS MATERIALIZED (
	SELECT nextval('run_k_seq') AS k, u.*
	FROM unnest($1::text[], $2::text[], $3::int8[], $4::text[], $5::text[], $6::text[], $7::int8[], $8::bytea[], $9::int8[], $10::int8[], $11::int8[], $12::int8[], $13::bytea[],
		$14::int8[], $15::bytea[], $16::bytea[], $17::bytea[], $18::int8[]) AS u(id, flow, version, hash, subject, parent, inline, birth, created, epoch, owner, next, body, seq, ev, st, input, limited)
), won AS (
	INSERT INTO run (k, id, flow, version, hash, subject, parent, inline, birth, created, phase, queue_no, revision, epoch, owner, mail, next_at, due_at, ended, body, limited)
	OVERRIDING SYSTEM VALUE
	SELECT s.k, s.id, s.flow, s.version, s.hash, s.subject, NULLIF(s.parent, ''), s.inline <> 0, s.birth, s.created, CASE WHEN s.limited <> 0 THEN 1 ELSE 2 END, 0, 1, s.epoch, w.k, 0,
		CASE WHEN s.limited <> 0 THEN 0 WHEN w.k IS NULL AND s.next = 0 THEN pawl_now() ELSE s.next END,
		CASE WHEN s.limited <> 0 THEN NULL WHEN w.k IS NULL THEN CASE WHEN s.next = 0 THEN pawl_now() ELSE s.next END END, 0, s.body, s.limited <> 0
	FROM s LEFT JOIN worker w ON w.k = s.owner AND NOT w.lost
	ORDER BY s.subject, s.id
	ON CONFLICT DO NOTHING
	RETURNING id, k, owner IS NOT NULL AS own, next_at
), told AS (
	INSERT INTO event (run, seq, data, steps)
	SELECT s.k, s.seq, s.ev, s.st FROM s WHERE (s.ev IS NOT NULL OR s.st IS NOT NULL) AND s.k = ANY (ARRAY(SELECT k FROM won))
), fed AS (
	INSERT INTO input (run, data)
	SELECT s.k, s.input FROM s WHERE s.input IS NOT NULL AND s.k = ANY (ARRAY(SELECT k FROM won))
)
SELECT id, k, own, next_at FROM won`

// labelSQL indexes the labels of the runs that this transaction created.
const labelSQL = `
INSERT INTO run_label (key, value, run)
SELECT s.key, s.value, r.k FROM unnest($1::text[], $2::text[], $3::text[]) AS s(id, key, value) JOIN run r ON r.id = s.id
WHERE r.xmin = pg_current_xact_id()::xid AND r.revision = 1`

const notifySQL = `SELECT pg_notify('` + postgres.RunChannel + `', $1)`

// statements are prepared on each writer's connection, under these names.
var statements = map[string]string{
	"save": saveSQL, "one": oneSQL, "pin": pinSQL, "fault": faultSQL, "take": takeSQL, "mail": mailSQL, "promote": promoteSQL,
	"create": createSQL, "label": labelSQL, "notify": notifySQL, "limit": limitSQL, "free": freeSQL,
}
