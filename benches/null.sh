#!/usr/bin/env bash
# 64-byte frames from null devices through one switch to others: `benches/null.sh [ROUNDS] [SECONDS]`.
# Prints medians with the least and the most, in millions of frames a second. One row has one destination, one 64 behind five switches in a row, the others
# 1,024, each on a port of its own; the last two have two sources, which one worker reads, or two, each on a core of its own: the ratio is that of the same round. DPDK's
# testpmd moves frames from one net_null device to another in its `io` mode, which looks at nothing, in the same rounds, A B A B.
# Needs jq and a release build of heddle. Installs Debian's dpdk-dev if there is no dpdk-testpmd (as root). CORE=N chooses the core (the last).
set -euo pipefail
shopt -s inherit_errexit
rounds=${1:-5} seconds=${2:-2}
here=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck source=benches/testpmd.sh
source "$here/benches/testpmd.sh"

# $1 sinks and $2 sources at one switch, or with $3 switches in a row between them. Workers get hosts in the file's order: the sources are the first and the
# last.
fabric() {
    local switches=${3:-1}
    echo "name: bench"
    echo "nodes:"
    seq -f "  s%g: switch" "$switches"
    echo "  source1: { kind: host, devices: ['null:64'] }"
    seq -f "  sink%g: { kind: host, devices: ['null:'] }" "$1"
    [[ $2 = 1 ]] || echo "  source2: { kind: host, devices: ['null:64'] }"
    echo "links:"
    seq -f "  - { between: [source%g, s1] }" "$2"
    seq 2 "$switches" | awk '{ print "  - { between: [s" $1 - 1 ", s" $1 "] }" }'
    seq -f "  - { between: [sink%g, s$switches] }" "$1"
}

dpdk() {
    {
        echo start
        sleep 0.3
        echo 'show port stats 0'
        sleep "$seconds"
        printf '%s\n' 'show port stats 0' stop quit
    } | dpdk-testpmd -l "$other,$core" --main-lcore "$other" --no-pci --no-huge --no-shconf --no-telemetry -m 256 \
        --vdev net_null0,size=64 --vdev net_null1,size=64,no-rx=1 -- -i --portlist=0,1 --nb-cores=1 --burst=32 \
        --total-num-mbufs=8192 >"$work/testpmd" 2>&1 || { cat "$work/testpmd" >&2; return 1; }
    awk '/Rx-pps:/ { pps = $2 } END { if (pps > 0) printf "%.2f\n", pps / 1e6; else exit 1 }' "$work/testpmd" || { cat "$work/testpmd" >&2; return 1; }
}

about "$rounds" "$seconds"
for _ in $(seq "$rounds"); do
    dpdk >>"$work/testpmd-io"
    fabric 1 1 | heddle_mpps 1 "$core" "$seconds" >>"$work/1"
    fabric 1024 1 | heddle_mpps 1 "$core" "$seconds" >>"$work/1024"
    fabric 64 1 5 | heddle_mpps 1 "$core" "$seconds" >>"$work/hops"
    one=$(fabric 1024 2 | heddle_mpps 1 "$core" "$seconds")
    two=$(fabric 1024 2 | heddle_mpps 2 "$core,$other" "$seconds")
    echo "$one" >>"$work/one"
    echo "$two" >>"$work/two"
    awk -v one="$one" -v two="$two" 'BEGIN { print two / one }' >>"$work/ratio"
done

shown() {
    summary "$1" | awk '{ printf "%8.2f (%6.2f - %6.2f)\n", $1, $2, $3 }'
}
printf '%-32s %s\n' 'testpmd io, null to null (Mpps)' "$(shown "$work/testpmd-io")" \
    'Heddle, 1 destination' "$(shown "$work/1")" 'Heddle, 1,024 destinations' "$(shown "$work/1024")" \
    'Heddle, 64 behind 5 switches' "$(shown "$work/hops")" 'Heddle, 2 sources, 1 worker' "$(shown "$work/one")" 'Heddle, 2 sources, 2 workers' "$(shown "$work/two")" \
    'two workers of one' "$(shown "$work/ratio")"
