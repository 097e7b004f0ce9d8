#!/usr/bin/env bash
# What a connection through a load balancer costs, A B A B: `benches/balance.sh [ROUNDS] [SECONDS]`.
#
# A client and four servers (nginx, `return 200`) in network namespaces; between them routing to one server (no balancer), HAProxy (TCP, leastconn), nft (DNAT by turns),
# and Heddle (least connections, by NAT and by direct routing; by its worker, and by the kernel). wrk asks with 64 connections; once with a new connection for each request, once with connections that go on.
# CPU is that of the whole machine, from /proc/stat: microseconds a request.
#
# Needs root, nginx, wrk, haproxy, nftables (Debian: nginx-light wrk haproxy nftables), and a release build of heddle.
set -euo pipefail
rounds=${1:-3} seconds=${2:-3}
here=$(cd "$(dirname "$0")/.." && pwd)
heddle=${HEDDLE:-$here/target/release/heddle}
for program in nginx wrk haproxy nft "$heddle"; do
    command -v "$program" >/dev/null || { echo "$0: $program is missing" >&2; exit 2; }
done
work=$(mktemp -d "${TMPDIR:-/tmp}/heddle-balance.XXXXXX")
name=balance$$ prefix=hb$$ started=()

finish() {
    for process in "${started[@]}"; do kill "$process" 2>/dev/null || true; done
    "$heddle" down "$name" >/dev/null 2>&1 || true
    for host in c b s1 s2 s3 s4; do ip netns del "$prefix-$host" 2>/dev/null || true; done
    rm -rf "$work"
}
trap finish EXIT

cat >"$work/nginx.conf" <<EOF
daemon off;
worker_processes 1;
pid $work/PID;
error_log /dev/null;
events { worker_connections 4096; }
http {
    access_log off;
    keepalive_requests 100000000;
    server { listen 80 backlog=4096; listen 81 backlog=4096; location / { return 200 "ok\n"; } }
}
EOF

# The peers' network: c - b - s1..s4, routed.
for host in c b s1 s2 s3 s4; do ip netns add "$prefix-$host"; ip -n "$prefix-$host" link set lo up; done
join() { # HOST ITS-ADDRESS B'S-ADDRESS DEVICE
    ip link add eth0 netns "$prefix-$1" type veth peer name "$4" netns "$prefix-b"
    ip -n "$prefix-$1" addr add "$2/24" dev eth0
    ip -n "$prefix-b" addr add "$3/24" dev "$4"
    ip -n "$prefix-$1" link set eth0 up
    ip -n "$prefix-b" link set "$4" up
    ip -n "$prefix-$1" route add default via "$3"
}
join c 10.210.0.2 10.210.0.1 vc
for number in 1 2 3 4; do join "s$number" "10.210.$number.2" "10.210.$number.1" "v$number"; done
ip netns exec "$prefix-b" sysctl -qw net.ipv4.ip_forward=1
for number in 1 2 3 4; do
    sed "s|PID|s$number.pid|" "$work/nginx.conf" >"$work/s$number.conf"
    ip netns exec "$prefix-s$number" nginx -c "$work/s$number.conf" 2>/dev/null &
    started+=($!)
done
cat >"$work/haproxy.cfg" <<EOF
global
    maxconn 4000
    nbthread 1
defaults
    mode tcp
    timeout connect 5s
    timeout client 60s
    timeout server 60s
frontend web
    bind 10.210.0.1:81
    default_backend servers
backend servers
    balance leastconn
$(for number in 1 2 3 4; do echo "    server s$number 10.210.$number.2:80"; done)
EOF
ip netns exec "$prefix-b" haproxy -f "$work/haproxy.cfg" -q &
started+=($!)
ip netns exec "$prefix-b" nft -f - <<EOF
table ip balance {
    chain in {
        type nat hook prerouting priority dstnat;
        ip daddr 10.210.0.1 tcp dport 82 dnat to numgen inc mod 4 map { 0 : 10.210.1.2, 1 : 10.210.2.2, 2 : 10.210.3.2, 3 : 10.210.4.2 } : 80
    }
}
EOF

# Heddle's.
cat >"$work/balance.fabric.yaml" <<EOF
nodes: { c: host, s1: host, s2: host, s3: host, s4: host, switch: switch }
links:
  - between: [c, switch]
