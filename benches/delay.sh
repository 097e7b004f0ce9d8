#!/usr/bin/env bash
# The one-way delay that a switch adds between two ports by vhost-user, at a tenth of the load that it takes: `benches/delay.sh [ROUNDS] [SECONDS]`.
# A DPDK program (benches/delay/probe.c) sends frames of 64 bytes into one port and takes them from the other one, on one core; on the other core are, in turns, A B A B, another testpmd, which looks at
# nothing (the limit), Heddle with one worker, and OVS-DPDK with one PMD thread, if it is installed. First it is found out what each takes; then all get a tenth of what the slowest takes, a frame at a
# time. Prints medians over the rounds with the least and the most, in microseconds, at p50, p99 and p99.9, and what was lost.
# Needs gcc, pkg-config and a release build of heddle. Installs Debian's dpdk-dev if there is no dpdk-testpmd (as root). CORE=N chooses the switch's core (the last).
set -euo pipefail
shopt -s inherit_errexit
rounds=${1:-5} seconds=${2:-2}
here=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck source=benches/vhost-user.sh
source "$here/benches/vhost-user.sh"
# shellcheck disable=SC2046 # Options are words.
gcc -O2 -march=native -o "$work/probe" "$here/benches/delay/probe.c" $(pkg-config --cflags --libs libdpdk)

# probe PER-SECOND SECONDS SOCKET SOCKET
probe() {
    local devices=(--vdev "net_virtio_user0,path=$3,mac=${macs[0]},queue_size=1024" --vdev "net_virtio_user1,path=$4,mac=${macs[1]},queue_size=1024")
    "$work/probe" -l "$other" "${eal[@]}" --file-prefix "probe$$" -m 512 "${devices[@]}" -- "$1" "$2" 1 2>"$work/program" | tail -1
}

ours() {
    local sockets
    heddle_up ''
    probe "$@" "${sockets[@]}"
    "$heddle" down bench >/dev/null 2>&1
}
switches=(testpmd heddle)
! $has_ovs || switches+=(ovs)
# through SWITCH PER-SECOND SECONDS
through() {
    case $1 in
        testpmd) with_relay 0 probe "$2" "$3" ;;
        heddle) ours "$2" "$3" ;;
        ovs) with_ovs 0 probe "$2" "$3" ;;
    esac
}

about "$rounds" "$seconds"
slowest=
for switch in "${switches[@]}"; do
    read -r most _ < <(through "$switch" 0 1)
    printf '%-10s takes %6.2f M frames/s\n' "$switch" "$most"
    slowest=$(printf '%s\n' "${slowest:-$most}" "$most" | sort -g | head -1)
done
rate=$(awk -v most="$slowest" 'BEGIN { printf "%d", most * 1e5 }')
for _ in $(seq "$rounds"); do
    for switch in "${switches[@]}"; do through "$switch" "$rate" "$seconds" >>"$work/of-$switch"; done
done
printf '%s frames/s, microseconds\n%-10s %28s %28s %28s %10s\n' "$rate" '' p50 p99 p99.9 'lost %'
for switch in "${switches[@]}"; do
    printf '%-10s' "$switch"
    for column in 3 4 5; do
        awk -v c="$column" '{ print $c }' "$work/of-$switch" >"$work/column"
        summary "$work/column" | awk '{ printf "%28s", sprintf("%.2f (%.2f - %.2f)", $1, $2, $3) }'
    done
    awk '{ print $2 }' "$work/of-$switch" >"$work/column"
    summary "$work/column" | awk '{ printf "%10s\n", $3 }'
done
