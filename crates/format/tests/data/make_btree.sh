#!/bin/sh
# Makes the samples about B-trees and sequences in this directory with a PostgreSQL 18. Wants perl.
# See README.md and server.sh.
#   make_btree.sh <bin directory> <empty work directory> <port>
. "$(dirname "$0")/server.sh"
cat >>"$pg/postgresql.conf" <<CONF
max_wal_size = 1GB
wal_keep_size = 1GB
wal_level = replica
full_page_writes = off
bgwriter_lru_maxpages = 0
enable_seqscan = off
enable_bitmapscan = off
CONF

start
run <<SQL
CREATE EXTENSION pageinspect;
CREATE TABLE t (a int4, s text, n int4, f int4);
CREATE UNIQUE INDEX t_a ON t (a) INCLUDE (f);
CREATE INDEX t_s ON t (s, a DESC);
CREATE INDEX t_n ON t (n);
CREATE TABLE v (a int4, b int4);
CREATE INDEX v_a ON v (a);
CREATE INDEX v_b ON v (b);
CREATE TABLE d (a int4 PRIMARY KEY);
CREATE TABLE e (a int4 PRIMARY KEY);
CREATE SEQUENCE q;
CHECKPOINT;
SQL
from=$(run -c "SELECT pg_switch_wal()" -c "SELECT pg_current_wal_insert_lsn()" | tail -1)

# Splits of all kinds, deduplication; posting lists are split by rows in freed places.
run <<SQL >/dev/null
INSERT INTO t SELECT i * 7919 % 10007, repeat(md5(i::text), 1 + i % 3), nullif(i % 5, 0), i
    FROM generate_series(1, 2500) i;
INSERT INTO t SELECT 20000 + i, 'x' || i / 3, 7, i FROM generate_series(1, 7000) i;
DELETE FROM t WHERE f % 7 = 0;
VACUUM (INDEX_CLEANUP on) t;
INSERT INTO t SELECT 40000 + i, 'y' || i, i % 5, i FROM generate_series(1, 900) i;
SELECT nextval('q'), setval('q', 100), setval('q', 7, false);
SELECT nextval('q') FROM generate_series(1, 40);
SQL

# Killed items, bottom-up deletion.
run <<SQL >/dev/null
INSERT INTO v SELECT i % 300, i FROM generate_series(1, 1200) i;
UPDATE v SET b = b + 1;
UPDATE v SET b = b + 1;
UPDATE v SET b = b + 1 WHERE a < 100;
UPDATE v SET b = b + 1 WHERE a < 100;
DELETE FROM v WHERE a BETWEEN 120 AND 200;
SELECT count(*) FROM v WHERE a >= 0;
SELECT count(*) FROM v WHERE b >= 0;
INSERT INTO v SELECT 100 + i % 120, i FROM generate_series(1, 600) i;
SQL

# Pages are deleted and reused; a level with one page left becomes the fast root, which is split.
run <<SQL >/dev/null
INSERT INTO e SELECT i FROM generate_series(1, 1000) i;
DELETE FROM e WHERE a <= 900;
VACUUM (INDEX_CLEANUP on, TRUNCATE false) e;
INSERT INTO e SELECT i FROM generate_series(1001, 1500) i;
INSERT INTO d SELECT i FROM generate_series(1, 130000) i;
DELETE FROM d WHERE a BETWEEN 100 AND 1500 OR a BETWEEN 3000 AND 129950;
VACUUM (INDEX_CLEANUP on, TRUNCATE false) d;
SELECT txid_current();
VACUUM (INDEX_CLEANUP on, TRUNCATE false) d;
INSERT INTO d SELECT i FROM generate_series(130001, 132000) i;
CHECKPOINT;
SQL

page() { # <index> <block>: appends its bytes as the server has them in memory, and what it tells
    run -c "SELECT encode(get_raw_page('$1', $2), 'hex')" |
        perl -ne 'chomp; print pack("H*", $_)' >>"$out/btree.pages"
    echo "page $1 $2" >>"$out/btree.txt"
    if [ "$2" = 0 ]; then
        run -c "SELECT * FROM bt_metap('$1')" >>"$out/btree.txt"
        return
    fi
    run -c "SELECT * FROM bt_page_stats('$1', $2)" >>"$out/btree.txt"
    run -c "SELECT 'item', itemoffset, ctid, itemlen, nulls, vars, data, dead, htid, tids
        FROM bt_page_items('$1', $2)" >>"$out/btree.txt" 2>/dev/null || true
}
rm -f "$out/btree.pages" "$out/btree.txt"
root() { run -c "SELECT root FROM bt_metap('$1')"; }
page t_s 0
page t_s "$(root t_s)"
page t_s 1
page t_n "$(root t_n)"
page t_n 1
page v_a 1
page d_pkey "$(run -c "SELECT min(i) FROM generate_series(1, 300) i, bt_page_stats('d_pkey', i)
    WHERE type = 'd'")"
stop
"$bin/pg_waldump" -p "$pg/pg_wal" -s "$from" >"$work/waldump.txt" 2>"$work/waldump.err" || true
perl "$here/records.pl" "$pg/pg_wal" 1048576 "$work/waldump.txt" "$out/btree.records" \
    "$out/btree.waldump.txt" Btree,Sequence
grep -o "Btree.*desc: [A-Z_]*" "$work/waldump.txt" | sed 's/len.*desc: //' | sort | uniq -c
"$bin/pg_checksums" -D "$pg" -c
