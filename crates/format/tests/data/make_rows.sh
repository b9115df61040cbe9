#!/bin/sh
# Makes the samples about changed rows in this directory with a PostgreSQL 18. Wants perl. See
# README.md and server.sh.
#   make_rows.sh <bin directory> <empty work directory> <port>
. "$(dirname "$0")/server.sh"
cat >>"$pg/postgresql.conf" <<CONF
max_wal_size = 1GB
wal_keep_size = 1GB
wal_level = replica
full_page_writes = off
wal_compression = pglz
bgwriter_lru_maxpages = 0
max_prepared_transactions = 10
vacuum_freeze_min_age = 0
vacuum_multixact_freeze_min_age = 0
CONF
page() { # <relation> <fork> <block>: its bytes as the server has them in memory
    run -c "SELECT encode(get_raw_page('$1', '$2', $3), 'hex')" |
        perl -ne 'chomp; print pack("H*", $_)'
}
file_page() { # <file> <block>
    head -c $((8192 * ($2 + 1))) "$1" | tail -c 8192
}

# Transaction 2097151, MultiXact 2047 and member 1635 are the last of their pages.
start; stop
head -c 262144 /dev/zero >"$pg/pg_xact/0001"
"$bin/pg_resetwal" -D "$pg" -x 2097100 -m 2047,1 -O 1630 >/dev/null
start
run <<SQL
CREATE EXTENSION pageinspect;
CREATE TABLE r (i int4, s text, n int4);
CREATE TABLE p (i int4, s text);
CREATE TABLE k (i int4 PRIMARY KEY, s text);
CREATE TABLE parts (i int4, s text) PARTITION BY LIST (i);
CREATE TABLE part1 PARTITION OF parts FOR VALUES IN (1);
CREATE TABLE part2 PARTITION OF parts FOR VALUES IN (2);
CREATE TABLE u (i int4) WITH (user_catalog_table = true);
CREATE TABLE f (i int4, s text) WITH (fillfactor = 100);
CREATE TABLE doomed (i int4);
INSERT INTO r SELECT i, repeat('abcdefgh', 20) || i, i FROM generate_series(1, 12) i;
INSERT INTO p SELECT i, repeat('p', i % 60) FROM generate_series(1, 40) i;
INSERT INTO f SELECT i, repeat('f', 1 + i * 7 % 900) FROM generate_series(1, 600) i;
INSERT INTO k SELECT i, 'key ' || i FROM generate_series(1, 20) i;
CHECKPOINT;
SQL
from=$(run -c "SELECT pg_switch_wal()" -c "SELECT pg_current_wal_insert_lsn()" | tail -1)

# Updates, locks of all strengths, MultiXacts. A prepared transaction stays a locker.
run <<SQL
UPDATE r SET s = repeat('abcdefgh', 20) || 'x1' WHERE i = 1;
UPDATE r SET s = repeat('abcdefgh', 10) || 'middle' || repeat('abcdefgh', 10) || 2 WHERE i = 2;
UPDATE r SET n = NULL WHERE i = 3;
DELETE FROM r WHERE i = 4;
BEGIN; SELECT FROM r WHERE i = 5 FOR KEY SHARE; SELECT FROM r WHERE i = 6 FOR SHARE;
SELECT FROM r WHERE i = 7 FOR NO KEY UPDATE; SELECT FROM r WHERE i = 8 FOR UPDATE;
PREPARE TRANSACTION 'locker';
SELECT FROM r WHERE i = 5 FOR KEY SHARE;
SELECT FROM r WHERE i = 6 FOR SHARE;
SELECT FROM r WHERE i = 6 FOR KEY SHARE;
SELECT FROM r WHERE i = 7 FOR KEY SHARE;
UPDATE r SET n = 55 WHERE i = 5;
BEGIN; UPDATE r SET n = 99 WHERE i = 9; PREPARE TRANSACTION 'updater';
SELECT FROM r WHERE i = 9 FOR KEY SHARE;
BEGIN; UPDATE r SET n = 1 WHERE i = 10; UPDATE r SET n = 2 WHERE i = 10; ROLLBACK;
INSERT INTO k VALUES (21, 'speculative') ON CONFLICT DO NOTHING;
INSERT INTO parts VALUES (1, 'moves');
UPDATE parts SET i = 2;
BEGIN; SELECT FROM k WHERE i = 2 FOR UPDATE; SAVEPOINT a; DELETE FROM k WHERE i = 2; ROLLBACK TO a;
DELETE FROM k WHERE i = 3; INSERT INTO k VALUES (22, 'a'); DELETE FROM k WHERE i = 22; COMMIT;
SQL
page r main 0 >"$out/rows_r.page"
page part1 main 0 >"$out/rows_part1.page"
run -c "SELECT lp, t_xmin, t_xmax, t_field3, t_ctid, t_infomask2, t_infomask, t_hoff,
    raw_flags, combined_flags FROM heap_page_items(get_raw_page('r', 0)),
    heap_tuple_infomask_flags(t_infomask, t_infomask2)" >"$out/rows_r.txt"

