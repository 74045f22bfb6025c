-- Schema 3: the configuration of a stream can be changed. Replicas of the versions before, which are still running while another
-- one brings the schema here, go on: what they call is still there. They learn a changed configuration when they read
-- the stream again.

-- A configuration that was changed begins with {"revision":"N", which is the mark of revision N; an unchanged one does
-- not begin with {"revision":" (13 bytes), which is the mark of revision 0. It is in the row that an append changes anyway, so
-- that an append that has waited for the row sees the change that it has waited for.

-- append is one commit, as the function of 26 arguments, of requests that rely on a configuration each: the requests as arrays of the same length, of each batch the first piece, and what only some have
-- by their place, from 1 on: further pieces, ends, producers. It returns the refused ones with the reason.
CREATE FUNCTION {schema}.append(
	durability text,
	keys text[], epochs text[], owners text[], fences bigint[],
	firsts bigint[], counts integer[], earliests bigint[], kept bigint[], crcs integer[], sizes integer[], contents bytea[],
	more_places integer[], more_pieces integer[], more_contents bytea[],
	end_places integer[], outcomes bytea[], end_times bigint[], end_expires bigint[], datas bytea[],
	p_places integer[], p_ids bytea[], p_epochs bigint[], p_seqs bigint[], p_firsts bigint[], p_lasts bigint[],
	marks bytea[]
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
		FROM unnest(keys, epochs, owners, fences, firsts, counts, earliests, kept, crcs, sizes, contents, marks)
			WITH ORDINALITY AS r (key, epoch, owner, fence, first, count, earliest, kept, crc, size, content, mark, place)
		WHERE s.key = r.key AND s.epoch = r.epoch
			AND (r.fence > s.fence OR r.fence = s.fence AND r.owner = s.owner)
			AND s.ended IS NULL AND r.first = s.tail + 1 AND s.line = here
			AND (substring(s.config FOR length(r.mark)) = r.mark) = (length(r.mark) > 13)
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

-- configure changes a stream whose configuration has the mark before. It returns whether it has, and the stream.
CREATE FUNCTION {schema}.configure(of_key text, of_epoch text, before bytea, after bytea, of_expires bigint)
RETURNS TABLE (changed boolean, info {schema}.streams, producers text, lineage text) LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
	UPDATE {schema}.streams s SET config = after,
		expires = CASE WHEN s.ended IS NULL THEN s.expires ELSE coalesce(of_expires, s.expires) END
	WHERE s.key = of_key AND s.epoch = of_epoch
		AND (substring(s.config FOR length(before)) = before) = (length(before) > 13)
	RETURNING s.* INTO info;
	changed := FOUND;
	IF NOT changed THEN
		SELECT * INTO info FROM {schema}.streams s WHERE s.key = of_key AND s.epoch = of_epoch;
		IF NOT FOUND THEN
			RETURN;
		END IF;
	END IF;
	producers := {schema}.producers_of(info.id);
	lineage := {schema}.lineage_of(info.id);
	RETURN NEXT;
END
$$;
