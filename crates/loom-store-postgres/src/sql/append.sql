-- Appends to many logs: the whole decision in one round trip. One element of the first arrays for each append, in
-- ascending order of (key, id) and each id once, so that concurrent groups lock in the same order; one element of the
-- last ones for each event, which names its append.
--
-- Returns nothing of an append that was made. Of one that was refused it returns what was found, so that the caller can
-- say why; `n` is 0 when the plan is not the one of the request, which refuses all of them.
CREATE FUNCTION append_group(
    p_patience text, p_epoch int8, p_fingerprint bytea,
    p_keys int8[], p_ids text[], p_expected int8[], p_counts int8[], p_closes bool[], p_fences int8[],
    p_logs uuid[], p_first_at int8[], p_last_at int8[],
    p_appends int4[], p_seqs int8[], p_times int8[], p_terminals bool[], p_kinds bytea[], p_payloads bytea[]
) RETURNS TABLE (
    n int4, epoch int8, fingerprint bytea, next_seq int8, closed bool, sealed bool, fence int8
)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_epoch int8;
    v_fingerprint bytea;
    v_size int4 := cardinality(p_ids);
    v_left int4 := v_size;
    v_made bool[] := array_fill(false, ARRAY[v_size]);
    v_logs uuid[] := p_logs;
    v_new uuid[];
    v_changed int4[];
    v_changed_logs uuid[];
    v_log uuid;
    v_n int4 := 0;
    v_done bool;
BEGIN
    -- Assigned and not performed: an expression is evaluated without an executor being set up for it.
    v_done := set_config('lock_timeout', p_patience, true) IS NULL;
    -- A publisher takes this exclusively. The plan is read by a later statement, and so in a later snapshot.
    v_done := pg_advisory_xact_lock_shared((1280266061::int8 << 32) | 'shard'::regclass::oid::int8) IS NULL;
    SELECT s.epoch, s.fingerprint INTO v_epoch, v_fingerprint FROM shard AS s WHERE s.one = 1;
    IF NOT coalesce(v_epoch = p_epoch AND v_fingerprint = p_fingerprint, p_epoch IS NULL AND coalesce(v_epoch, 0) <= 1) THEN
        RETURN QUERY SELECT 0, v_epoch, v_fingerprint, NULL::int8, NULL::bool, NULL::bool, NULL::int8;
        RETURN;
    END IF;

    -- One event that is alone, in one statement. Whatever is in its way is found out below.
    IF v_size = 1 AND cardinality(p_seqs) = 1 THEN
        IF p_expected[1] = 0 THEN
            WITH created AS (
                INSERT INTO records AS r
                    (index_key, id, log, next_seq, created_at, updated_at, fence, closed)
                VALUES (p_keys[1], p_ids[1], p_logs[1], 1, p_first_at[1], p_last_at[1], p_fences[1], p_closes[1])
                ON CONFLICT DO NOTHING
                RETURNING r.log
            )
            INSERT INTO events (log, seq, recorded_at, terminal, kind, payload)
            SELECT c.log, p_seqs[1], p_times[1], p_terminals[1], p_kinds[1], p_payloads[1] FROM created AS c;
        ELSE
            WITH changed AS (
                UPDATE records AS r SET
                    next_seq = p_expected[1] + 1,
                    updated_at = p_last_at[1],
                    fence = greatest(r.fence, p_fences[1]),
                    closed = p_closes[1]
                WHERE r.index_key = p_keys[1] AND r.id = p_ids[1] COLLATE "C"
                    AND NOT r.sealed
                    AND (r.fence IS NULL OR p_fences[1] >= r.fence)
                    AND NOT r.closed
                    AND r.next_seq = p_expected[1]
                RETURNING r.log
            )
            INSERT INTO events (log, seq, recorded_at, terminal, kind, payload)
            SELECT c.log, p_seqs[1], p_times[1], p_terminals[1], p_kinds[1], p_payloads[1] FROM changed AS c;
        END IF;
        IF FOUND THEN
            RETURN;
        END IF;
    END IF;

    -- Waits for others that create the same; what they have created is changed below.
    IF 0 = ANY (p_expected) THEN
        WITH created AS (
            INSERT INTO records AS r
                (index_key, id, log, next_seq, created_at, updated_at, fence, closed)
            SELECT i.key, i.id, i.log, i.count, i.first_at, i.last_at, i.fence, i.closes
            FROM unnest(p_keys, p_ids, p_expected, p_counts, p_closes, p_fences, p_logs, p_first_at, p_last_at)
                AS i (key, id, expected, count, closes, fence, log, first_at, last_at)
            WHERE i.expected = 0
            ON CONFLICT DO NOTHING
            RETURNING r.log
        )
        SELECT array_agg(c.log) INTO v_new FROM created AS c;
        FOREACH v_log IN ARRAY coalesce(v_new, '{}') LOOP
            -- They come back in the order of the input.
            LOOP
                v_n := v_n + 1;
                EXIT WHEN p_logs[v_n] = v_log;
            END LOOP;
            v_made[v_n] := true;
            v_left := v_left - 1;
        END LOOP;
    END IF;

    IF v_left > 0 THEN
        WITH changed AS (
            UPDATE records AS r SET
                log = coalesce(r.log, i.log),
                next_seq = i.expected + i.count,
                created_at = CASE WHEN r.log IS NULL THEN i.first_at ELSE r.created_at END,
                updated_at = i.last_at,
                fence = greatest(r.fence, i.fence),
                closed = i.closes
            FROM unnest(p_keys, p_ids, p_expected, p_counts, p_closes, p_fences, p_logs, p_first_at, p_last_at)
                WITH ORDINALITY AS i (key, id, expected, count, closes, fence, log, first_at, last_at, n)
            WHERE r.index_key = i.key AND r.id = i.id COLLATE "C"
                AND NOT r.sealed
                AND (r.fence IS NULL OR i.fence >= r.fence)
                AND NOT r.closed
                AND r.next_seq = i.expected
                AND NOT v_made[i.n::int4]
            RETURNING i.n::int4 AS n, r.log
        )
        SELECT array_agg(c.n), array_agg(c.log) INTO v_changed, v_changed_logs FROM changed AS c;
        FOR i IN 1 .. coalesce(cardinality(v_changed), 0) LOOP
            v_made[v_changed[i]] := true;
            v_logs[v_changed[i]] := v_changed_logs[i];
            v_left := v_left - 1;
        END LOOP;
    END IF;

    INSERT INTO events (log, seq, recorded_at, terminal, kind, payload)
    SELECT v_logs[e.append], e.seq, e.at, e.terminal, e.kind, e.payload
    FROM unnest(p_appends, p_seqs, p_times, p_terminals, p_kinds, p_payloads)
        AS e (append, seq, at, terminal, kind, payload)
    WHERE v_made[e.append];

    IF v_left > 0 THEN
        RETURN QUERY
        SELECT i.n::int4, v_epoch, v_fingerprint, r.next_seq, r.closed, r.sealed, r.fence
        FROM unnest(p_keys, p_ids) WITH ORDINALITY AS i (key, id, n)
            LEFT JOIN records AS r ON r.index_key = i.key AND r.id = i.id COLLATE "C"
        WHERE NOT v_made[i.n::int4];
    END IF;
END
$$;
