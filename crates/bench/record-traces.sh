#!/bin/sh
# Records traces of page references for `forebay bench replacement`, each by a server of its own.
#
#     record-traces.sh FOREBAY DIR [SCALE]
#
# FOREBAY is the program, DIR a new directory for the data and the traces. PGBENCH and PSQL are
# commands that run PostgreSQL's programs; scripts are read from standard input.
set -eu
forebay=$1 dir=$2 scale=${3:-10}
pgbench=${PGBENCH:-pgbench} psql=${PSQL:-psql}
port=${PORT:-55432}
rows=$((scale * 100000))
mkdir "$dir"

# The server runs while a trace of this name is recorded.
start() {
    "$forebay" serve -D "$dir/data" -c port="$port" -c unix_socket_directories= \
        -c shared_buffers="${SHARED_BUFFERS:-32MB}" -c autovacuum=off \
        -c debug_buffer_trace="$dir/$1.trace" > "$dir/$1.log" 2>&1 &
    server=$!
    until sql 'SELECT 1' > /dev/null 2>&1; do kill -0 $server; sleep 0.2; done
}

stop() {
    kill -INT $server
    wait $server
}

connect="-h 127.0.0.1 -p $port -U postgres"
sql() { $psql $connect -q -c "$1" postgres; }
bench() { $pgbench $connect -n -c 4 -j 1 "$@" postgres > /dev/null; }

# Look-ups by an index, skewed, of rows that lie anywhere in the table.
look_ups() {
    bench -t "$1" -f - <<SCRIPT
\set hot random_zipfian(1, $rows, 1.05)
\set aid permute(:hot - 1, $rows) + 1
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
SCRIPT
}

# Runs a function, and another one again and again beside it.
beside() {
    look_ups "$1" & looking=$!
    shift
    while kill -0 $looking 2> /dev/null; do "$@"; done
    wait $looking
}

scan() { sql 'SELECT count(abalance) FROM pgbench_accounts'; }
vacuum() { sql 'VACUUM (DISABLE_PAGE_SKIPPING) pgbench_accounts'; }
copy() {
    sql 'CREATE TABLE IF NOT EXISTS copied (a int, b text)'
    seq 200000 | sed 's/$/,a text of some length so that the row has a hundred bytes or so/' |
        $psql $connect -q -c 'COPY copied FROM STDIN (FORMAT csv)' postgres
}

start init
$pgbench $connect -q -i -s "$scale" postgres 2> "$dir/init.out"
stop
start tpcb; bench -b tpcb-like -t 5000; stop
start select-only; bench -b select-only -t 15000; stop
start look-ups; look_ups 15000; stop
start look-ups-scan; beside 15000 scan > /dev/null; stop
start look-ups-vacuum; beside 15000 vacuum; stop
start look-ups-copy; beside 15000 copy; stop