# Before, updates could leave out what both versions share; now records serve logical decoding, too.
stop
echo "wal_level = logical" >>"$pg/postgresql.conf"
start

# Subtransactions: few, and so many that the list of running ones overflows.
subtransactions() {
    echo "BEGIN; INSERT INTO doomed VALUES (0);"
    i=0
    while [ $i -lt "$1" ]; do
        echo "SAVEPOINT s; INSERT INTO doomed VALUES (1);"
        i=$((i + 1))
    done
    echo "$2;"
}
subtransactions 3 "PREPARE TRANSACTION 'few'" | run
run -c "SELECT pg_log_standby_snapshot()" >/dev/null
subtransactions 70 "PREPARE TRANSACTION 'many'" | run
run -c "CHECKPOINT"
subtran=$(run -c "SELECT transaction::text::bigint / 2048, transaction FROM pg_prepared_xacts
    WHERE gid = 'few'")
file_page "$pg/pg_subtrans/$(printf %04X $((${subtran%%|*} / 32)))" $((${subtran%%|*} % 32)) |
    tail -c 128 >"$out/pg_subtrans_8064"
run <<SQL >"$out/subtrans.txt"
SELECT 'few', transaction FROM pg_prepared_xacts WHERE gid = 'few';
SELECT 'many', transaction FROM pg_prepared_xacts WHERE gid = 'many';
SQL
run <<SQL
COMMIT PREPARED 'few';
ROLLBACK PREPARED 'many';
COMMIT PREPARED 'locker';
COMMIT PREPARED 'updater';
SQL

# Ends of transactions.
run <<SQL
TRUNCATE k, parts RESTART IDENTITY CASCADE;
DROP TABLE doomed;
BEGIN; CREATE TABLE never (i int4); INSERT INTO never VALUES (1); ROLLBACK;
SELECT pg_replication_origin_create('elsewhere');
SELECT pg_replication_origin_session_setup('elsewhere');
BEGIN; SELECT pg_replication_origin_xact_setup('0/ABCDEF', '2025-01-02 03:04:05Z');
INSERT INTO k VALUES (1, 'from elsewhere'); COMMIT;
SELECT pg_replication_origin_session_reset();
BEGIN; ALTER TABLE r ALTER n SET DEFAULT 3; CREATE INDEX ON r (n); DROP INDEX r_n_idx; COMMIT;
SQL

# Pruning by access, by vacuum with and without an index, freezing, both maps.
run <<SQL
COPY k FROM STDIN;
2	two
3	three
4	four
\.
UPDATE p SET s = s || 'q' WHERE i % 3 = 0;
UPDATE p SET s = s || 'r' WHERE i % 6 = 0;
DELETE FROM p WHERE i % 5 = 0;
BEGIN; INSERT INTO p VALUES (1000, 'aborted'); ROLLBACK;
BEGIN; SELECT FROM p WHERE i = 1 FOR KEY SHARE; PREPARE TRANSACTION 'p';
SELECT FROM p WHERE i = 1 FOR KEY SHARE;
SELECT FROM p WHERE i IN (2, 7) FOR SHARE;
COMMIT PREPARED 'p';
CHECKPOINT;
SQL
page p main 0 >"$out/rows_p_before.page"
run -c "VACUUM (FREEZE, TRUNCATE false) p"
page p main 0 >"$out/rows_p_after.page"
run <<SQL
DELETE FROM k WHERE i = 2;
VACUUM (INDEX_CLEANUP on) k;
INSERT INTO k VALUES (5, 'reuses');
CREATE TABLE a (i int4, s text);
INSERT INTO a SELECT i, repeat('a', 1000) FROM generate_series(1, 7) i;
UPDATE a SET i = -i WHERE i = 1;
CHECKPOINT;
SQL
run -c "SELECT count(*) FROM a" >/dev/null
run <<SQL
DELETE FROM f WHERE i % 4 = 0 OR i BETWEEN 200 AND 330;
BEGIN; UPDATE f SET s = s WHERE i = 1; PREPARE TRANSACTION 'f';
VACUUM (TRUNCATE false) f;
COMMIT PREPARED 'f';
CHECKPOINT;
SQL
for block in 0 1 2; do page f fsm $block; done | perl "$here/nonzero.pl" >"$out/fsm_f.txt"
page f vm 0 | head -c 64 >"$out/vm_f_head"
run -c "CREATE EXTENSION pg_freespacemap; CREATE EXTENSION pg_visibility" \
    -c "SELECT s.blkno, avail, all_visible, all_frozen FROM pg_freespace('f') s,
        pg_visibility_map('f') v WHERE s.blkno = v.blkno ORDER BY 1" >"$out/maps_f.txt"

# Rewriting a catalog while logical decoding needs its old rows' positions; its command ids.
run <<SQL
SELECT slot_name FROM pg_create_logical_replication_slot('s', 'test_decoding');
BEGIN; INSERT INTO u VALUES (1); UPDATE u SET i = 2; DELETE FROM u; INSERT INTO u VALUES (3); COMMIT;
VACUUM FULL u;
SELECT pg_drop_replication_slot('s');
SQL

# Compressed values.
run <<SQL
CREATE TABLE z (p text COMPRESSION pglz, l text COMPRESSION lz4);
ALTER TABLE z ALTER p SET STORAGE MAIN, ALTER l SET STORAGE MAIN;
INSERT INTO z SELECT string_agg('value ' || i, ','), string_agg('value ' || i, ',')
    FROM generate_series(1, 500) i;
SQL
page z main 0 >"$out/rows_z.page"

# Compressed images.
run <<SQL
ALTER SYSTEM SET full_page_writes = on;
SELECT pg_reload_conf();
SELECT pg_sleep(0.2);
CHECKPOINT;
UPDATE r SET n = 7 WHERE i = 7;
SQL

# Nothing old is left: pg_xact and pg_multixact are truncated.
run <<SQL
UPDATE pg_database SET datistemplate = false;
DROP DATABASE template0;
DROP DATABASE template1;
VACUUM (FREEZE);
CHECKPOINT;
SQL
stop
"$bin/pg_waldump" -p "$pg/pg_wal" -s "$from" >"$work/waldump.txt" 2>"$work/waldump.err" || true
perl "$here/records.pl" "$pg/pg_wal" 1048576 "$work/waldump.txt" "$out/rows.records" \
    "$out/rows.waldump.txt"
cp "$pg/pg_multixact/offsets/0000" "$work/offsets"
cp "$pg/pg_multixact/members/0000" "$work/members"
head -c 8256 "$work/offsets" | tail -c 72 >"$out/multixact_offsets_8184"
head -c 8256 "$work/members" | tail -c 104 >"$out/multixact_members_8152"
"$bin/pg_checksums" -D "$pg" -c
