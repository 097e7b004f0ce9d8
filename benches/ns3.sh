#!/usr/bin/env bash
# Linux's TCP over one slow link: simulated by Heddle, by ns-3 (TcpCubic, TcpLinuxReno), and live: `benches/ns3.sh [REPEATS]`.
# For each network it prints means with 95 % intervals: goodput, segments sent again, packets that the slow link turned away.
# LIVE=0 leaves the live runs out, which take ten seconds each. HEDDLE names another program than the release build.
# Needs jq and iperf3. Installs Debian's libns3-dev, libgsl-dev and g++ if ns-3 is not there (as root).
set -euo pipefail
shopt -s inherit_errexit
repeats=${1:-5}
here=$(cd "$(dirname "$0")/.." && pwd)
heddle=${HEDDLE:-$here/target/release/heddle}
[[ -x $heddle ]] || { echo "no $heddle. hint: cargo build --release" >&2; exit 3; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

modules=(ns3-core ns3-network ns3-internet ns3-point-to-point ns3-applications ns3-traffic-control)
if ! pkg-config --exists "${modules[@]}" 2>/dev/null || ! g++ --version >/dev/null 2>&1; then
    if ! DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends libns3-dev libgsl-dev g++ pkg-config </dev/null >"$work/apt" 2>&1; then
        cat "$work/apt" >&2
        echo "there is no ns-3. hint: install Debian's libns3-dev, libgsl-dev and g++" >&2
        exit 3
    fi
fi
read -ra flags < <(pkg-config --cflags --libs "${modules[@]}")
g++ -O2 -std=c++17 "$here/benches/ns3/dumbbell.cc" -o "$work/dumbbell" "${flags[@]}"

# $1 flows, $2 Mbit/s and $3 microseconds and $4 packets of the slow link, $5 Mbit/s of the others, $6 the senders' delays in microseconds, which they take
# in turn, $7 "incast" if all flows go to one host.
fabric() {
    local flows=$1 rate=$2 delay=$3 queue=$4 fast=$5 receivers near i
    IFS=, read -ra near <<<"$6"
    receivers=$([[ $7 = incast ]] && echo 1 || echo "$flows")
    echo "name: slow"
    echo "nodes:"
    for ((i = 1; i <= flows; i++)); do echo "  from$i: host"; done
    for ((i = 1; i <= receivers; i++)); do echo "  to$i: host"; done
    printf '  %s: switch\n' s1 s2
    echo "link-defaults: { rate: ${fast}Mbit, delay: 100us, queue: 200 }"
    echo "links:"
    for ((i = 1; i <= flows; i++)); do
        echo "  - { between: [from$i, s1], delay: ${near[(i - 1) % ${#near[@]}]}us }"
    done
    for ((i = 1; i <= receivers; i++)); do echo "  - { between: [to$i, s2] }"; done
    echo "  - { between: [s1, s2], rate: ${rate}Mbit, delay: ${delay}us, queue: $queue }"
    echo "experiments:"
    echo "  all:"
    echo "    traffic:"
    echo "      transport: linux"
    echo "      congestion-control: $8"
    printf '      pattern: { pairs: ['
    for ((i = 1; i <= flows; i++)); do printf '[from%s, to%s], ' "$i" "$(((i - 1) % receivers + 1))"; done
    echo "] }"
    printf '    %s\n' "warm-up: 2s" "for: 8s" "repeat: $repeats"
}

# Of lines of JSON with the three figures: means, each with half of its 95 % interval (Student's t).
summary() {
    jq -rs 'def mean: add / length;
        def half: . as $all | ($all | mean) as $mean | if length < 2 then 0
            else ([$all[] | (. - $mean) | . * .] | add / (length - 1) / length | sqrt)
                * ([0, 12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26][length - 1] // 2.1) end;
        def show(digits): "\(mean * digits | round / digits) +- \(half * digits | round / digits)";
        [([.[].goodput / 1e6] | show(100)), ([.[].resent] | show(1)), ([.[].drops] | show(1))] | join("|")'
}

samples() {
    jq -c '{ goodput: ([.flows[]["goodput-bps"]] | add), resent: ([.flows[].retransmits] | add),
        drops: ([.links[] | select(.from == "s1" and .to == "s2") | .drops] | add) }' "$work/results/slow/samples.jsonl"
}

row() {
    local name=$1 control incast=() run
    shift
    [[ $7 = incast ]] && incast=(--incast)
    for control in cubic reno; do
        for ((run = 1; run <= repeats; run++)); do
            "$work/dumbbell" --flows="$1" --rate="$2" --delay="$3" --queue="$4" --fast="$5" --near="$6" "${incast[@]}" --control="$control" \
                --warm=2 --for=8 --run="$run"
        done | summary | sed "s/^/$name, $control|ns-3|/"
        fabric "$@" "$control" >"$work/slow.fabric.yaml"
        for driver in sim live; do
            [[ $driver = live && ${LIVE:-1} = 0 ]] && continue
            (cd "$work" && "$heddle" run slow.fabric.yaml "--$driver" --quiet >"$work/said" 2>&1) || { cat "$work/said" >&2; exit 1; }
            samples | summary | sed "s/^/$name, $control|Heddle, $driver|/"
        done
    done
}

echo "$(date -u +%F), ns-3 $(pkg-config --modversion ns3-core), $("$heddle" --version), $repeats repeats of 8 s"
{
    echo "network|by|goodput, Mbit/s|sent again|turned away"
    row "one flow" 1 20 2000 50 1000 100 apart
    row "four flows" 4 20 2000 50 1000 100 apart
    row "four round trips" 4 20 2000 50 1000 100,5000,10000,20000 apart
    row "a short queue" 2 50 1000 8 1000 100 apart
    row "incast of eight" 8 20 100 40 100 100 incast
} | column -t -s '|'
