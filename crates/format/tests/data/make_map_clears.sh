#!/bin/sh
# Makes the samples about bits that changes clear in the visibility map. Wants perl. See README.md
# and server.sh.
#   make_map_clears.sh <bin directory> <empty work directory> <port>
. "$(dirname "$0")/server.sh"
cat >>"$pg/postgresql.conf" <<CONF
wal_keep_size = 1GB
full_page_writes = off
CONF
start
# 58 rows fill a page.
run <<SQL
CREATE TABLE roomy (i int4, s text) WITH (fillfactor = 70);
CREATE TABLE full1 (i int4, s text);
CREATE TABLE full2 (i int4, s text);
CREATE TABLE full3 (i int4, s text);
INSERT INTO roomy SELECT i, repeat('x', 100) FROM generate_series(1, 30) i;
INSERT INTO full1 SELECT i, repeat('x', 100) FROM generate_series(1, 80) i;
INSERT INTO full2 SELECT i, repeat('x', 100) FROM generate_series(1, 80) i;
INSERT INTO full3 SELECT i, repeat('x', 100) FROM generate_series(1, 80) i;
VACUUM (FREEZE);
CHECKPOINT;
SQL
from=$(run -c "SELECT pg_switch_wal()" -c "SELECT pg_current_wal_insert_lsn()" | tail -1)
run <<SQL
INSERT INTO roomy VALUES (31, 'new');
VACUUM (FREEZE) roomy;
COPY roomy FROM STDIN;
32	new
33	new
\.
VACUUM (FREEZE) roomy;
DELETE FROM roomy WHERE i = 1;
VACUUM (FREEZE) roomy;
SELECT i FROM roomy WHERE i = 2 FOR SHARE;
VACUUM (FREEZE) roomy;
UPDATE roomy SET s = repeat('y', 100) WHERE i = 3;
VACUUM (FREEZE) roomy;
-- To another page: both are all-visible; only the old one; only the new one.
UPDATE full1 SET s = repeat('y', 100) WHERE i = 1;
UPDATE full2 SET s = repeat('y', 100) WHERE i = 80;
UPDATE full2 SET s = repeat('y', 100) WHERE i = 1;
BEGIN;
DELETE FROM full3 WHERE i = 1;
UPDATE full3 SET s = repeat('y', 100) WHERE i = 2;
COMMIT;
SQL
stop
"$bin/pg_waldump" -p "$pg/pg_wal" -s "$from" -r Heap -r Heap2 2>/dev/null |
    grep -v 'VISIBLE\|PRUNE\|rel [0-9]*/[0-9]*/[1-9][0-9]\{0,3\} ' >"$work/waldump.txt"
perl "$here/records.pl" "$pg/pg_wal" 1048576 "$work/waldump.txt" "$out/map_clears.records" \
    "$out/map_clears.waldump.txt"
