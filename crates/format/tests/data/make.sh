#!/bin/sh
# Makes the samples in this directory with a PostgreSQL 18. See README.md and server.sh.
#   make.sh <bin directory> <empty work directory> <port>
. "$(dirname "$0")/server.sh"
cat >>"$pg/postgresql.conf" <<CONF
wal_level = replica
full_page_writes = on
wal_compression = off
bgwriter_lru_maxpages = 0
CONF

start
run <<SQL
CREATE TABLE t (i int4, b int8, o bool, f float8, s text, n int4);
INSERT INTO t VALUES (1, 2, true, 1.5, 'hello', NULL);
INSERT INTO t VALUES (-1, 9223372036854775807, false, '-0.0', repeat('x', 200), 7);
INSERT INTO t VALUES (NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO t VALUES (4, 5, true, 'Infinity', '', 6);
INSERT INTO t VALUES (5, 6, true, 0.1, repeat('y', 126), 7);
INSERT INTO t VALUES (6, 7, true, 0.1, repeat('z', 127), 8);
ALTER TABLE t ADD COLUMN late text;
INSERT INTO t VALUES (7, 8, false, 2.5, 'seven', 9, 'late');
CREATE TABLE fresh (i int4, s text);
CREATE TABLE doomed (i int4);
INSERT INTO doomed VALUES (1);
SQL
t=$(run -c "SELECT pg_relation_filepath('t')")
stop
cp "$pg/$t" "$out/heap_t.page"

# A WAL that begins with a segment, and transactions that cross a page of pg_xact.
"$bin/pg_resetwal" -D "$pg" -x 32764 >/dev/null
start
run <<SQL
INSERT INTO t VALUES (8, 9, true, 3.5, 'eight', NULL, NULL);
COPY t (i, b, o, f, s, n) FROM STDIN;
10	100	t	0.5	ten	1
11	110	f	1.5	eleven	\N
12	120	t	2.5	twelve	3
\.
COPY fresh FROM STDIN;
1	one
2	two
3	three
\.
DELETE FROM t WHERE i = 4;
UPDATE t SET s = 'hello there' WHERE i = 1;
BEGIN; INSERT INTO fresh VALUES (4, 'aborted'); ROLLBACK;
BEGIN; SAVEPOINT a; INSERT INTO fresh VALUES (5, 'in a subtransaction'); RELEASE a; COMMIT;
SELECT i FROM fresh WHERE i = 1 FOR UPDATE;
TRUNCATE doomed;
CHECKPOINT;
INSERT INTO fresh VALUES (6, 'after the checkpoint');
DELETE FROM fresh WHERE i = 2;
UPDATE fresh SET s = 'again' WHERE i = 3;
VACUUM (FREEZE) fresh;
SQL
stop
cp "$pg/global/pg_control" "$out/pg_control"
cp "$pg/global/pg_filenode.map" "$out/shared_filenode.map"
cp "$pg"/base/5/pg_filenode.map "$out/database_filenode.map"
first=$(ls "$pg/pg_wal" | grep -E '^[0-9A-F]{24}$' | head -1)
"$bin/pg_waldump" -p "$pg/pg_wal" "$first" >"$out/waldump.txt" 2>"$work/waldump.err" || true
head -c 81920 "$pg/pg_wal/$first" >"$out/wal_$first"
cp "$pg/$t" "$out/heap_t_after.page"
"$bin/pg_controldata" -D "$pg" >"$out/controldata.txt"
head -c 8256 "$pg/pg_xact/0000" | tail -c 64 >"$out/pg_xact_block1_head"
head -c 8192 "$pg/base/5/1259" >"$out/pg_class.page"
head -c 16384 "$pg/base/5/2662" | tail -c 8192 >"$out/pg_class_oid_index.block1"
"$bin/pg_checksums" -D "$pg" -c
