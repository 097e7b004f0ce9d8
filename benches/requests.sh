#!/usr/bin/env bash
# The generator of load beside wrk, and the server beside nginx: `benches/requests.sh [ROUNDS] [SECONDS]`. Each is one thread on a core of its own (CORE, the last; the other end has the
# first), 64 connections over loopback, kept or new for each request, A B A B. Prints medians of requests a second with the least and the most, and how the two compare in the median of
# each round's ratio. Needs jq and a release build of heddle in PATH or HEDDLE=PROGRAM. Installs Debian's wrk and nginx-light if they are missing (as root).
set -euo pipefail
shopt -s inherit_errexit
rounds=${1:-5} seconds=${2:-5}
heddle=${HEDDLE:-heddle}
core=${CORE:-$(($(nproc) - 1))}
PATH=$PATH:/usr/sbin
# shellcheck source=benches/functions.sh
source "$(dirname "$0")/functions.sh"
need wrk:wrk nginx:nginx-light
begin

start taskset -c 0 "$heddle" serve 127.0.0.1:0 --threads 1
own=$started
port=$(port)
cat >"$work/nginx.conf" <<CONFIG
daemon off;
worker_processes 1;
pid $work/nginx.pid;
error_log $work/nginx.log;
events { worker_connections 4096; }
http {
    access_log off;
    keepalive_requests 1000000000;
    client_body_temp_path $work/body;
    proxy_temp_path $work/proxy;
    fastcgi_temp_path $work/fastcgi;
    uwsgi_temp_path $work/uwsgi;
    scgi_temp_path $work/scgi;
    server { listen 127.0.0.1:$port backlog=4096; location / { return 200; } }
}
CONFIG
taskset -c 0 nginx -c "$work/nginx.conf" &
pids+=($!)
until python3 -c "import socket; socket.create_connection(('127.0.0.1', $port))" 2>/dev/null; do sleep 0.02; done

# Requests a second of wrk at the address $1; with $2, each on a connection of its own.
wrk_rps() {
    local close=()
    [[ -z ${2-} ]] || close=(-H 'Connection: close')
    taskset -c "$core" wrk -t1 -c64 -d"${seconds}s" "${close[@]}" "http://$1/" | awk '/Requests\/sec/ { print $2 }'
}

load_rps() {
    local new=()
    [[ -z ${2-} ]] || new=(--new-connections)
    taskset -c "$core" "$heddle" load "$1" -c 64 --for "${seconds}s" --warm-up 0 -q -o json "${new[@]}" | jq '.["per-second"]'
}

for _ in $(seq "$rounds"); do
    for kind in '' new; do
        a=$(wrk_rps "$own" $kind) b=$(load_rps "$own" $kind) c=$(wrk_rps "127.0.0.1:$port" $kind)
        echo "$a $b $c" >>"$work/rps-${kind:-kept}"
    done
done

# The median of a column of numbers, the least and the most.
median() { sort -g | awk '{ x[NR] = $1 } END { printf "%9.2f (%9.2f - %9.2f)\n", x[int((NR + 1) / 2)], x[1], x[NR] }'; }
date -u
uname -srm
nproc
for kind in kept new; do
    echo "connections: $kind"
    echo "  heddle serve, wrk          $(awk '{ print $1 }' "$work/rps-$kind" | median)"
    echo "  heddle serve, heddle load  $(awk '{ print $2 }' "$work/rps-$kind" | median)"
    echo "  nginx return 200, wrk      $(awk '{ print $3 }' "$work/rps-$kind" | median)"
    echo "  heddle load / wrk          $(awk '{ print $2 / $1 }' "$work/rps-$kind" | median)"
    echo "  heddle serve / nginx       $(awk '{ print $1 / $3 }' "$work/rps-$kind" | median)"
done
