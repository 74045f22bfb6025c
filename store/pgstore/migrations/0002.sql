-- Schema 2: streams have a lineage. Replicas of the version before, which are still running while another one brings the
-- schema here, go on: what they call is still there, and the rows of streams are as they were.

-- The epochs that a stream was in before, and the tail at which the epoch after it begins; see reprise.StreamInfo.Lineage.
-- Rows of a stream that a replica of the version before removes are left behind. An id is never given again.
CREATE TABLE {schema}.ancestors (
	stream bigint NOT NULL,
	n      bigint NOT NULL GENERATED ALWAYS AS IDENTITY, -- the order in which they came
	epoch  text COLLATE "C" NOT NULL,
	fork   bigint NOT NULL,
	PRIMARY KEY (stream, n)
);

-- What it calls is volatile, so that only as a volatile function it is made part of the statement: 3 µs instead of 29.
ALTER FUNCTION {schema}.line() VOLATILE;

-- adopt makes streams whose events may have been lost by another server those of this one: under a fresh epoch, since
-- seqs may be given again, unless that server is known to lose nothing and nobody knows of more events. The epoch before
-- is added to the newest 31 ancestors.
CREATE OR REPLACE FUNCTION {schema}.adopt(keeps boolean, keys text[], epochs text[], firsts bigint[], fresh text[])
RETURNS TABLE (place integer, epoch text) LANGUAGE sql AS $$
	WITH r AS MATERIALIZED (
		SELECT s.id, s.epoch AS before, s.tail, r.fresh, r.place, keeps AND r.first <= s.tail + 1 AS same
		FROM unnest(keys, epochs, firsts, fresh) WITH ORDINALITY AS r (key, epoch, first, fresh, place)
		JOIN {schema}.streams s ON s.key = r.key AND s.epoch = r.epoch
		WHERE s.line <> {schema}.line() ORDER BY r.place FOR UPDATE OF s
	), a AS (
		INSERT INTO {schema}.ancestors (stream, epoch, fork) SELECT r.id, r.before, r.tail FROM r WHERE NOT r.same
	), d AS (
		DELETE FROM {schema}.ancestors o USING r WHERE o.stream = r.id AND NOT r.same AND o.n <= (
			SELECT x.n FROM {schema}.ancestors x WHERE x.stream = r.id ORDER BY x.n DESC OFFSET 31 LIMIT 1)
	)
	UPDATE {schema}.streams s SET line = {schema}.line(), epoch = CASE WHEN r.same THEN s.epoch ELSE r.fresh END
	FROM r WHERE s.id = r.id
	RETURNING r.place::integer, s.epoch
$$;

-- lineage_of is the ancestors of a stream, the oldest first, as JSON.
CREATE FUNCTION {schema}.lineage_of(of_stream bigint) RETURNS text LANGUAGE sql STABLE AS $$
	SELECT json_agg(json_build_object('epoch', a.epoch, 'fork', a.fork) ORDER BY a.n)::text
	FROM {schema}.ancestors a WHERE a.stream = of_stream
$$;

-- page is read, with the lineage. A stream whose events may have been lost by another server comes alone, and is
-- marked as one to adopt first. If the server is known to lose nothing that holds only for somebody who
-- knows of more events. It fails on a server that is not the primary.
CREATE FUNCTION {schema}.page(of_key text, after bigint, max_bytes bigint, now bigint, keeps boolean)
RETURNS TABLE (last bigint, piece integer, count integer, size integer, crc integer, bytes bytea, info {schema}.streams,
	producers text, lineage text, marked boolean, to_adopt boolean)
LANGUAGE plpgsql STABLE
SET jit = off SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off AS $$
#variable_conflict use_column
DECLARE
	s    {schema}.streams;
	from_seq bigint;
	room bigint := max_bytes;
	cut  bigint;
	n    integer;
	here integer := {schema}.line();
BEGIN
	SELECT * INTO s FROM {schema}.streams WHERE key = of_key;
	IF NOT FOUND THEN
		marked := EXISTS (SELECT FROM {schema}.marks WHERE key = of_key AND until > now);
		RETURN NEXT;
		RETURN;
	END IF;
	info := s;
	IF s.line <> here AND (NOT keeps OR max_bytes > 0 AND after > s.tail) THEN
		to_adopt := true;
		RETURN NEXT;
		RETURN;
	END IF;
	IF s.producers THEN
		producers := {schema}.producers_of(s.id);
	END IF;
	IF EXISTS (SELECT FROM {schema}.ancestors WHERE stream = s.id) THEN
		lineage := {schema}.lineage_of(s.id);
	END IF;
	RETURN NEXT;
	info := NULL;
	producers := NULL;
	lineage := NULL;
	IF room <= 0 OR after >= s.tail THEN
		RETURN;
	END IF;
	from_seq := greatest(after + 1, s.earliest);
	-- Where the page ends is found first, without touching the bytes, which are then copied once.
	FOR cut, n IN
		SELECT b.last, b.size FROM {schema}.batches b
		WHERE b.stream = s.id AND b.last >= from_seq AND b.part >= s.part ORDER BY b.last, b.piece
	LOOP
		room := room - n;
		EXIT WHEN room <= 0;
	END LOOP;
	RETURN QUERY
	SELECT b.last, b.piece, b.count, b.size, b.crc, b.bytes, NULL::{schema}.streams, NULL::text, NULL::text, NULL::boolean, NULL::boolean
	FROM {schema}.batches b
	WHERE b.stream = s.id AND b.last >= from_seq AND b.last <= cut AND b.part >= s.part ORDER BY b.last, b.piece;
END
$$;

-- establish is make, with the lineage. to_adopt says that an existing stream is to be adopted first: its events may have been lost by
-- another server.
CREATE FUNCTION {schema}.establish(
	of_key text, of_tenant text, of_namespace text, of_epoch text, of_created bigint, of_config bytea,
	of_owner text, of_fence bigint, of_tail bigint,
	of_outcome bytea, of_ended bigint, of_expires bigint, of_data bytea,
	p_ids bytea[], p_epochs bigint[], p_seqs bigint[], p_firsts bigint[], p_lasts bigint[],
	a_epochs text[], a_forks bigint[]
) RETURNS TABLE (created boolean, info {schema}.streams, producers text, lineage text, to_adopt boolean) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	m record;
BEGIN
	SELECT * INTO m FROM {schema}.make(
		of_key, of_tenant, of_namespace, of_epoch, of_created, of_config, of_owner, of_fence, of_tail,
		of_outcome, of_ended, of_expires, of_data, p_ids, p_epochs, p_seqs, p_firsts, p_lasts);
	created := m.created;
	info := m.info;
	producers := m.producers;
	IF created THEN
		INSERT INTO {schema}.ancestors (stream, epoch, fork)
		SELECT info.id, a.epoch, a.fork FROM unnest(a_epochs, a_forks) WITH ORDINALITY AS a (epoch, fork, n) ORDER BY a.n;
	END IF;
	lineage := {schema}.lineage_of(info.id);
	to_adopt := info.line <> {schema}.line();
	RETURN NEXT;
END
$$;
