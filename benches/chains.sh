#!/usr/bin/env bash
# 64-byte frames over vhost-user from one host to another, by one switch and through service chains of 1 to 4 functions: `benches/chains.sh [ROUNDS] [SECONDS]`.
# Prints medians with the least and the most, in millions of hops a second: frames that come to the far host, times the hops that each has made. Source, functions and sink are
# ports of one testpmd, on one core. On the other core are, in turns, A B A B: another testpmd, which looks at nothing (the limit); Heddle with one worker and a chain; and
# OVS-DPDK with one PMD thread and a flow for each port, if it is installed.
# Last, how long it takes until a function that is stopped (SIGSTOP) and one that is killed (SIGKILL) are seen; and testpmd is killed under load and started again.
# Needs jq and a release build of heddle. Installs Debian's dpdk-dev if there is no dpdk-testpmd (as root). CORE=N chooses the switch's core (the last).
set -euo pipefail
shopt -s inherit_errexit
rounds=${1:-5} seconds=${2:-2}
here=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck source=benches/vhost-user.sh
source "$here/benches/vhost-user.sh"
longest=4

# Heddle with a chain of $1 functions. Sets `sockets`.
up() {
    local functions='' names='' number chain='' between=()
    for number in $(seq "$1"); do
        functions+="  f$number: { at: s1, timeout: 1s, devices: ['vhost-user:$work/f$number.sock', 'vhost-user:$work/f$number-out.sock'] }"$'\n'
        names+="${names:+, }f$number"
        between+=("$work/f$number.sock" "$work/f$number-out.sock")
    done
    [[ $1 = 0 ]] || chain=$(printf 'functions:\n%schains:\n  all: { from: a, to: b, functions: [%s] }\n' "$functions" "$names")
    heddle_up "$chain"
    sockets=("${sockets[0]}" "${between[@]}" "${sockets[1]}")
}

ours() {
    up "$2"
    front "$1" "${sockets[@]}"
    "$heddle" down bench >/dev/null 2>&1
}

# The program is killed under load, three times, and started again.
recovers() {
    local _ pid
    up 0
    for _ in 1 2 3; do
        front 4 "${sockets[@]}" >/dev/null 2>&1 &
        pid=$!
        sleep 3
        kill -KILL "$(pgrep -f "file-prefix front$$" | head -1)"
        wait "$pid" || true
    done
    front 1 "${sockets[@]}" >/dev/null
    "$heddle" down bench >/dev/null 2>&1
}

# Milliseconds from the signal $1 to the function's program until packets go past it. One in five milliseconds asks.
seen_after() {
    cat >"$work/watch.fabric.yaml" <<EOF2
name: watch
nodes: { h1: host, h2: host, s1: switch }
links: [{ between: [h1, s1] }, { between: [h2, s1] }]
functions: { f: { at: s1 } }
chains: { all: { from: h1, to: h2, functions: f, on-failure: bypass } }
EOF2
    "$heddle" up "$work/watch.fabric.yaml" --name watch >"$work/up" 2>&1 || { cat "$work/up" >&2; return 1; }
    until "$heddle" exec -n watch h1 ping -4 -c 1 -W 1 h2 >/dev/null 2>&1; do sleep 0.1; done
    "$heddle" exec -n watch h1 ping -4 -D -i 0.005 -c 400 h2 >"$work/asked" 2>&1 &
    local asking=$! at
    sleep 0.5
    at=$(date +%s.%N)
    kill "-$1" "$("$heddle" show programs watch -o json | jq '.[0].pid')"
    wait "$asking" || true
    awk -v at="$at" '/bytes from/ { sub(/^\[/, ""); sub(/\].*/, ""); if ($0 > at && $0 - last > 0.015 && last) { printf "%.0f\n", ($0 - last) * 1e3; exit } last = $0 }' "$work/asked"
    "$heddle" down watch >/dev/null 2>&1
}

about "$rounds" "$seconds"
for _ in $(seq "$rounds"); do
    for length in $(seq 0 "$longest"); do
        relay "$seconds" "$length" >>"$work/testpmd-$length"
        ours "$seconds" "$length" >>"$work/heddle-$length"
        ! $has_ovs || ovs "$seconds" "$length" >>"$work/ovs-$length"
    done
done

# shown FILE HOPS
shown() {
    summary "$1" | awk -v hops="$2" '{ printf "%8.2f (%6.2f - %6.2f)\n", hops * $1, hops * $2, hops * $3 }'
}
for length in $(seq 0 "$longest"); do
    printf '%-40s %s\n' "testpmd io, functions: $length (M hops/s)" "$(shown "$work/testpmd-$length" $((length + 1)))" \
        "Heddle, functions: $length" "$(shown "$work/heddle-$length" $((length + 1)))"
    ! $has_ovs || printf '%-40s %s\n' "OVS-DPDK, functions: $length" "$(shown "$work/ovs-$length" $((length + 1)))"
done
for signal in STOP KILL; do
    for _ in $(seq "$rounds"); do
        seen_after "$signal" >>"$work/seen-$signal"
    done
    printf '%-40s %s\n' "ms without an answer after SIG$signal" "$(shown "$work/seen-$signal" 1)"
done
recovers
echo 'testpmd was killed under load three times, and served again each time'
