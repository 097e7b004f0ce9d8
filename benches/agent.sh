#!/usr/bin/env bash
# HAProxy follows our agents: `benches/agent.sh`. Two servers, each with an agent to which the script pushes a load; HAProxy asks the agents, and its statistics say which weights and
# states it has then. Ends with status 0 if they are those that follow from the loads.
# Needs curl, and heddle in PATH or HEDDLE=PROGRAM. Installs Debian's haproxy if there is none (as root). Everything is on loopback, at ports that were free.
set -euo pipefail
shopt -s inherit_errexit
heddle=${HEDDLE:-heddle}
PATH=$PATH:/usr/sbin
# shellcheck source=benches/functions.sh
source "$(dirname "$0")/functions.sh"
need haproxy:haproxy
begin

agents=()
servers=
for name in a b; do
    start "$heddle" serve 127.0.0.1:0
    server=$started
    # What the script pushes counts alone: the machine may be busy.
    start "$heddle" agent --check 127.0.0.1:0 --http 127.0.0.1:0 --load application --up-to 50% --drain-at 95% --push-lasts 1h
    read -r check http <<<"$started"
    agents+=("$http")
    servers+="    server $name $server weight 100 agent-check agent-addr 127.0.0.1 agent-port ${check##*:} agent-inter 50ms
"
done
front=$(port)
cat >"$work/haproxy.cfg" <<CONFIG
global
    stats socket $work/stats.sock level admin
defaults
    mode http
    timeout connect 1s
    timeout client 10s
    timeout server 10s
frontend web
    bind 127.0.0.1:$front
    default_backend servers
backend servers
    balance roundrobin
$servers
CONFIG
haproxy -db -f "$work/haproxy.cfg" >"$work/haproxy.log" 2>&1 &
haproxy=$!
pids+=("$haproxy")

ask() {
    python3 - "$work/stats.sock" <<'PYTHON'
import csv, io, socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.sendall(b"show stat\n")
text = s.makefile().read().lstrip("# ")
rows = [row for row in csv.DictReader(io.StringIO(text)) if row["pxname"] == "servers" and row["svname"] in "ab"]
print(" ".join(f'{row["svname"]}:{row["weight"]}:{row["status"].replace(" ", "_")}' for row in rows))
PYTHON
}

# Waits until HAProxy has these weights and states.
expect() {
    local seen=
    for _ in $(seq 600); do
        kill -0 "$haproxy" || { cat "$work/haproxy.log" >&2; return 1; }
        seen=$(ask 2>/dev/null || true)
        [[ $seen != "$*" ]] || { echo "$*"; return 0; }
        sleep 0.1
    done
    echo "expected: $*; HAProxy has: $seen" >&2
    return 1
}

push() { curl -sSf -d "{\"application_utilization\": $2}" "http://${agents[$1]}/push"; }

expect a:100:no_check b:100:no_check
push 0 0.75
expect a:51:no_check b:100:no_check
push 1 2
expect a:51:no_check "b:1:DRAIN_(agent)"
push 0 0.2
push 1 0.5
expect a:100:no_check b:100:no_check
echo "HAProxy follows the agents"
