-- Schema 1. {schema} stands for the quoted name of the schema, {lock} for the key of its advisory lock.
-- Times are nanoseconds since 1970. See docs/internals/storage-postgres.md.

-- A row a stream. What each append changes comes first, and is in no index, so that the
-- new version of a row finds room on the page of the old one and no index is touched (HOT).
CREATE TABLE {schema}.streams (
	id        bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	earliest  bigint  NOT NULL,
	tail      bigint  NOT NULL,
	bytes     bigint  NOT NULL DEFAULT 0,
	fence     bigint  NOT NULL,
	created   bigint  NOT NULL,
	part      integer NOT NULL, -- no batch of the stream is in a partition before this one
	line      integer NOT NULL, -- timeline of the server at the last append
	producers boolean NOT NULL DEFAULT false, -- whether there may be rows in the table producers
	ended     bigint, -- time of the end event; NULL while the stream has not ended
	expires   bigint,
	owner     text COLLATE "C" NOT NULL,
	key       text COLLATE "C" NOT NULL UNIQUE, -- tenant/name: in one column, since there must be no choice of indexes
	epoch     text COLLATE "C" NOT NULL,
	tenant    text COLLATE "C" NOT NULL,
	namespace text COLLATE "C" NOT NULL,
	config    bytea NOT NULL,
	outcome   bytea,
	data      bytea
) WITH (fillfactor = 40);
CREATE INDEX ON {schema}.streams (tenant, id);
CREATE INDEX ON {schema}.streams (namespace, id);
CREATE INDEX ON {schema}.streams (tenant, namespace, id);
CREATE INDEX ON {schema}.streams (expires) WHERE expires IS NOT NULL;

-- A row a batch, or several of up to 8,080 bytes, each of which fits into a page: that costs less than TOAST with its
-- pieces of 2,000. Rows are never changed. Those before the window of their stream go when their partition is dropped.
CREATE TABLE {schema}.batches (
	stream bigint  NOT NULL,
	last   bigint  NOT NULL, -- seq of the last event
	part   integer NOT NULL,
	piece  integer NOT NULL, -- 0, 1, 2, ... within the batch
	count  integer NOT NULL, -- of events, 0 but in piece 0
	size   integer NOT NULL, -- of the whole batch in bytes, 0 but in piece 0
	crc    integer NOT NULL, -- CRC-32C of the whole batch, 0 but in piece 0
	bytes  bytea   NOT NULL,
	PRIMARY KEY (stream, last, piece, part)
) PARTITION BY LIST (part);
ALTER TABLE {schema}.batches ALTER bytes SET STORAGE EXTERNAL;

-- The partitions of batches, of which the highest takes what is appended.
CREATE TABLE {schema}.parts (
	n      integer PRIMARY KEY,
	opened bigint  NOT NULL,
	looked bigint  NOT NULL DEFAULT 0 -- when it was last found to hold too much to be emptied
);

-- The newest append of each idempotent producer.
CREATE TABLE {schema}.producers (
	stream bigint  NOT NULL,
	id     bytea   NOT NULL,
	epoch  bigint  NOT NULL,
	seq    bigint  NOT NULL,
	first  bigint  NOT NULL,
	last   bigint  NOT NULL,
	at     bigint  NOT NULL, -- with place: the order in which they came
	place  integer NOT NULL,
	PRIMARY KEY (stream, id)
) WITH (fillfactor = 60);

-- The names of swept streams, as long as they are remembered.
CREATE TABLE {schema}.marks (
	key   text COLLATE "C" PRIMARY KEY,
	epoch text COLLATE "C" NOT NULL,
	until bigint NOT NULL
);
CREATE INDEX ON {schema}.marks (until);

-- The server whose tables these are, by its system identifier. A copy on another server has the one that it came from.
CREATE TABLE {schema}.origin (system bigint NOT NULL);

-- line is the timeline of the server, which is another one after a standby was promoted or a backup was recovered from.
CREATE FUNCTION {schema}.line() RETURNS integer LANGUAGE sql STABLE AS $$
	SELECT ('x' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8))::bit(32)::integer