$(for number in 1 2 3 4; do echo "  - between: [s$number, switch]"; done)
services:
  nat: { address: 10.1.0.80:80, servers: [s1, s2, s3, s4], scheduler: lc }
  dr: { address: 10.1.0.81:80, servers: [s1, s2, s3, s4], scheduler: lc, forward: dr }
  # At another port of the servers: those remember connections from the same ports of the client for a minute.
  nat-kernel:
    address: 10.1.0.82:80
    servers: [{ host: s1, port: 81 }, { host: s2, port: 81 }, { host: s3, port: 81 }, { host: s4, port: 81 }]
    scheduler: lc
    kernel: yes
  dr-kernel: { address: 10.1.0.83:80, servers: [s1, s2, s3, s4], scheduler: lc, forward: dr, kernel: yes }
EOF
"$heddle" up --name "$name" "$work/balance.fabric.yaml" >/dev/null
for number in 1 2 3 4; do
    sed "s|PID|h$number.pid|" "$work/nginx.conf" >"$work/h$number.conf"
    "$heddle" exec --name "$name" "s$number" -- nginx -c "$work/h$number.conf" 2>/dev/null &
    started+=($!)
done
sleep 1

busy() { awk '/^cpu / { print $2 + $3 + $4 + $6 + $7 + $8 + $9; exit }' /proc/stat; }
ticks=$(getconf CLK_TCK)

# Prints requests a second, the latencies' median and 99 %, errors, and CPU microseconds a request.
measure() { # HOW URL PROGRAM..
    local how=$1 url=$2 options=() before after text
    shift 2
    [ "$how" = keep ] || options=(-H "Connection: close")
    before=$(busy)
    text=$("$@" wrk -t1 -c64 -d"${seconds}s" --latency "${options[@]}" "$url")
    after=$(busy)
    awk -v busy="$((after - before))" -v ticks="$ticks" '
        function ms(text) { return text ~ /us$/ ? text / 1000 : text ~ /ms$/ ? text + 0 : text * 1000 }
        /^ *50%/ { median = ms($2) }
        /^ *99%/ { late = ms($2) }
        / requests in / { requests = $1 }
        /^Requests\/sec/ { rate = $2 }
        /Socket errors|Non-2xx/ { errors = errors " " $0 }
        END { printf "%.0f %.2f %.2f %.1f%s\n", rate, median, late, busy / ticks * 1e6 / requests, errors }' <<<"$text"
}

peer=(ip netns exec "$prefix-c")
own=("$heddle" exec --name "$name" c --)
printf '%s, %s, load %s\n' "$(date +%F)" "$(nproc) CPUs" "$(cut -d' ' -f1 /proc/loadavg)"
for _ in $(seq "$rounds"); do
    for how in new keep; do
        echo "$how none $(measure "$how" http://10.210.1.2/ "${peer[@]}")"
        echo "$how heddle-nat $(measure "$how" http://nat/ "${own[@]}")"
        echo "$how heddle-nat-kernel $(measure "$how" http://nat-kernel/ "${own[@]}")"
        echo "$how haproxy $(measure "$how" http://10.210.0.1:81/ "${peer[@]}")"
        echo "$how heddle-dr $(measure "$how" http://dr/ "${own[@]}")"
        echo "$how heddle-dr-kernel $(measure "$how" http://dr-kernel/ "${own[@]}")"
        echo "$how nft $(measure "$how" http://10.210.0.1:82/ "${peer[@]}")"
        echo "$how heddle-none $(measure "$how" http://s1/ "${own[@]}")"
    done
done | tee "$work/samples" | grep -v '^[a-z]* [a-z-]* [0-9.]* [0-9.]* [0-9.]* [0-9.]*$' >&2 || true
awk '
    function median(list, n,   i, j, t, a) {
        split(list, a, " ")
        for (i = 1; i <= n; i++) for (j = i + 1; j <= n; j++) if (a[j] + 0 < a[i] + 0) { t = a[i]; a[i] = a[j]; a[j] = t }
        return n % 2 ? a[(n + 1) / 2] : (a[n / 2] + a[n / 2 + 1]) / 2
    }
    { key = $1 " " $2; if (!(key in count)) order[++keys] = key; count[key]++; for (i = 3; i <= 6; i++) list[key, i] = list[key, i] " " $i }
    END {
        printf "%-6s %-17s %12s %10s %10s %16s %8s\n", "", "", "requests/s", "p50 ms", "p99 ms", "CPU us/request", "x none"
        for (i = 1; i <= keys; i++) {
            key = order[i]; split(key, part, " ")
            for (j = 3; j <= 6; j++) m[j] = median(list[key, j], count[key])
            if (part[2] == "none") none[part[1]] = m[6]
            printf "%-6s %-17s %12.0f %10.2f %10.2f %16.1f %8.2f\n", part[1], part[2], m[3], m[4], m[5], m[6], m[6] / none[part[1]]
        }
    }' "$work/samples"
