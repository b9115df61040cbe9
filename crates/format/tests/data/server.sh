# What the scripts that make samples share, to be sourced by them: a new PostgreSQL 18 cluster, and
# how it is started, asked and stopped. Their arguments are
#   <bin directory> <empty work directory> <port>
# The scripts run not as root, and write the samples to <work directory>/samples.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
bin=$1 work=$2 port=$3
pg=$work/pg out=$work/samples
mkdir -p "$out"
"$bin/initdb" -D "$pg" -k -N -U postgres --wal-segsize=1 --no-locale -E UTF8 >/dev/null
cat >>"$pg/postgresql.conf" <<CONF
port = $port
unix_socket_directories = '$work'
listen_addresses = ''
autovacuum = off
checkpoint_timeout = 1h
CONF
run() { "$bin/psql" -h "$work" -p "$port" -U postgres -d postgres -v ON_ERROR_STOP=1 -qAtX "$@"; }
start() { "$bin/pg_ctl" -D "$pg" -l "$work/log" -w start >/dev/null; }
stop() { "$bin/pg_ctl" -D "$pg" -m fast -w stop >/dev/null; }