$$;

-- add_part makes partition n.
CREATE FUNCTION {schema}.add_part(n integer, now bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	-- Made by itself and then attached, it need not wait for those who read the others.
	EXECUTE format('CREATE TABLE {schema}.%I (LIKE {schema}.batches INCLUDING ALL) WITH (autovacuum_enabled = false, toast.autovacuum_enabled = false, toast_tuple_target = 8160)', 'batches_' || n);
	EXECUTE format('ALTER TABLE {schema}.batches ATTACH PARTITION {schema}.%I FOR VALUES IN (%s)', 'batches_' || n, n);
	-- From here on appends wait, and once those under way have ended nothing is written to the partition before.
	PERFORM pg_advisory_xact_lock({lock});
	INSERT INTO {schema}.parts (n, opened) VALUES (add_part.n, now);
END
$$;
SELECT {schema}.add_part(1, 0);

-- append is one commit: the requests as arrays of the same length, of each batch the first piece, and what only some have
-- by their place, from 1 on: further pieces, ends, producers. It returns the refused ones with the reason.
CREATE FUNCTION {schema}.append(
	durability text,
	keys text[], epochs text[], owners text[], fences bigint[],
	firsts bigint[], counts integer[], earliests bigint[], kept bigint[], crcs integer[], sizes integer[], contents bytea[],
	more_places integer[], more_pieces integer[], more_contents bytea[],
	end_places integer[], outcomes bytea[], end_times bigint[], end_expires bigint[], datas bytea[],
	p_places integer[], p_ids bytea[], p_epochs bigint[], p_seqs bigint[], p_firsts bigint[], p_lasts bigint[]
) RETURNS TABLE (place integer, reason integer, tail bigint) LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan SET work_mem = '32MB'
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
	ids    bigint[];
	stored integer[];
	latest integer;
	here   integer := {schema}.line();
BEGIN
	IF durability <> '' THEN
		PERFORM set_config('synchronous_commit', durability, true);
	END IF;
	-- Whoever opens a partition waits for those who may still write to the one before.
	PERFORM pg_advisory_xact_lock_shared({lock});
	SELECT max(n) INTO latest FROM {schema}.parts;
	-- The requests come in the order of their names, and so are the rows locked: two commits
	-- never wait for each other.
	WITH u AS (
		UPDATE {schema}.streams s SET
			tail = r.first + r.count - 1, earliest = greatest(s.earliest, r.earliest), bytes = r.kept, owner = r.owner, fence = r.fence
		FROM unnest(keys, epochs, owners, fences, firsts, counts, earliests, kept, crcs, sizes, contents)
			WITH ORDINALITY AS r (key, epoch, owner, fence, first, count, earliest, kept, crc, size, content, place)
		WHERE s.key = r.key AND s.epoch = r.epoch
			AND (r.fence > s.fence OR r.fence = s.fence AND r.owner = s.owner)
			AND s.ended IS NULL AND r.first = s.tail + 1 AND s.line = here
		RETURNING s.id, s.tail, r.count, r.size, r.crc, r.content, r.place
	), b AS (
		INSERT INTO {schema}.batches (stream, last, part, piece, count, size, crc, bytes)
		SELECT u.id, u.tail, latest, 0, u.count, u.size, u.crc, u.content FROM u
	)
	SELECT array_agg(u.place::integer), array_agg(u.id) INTO stored, ids FROM u;
	IF cardinality(more_places) > 0 THEN
		INSERT INTO {schema}.batches (stream, last, part, piece, count, size, crc, bytes)
		SELECT ids[m.at], firsts[m.place] + counts[m.place] - 1, latest, m.piece, 0, 0, 0, m.content
		FROM (
			SELECT r.place, r.piece, r.content, array_position(stored, r.place) AS at
			FROM unnest(more_places, more_pieces, more_contents) AS r (place, piece, content)
		) m WHERE m.at IS NOT NULL;
	END IF;
	IF cardinality(p_places) > 0 THEN
		PERFORM {schema}.keep_producers(stored, ids, firsts, p_places, p_ids, p_epochs, p_seqs, p_firsts, p_lasts);
	END IF;
	IF cardinality(end_places) > 0 THEN
		UPDATE {schema}.streams s SET ended = e.ended, expires = e.expires, outcome = e.outcome, data = e.data
		FROM unnest(end_places, outcomes, end_times, end_expires, datas) AS e (place, outcome, ended, expires, data),
			unnest(stored, ids) AS k (place, id)
		WHERE e.place = k.place AND s.id = k.id;
	END IF;
	IF cardinality(stored) = cardinality(firsts) THEN
		RETURN;
	END IF;
	RETURN QUERY
	SELECT r.place::integer, CASE
			WHEN s.id IS NULL THEN 1
			WHEN r.fence < s.fence OR r.fence = s.fence AND r.owner <> s.owner THEN 2
			WHEN s.ended IS NOT NULL THEN 3
			WHEN s.line <> here THEN 5
			ELSE 4 END, s.tail
	FROM unnest(keys, epochs, owners, fences)
		WITH ORDINALITY AS r (key, epoch, owner, fence, place)
	LEFT JOIN {schema}.streams s ON s.key = r.key AND s.epoch = r.epoch
	WHERE stored IS NULL OR r.place <> ALL (stored);
END
$$;

-- adopt makes streams whose events may have been lost by another server those of this one: under a fresh epoch, since
-- seqs may be given again, unless that server is known to lose nothing and nobody knows of more events.
CREATE FUNCTION {schema}.adopt(keeps boolean, keys text[], epochs text[], firsts bigint[], fresh text[])
RETURNS TABLE (place integer, epoch text) LANGUAGE sql AS $$
	UPDATE {schema}.streams s SET line = {schema}.line(),
		epoch = CASE WHEN keeps AND r.first <= s.tail + 1 THEN s.epoch ELSE r.fresh END
	FROM unnest(keys, epochs, firsts, fresh) WITH ORDINALITY AS r (key, epoch, first, fresh, place)
	WHERE s.key = r.key AND s.epoch = r.epoch AND s.line <> {schema}.line()
	RETURNING r.place::integer, s.epoch
$$;

-- keep_producers keeps producers of the stored requests, and the newest 64 of each stream.
CREATE FUNCTION {schema}.keep_producers(
	stored integer[], ids bigint[], firsts bigint[],
	p_places integer[], p_ids bytea[], p_epochs bigint[], p_seqs bigint[], p_firsts bigint[], p_lasts bigint[]
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	touched bigint[];
BEGIN
	WITH p AS (
		INSERT INTO {schema}.producers AS p (stream, id, epoch, seq, first, last, at, place)
		SELECT DISTINCT ON (k.id, r.id) k.id, r.id, r.epoch, r.seq, r.first, r.last, firsts[r.place], r.n
		FROM unnest(p_places, p_ids, p_epochs, p_seqs, p_firsts, p_lasts)
			WITH ORDINALITY AS r (place, id, epoch, seq, first, last, n)
		JOIN unnest(stored, ids) AS k (place, id) ON k.place = r.place
		ORDER BY k.id, r.id, r.n DESC
		ON CONFLICT (stream, id) DO UPDATE SET epoch = excluded.epoch, seq = excluded.seq,
			first = excluded.first, last = excluded.last, at = excluded.at, place = excluded.place
		RETURNING p.stream
	)
	SELECT array_agg(DISTINCT p.stream) INTO touched FROM p;
	UPDATE {schema}.streams s SET producers = true WHERE s.id = ANY (touched) AND NOT s.producers;
	DELETE FROM {schema}.producers p USING (
		SELECT o.stream, o.id, row_number() OVER (PARTITION BY o.stream ORDER BY o.at DESC, o.place DESC) AS rank
		FROM {schema}.producers o WHERE o.stream = ANY (touched)
	) old WHERE old.rank > 64 AND p.stream = old.stream AND p.id = old.id;
END
$$;

-- producers_of is the producers of a stream, the oldest first, as JSON.
CREATE FUNCTION {schema}.producers_of(of_stream bigint) RETURNS text LANGUAGE sql STABLE AS $$
	SELECT json_agg(json_build_object('id', encode(p.id, 'base64'), 'epoch', p.epoch, 'seq', p.seq, 'first', p.first, 'last', p.last)
		ORDER BY p.at, p.place)::text
	FROM {schema}.producers p WHERE p.stream = of_stream
$$;

-- read is one page: a row with the stream first, and then the rows of batches. All of it is as of
-- one moment, since a STABLE function sees what its caller does.
CREATE FUNCTION {schema}.read(of_key text, after bigint, max_bytes bigint, now bigint)
RETURNS TABLE (last bigint, piece integer, count integer, size integer, crc integer, bytes bytea, info {schema}.streams, producers text, marked boolean)
LANGUAGE plpgsql STABLE
SET jit = off SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off AS $$
#variable_conflict use_column
DECLARE
	s    {schema}.streams;
	from_seq bigint;
	room bigint := max_bytes;
	cut  bigint;
	n    integer;
BEGIN
	SELECT * INTO s FROM {schema}.streams WHERE key = of_key;
	IF NOT FOUND THEN
		marked := EXISTS (SELECT FROM {schema}.marks WHERE key = of_key AND until > now);
		RETURN NEXT;
		RETURN;
	END IF;
	IF s.producers THEN
		producers := {schema}.producers_of(s.id);
	END IF;
	info := s;
	RETURN NEXT;
	info := NULL;
	producers := NULL;
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
	SELECT b.last, b.piece, b.count, b.size, b.crc, b.bytes, NULL::{schema}.streams, NULL::text, NULL::boolean FROM {schema}.batches b
	WHERE b.stream = s.id AND b.last >= from_seq AND b.last <= cut AND b.part >= s.part ORDER BY b.last, b.piece;
END
$$;

-- make creates a stream, or returns the one that there is.
CREATE FUNCTION {schema}.make(
	of_key text, of_tenant text, of_namespace text, of_epoch text, of_created bigint, of_config bytea,
	of_owner text, of_fence bigint, of_tail bigint,
	of_outcome bytea, of_ended bigint, of_expires bigint, of_data bytea,
	p_ids bytea[], p_epochs bigint[], p_seqs bigint[], p_firsts bigint[], p_lasts bigint[]
) RETURNS TABLE (created boolean, info {schema}.streams, producers text) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	n integer := cardinality(p_ids);
BEGIN
	created := true;
	LOOP
		INSERT INTO {schema}.streams AS s (key, tenant, namespace, epoch, created, config, owner, fence, tail, earliest,
			part, line, outcome, ended, expires, data)
		VALUES (of_key, of_tenant, of_namespace, of_epoch, of_created, of_config, of_owner, of_fence, of_tail, of_tail + 1,
			(SELECT max(p.n) FROM {schema}.parts p), {schema}.line(), of_outcome, of_ended, of_expires, of_data)
		ON CONFLICT (key) DO NOTHING
		RETURNING s.* INTO info;
		EXIT WHEN FOUND;
		SELECT * INTO info FROM {schema}.streams s WHERE s.key = of_key;
		IF FOUND THEN
			created := false;
			EXIT;
		END IF; -- else it was removed in between
	END LOOP;
	IF created THEN
		DELETE FROM {schema}.marks m WHERE m.key = of_key;
		IF n > 0 THEN
			PERFORM {schema}.keep_producers(ARRAY[1], ARRAY[info.id], ARRAY[0::bigint], array_fill(1, ARRAY[n]),
				p_ids, p_epochs, p_seqs, p_firsts, p_lasts);
		END IF;
	END IF;
	producers := {schema}.producers_of(info.id);
	RETURN NEXT;
END
$$;
