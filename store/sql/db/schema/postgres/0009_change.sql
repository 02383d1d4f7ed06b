-- Changes that are sent in one message.

-- pawl_must gives a number, and ends the transaction if there is none: a guard was not met.
CREATE FUNCTION pawl_must(_n bigint) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
	IF _n IS NULL THEN RAISE EXCEPTION 'a row that the change needs is not there' USING ERRCODE = 'PW001'; END IF;
	RETURN _n;
END $$;

-- pawl_queue stores a run behind the active one of its subject: 0 queued, 1
-- there is none, 2 too many wait, 3 known. The active run is locked, so that it
-- cannot end between the look and the queueing.
CREATE FUNCTION pawl_queue(_id text, _flow text, _version bigint, _hash text, _subject text, _parent text, _inline boolean, _birth bytea, _created bigint,
	_body bytea, _most bigint, _seq bigint, _events bytea, _steps bytea, _input bytea, _keys text[], _values text[]) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	n bigint;
	last bigint;
BEGIN
	PERFORM FROM run WHERE subject = _subject AND phase BETWEEN 2 AND 5 AND NOT inline FOR NO KEY UPDATE;
	IF NOT FOUND THEN RETURN 1; END IF;
	SELECT count(*), coalesce(max(queue_no), 0) INTO n, last FROM run WHERE subject = _subject AND phase = 1;
	IF n >= _most THEN RETURN 2; END IF;
	INSERT INTO run (id, flow, version, hash, subject, parent, inline, birth, created, phase, queue_no, revision, epoch, mail, next_at, ended, body)
		VALUES (_id, _flow, _version, _hash, _subject, nullif(_parent, ''), _inline, _birth, _created, 1, last + 1, 1, 0, 0, 0, 0, _body)
		ON CONFLICT (id) DO NOTHING RETURNING k INTO n;
	IF NOT FOUND THEN RETURN 3; END IF;
	IF _events IS NOT NULL OR _steps IS NOT NULL THEN
		INSERT INTO event (run, seq, data, steps) VALUES (n, _seq, _events, _steps);
	END IF;
	INSERT INTO run_label (key, value, run) SELECT l.key, l.value, n FROM unnest(_keys, _values) AS l(key, value);
	IF _input IS NOT NULL THEN
		INSERT INTO input (run, data) VALUES (n, _input);
	END IF;
	RETURN 0;
END $$;
