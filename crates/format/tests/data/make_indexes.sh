#!/bin/sh
# Makes the samples about indexes of the kinds that only PostgreSQL writes, in this directory, with a
# PostgreSQL 18 and its extension bloom. Wants perl. See README.md and server.sh.
#   make_indexes.sh <bin directory> <empty work directory> <port>
. "$(dirname "$0")/server.sh"
cat >>"$pg/postgresql.conf" <<CONF
max_wal_size = 1GB
wal_keep_size = 1GB
wal_level = replica
full_page_writes = off
bgwriter_lru_maxpages = 0
enable_seqscan = off
enable_bitmapscan = off
track_commit_timestamp = on
CONF

start
run <<SQL
CREATE EXTENSION bloom;
CREATE TABLE h (k int4, s text);
CREATE TABLE g (id int4, a int4[], s text[]);
CREATE INDEX g_a ON g USING gin (a) WITH (fastupdate = off);
CREATE INDEX g_s ON g USING gin (s) WITH (gin_pending_list_limit = 64);
CREATE TABLE p (p point);
CREATE INDEX p_p ON p USING gist (p);
CREATE TABLE t (s text, p point);
CREATE INDEX t_s ON t USING spgist (s);
CREATE INDEX t_p ON t USING spgist (p);
CREATE TABLE r (k int4, s text) WITH (fillfactor = 10);
ALTER TABLE r ALTER s SET STORAGE plain;
INSERT INTO r SELECT i, 'x' FROM generate_series(1, 300) i;
CREATE TABLE x (a int4);
CREATE INDEX x_a ON x USING bloom (a);
CHECKPOINT;
SQL
from=$(run -c "SELECT pg_switch_wal()" -c "SELECT pg_current_wal_insert_lsn()" | tail -1)

# Buckets split, chain and are squeezed; dead items are removed by insertions.
run <<SQL >/dev/null
CREATE INDEX h_k ON h USING hash (k);
INSERT INTO h SELECT i % 40, 'row' FROM generate_series(1, 9000) i;
DELETE FROM h WHERE ctid < '(30,0)';
VACUUM (INDEX_CLEANUP on, TRUNCATE false) h;
DELETE FROM h WHERE k < 20;
SELECT count(s) FROM h WHERE k = 3;
SQL
for k in 1 2 3 4 5 6 7 8 9; do
    run -c "SELECT count(s) FROM h WHERE k = $k" \
        -c "INSERT INTO h SELECT $k, 'new' FROM generate_series(1, 900)" >/dev/null
done
run -c "VACUUM (INDEX_CLEANUP on, TRUNCATE false) h"

# Posting trees grow and lose pages; the pending list is filled and emptied.
run <<SQL >/dev/null
INSERT INTO g SELECT i, ARRAY[1, i % 400], ARRAY['w' || i % 700, md5(i::text)]
    FROM generate_series(1, 30000) i;
DELETE FROM g WHERE id BETWEEN 5000 AND 20000 OR id % 9 = 0;
VACUUM (INDEX_CLEANUP on, TRUNCATE false) g;
INSERT INTO g SELECT i, ARRAY[1, i % 400], NULL FROM generate_series(1, 4000) i;
SQL

# Pages split, are emptied, deleted and reused.
run <<SQL >/dev/null
INSERT INTO p SELECT point(i % 100, i) FROM generate_series(1, 4000) i;
DELETE FROM p WHERE p[1] < 2500;
VACUUM (INDEX_CLEANUP on, TRUNCATE false) p;
SELECT txid_current();
VACUUM (INDEX_CLEANUP on, TRUNCATE false) p;
INSERT INTO p SELECT point(i % 100, i) FROM generate_series(1, 4000) i;
DELETE FROM p WHERE p[0] < 60;
SELECT count(p) FROM p WHERE p <@ box(point(0, 0), point(100, 9000));
INSERT INTO p SELECT point(i % 60, i) FROM generate_series(1, 3000) i;
SQL

run <<SQL >/dev/null
INSERT INTO t VALUES ('a', point(1, 1)), (NULL, NULL), ('b', point(2, 2));
DELETE FROM t WHERE s = 'a';
VACUUM (INDEX_CLEANUP on, TRUNCATE false) t;
INSERT INTO t SELECT chr(40 + i % 80) || repeat('ab', i % 30) || md5(i::text), point(i % 97, i)
    FROM generate_series(1, 5000) i;
DELETE FROM t WHERE p[0] < 50;
VACUUM (INDEX_CLEANUP on, TRUNCATE false) t;
INSERT INTO t SELECT 'abababab' || i, point(i, i) FROM generate_series(1, 400) i;
VACUUM (INDEX_CLEANUP on, TRUNCATE false) t;
SQL

run <<SQL >/dev/null
CREATE INDEX r_k ON r USING brin (k, s) WITH (pages_per_range = 1);
INSERT INTO r SELECT i, 'x' FROM generate_series(301, 900) i;
SELECT brin_summarize_new_values('r_k'), brin_desummarize_range('r_k', 3);
UPDATE r SET k = k + 5000 WHERE k % 7 = 0;
UPDATE r SET s = repeat('y', 500) WHERE k % 5 = 0;
INSERT INTO x SELECT i FROM generate_series(1, 2000) i;
DELETE FROM x WHERE a < 500;
VACUUM (INDEX_CLEANUP on, TRUNCATE false) x;
SELECT pg_replication_origin_create('there');
SELECT pg_replication_origin_advance('there', '1/2');
SELECT pg_replication_origin_session_setup('there');
BEGIN; SELECT pg_replication_origin_xact_setup('1/3', '2020-01-02 03:04:05+00');
INSERT INTO x VALUES (1); COMMIT;
SELECT pg_replication_origin_session_reset();
SELECT pg_replication_origin_drop('there');
DO \$\$BEGIN FOR i IN 1..900 LOOP BEGIN INSERT INTO x VALUES (i);
    EXCEPTION WHEN division_by_zero THEN NULL; END; END LOOP; END\$\$;
SQL
stop
"$bin/pg_waldump" -p "$pg/pg_wal" -s "$from" >"$work/waldump.txt" 2>"$work/waldump.err" || true
perl "$here/records.pl" "$pg/pg_wal" 1048576 "$work/waldump.txt" "$out/indexes.records" \
    "$out/indexes.waldump.txt" Hash,Gin,Gist,SPGist,BRIN,CommitTs,ReplicationOrigin,Generic
sed -E 's/rmgr: (\S+).*desc: (\S+).*/\1 \2/' "$out/indexes.waldump.txt" | sort | uniq -c
